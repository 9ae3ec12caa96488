package predict

import (
	"math"

	"dsstne/engine/program"
	"dsstne/engine/tensor"
	"dsstne/internal/fault"
	"dsstne/kernels"
)

// storedRows are the rows of a matrix in compressed row form, as queries; without offsets a query is its own item
// alone.
type storedRows struct {
	offsets []int64
	indices []int32
	values  []float32
	most    int64 // entries of a row
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

// prepareSparse makes the shards for queries that are sparse. For entries the matrix is what it is. To compare stored
// rows it is transposed: x . w_i = (x W^T)_i; for cosines its rows are first divided by their norms.
func (s *search) prepareSparse() ([]program.Part, error) {
	p, m := s.p, s.matrix
	find := func(name string) (kernels.Buffer, error) {
		t, err := p.Model.Tensor(name)
		if err != nil {
			return nil, err
		}
		return t.Buffer(), nil
	}
	buffers := map[string]kernels.Buffer{}
	for _, t := range m.Tensors(0) {
		var err error
		if buffers[t.Name], err = find(t.Name); err != nil {
			return nil, err
		}
	}
	s.stored.most = 1
	if s.measure == Entry {
		err := s.shard(m, func(rank int, name string) (kernels.Buffer, error) { return p.here(rank, name, buffers[name]) })
		if err != nil {
			return nil, err
		}
		return nil, p.Copies().Refresh()
	}
	whole := m.Source(0, 0, func(name string) kernels.Buffer { return buffers[name] })
	s.stored = storedRows{
		offsets: kernels.View[int64](whole.Offsets), indices: whole.Indices.Int32(), values: whole.Values.Float32(), most: 1,
	}
	if s.measure == Cosine {
		s.stored.values = s.stored.normal()
	}
	for q := range m.Rows {
		s.stored.most = max(s.stored.most, s.stored.offsets[q+1]-s.stored.offsets[q])
	}
	transposed, err := s.transpose()
	for _, t := range transposed {
		s.free = append(s.free, t.Buffer())
	}
	if err != nil {
		return nil, err
	}
	part := program.Part{Name: "weights", Of: "the transpose of " + m.Name, Device: "host", Held: true}
	for _, t := range transposed {
		part.Bytes += t.Size()
	}
	m.Rows, m.Columns = m.Columns, m.Rows
	return []program.Part{part}, s.shard(m, func(rank int, name string) (kernels.Buffer, error) {
		device, value := p.Ranks[rank].Device, transposed[name].Buffer()
		if device.Reaches(value) {
			return value, nil
		}
		here, err := device.Alloc(value.Len())
		if err != nil {
			return nil, err
		}
		s.free = append(s.free, here)
		return here, device.Write(here, 0, value.Float32())
	})
}

// shard makes each rank score its part of the columns of a matrix.
func (s *search) shard(m program.Matrix, value func(rank int, name string) (kernels.Buffer, error)) error {
	s.shards = make([]program.Shard, len(s.p.Ranks))
	for rank := range s.shards {
		first, end := program.ShardOf(m.Columns, rank, len(s.shards))
		var failed error
		source := m.Source(querySlot, first, func(name string) kernels.Buffer {
			b, err := value(rank, name)
			if failed == nil {
				failed = err
			}
			return b
		})
		if failed != nil {
			return failed
		}
		s.shards[rank] = program.Shard{Scorer: kernels.Scorer{Items: end - first, Sparse: source}, First: first}
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

// transpose makes the tensors of the transposed matrix, by their names, outside the Go heap.
func (s *search) transpose() (map[string]*tensor.Tensor, error) {
	m, r := s.matrix, s.stored
	entries := int64(len(r.indices))
	transposed := map[string]*tensor.Tensor{}
	specs := m.Tensors(entries)
	list := make([]*tensor.Tensor, len(specs))
	for n, dtype := range []tensor.DType{tensor.I64, tensor.I32, tensor.F32} {
		size := []int64{m.Columns + 1, entries, entries}[n]
		t, err := tensor.New(specs[n].Name, dtype, []int64{size}, -1)
		if err != nil {
			return transposed, err
		}
		list[n], transposed[specs[n].Name] = t, t
	}
	offsets, indices, values := list[0].Int64(), list[1].Int32(), list[2].Float32()
	for _, i := range r.indices {
		offsets[i+1]++
	}
	for i := range m.Columns {
		offsets[i+1] += offsets[i]
	}
	next := append([]int64(nil), offsets[:m.Columns]...)
	for q := range m.Rows {
		for at := r.offsets[q]; at < r.offsets[q+1]; at++ {
			to := &next[r.indices[at]]
			indices[*to], values[*to] = int32(q), r.values[at]
			*to++
		}
	}
	return transposed, nil
}
