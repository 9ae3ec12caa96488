package solve

import (
	"fmt"
	"math"
	"sort"

	"dsstne/engine/csr"
	"dsstne/engine/itemweights"
	"dsstne/engine/kept"
	"dsstne/engine/model"
	"dsstne/engine/program"
	"dsstne/engine/tensor"
	"dsstne/internal/fault"
	"dsstne/kernels"
)

// checkValues refuses values that are not finite or less than what a method takes.
func checkValues(data csr.Source, least float64) error {
	row, column, value, found := csr.FirstOutside(data, least, math.MaxFloat64)
	if !found {
		return nil
	}
	limit := ""
	if least > -math.MaxFloat64 {
		limit = fmt.Sprintf(" of at least %g", least)
	}
	return fault.New(fault.InvalidData, "row %d, column %d: the value is %g; this method needs finite values%s",
		row, column, value, limit)
}

// parts is how many parts of a size it takes for n.
func parts(n, size int64) int64 { return (n + size - 1) / size }

// stored takes memory for a dataset in both orders, for csr.Store.
func stored(b *program.Builder, data csr.Source) (byRow, byItem kernels.SparseMatrix) {
	n := data.Statistics().NonZeros
	matrix := func(name string, rows, columns int64) kernels.SparseMatrix {
		return kernels.SparseMatrix{
			Rows: rows, Columns: columns, Offsets: b.Alloc(name, "row offsets", 2*(rows+1)),
			Indices: b.Alloc(name, "indices", n), Values: b.Alloc(name, "values", n),
		}
	}
	return matrix("the matrix by row", data.Rows(), data.Columns()),
		matrix("the matrix by item", data.Columns(), data.Rows())
}

// sums adds up a function of the values of each row.
func sums(m *kernels.SparseMatrix, to []float64, of func(float64) float64) {
	clear(to)
	entries(m, func(row, _ int64, x *float32) { to[row] += of(float64(*x)) })
}

// popularity gives the number of entries of an item.
func popularity(byItem *kernels.SparseMatrix) func(i int) float32 {
	offsets := kernels.View[int64](byItem.Offsets)
	return func(i int) float32 { return float32(offsets[i+1] - offsets[i]) }
}

// powers are the numbers of entries of each row to a power; 0 for a row without any.
func powers(m *kernels.SparseMatrix, exponent float64) []float64 {
	offsets, list := kernels.View[int64](m.Offsets), make([]float64, m.Rows)
	for row := range list {
		if n := offsets[row+1] - offsets[row]; n > 0 {
			list[row] = math.Pow(float64(n), exponent)
		}
	}
	return list
}

// multiply multiplies the entries of a matrix by factors of their rows and items; it rounds once.
func multiply(byRow, byItem *kernels.SparseMatrix, rows, items []float64) {
	entries(byRow, func(u, i int64, x *float32) { *x = float32(rows[u] * float64(*x) * items[i]) })
	entries(byItem, func(i, u int64, x *float32) { *x = float32(rows[u] * float64(*x) * items[i]) })
}

// entries calls each for every entry of a matrix, row by row.
func entries(m *kernels.SparseMatrix, each func(row, column int64, x *float32)) {
	offsets, columns, values := kernels.View[int64](m.Offsets), m.Indices.Int32(), m.Values.Float32()
	for row := range m.Rows {
		for e := offsets[row]; e < offsets[row+1]; e++ {
			each(row, int64(columns[e]), &values[e])
		}
	}
}

// itemWeights makes a model of weights between items from lists of k columns for each item, -1 behind the last; weight
// gives the weight of row i and column j.
func itemWeights(
	byItem *kernels.SparseMatrix, k int64, ids, values kernels.Buffer, weight func(i, j int64, value float32) float32,
) (*model.Model, error) {
	lists, items, entries := ids.Int32(), byItem.Rows, int64(0)
	for _, id := range lists {
		if id >= 0 {
			entries++
		}
	}
	form := &itemweights.Form{Items: items, Weight: itemweights.CSR, Entries: entries, Bias: true, BiasIfEmpty: true}
	return makeItemWeights(form, byItem, func(offsets []int64, columns []int32, weights []float32) {
		at := int64(0)
		for i := range items {
			for n, j := range lists[i*k : (i+1)*k] {
				if j < 0 {
					break
				}
				columns[at], weights[at] = j, weight(i, int64(j), values.Float32()[i*k+int64(n)])
				at++
			}
			offsets[i+1] = at
		}
	})
}

// makeItemWeights makes a model of weights between items, which set fills; they have to be finite. Rows without entries
// are answered by popularity.
func makeItemWeights(
	form *itemweights.Form, byItem *kernels.SparseMatrix, set func(offsets []int64, columns []int32, weights []float32),
) (*model.Model, error) {
	return made(form, func(m *model.Model) error {
		offsets, columns, weights, err := form.Stored().Arrays(m.Tensor)
		if err != nil {
			return err
		}
		set(offsets, columns, weights)
		for at, w := range weights {
			if math.IsInf(float64(w), 0) || w != w {
				row := sort.Search(int(form.Items), func(i int) bool { return offsets[i+1] > int64(at) })
				return fault.New(fault.InvalidData, "the weight of items %d and %d is infinite; scale the values of the data", row,
					columns[at])
			}
		}
		return fill(m, "bias", popularity(byItem))
	})
}

// made creates a model, which it closes again if that cannot be filled.
func made(form model.Form, filled func(*model.Model) error) (*model.Model, error) {
	m, err := model.Create(form, model.Options{})
	if err != nil {
		return nil, err
	}
	if err := filled(m); err != nil {
		_ = m.Close()
		return nil, err
	}
	return m, nil
}

// fill sets the numbers of a tensor.
func fill(m *model.Model, name string, value func(i int) float32) error {
	t, err := m.Tensor(name)
	if err != nil {
		return err
	}
	for i := range t.Float32() {
		t.Float32()[i] = value(i)
	}
	return nil
}

// copyTo sets the numbers of a tensor to those of a buffer.
func copyTo(m *model.Model, name string, from kernels.Buffer) error {
	t, err := m.Tensor(name)
	if err == nil {
		copy(t.Float32(), from.Float32())
	}
	return err
}

// shapeOf is the shape of a matrix that a model keeps. There may be room for more entries: duplicates were added.
func shapeOf(byRow *kernels.SparseMatrix) kept.Data {
	entries := kernels.View[int64](byRow.Offsets)[byRow.Rows]
	return kept.Data{Rows: byRow.Rows, Items: byRow.Columns, Entries: entries}
}

// copyData copies a matrix to a model that keeps it.
func copyData(m *model.Model, shape kept.Data, byRow, byItem *kernels.SparseMatrix) error {
	for to, from := range map[tensor.Stored]*kernels.SparseMatrix{shape.ByRow(): byRow, shape.ByItem(): byItem} {
		offsets, indices, values, err := to.Arrays(m.Tensor)
		if err != nil {
			return err
		}
		copy(offsets, kernels.View[int64](from.Offsets))
		copy(indices, from.Indices.Int32())
		copy(values, from.Values.Float32())
	}
	return nil
}
