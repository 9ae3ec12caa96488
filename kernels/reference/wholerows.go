package reference

import (
	"math"
	"slices"

	"dsstne/kernels"
)

// SoftmaxRows replaces sums by their soft-max.
func (device) SoftmaxRows(op *kernels.SoftmaxRows, step *kernels.Step) error {
	for u := range step.Rows {
		x, total := rowOf(op.X, u, op.Units), 0.0
		most := float64(slices.Max(x))
		for _, z := range x {
			total += math.Exp(float64(z) - most)
		}
		for k, z := range x {
			x[k] = float32(math.Exp(float64(z)-most) / total)
		}
	}
	return nil
}

// SoftmaxRowsBackward goes back through a SoftmaxRows.
func (device) SoftmaxRowsBackward(op *kernels.SoftmaxRowsBackward, step *kernels.Step) error {
	for u := range step.Rows {
		a, dh := rowOf(op.H, u, op.Units), rowOf(op.DH, u, op.Units)
		g, along := make([]float64, op.Units), 0.0
		for k := range g {
			if g[k] = float64(dh[k]); op.Shift != nil {
				g[k] += float64(op.Shift.Float32()[k])
			}
			along += float64(a[k]) * g[k]
		}
		for k := range g {
			dh[k] = float32(float64(a[k]) * (g[k] - along))
		}
	}
	return nil
}

// CapRows scales rows of a gradient that are too long.
func (device) CapRows(op *kernels.CapRows, step *kernels.Step) error {
	limit := op.Limit(step)
	for u := range step.Rows {
		dz := rowOf(op.DZ, u, op.Units)
		norm := math.Sqrt(kernels.Dot(dz, dz))
		if norm <= limit {
			continue
		}
		for k, x := range dz { // one is NaN if the norm is not finite
			dz[k] = float32(float64(x) * (limit / norm))
		}
	}
	return nil
}
