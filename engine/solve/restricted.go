package solve

import (
	"math"
	"slices"

	"dsstne/engine/csr"
	"dsstne/engine/itemweights"
	"dsstne/engine/model"
	"dsstne/engine/program"
	"dsstne/kernels"
)

// Restricted is the method of the model x S whose column j is computed from the Neighbors items alone that are most
// correlated with item j (Steck, "Markov Random Fields for Collaborative Filtering", 2019): far less work than Linear's
// for very many items. Each column keeps its PerItem largest weights.
type Restricted struct {
	Ridge
	Neighbors, PerItem int64

	system  system
	near    *kernels.Neighborhood
	inverse *kernels.RestrictedInverse
	// the weights by row: int64 [items + 1] from the second on, int32 and float32 [items, neighbors]
	ends, columns, weights kernels.Buffer
}

// itemsOfAPart is how many items a step inverts parts for: some tenths of a second.
const itemsOfAPart = 2048

// Build adds the operations of two kinds of steps: some find the neighbours, and the others invert.
func (r *Restricted) Build(b *program.Builder, data csr.Source) int64 {
	items := data.Columns()
	r.system = newSystem(b, data)
	r.near = newNeighborhood(b, data, r.system.byRow, r.system.byItem, r.Neighbors)
	lists := items * r.near.K
	r.inverse = &kernels.RestrictedInverse{
		Items: items, Neighbors: r.near.K, Block: min(items, itemsOfAPart), IDs: r.near.IDs,
		Values:  r.near.Similarities,
		Factors: b.Alloc("system", "factors of rows", items), Weights: b.Alloc("weights", "by column", lists),
	}
	r.ends = b.Alloc("weights", "ends of rows", 2*(items+1))
	r.columns, r.weights = b.Alloc("weights", "columns", lists), b.Alloc("weights", "by row", lists)
	b.Scratch(&r.inverse.Workspace, r.inverse)
	found := parts(items, r.near.Block)
	steps := found + parts(items, r.inverse.Block)
	during(b, 0, found, r.near)
	during(b, found, steps, r.inverse)
	b.Note(program.Part{Name: "the model", Bytes: 8*items*min(r.PerItem, r.near.K) + 12*(items+1), Device: "host"})
	return steps
}

// Load computes the system, whose diagonal becomes 1 by the factors of the similarities.
func (r *Restricted) Load(data csr.Source) error {
	if err := r.system.load(data, r.Ridge); err != nil {
		return err
	}
	s := &r.near.Similarity
	s.Constant = 1
	left, right := kernels.View[float64](s.Left), kernels.View[float64](s.Right)
	for i, d := range r.system.diagonal.Float32() {
		root := math.Sqrt(float64(d))
		left[i], right[i] = 1/root, 1/root
		r.inverse.Factors.Float32()[i] = r.system.in.Float32()[i] / float32(root)
		r.system.out.Float32()[i] *= float32(root)
	}
	ones(s.RowWeights)
	return nil
}

// Model turns the columns into rows of weights between items, and keeps the largest of each.
func (r *Restricted) Model() (*model.Model, error) {
	items, k := r.inverse.Items, r.inverse.Neighbors
	ids, byColumn, out := r.inverse.IDs.Int32(), r.inverse.Weights.Float32(), r.system.out.Float32()
	ends, columns, weights := kernels.View[int64](r.ends), r.columns.Int32(), r.weights.Float32()
	clear(ends)
	for _, i := range ids {
		if i >= 0 {
			ends[i+1]++
		}
	}
	for i := range items {
		ends[i+1] += ends[i]
	}
	for j := range items {
		for n, i := range ids[j*k : (j+1)*k] {
			if i < 0 {
				break
			}
			at := ends[i] // where the next entry of row i goes: at last, where the row ends
			ends[i]++
			columns[at], weights[at] = int32(j), byColumn[j*k+int64(n)]*out[j]
		}
	}
	begin, entries := int64(0), int64(0)
	for i := range items {
		kept := largest(columns[begin:ends[i]], weights[begin:ends[i]], r.PerItem)
		copy(columns[entries:], columns[begin:begin+kept])
		copy(weights[entries:], weights[begin:begin+kept])
		begin, entries = ends[i], entries+kept
		ends[i] = entries
	}
	form := &itemweights.Form{Items: items, Weight: itemweights.CSR, Entries: entries, Bias: true, BiasIfEmpty: true}
	return makeItemWeights(form, &r.system.byItem, func(offsets []int64, indices []int32, values []float32) {
		copy(offsets[1:], ends[:items])
		copy(indices, columns)
		copy(values, weights)
	})
}

// largest keeps the k largest weights of a row in its first places, in order of the columns; of equal ones, those of
// the lower columns. It returns how many there are.
func largest(columns []int32, weights []float32, k int64) (kept int64) {
	least, equal := float32(math.Inf(-1)), int64(0)
	if int64(len(weights)) > k {
		sorted := slices.Clone(weights)
		slices.Sort(sorted)
		least = sorted[int64(len(sorted))-k]
		for _, w := range sorted[int64(len(sorted))-k:] {
			if w == least {
				equal++ // weights that are as small as the last one that is kept
			}
		}
	}
	for n, w := range weights {
		if w == 0 || w < least {
			continue
		}
		if w == least {
			if equal--; equal < 0 {
				continue
			}
		}
		columns[kept], weights[kept] = columns[n], w
		kept++
	}
	return kept
}
