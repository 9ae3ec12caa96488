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

// length is the number of entries of a row.
func length(m *kernels.SparseMatrix, row int64) int64 {
	offsets := kernels.View[int64](m.Offsets)
	return offsets[row+1] - offsets[row]
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
	popularity := func(i int) float32 { return float32(length(byItem, int64(i))) }
	return makeItemWeights(form, popularity, func(offsets []int64, columns []int32, weights []float32) {
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
	form *itemweights.Form, popularity func(i int) float32, set func(offsets []int64, columns []int32, weights []float32),
) (*model.Model, error) {
	m, err := model.Create(form, model.Options{})
	if err != nil {
		return nil, err
	}
	offsets, columns, weights, err := form.Stored().Arrays(m.Tensor)
	if err == nil {
		set(offsets, columns, weights)
		err = fill(m, "bias", popularity)
	}
	for at, w := range weights {
		if err == nil && (math.IsInf(float64(w), 0) || w != w) {
			row := sort.Search(int(form.Items), func(i int) bool { return offsets[i+1] > int64(at) })
			err = fault.New(fault.InvalidData, "the weight of items %d and %d is infinite; scale the values of the data", row,
				columns[at])
		}
	}
	if err != nil {
		_ = m.Close()
		return nil, err
	}
	return m, nil
}

// shapeOf is the shape of a matrix that a model keeps. There may be room for more entries: duplicates were added.
func shapeOf(byRow *kernels.SparseMatrix) kept.Data {
	entries := kernels.View[int64](byRow.Offsets)[byRow.Rows]
	return kept.Data{Rows: byRow.Rows, Items: byRow.Columns, Entries: entries}
}

// keepData makes a model of a form that keeps a matrix, and copies that.
func keepData(form model.Form, shape kept.Data, byRow, byItem *kernels.SparseMatrix) (*model.Model, error) {
	m, err := model.Create(form, model.Options{})
	if err != nil {
		return nil, err
	}
	for to, from := range map[tensor.Stored]*kernels.SparseMatrix{shape.ByRow(): byRow, shape.ByItem(): byItem} {
		offsets, indices, values, err := to.Arrays(m.Tensor)
		if err != nil {
			_ = m.Close()
			return nil, err
		}
		copy(offsets, kernels.View[int64](from.Offsets))
		copy(indices, from.Indices.Int32())
		copy(values, from.Values.Float32())
	}
	return m, nil
}
