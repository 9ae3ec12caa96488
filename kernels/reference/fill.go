package reference

import (
	"dsstne/engine/random"
	"dsstne/kernels"
)

// Fill writes initial numbers.
func (device) Fill(op *kernels.Fill) error {
	for r := range op.Rows {
		row := rowOf(op.Out, r, op.Columns)
		switch op.Kind {
		case kernels.FillUniform:
			random.FillUniform(row, op.Seed, op.Stream, r, -op.Scale, op.Scale)
		case kernels.FillNormal:
			random.FillNormal(row, op.Seed, op.Stream, r, 0, op.Scale)
		default:
			for k := range row {
				row[k] = op.Scale
			}
		}
	}
	return nil
}
