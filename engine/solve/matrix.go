package solve

import (
	"fmt"
	"math"

	"dsstne/engine/csr"
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
