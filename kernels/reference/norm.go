package reference

import (
	"math"

	"dsstne/kernels"
)

// deviation is the divisor of a number of a row and a unit: sqrt(variance + Epsilon).
func deviation(n *kernels.Norm, u, k int64) float64 {
	return math.Sqrt(float64(n.Variance.Float32()[momentOf(n, u, k)]) + float64(n.Epsilon))
}

// momentOf is where the moments of a row and a unit are.
func momentOf(n *kernels.Norm, u, k int64) int64 {
	if n.ByRow {
		return u
	}
	return k
}

// centred is xhat of a number of a row and a unit.
func centred(n *kernels.Norm, u, k int64, z float32) float64 {
	return (float64(z) - float64(n.Mean.Float32()[momentOf(n, u, k)])) / deviation(n, u, k)
}

// RowMoments makes two passes.
func (device) RowMoments(op *kernels.RowMoments, step *kernels.Step) error {
	for u := range step.Rows {
		mean, squares := 0.0, 0.0
		for _, x := range rowOf(op.X, u, op.Units) {
			mean += float64(x) / float64(op.Units)
		}
		for _, x := range rowOf(op.X, u, op.Units) {
			squares += (float64(x) - mean) * (float64(x) - mean)
		}
		op.Mean.Float32()[u], op.Variance.Float32()[u] = float32(mean), float32(squares/float64(op.Units))
	}
	return nil
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
			sums[int(op.Units)+k] += float64(dy) * centred(&op.Norm, u, int64(k), x[k])
		}
	}
	copy(op.Sums.Float32(), rounded(sums))
	return nil
}

// rowMeans are the means of g and g xhat over the units of a row; 0 unless the moments are those of rows.
func rowMeans(n *kernels.Norm, u int64, x, dy []float32) (means [2]float64) {
	for k := range dy {
		if n.ByRow {
			g := float64(n.Scale.Float32()[k]) * float64(dy[k]) / float64(len(dy))
			means[0] += g
			means[1] += g * centred(n, u, int64(k), x[k])
		}
	}
	return means
}

// NormBackward goes back through the normalisation and updates the scale.
func (device) NormBackward(op *kernels.NormBackward, step *kernels.Step) error {
	n := &op.Norm
	means := make([]float64, 2*op.Units)
	if !op.Constant && !n.ByRow {
		for r := range op.Ranks {
			addScaled(means, 1/float64(step.WholeRows()), rowOf(op.Parts, r, 2*op.Units))
		}
	}
	for u := range step.Rows {
		x, dy := rowOf(op.X, u, op.Units), rowOf(op.DY, u, op.Units)
		ofRow := rowMeans(n, u, x, dy)
		for k := range dy {
			scale, xhat := float64(n.Scale.Float32()[k]), centred(n, u, int64(k), x[k])
			dz := scale*(float64(dy[k])-means[k]-xhat*means[int(op.Units)+k]) - ofRow[0] - xhat*ofRow[1]
			dz /= deviation(n, u, int64(k))
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
