package csr

import (
	"slices"
	"sync/atomic"

	"dsstne/engine/fault"
	"dsstne/kernels"
)

// keptBlock is about how many entries a block of Kept has.
const keptBlock = 1 << 20

// Kept describes the columns first .. end as a device keeps them; scaled: with what Reader.Scaling needs.
func (m *Matrix) Kept(first, end int64, scaled bool) (kernels.Data, error) {
	whole := first == 0 && end == m.columns
	entries := m.nonZeros
	if !whole {
		var err error
		if entries, err = m.entriesWithin(first, end); err != nil {
			return kernels.Data{}, err
		}
	}
	k := &kept{matrix: m, first: int32(first), end: int32(end), most: entries, binary: m.isBinary()}
	return kernels.Data{
		Rows: m.rows, Columns: end - first, First: first, Entries: entries, Values: !k.binary, Scaled: scaled, Whole: whole,
		Blocks: func(each func(kernels.DataBlock) error) error { return k.blocks(scaled, each) },
	}, nil
}

// isBinary tells whether every value of a canonical row is 1.
func (m *Matrix) isBinary() bool {
	return !m.hasValues || m.canonical && !m.allowNotFinite && m.minimum == 1 && m.maximum == 1
}

// entriesWithin counts the stored entries of some columns.
func (m *Matrix) entriesWithin(first, end int64) (int64, error) {
	var total atomic.Int64
	err := m.eachRow(0, func() (func(int64) error, func()) {
		n := int64(0)
		visit := func(row int64) error {
			begin, stop, err := m.bounds(row)
			if err == nil && m.indices64 != nil {
				n += within(m.indices64[begin:stop], first, end)
			} else if err == nil {
				n += within(m.indices32[begin:stop], first, end)
			}
			return err
		}
		return visit, func() { total.Add(n) }
	})
	return total.Load(), err
}

func within[I int32 | int64](columns []I, first, end int64) (n int64) {
	for _, column := range columns {
		if int64(column) >= first && int64(column) < end {
			n++
		}
	}
	return n
}

// kept reads a matrix for a device.
type kept struct {
	matrix     *Matrix
	first, end int32
	most       int64
	binary     bool
	row        Entries
	block      kernels.DataBlock
	read       int64
}

func (k *kept) blocks(scaled bool, each func(kernels.DataBlock) error) error {
	k.read, k.block = 0, kernels.DataBlock{}
	for row := range k.matrix.rows {
		if err := k.appendRow(row, scaled); err != nil {
			return err
		}
		if len(k.block.Indices)+len(k.block.Lengths) >= keptBlock || row == k.matrix.rows-1 {
			if err := each(k.block); err != nil {
				return err
			}
			k.clear()
		}
	}
	return nil
}

// appendRow appends a row to the block.
func (k *kept) appendRow(row int64, scaled bool) error {
	k.row.Reset()
	if err := k.matrix.AppendRow(&k.row, row); err != nil {
		return err
	}
	b := &k.block
	from, _ := slices.BinarySearch(k.row.Indices, k.first)
	size, _ := slices.BinarySearch(k.row.Indices[from:], k.end)
	for _, column := range k.row.Indices[from : from+size] {
		b.Indices = append(b.Indices, column-k.first)
	}
	b.Lengths = append(b.Lengths, int32(size))
	if k.read += int64(size); k.read > k.most {
		return fault.New(fault.InvalidData, "row %d grew while it was read: the matrix must not be changed while it is in use", row)
	}
	if k.binary {
		if i := slices.IndexFunc(k.row.Values, func(v float32) bool { return v != 1 }); i >= 0 {
			return fault.New(fault.InvalidData, "row %d, column %d: the value became %g: the matrix must not be changed while it is in use",
				row, k.row.Indices[i], k.row.Values[i])
		}
	} else {
		b.Values = append(b.Values, k.row.Values[from:from+size]...)
	}
	norm := 1.0
	if scaled {
		norm = inverseNorm(k.row.Values)
		b.Norms = append(b.Norms, norm)
	}
	b.Sums = append(b.Sums, sumOf(k.row.Values))
	if scaled {
		sum, _ := multiply(k.row.Values, norm)
		b.ScaledSums = append(b.ScaledSums, sum)
	}
	return nil
}

// sumOf is the sum that multiply by 1 gives.
func sumOf(values []float32) float32 {
	total := 0.0
	for _, value := range values {
		total += float64(value)
	}
	return float32(total)
}

func (k *kept) clear() {
	b := &k.block
	b.Lengths, b.Indices, b.Values = b.Lengths[:0], b.Indices[:0], b.Values[:0]
	b.Sums, b.Norms, b.ScaledSums = b.Sums[:0], b.Norms[:0], b.ScaledSums[:0]
}
