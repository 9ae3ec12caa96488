package predict

import (
	"math"
	"slices"

	"dsstne/engine/program"
	"dsstne/internal/fault"
	"dsstne/kernels"
)

// storedRows are the rows of a matrix in compressed row form, as queries; without offsets a query is its own item.
type storedRows struct {
	offsets []int64
	indices []int32
	values  []float32
}

// longest is the most entries of a row.
func (r *storedRows) longest() int64 {
	longest := int64(1)
	for q := range len(r.offsets) - 1 {
		longest = max(longest, r.offsets[q+1]-r.offsets[q])
	}
	return longest
}

// fill makes a batch of rows.
func (r *storedRows) fill(rows []int32, batch *kernels.SparseBatch) error {
	batch.Offsets, batch.Indices, batch.Values = append(batch.Offsets[:0], 0), batch.Indices[:0], batch.Values[:0]
	for _, q := range rows {
		if r.offsets == nil {
			batch.Indices, batch.Values = append(batch.Indices, q), append(batch.Values, 1)
		} else {
			begin, end := r.offsets[q], r.offsets[q+1]
			batch.Indices = append(batch.Indices, r.indices[begin:end]...)
			batch.Values = append(batch.Values, r.values[begin:end]...)
		}
		if len(batch.Indices) > kernels.MostEntries {
			return fault.New(fault.InvalidArgument, "the rows of %d queries have more than %d entries; use a smaller batch_size",
				len(rows), int64(kernels.MostEntries))
		}
		batch.Offsets = append(batch.Offsets, int32(len(batch.Indices)))
	}
	return nil
}

// normal are the values of rows whose norms are 1; rows of zeros stay.
func (r *storedRows) normal() []float32 {
	values := make([]float32, len(r.values))
	for q := range len(r.offsets) - 1 {
		begin, end := r.offsets[q], r.offsets[q+1]
		var square float64
		for _, x := range r.values[begin:end] {
			square += float64(x) * float64(x)
		}
		for at := begin; at < end && square > 0; at++ {
			values[at] = float32(float64(r.values[at]) / math.Sqrt(square))
		}
	}
	return values
}

// transpose makes stored rows the queries, and the transpose of their matrix, outside the Go heap, the matrix that
// scores them: x . w_i = (x W^T)_i. For cosines it first normalizes the rows. It returns the part for the memory plan.
func (s *search) transpose() (part program.Part, err error) {
	find := func(name string) kernels.Buffer { return s.tensors[name] }
	m, whole := s.matrix, s.matrix.Source(0, 0, find)
	r := storedRows{kernels.View[int64](whole.Offsets), whole.Indices.Int32(), whole.Values.Float32()}
	if s.measure == Cosine {
		r.values = r.normal()
	}
	s.stored = r
	s.by.Rows, s.by.Columns = m.Columns, m.Rows
	part = program.Part{Name: "weights", Of: "the transpose of " + m.Name, Device: "host", Held: true}
	for _, t := range s.by.Tensors(int64(len(r.indices))) {
		b, err := kernels.AllocHost(t.Rows * t.Columns)
		if err != nil {
			return part, fault.Wrap(err, "%s of the transpose", t.Name)
		}
		s.tensors[t.Name], s.transposed = b, append(s.transposed, b)
		part.Bytes += 4 * b.Len()
	}
	whole = s.by.Source(0, 0, find)
	offsets, indices, values := kernels.View[int64](whole.Offsets), whole.Indices.Int32(), whole.Values.Float32()
	for _, i := range r.indices {
		offsets[i+1]++
	}
	for i := range m.Columns {
		offsets[i+1] += offsets[i]
	}
	next := slices.Clone(offsets[:m.Columns])
	for q := range m.Rows {
		for at := r.offsets[q]; at < r.offsets[q+1]; at++ {
			to := &next[r.indices[at]]
			indices[*to], values[*to] = int32(q), r.values[at]
			*to++
		}
	}
	return part, nil
}
