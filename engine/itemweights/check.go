package itemweights

import (
	"dsstne/engine/tensor"
	"dsstne/internal/fault"
)

// Check wants offsets that cut the entries into rows, and in each row columns that rise. The values are finite:
// tensors take no others. C and CUDA code reads W without looking at its offsets again.
func (f *Form) Check(find func(name string) (*tensor.Tensor, error)) error {
	if f.Weight != CSR {
		return nil
	}
	offsets, indices, _, err := Stored(find)
	if err != nil {
		return err
	}
	if offsets[0] != 0 {
		return invalid("%s begins with %d instead of 0", offsetsName, offsets[0])
	}
	if last := offsets[f.Items]; last != f.Entries {
		return invalid("%s ends with %d, but there are %d entries; set all of %s, %s and %s",
			offsetsName, last, f.Entries, offsetsName, indicesName, valuesName)
	}
	for row := range f.Items {
		begin, end := offsets[row], offsets[row+1]
		if begin > end || end > f.Entries {
			return invalid("%s[%d] is %d after %d: offsets must not decrease, nor exceed %d",
				offsetsName, row+1, end, begin, f.Entries)
		}
		before := int32(-1)
		for at := begin; at < end; at++ {
			column := indices[at]
			if column < 0 || int64(column) >= f.Items {
				return invalid("%s[%d] is %d, in row %d; columns are 0 to %d", indicesName, at, column, row, f.Items-1)
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

// Stored are the arrays of a W in compressed row form.
func Stored(find func(name string) (*tensor.Tensor, error)) (offsets []int64, indices []int32, values []float32,
	err error) {
	var list [3]*tensor.Tensor
	for n, name := range []string{offsetsName, indicesName, valuesName} {
		if list[n], err = find(name); err != nil {
			return nil, nil, nil, err
		}
	}
	return list[0].Int64(), list[1].Int32(), list[2].Float32(), nil
}

func invalid(format string, args ...any) error { return fault.New(fault.InvalidData, format, args...) }
