package reference

import (
	"dsstne/internal/random"
	"dsstne/kernels"
)

// fills write a row.
var fills = map[kernels.FillKind]func(op *kernels.Fill, r int64, row []float32){
	kernels.FillConstant: func(op *kernels.Fill, _ int64, row []float32) {
		for k := range row {
			row[k] = op.Scale
		}
	},
	kernels.FillUniform: func(op *kernels.Fill, r int64, row []float32) {
		random.FillUniform(row, op.Seed, op.Stream, r, -op.Scale, op.Scale)
	},
	kernels.FillNormal: func(op *kernels.Fill, r int64, row []float32) {
		random.FillNormal(row, op.Seed, op.Stream, r, 0, op.Scale)
	},
}

func (device) Fill(op *kernels.Fill) error {
	fill, err := kernels.FunctionOf(fills, op.Kind)
	if err != nil {
		return err
	}
	for r := range op.Rows {
		fill(op, r, rowOf(op.Out, r, op.Columns))
	}
	return nil
}
