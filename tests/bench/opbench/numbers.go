package main

import (
	"math/rand/v2"
	"slices"

	"dsstne/kernels"
)

// maker allocates and fills; the first failure stays in err.
type maker struct {
	device kernels.Device
	err    error
}

// filled returns n numbers from -scale/2 to scale/2.
func (m *maker) filled(n int64, scale float32) kernels.Buffer {
	b, err := m.device.Alloc(n)
	if err != nil {
		m.err = err
		return nil
	}
	random := rand.New(rand.NewPCG(1, 2))
	values := make([]float32, min(n, 1<<20))
	// Zeros are written too, so that the pages exist.
	for at := int64(0); at < n && m.err == nil; at += int64(len(values)) {
		values = values[:min(int64(len(values)), n-at)]
		for i := range values {
			values[i] = scale * (random.Float32() - 0.5)
		}
		m.err = m.device.Write(b, at, values)
	}
	return b
}

func (m *maker) weights(name string, rows, columns int64, states int) *kernels.Weights {
	w := &kernels.Weights{Name: name, Rows: rows, Columns: columns, Value: m.filled(rows*columns, 0.05)}
	for i := range states {
		w.State[i] = m.filled(rows*columns, 0)
	}
	return w
}

// sparseBatch stores perRow ones at random places in each row.
func sparseBatch(rows, items, perRow int, seed uint64) *kernels.SparseBatch {
	random := rand.New(rand.NewPCG(3, seed))
	b := &kernels.SparseBatch{Columns: int64(items), Offsets: []int32{0}}
	type entry struct{ item, row int32 }
	var all []entry
	for r := range rows {
		seen := map[int32]bool{}
		for len(seen) < min(perRow, items) {
			seen[int32(random.IntN(items))] = true
		}
		var list []int32
		for i := range seen {
			list = append(list, i)
			all = append(all, entry{i, int32(r)})
		}
		slices.Sort(list)
		b.Indices = append(b.Indices, list...)
		b.Offsets = append(b.Offsets, int32(len(b.Indices)))
		b.RowSum = append(b.RowSum, float32(len(list)))
	}
	slices.SortFunc(all, func(a, b entry) int {
		if a.item != b.item {
			return int(a.item - b.item)
		}
		return int(a.row - b.row)
	})
	for _, e := range all {
		if n := len(b.Items); n == 0 || b.Items[n-1] != e.item {
			b.Items = append(b.Items, e.item)
			b.ItemOffsets = append(b.ItemOffsets, int32(len(b.ItemRows)))
		}
		b.ItemRows = append(b.ItemRows, e.row)
		b.ItemValues = append(b.ItemValues, 1)
		b.Values = append(b.Values, 1)
	}
	b.ItemOffsets = append(b.ItemOffsets, int32(len(b.ItemRows)))
	return b
}
