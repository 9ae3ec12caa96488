package csr

import (
	"math"
	"slices"
	"sync"

	"dsstne/internal/fault"
	"dsstne/internal/parallel"
)

// Product is the product of two sources, such as the items of users and the features of items. Its rows are computed
// when they are read, and never stored.
type Product struct {
	lease
	left, right Source
	lengths     []int32 // of the rows, when they were validated
	statistics  Statistics
}

// NewProduct makes the product and computes all rows once, on up to threads goroutines (0: one a processor), to count
// their entries and to check them. Both sources are in use until Close.
func NewProduct(left, right Source, threads int) (*Product, error) {
	if left.Columns() != right.Rows() {
		return nil, fault.New(fault.InvalidArgument, "the first matrix has %d columns, but the second has %d rows; "+
			"each column of the first is a row of the second", left.Columns(), right.Rows())
	}
	if err := left.Use(); err != nil {
		return nil, err
	}
	if err := right.Use(); err != nil {
		left.Unuse()
		return nil, err
	}
	p := &Product{left: left, right: right, lengths: make([]int32, left.Rows())}
	p.release = func() {
		left.Unuse()
		right.Unuse()
	}
	if err := p.validate(threads); err != nil {
		_ = p.Close() // nobody uses it yet, so nothing refuses
		return nil, err
	}
	return p, nil
}

func (p *Product) validate(threads int) error {
	var mu sync.Mutex // guards all
	all := nothing()
	all.HasValues = true
	rows := p.Rows()
	// Before they are computed, nobody knows their entries; at most they are those of the rows that they add up.
	left, right := p.left.Statistics().NonZeros, p.right.Statistics().NonZeros
	most := float64(left) * float64(right) / float64(max(1, p.right.Rows()))
	size := blockRows(rows, int64(min(most, math.MaxInt32*float64(rows))))
	err := parallel.Do(threads, int((rows+size-1)/size), func(n int) error {
		b := blocks.Get().(*block)
		defer blocks.Put(b)
		first, begin, found := int64(n)*size, 0, nothing()
		err := b.read(unlimited{p}, first, min(first+size, rows))
		for i, end := range b.Ends {
			p.lengths[first+int64(i)] = int32(end - begin)
			found.Longest = max(found.Longest, int64(end-begin))
			begin = end
		}
		for _, value := range b.Values {
			found.Minimum, found.Maximum = min(found.Minimum, float64(value)), max(found.Maximum, float64(value))
		}
		found.NonZeros = int64(len(b.Indices))
		mu.Lock()
		defer mu.Unlock()
		all.merge(found)
		return err
	})
	all.Bytes = p.left.Statistics().Bytes + p.right.Statistics().Bytes + 4*rows
	p.statistics = all
	return err
}

// unlimited is a product whose rows have not been counted yet.
type unlimited struct{ *Product }

func (u unlimited) Read(rows []int64, dst *Entries) error { return u.compute(rows, dst, false) }

// Rows is the number of rows of the first matrix.
func (p *Product) Rows() int64 { return p.left.Rows() }

// Columns is the number of columns of the second matrix.
func (p *Product) Columns() int64 { return p.right.Columns() }

// Statistics describes all rows as they were when they were validated. Bytes are those of both sources.
func (p *Product) Statistics() Statistics { return p.statistics.ofValues() }

// Layout is that of readers.
func (p *Product) Layout() Layout { return Layout{OffsetBits: 64, IndexBits: 32, ValueBits: 32} }

// RowLength is the number of entries of a row when it was validated.
func (p *Product) RowLength(row int64) int64 { return int64(p.lengths[row]) }

// Read computes rows, see Source. An entry is the sum of its products in float64, in the order of the columns of the
// first matrix, rounded to float32. Its bits therefore depend on the two rows of numbers only.
func (p *Product) Read(rows []int64, dst *Entries) error { return p.compute(rows, dst, true) }

func (p *Product) compute(rows []int64, dst *Entries, counted bool) error {
	w := works.Get().(*work)
	defer works.Put(w)
	for _, row := range rows {
		w.left.Reset()
		w.rows = append(w.rows[:0], row)
		if err := p.left.Read(w.rows, &w.left); err != nil {
			return err
		}
		w.rows = w.rows[:0]
		for _, column := range w.left.Indices {
			w.rows = append(w.rows, int64(column))
		}
		w.right.Reset()
		if err := p.right.Read(w.rows, &w.right); err != nil {
			return fault.Wrap(err, "the second matrix of the product")
		}
		begin := len(dst.Indices)
		if err := w.sum(dst); err != nil {
			dst.Indices, dst.Values = dst.Indices[:begin], dst.Values[:begin]
			return fault.Wrap(err, "row %d", row)
		}
		if counted && len(dst.Indices)-begin > int(p.lengths[row]) {
			dst.Indices, dst.Values = dst.Indices[:begin], dst.Values[:begin]
			return fault.New(fault.InvalidData, "row %d of the product grew: the matrices must not be changed while they are "+
				"in use", row)
		}
		dst.Ends = append(dst.Ends, len(dst.Indices))
	}
	return nil
}

// work is room for the product of a row.
type work struct {
	left, right Entries // the row, and the rows of the second matrix that it names
	rows        []int64
	keys        []uint64  // column and number of each product
	products    []float64 // by number
}

var works = sync.Pool{New: func() any { return new(work) }}

// sum appends the sums of the products by column; zeros are left out.
func (w *work) sum(dst *Entries) error {
	w.keys, w.products = w.keys[:0], w.products[:0]
	if len(w.right.Indices) > math.MaxUint32 {
		return fault.New(fault.Unsupported, "there are %d products", len(w.right.Indices))
	}
	begin := 0
	for i, end := range w.right.Ends {
		factor := float64(w.left.Values[i])
		for n := begin; n < end; n++ {
			w.keys = append(w.keys, uint64(w.right.Indices[n])<<32|uint64(n))
			w.products = append(w.products, factor*float64(w.right.Values[n]))
		}
		begin = end
	}
	slices.Sort(w.keys)
	for n := 0; n < len(w.keys); {
		column, total := w.keys[n]>>32, 0.0
		for ; n < len(w.keys) && w.keys[n]>>32 == column; n++ {
			total += w.products[uint32(w.keys[n])]
		}
		value := float32(total)
		if value-value != 0 {
			return fault.New(fault.InvalidData, "column %d of the product is %.6g, which is not a finite float32; scale the "+
				"values of a matrix down", column, total)
		}
		if value != 0 {
			dst.Indices, dst.Values = append(dst.Indices, int32(column)), append(dst.Values, value)
		}
	}
	return nil
}
