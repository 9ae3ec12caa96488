// Package batch makes sparse batches for tests and benchmarks of kernels.
package batch

import (
	"math/rand/v2"
	"slices"

	"dsstne/kernels"
)

// Random stores perRow ones at random places in each row.
func Random(rows, items, perRow int, seed uint64) *kernels.SparseBatch {
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
