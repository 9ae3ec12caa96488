package reference

import "dsstne/kernels"

// CopyMatrix copies or adds a matrix.
func (device) CopyMatrix(op *kernels.CopyMatrix, _ *kernels.Step) error {
	in, out := op.In.Float32(), op.Out.Float32()
	for i := range op.Rows {
		for j := range op.Columns {
			x, to := in[i*op.Columns+j], &out[i*op.Columns+j]
			if op.Transposed {
				x = in[j*op.Rows+i]
			}
			if op.Accumulate {
				x = float32(float64(*to) + float64(x))
			}
			*to = x
		}
	}
	return nil
}
