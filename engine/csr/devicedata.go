package csr

import (
	"slices"
	"sync/atomic"

	"dsstne/internal/fault"
	"dsstne/kernels"
)

// deviceBlock is about how many entries a block of DeviceData has.
const deviceBlock = 1 << 20

// DeviceData describes columns first .. end of a source as a device keeps them; scaled: with norms for Reader.Scaling.
// Of an Indexed the device keeps the rows of the source once, with the list, if the list names more entries than that.
func DeviceData(s Source, first, end int64, scaled bool) (kernels.Data, error) {
	whole := first == 0 && end == s.Columns()
	stored, index := storedRows(s)
	statistics := stored.Statistics()
	entries := statistics.NonZeros
	if !whole {
		var err error
		if entries, err = entriesWithin(stored, int32(first), int32(end)); err != nil {
			return kernels.Data{}, err
		}
	}
	d := &deviceData{
		source: stored, first: int32(first), end: int32(end), most: entries, onlyOnes: statistics.onlyOnes(),
		size: deviceBlock,
	}
	return kernels.Data{
		Of: s, Rows: stored.Rows(), Columns: end - first, First: first, Entries: entries, Values: !d.onlyOnes,
		Scaled: scaled, Whole: whole, Listed: s.Rows(), Index: index,
		Blocks: func(each func(kernels.DataBlock) error) error { return d.blocks(scaled, each) },
	}, nil
}

// entriesWithin counts the entries of some columns.
func entriesWithin(s Source, first, end int32) (int64, error) {
	var total atomic.Int64
	err := eachBlock(s.Rows(), s.Statistics().NonZeros, 0, func(from, to int64) error {
		b := blocks.Get().(*block)
		defer blocks.Put(b)
		err := b.read(s, from, to)
		begin, n := 0, 0
		for _, stop := range b.Ends {
			_, size := within(b.Indices[begin:stop], first, end)
			begin, n = stop, n+size
		}
		total.Add(int64(n))
		return err
	})
	return total.Load(), err
}

// within finds the numbers from first up to end in an ascending list: where they begin, and how many there are.
func within(columns []int32, first, end int32) (from, size int) {
	from, _ = slices.BinarySearch(columns, first)
	size, _ = slices.BinarySearch(columns[from:], end)
	return from, size
}

// deviceData reads a source for a device.
type deviceData struct {
	source     Source
	first, end int32
	most       int64
	onlyOnes   bool
	size       int // about how many entries a block has
	rows       block
	block      kernels.DataBlock
	read       int64
}

func (d *deviceData) blocks(scaled bool, each func(kernels.DataBlock) error) error {
	d.read, d.block = 0, kernels.DataBlock{}
	rows := d.source.Rows()
	size := blockRows(rows, d.source.Statistics().NonZeros)
	for first := int64(0); first < rows; first += size {
		if err := d.rows.read(d.source, first, min(first+size, rows)); err != nil {
			return err
		}
		begin := 0
		for n, stop := range d.rows.Ends {
			row := first + int64(n)
			if err := d.appendRow(row, d.rows.Indices[begin:stop], d.rows.Values[begin:stop], scaled); err != nil {
				return err
			}
			begin = stop
			if len(d.block.Indices)+len(d.block.Lengths) >= d.size || row == rows-1 {
				if err := each(d.block); err != nil {
					return err
				}
				d.clear()
			}
		}
	}
	return nil
}

// appendRow appends a row to the block; it changes the values.
func (d *deviceData) appendRow(row int64, columns []int32, values []float32, scaled bool) error {
	b := &d.block
	from, size := within(columns, d.first, d.end)
	for _, column := range columns[from : from+size] {
		b.Indices = append(b.Indices, column-d.first)
	}
	b.Lengths = append(b.Lengths, int32(size))
	if d.read += int64(size); d.read > d.most {
		return fault.New(fault.InvalidData,
			"row %d grew while it was read: the matrix must not be changed while it is in use", row)
	}
	if d.onlyOnes {
		if i := slices.IndexFunc(values, func(v float32) bool { return v != 1 }); i >= 0 {
			return fault.New(fault.InvalidData, "row %d, column %d: the value became %g: "+
				"the matrix must not be changed while it is in use", row, columns[i], values[i])
		}
	} else {
		b.Values = append(b.Values, values[from:from+size]...)
	}
	sum, _ := multiply(values, 1) // which changes none
	b.Sums = append(b.Sums, sum)
	if scaled {
		norm := inverseNorm(values)
		sum, _ := multiply(values, norm)
		b.Norms, b.ScaledSums = append(b.Norms, norm), append(b.ScaledSums, sum)
	}
	return nil
}

func (d *deviceData) clear() {
	b := &d.block
	b.Lengths, b.Indices, b.Values = b.Lengths[:0], b.Indices[:0], b.Values[:0]
	b.Sums, b.Norms, b.ScaledSums = b.Sums[:0], b.Norms[:0], b.ScaledSums[:0]
}
