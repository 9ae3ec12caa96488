package c

/*
#include "run.h"
*/
import "C"

import (
	"unsafe"

	"dsstne/kernels"
)

// CopyMatrix copies or adds a matrix.
func (o Ops) CopyMatrix(op *kernels.CopyMatrix, _ *kernels.Step) error {
	a := &C.copy_matrix_t{
		rows: C.int64_t(op.Rows), columns: C.int64_t(op.Columns), in: buffer(op.In), out: buffer(op.Out),
		transposed: flag(op.Transposed), accumulate: flag(op.Accumulate),
	}
	return o.do(&call{alone: op.Rows*op.Columns < short}, unsafe.Pointer(a), nil, C.run_copy_matrix)
}
