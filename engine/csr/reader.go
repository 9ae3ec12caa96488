package csr

import (
	"cmp"
	"math"

	"dsstne/internal/fault"
	"dsstne/internal/parallel"
	"dsstne/internal/random"
	"dsstne/kernels"
)

// Reader makes batches of a source. It keeps scratch memory from batch to batch and serves one goroutine at a time.
type Reader struct {
	Source Source
	// Scaling divides each row by its L2 norm, taken over the whole row before denoising. Empty rows stay empty.
	Scaling bool
	// Denoising is the probability that an entry is left out in training; the others are divided by 1-Denoising.
	Denoising float32
	Seed      uint64
	Stream    uint32
	// Zeros keeps zeros that are stored, as entries.
	Zeros bool
	// Negatives is how many entries of value 0 are added in training for each stored one, in columns without an entry
	// that are drawn at random.
	Negatives int64
	// Limit is the most entries that a batch may have before negatives are added, 0 for no limit: what was planned for. A
	// batch beyond it is fault.InvalidData, because only a matrix that was changed can have one.
	Limit int64
	// RowsOnly leaves the order by item out, which only training reads.
	RowsOnly bool
	// Threads tells on how many threads a batch of many entries is made; nil: on one.
	Threads func() int

	parts    []part
	rows     []int64       // of the batch; Source.Read overwrites them
	ranks    random.Subset // of a row's negatives, among the columns without an entry
	payload  []uint64      // by entry of the batch: row and bits of the value
	keys     [2][]uint64
	counters [maxPasses][1 << maxDigit]int32
	starts   []int32 // by column of a dense batch
	next     []int32 // by row: its next entry
}

// Batch fills out with rows of the source, in both orders, or with RowsOnly in row order. Entry (u, j) is left out in
// training when random.Uniform(Seed, Stream, step, u, j) < Denoising, where u is the row's place in the batch. out's
// slices are used again if they are large enough. A row may appear more than once. After a failure out is empty.
func (r *Reader) Batch(rows []int64, step int64, training bool, out *kernels.SparseBatch) error {
	if !(r.Denoising >= 0 && r.Denoising < 1) {
		return fault.New(fault.InvalidArgument, "denoising is a probability below 1, not %v", r.Denoising)
	}
	out.Columns = r.Source.Columns()
	err := r.fill(rows, step, training, out)
	if err == nil && training && r.Negatives > 0 {
		err = r.draw(step, out)
	}
	if err != nil {
		out.Offsets = append(out.Offsets[:0], 0)
		out.Indices, out.Values, out.RowSum = out.Indices[:0], out.Values[:0], out.RowSum[:0]
	}
	if !r.RowsOnly {
		err = cmp.Or(err, r.transpose(out))
	}
	return err
}

// manyEntries is from how many entries on several threads make a batch.
const manyEntries = 1 << 17

// threads is on how many threads work with n entries is done.
func (r *Reader) threads(n int) int {
	if n < manyEntries || r.Threads == nil {
		return 1
	}
	return r.Threads()
}

// part is some rows of a batch, which one thread reads.
type part struct {
	entries    Entries
	first, end int // of the rows
	at, room   int // among the entries of the batch, before any are left out
	kept       int
}

// fill reads the rows into the row order of out.
func (r *Reader) fill(rows []int64, step int64, training bool, out *kernels.SparseBatch) error {
	n, err := r.size(rows)
	if err != nil {
		return err
	}
	out.Offsets, out.RowSum = resize(out.Offsets, len(rows)+1), resize(out.RowSum, len(rows))
	out.Indices, out.Values = resize(out.Indices, n), resize(out.Values, n)
	r.rows = append(r.rows[:0], rows...)
	parts, err := r.divide(n)
	if err != nil {
		return err
	}
	if len(parts) == 1 { // most batches, which then need no memory
		err = r.read(&parts[0], step, training, out)
	} else {
		err = parallel.Do(len(parts), len(parts), func(p int) error { return r.read(&parts[p], step, training, out) })
	}
	if err != nil {
		return err
	}
	out.Offsets[0] = 0
	filled := 0
	for i := range parts {
		p := &parts[i]
		copy(out.Indices[filled:], out.Indices[p.at:p.at+p.kept])
		copy(out.Values[filled:], out.Values[p.at:p.at+p.kept])
		filled += p.kept
	}
	for u := range rows {
		out.Offsets[u+1] += out.Offsets[u]
	}
	out.Indices, out.Values = out.Indices[:filled], out.Values[:filled]
	return nil
}

// divide gives each thread some of the rows, which hold n entries; one has all where these are few.
func (r *Reader) divide(n int) ([]part, error) {
	count := max(1, min(r.threads(n), len(r.rows)))
	for len(r.parts) < count {
		r.parts = append(r.parts, part{})
	}
	at := 0
	for i := range count {
		p := &r.parts[i]
		p.first, p.end = len(r.rows)*i/count, len(r.rows)*(i+1)/count
		p.at, p.room = at, n-at
		if i < count-1 {
			p.room = 0
			for _, row := range r.rows[p.first:p.end] {
				p.room += int(r.Source.RowLength(row))
			}
		}
		if at += p.room; at > n || p.room < 0 {
			return nil, fault.New(fault.InvalidData, "rows grew while they were read: the matrix must not be changed while it "+
				"is in use")
		}
	}
	return r.parts[:count], nil
}

// read fills a part: out's entries from p.at on, the sums of its rows, and as offsets the lengths of its rows.
func (r *Reader) read(p *part, step int64, training bool, out *kernels.SparseBatch) error {
	e, end := &p.entries, p.at+p.room
	e.Indices, e.Values, e.Ends = out.Indices[p.at:p.at:end], out.Values[p.at:p.at:end], e.Ends[:0]
	e.limit, e.Zeros = p.room+1, r.Zeros
	defer func() { e.Indices, e.Values = nil, nil }()
	if err := r.Source.Read(r.rows[p.first:p.end], e); err != nil {
		return err
	}
	denoise := training && r.Denoising > 0
	begin := 0 // of the row in what was read
	p.kept = 0
	for i, end := range e.Ends {
		indices, values := e.Indices[begin:end], e.Values[begin:end]
		begin = end
		factor := 1.0
		if r.Scaling {
			factor = inverseNorm(values)
		}
		if denoise {
			factor /= 1 - float64(r.Denoising)
			kept := r.dropEntries(indices, values, step, int64(p.first+i))
			indices, values = indices[:kept], values[:kept]
		}
		sum, zeros := multiply(values, factor)
		if zeros && !r.Zeros { // by underflow, beside a value that is 1e38 times as large
			kept := dropZeros(indices, values)
			indices, values = indices[:kept], values[:kept]
		}
		copy(out.Indices[p.at+p.kept:], indices) // in place, unless Read needed more room on the way
		copy(out.Values[p.at+p.kept:], values)
		p.kept += len(indices)
		out.Offsets[p.first+i+1], out.RowSum[p.first+i] = int32(len(indices)), sum
	}
	return nil
}

// size counts the stored entries of the batch.
func (r *Reader) size(rows []int64) (int, error) {
	n, all := int64(0), r.Source.Rows()
	for _, row := range rows {
		if row < 0 || row >= all {
			return 0, fault.New(fault.InvalidArgument, "row %d was asked for, but the matrix has %d rows", row, all)
		}
		n += r.Source.RowLength(row)
	}
	if n > math.MaxInt32 {
		return 0, fault.New(fault.InvalidArgument, "a batch of %d rows holds %d entries, more than %d; "+
			"choose a smaller batch size", len(rows), n, math.MaxInt32)
	}
	if r.Limit > 0 && n > r.Limit {
		return 0, fault.New(fault.InvalidData, "a batch of %d rows holds %d entries, but at most %d were there when it was "+
			"planned: the matrix must not be changed while it is in use", len(rows), n, r.Limit)
	}
	return int(n), nil
}

// inverseNorm is 1 over the L2 norm, and 1 for a row without entries.
func inverseNorm(values []float32) float64 {
	var lane [4]float64 // additions that need not wait for one another
	for len(values) >= 4 {
		a, b, c, d := float64(values[0]), float64(values[1]), float64(values[2]), float64(values[3])
		lane[0] += a * a
		lane[1] += b * b
		lane[2] += c * c
		lane[3] += d * d
		values = values[4:]
	}
	for i, value := range values {
		lane[i] += float64(value) * float64(value)
	}
	squares := (lane[0] + lane[2]) + (lane[1] + lane[3])
	if squares == 0 {
		return 1
	}
	return 1 / math.Sqrt(squares)
}

// multiply multiplies the values in place; it returns their sum and whether one of them has become zero.
func multiply(values []float32, factor float64) (sum float32, zeros bool) {
	total := 0.0
	for i, value := range values {
		product := float32(float64(value) * factor)
		if product == 0 {
			zeros = true
		}
		values[i] = product
		total += float64(product)
	}
	return float32(total), zeros
}

// dropEntries leaves out entries of a row, at random; it returns how many entries are left.
func (r *Reader) dropEntries(indices []int32, values []float32, step, u int64) (kept int) {
	var numbers [64]float32
	for first := 0; first < len(indices); first += len(numbers) {
		end := min(first+len(numbers), len(indices))
		random.UniformAt(numbers[:end-first], r.Seed, r.Stream, step, u, indices[first:end])
		for i := first; i < end; i++ {
			indices[kept], values[kept] = indices[i], values[i]
			keep := 0
			if numbers[i-first] >= r.Denoising {
				keep = 1 // and not kept++: no processor can predict such a branch
			}
			kept += keep
		}
	}
	return kept
}
