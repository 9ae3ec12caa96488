package reference

import (
	"math"

	"dsstne/kernels"
)

// deviation is the divisor of a unit: sqrt(variance + Epsilon).
func deviation(n *kernels.Norm, k int64) float64 {
	return math.Sqrt(float64(n.Variance.Float32()[k]) + float64(n.Epsilon))
}

// centred is xhat of a number of a unit.
func centred(n *kernels.Norm, k int64, z float32) float64 {
	return (float64(z) - float64(n.Mean.Float32()[k])) / deviation(n, k)
}

// UnitMoments makes two passes.
func (device) UnitMoments(op *kernels.UnitMoments, step *kernels.Step) error {
	moments := op.Moments.Float32()[:op.Size()]
	means, squares := make([]float64, op.Units), make([]float64, op.Units)
	for u := range step.Rows {
		addScaled(means, 1/float64(step.Rows), rowOf(op.X, u, op.Units))
	}
	for u := range step.Rows {
		for k, x := range rowOf(op.X, u, op.Units) {
			d := float64(x) - means[k]
			squares[k] += d * d
		}
	}
	copy(moments, rounded(means))
	copy(moments[op.Units:], rounded(squares))
	moments[2*op.Units] = float32(step.Rows)
	return nil
}

// CombineMoments combines the parts of the ranks.
func (device) CombineMoments(op *kernels.CombineMoments, _ *kernels.Step) error { return op.Apply() }

// MoveMoments moves the running moments.
func (device) MoveMoments(op *kernels.MoveMoments, _ *kernels.Step) error { return op.Apply() }

// NormSums adds up dy and dy xhat.
func (device) NormSums(op *kernels.NormSums, step *kernels.Step) error {
	sums := make([]float64, 2*op.Units)
	for u := range step.Rows {
		x := rowOf(op.X, u, op.Units)
		for k, dy := range rowOf(op.DY, u, op.Units) {
			sums[k] += float64(dy)
			sums[int(op.Units)+k] += float64(dy) * centred(&op.Norm, int64(k), x[k])
		}
	}
	copy(op.Sums.Float32(), rounded(sums))
	return nil
}

// NormBackward goes back through the normalisation and updates the scale.
func (device) NormBackward(op *kernels.NormBackward, step *kernels.Step) error {
	n := &op.Norm
	means := make([]float64, 2*op.Units)
	if !op.Constant {
		for r := range op.Ranks {
			addScaled(means, 1/float64(step.WholeRows()), rowOf(op.Parts, r, 2*op.Units))
		}
	}
	for u := range step.Rows {
		x, dy := rowOf(op.X, u, op.Units), rowOf(op.DY, u, op.Units)
		for k := range dy {
			g := float64(dy[k]) - means[k] - centred(n, int64(k), x[k])*means[int(op.Units)+k]
			dz := g * float64(n.Scale.Float32()[k]) / deviation(n, int64(k))
			if !finite(dz) {
				return &kernels.NotFiniteError{Tensor: op.Scale.Name, What: "the gradient", Row: -1}
			}
			dy[k] = float32(dz)
		}
	}
	if op.Scale.Locked {
		return nil
	}
	for k, g := range op.Own().Float32()[:op.Units] {
		if err := update(op.Scale, op.Optimizer, step, int64(k), []float64{float64(g)}); err != nil {
			return err
		}
	}
	return nil
}
