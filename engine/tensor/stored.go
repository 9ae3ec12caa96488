package tensor

import "dsstne/internal/fault"

// Stored is a matrix among a model's tensors in compressed row form: three tensors whose names begin with its own. All
// zeros are a matrix without entries.
type Stored struct {
	Name                   string
	Rows, Columns, Entries int64
}

// names are those of the tensors.
func (m Stored) names() (offsets, indices, values string) {
	return m.Name + ".offsets", m.Name + ".indices", m.Name + ".values"
}

// Specs are the tensors: I64 [Rows + 1], I32 [Entries] and F32 [Entries].
func (m Stored) Specs(layer int) []Spec {
	offsets, indices, values := m.names()
	return []Spec{
		{Name: offsets, DType: I64, Shape: []int64{m.Rows + 1}, Layer: layer, Role: Fixed, Columns: m.Columns},
		{Name: indices, DType: I32, Shape: []int64{m.Entries}, Layer: layer, Role: Fixed},
		{Name: values, DType: F32, Shape: []int64{m.Entries}, Layer: layer, Role: Fixed},
	}
}

// Arrays are the matrix.
func (m Stored) Arrays(find func(name string) (*Tensor, error)) (
	offsets []int64, indices []int32, values []float32, err error,
) {
	var list [3]*Tensor
	for n, spec := range m.Specs(0) {
		if list[n], err = find(spec.Name); err != nil {
			return nil, nil, nil, err
		}
	}
	return list[0].Int64(), list[1].Int32(), list[2].Float32(), nil
}

// Check wants offsets that cut the entries into rows, and in each row columns that rise. The values are finite:
// tensors take no others. C and CUDA code reads the matrix without looking at its offsets again.
func (m Stored) Check(find func(name string) (*Tensor, error)) error {
	offsets, indices, _, err := m.Arrays(find)
	if err != nil {
		return err
	}
	offsetsName, indicesName, valuesName := m.names()
	if offsets[0] != 0 {
		return invalid("%s begins with %d instead of 0", offsetsName, offsets[0])
	}
	if last := offsets[m.Rows]; last != m.Entries {
		return invalid("%s ends with %d, but there are %d entries; set all of %s, %s and %s",
			offsetsName, last, m.Entries, offsetsName, indicesName, valuesName)
	}
	for row := range m.Rows {
		begin, end := offsets[row], offsets[row+1]
		if begin > end || end > m.Entries {
			return invalid("%s[%d] is %d after %d: offsets must not decrease, nor exceed %d",
				offsetsName, row+1, end, begin, m.Entries)
		}
		before := int32(-1)
		for at := begin; at < end; at++ {
			column := indices[at]
			if column < 0 || int64(column) >= m.Columns {
				return invalid("%s[%d] is %d, in row %d; columns are 0 to %d", indicesName, at, column, row, m.Columns-1)
			}
			if column <= before {
				return invalid("%s[%d] is %d after %d in row %d; the columns of a row must rise",
					indicesName, at, column, before, row)
			}
			before = column
		}
	}
	return nil
}

func invalid(format string, args ...any) error { return fault.New(fault.InvalidData, format, args...) }
