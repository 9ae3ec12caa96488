package solve

import (
	"fmt"
	"math"
	"slices"

	"dsstne/engine/csr"
	"dsstne/engine/itemweights"
	"dsstne/engine/model"
	"dsstne/engine/program"
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
// gives the weight of row i and column j. Rows without entries are answered by popularity.
func itemWeights(
	byItem *kernels.SparseMatrix, k int64, ids, values kernels.Buffer, weight func(i, j int64, value float32) float32,
) (*model.Model, error) {
	columns := ids.Int32()
	items, filled := int64(len(columns))/k, int64(0)
	for _, id := range columns {
		if id >= 0 {
			filled++
		}
	}
	form := &itemweights.Form{Items: items, Weight: itemweights.CSR, Entries: filled, Bias: true, BiasIfEmpty: true}
	m, err := model.Create(form, model.Options{})
	if err != nil {
		return nil, err
	}
	offsets, indices, weights, err := form.Stored().Arrays(m.Tensor)
	if err != nil {
		return nil, err
	}
	popularity, err := m.Tensor("bias")
	if err != nil {
		return nil, err
	}
	for i := range items {
		popularity.Float32()[i] = float32(length(byItem, i))
		list := columns[i*k : (i+1)*k]
		if end := slices.Index(list, -1); end >= 0 {
			list = list[:end]
		}
		at := offsets[i]
		offsets[i+1] = at + int64(len(list))
		copy(indices[at:], list)
		for n, j := range list {
			w := weight(i, int64(j), values.Float32()[i*k+int64(n)])
			if math.IsInf(float64(w), 0) || w != w {
				_ = m.Close()
				return nil, fault.New(fault.InvalidData, "the weight of items %d and %d is %v; scale the values of the data",
					i, j, w)
			}
			weights[at+int64(n)] = w
		}
	}
	return m, nil
}
