package csr

import (
	"slices"
	"sync"
	"unsafe"

	"dsstne/internal/fault"
)

// Number is a type of the cells of a dense matrix.
type Number interface {
	float32 | float64 | int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64
}

// Dense is a matrix of which every cell is stored, row after row, in borrowed memory. What is not zero is an entry, so
// its rows are those of a sparse matrix without stored zeros. Reading is safe from any number of goroutines.
type Dense struct {
	lease
	cells      cells
	columns    int64
	lengths    []int32 // of the rows, in entries: when they were validated, and before that as many as a row can have
	statistics Statistics
}

// cells is a list of numbers of one type.
type cells interface {
	// check adds the values of entries among cells first .. end-1 to s. It returns the number of entries, and the first
	// cell that may not be stored, or -1.
	check(first, end int64, allow bool, s *Statistics) (entries, bad int64)
	// copyEntries copies the entries among as many cells, columns from 0 on; there is room for as many as there are cells.
	copyEntries(first int64, indices []int32, values []float32) (entries int)
	at(cell int64) float64
	layout() Layout
	// scaled is the cells with values of other numbers, or nil if the cells are not integers.
	scaled(by affine) cells
}

// NewDense makes a matrix of cells, which must be validated before it is used. Release, which may be nil, gives the
// memory back to its owner; on failure it has not been called.
func NewDense[T Number](numbers []T, columns int64, release func()) (*Dense, error) {
	if err := checkColumns(columns); err != nil {
		return nil, err
	}
	rows, size := int64(len(numbers))/columns, int64(unsafe.Sizeof(T(0)))
	if rows*columns != int64(len(numbers)) {
		return nil, fault.New(fault.InvalidData, "%d cells are no rows of %d columns", len(numbers), columns)
	}
	d := &Dense{
		lease: lease{release: release}, cells: cellsOf[T]{numbers, identity}, columns: columns,
		lengths: slices.Repeat([]int32{int32(columns)}, int(rows)),
	}
	d.statistics.Bytes = size * int64(len(numbers))
	return d, nil
}

// Scale makes the values number * scale + offset of the integers in the cells; call it before Validate. A cell whose
// value is 0 is not an entry.
func (d *Dense) Scale(scale, offset float64) error {
	cells := d.cells.scaled(affine{scale, offset})
	if cells == nil {
		return notScaled()
	}
	d.cells = cells
	return nil
}

// Validate reads everything once, as Matrix.Validate does it, and counts the entries.
func (d *Dense) Validate(o ValidateOptions) error {
	var mu sync.Mutex // guards all
	all := nothing()
	all.Bytes, all.HasValues, all.AllowNotFinite = d.statistics.Bytes, true, o.AllowNotFinite
	err := eachBlock(d.Rows(), d.Rows()*d.columns, o.Threads, func(first, end int64) error {
		found := nothing()
		err := catchFaults(func() error {
			for row := first; row < end; row++ {
				entries, bad := d.cells.check(row*d.columns, (row+1)*d.columns, o.AllowNotFinite, &found)
				if bad >= 0 {
					return valueError(row, bad-row*d.columns, d.cells.at(bad))
				}
				d.lengths[row] = int32(entries)
				found.NonZeros, found.Longest = found.NonZeros+entries, max(found.Longest, entries)
			}
			return nil
		})
		mu.Lock()
		defer mu.Unlock()
		all.merge(found)
		return err
	})
	if err == nil {
		d.statistics = all
	}
	return err
}

// Rows is the number of rows.
func (d *Dense) Rows() int64 { return int64(len(d.lengths)) }

// Columns is the number of columns.
func (d *Dense) Columns() int64 { return d.columns }

// Statistics describes all rows as they were when they were validated. Bytes are those of all cells.
func (d *Dense) Statistics() Statistics { return d.statistics.ofValues() }

// Layout has the width of a cell and the address of the first one.
func (d *Dense) Layout() Layout { return d.cells.layout() }

// RowLength is the number of entries of a row when it was validated.
func (d *Dense) RowLength(row int64) int64 { return int64(d.lengths[row]) }

// Read appends rows to dst, see Source.
func (d *Dense) Read(rows []int64, dst *Entries) error {
	return catchFaults(func() error {
		for _, row := range rows {
			if err := d.appendRow(dst, row); err != nil {
				return err
			}
			dst.Ends = append(dst.Ends, len(dst.Indices))
		}
		return nil
	})
}

// appendRow copies each cell once and checks the copy. On failure dst is as it was.
func (d *Dense) appendRow(dst *Entries, row int64) error {
	if row < 0 || row >= d.Rows() {
		return fault.New(fault.InvalidArgument, "row %d was asked for, but the matrix has %d rows", row, d.Rows())
	}
	to, room := dst, int(d.columns)
	if dst.limit > 0 && cap(dst.Indices)-len(dst.Indices) < room { // but enough for the entries
		if dst.aside == nil {
			dst.aside = new(Entries)
		}
		to = dst.aside
		to.Reset()
	}
	at := len(to.Indices)
	to.Indices, to.Values = slices.Grow(to.Indices, room), slices.Grow(to.Values, room)
	indices, values := to.Indices[at:at+room], to.Values[at:at+room]
	n := d.cells.copyEntries(row*d.columns, indices, values)
	if n > int(d.lengths[row]) {
		return fault.New(fault.InvalidData, "row %d grew while it was read: "+
			"the matrix must not be changed while it is in use", row)
	}
	indices, values = indices[:n], values[:n]
	if i := firstNotFinite(values); i >= 0 && !d.statistics.AllowNotFinite {
		return valueError(row, int64(indices[i]), float64(values[i]))
	}
	if !dst.Zeros {
		n = dropZeros(indices, values) // which float32 rounds to zero
	}
	if to != dst {
		dst.Indices, dst.Values = append(dst.Indices, indices[:n]...), append(dst.Values, values[:n]...)
	} else {
		dst.Indices, dst.Values = dst.Indices[:at+n], dst.Values[:at+n]
	}
	return nil
}

type cellsOf[T Number] struct {
	numbers []T
	affine
}

func (c cellsOf[T]) check(first, end int64, allow bool, s *Statistics) (entries, bad int64) {
	low, high := s.Minimum, s.Maximum
	for i, cell := range c.numbers[first:end] {
		value := c.of(float64(cell))
		if value == 0 {
			continue
		}
		if !fits(value, allow) {
			return entries, first + int64(i)
		}
		if value < low {
			low = value
		}
		if value > high {
			high = value
		}
		entries++
	}
	s.Minimum, s.Maximum = low, high
	return entries, -1
}

func (c cellsOf[T]) copyEntries(first int64, indices []int32, values []float32) (entries int) {
	values = values[:len(indices)]
	for column, cell := range c.numbers[first : first+int64(len(indices))] {
		value := c.of(float64(cell))
		indices[entries], values[entries] = int32(column), float32(value)
		keep := 0
		if value != 0 {
			keep = 1 // and not entries++: no processor can predict such a branch
		}
		entries += keep
	}
	return entries
}

func (c cellsOf[T]) at(cell int64) float64 { return c.of(float64(c.numbers[cell])) }

func (c cellsOf[T]) layout() Layout {
	return Layout{ValueBits: 8 * int(unsafe.Sizeof(T(0))), Values: unsafe.Pointer(unsafe.SliceData(c.numbers))}
}

func (c cellsOf[T]) scaled(by affine) cells {
	if !isInteger[T]() {
		return nil
	}
	return cellsOf[T]{c.numbers, by}
}
