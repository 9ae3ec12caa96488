package reference

import (
	"math"

	"dsstne/internal/random"
	"dsstne/kernels"
)

// noise is the standard normal numbers of a row.
func noise(step *kernels.Step, stream uint32, u, units int64) []float32 {
	e := make([]float32, units)
	random.Noise(e, step.Seed, stream, step.Number, step.First+u)
	return e
}

// Sample draws the units.
func (device) Sample(op *kernels.Sample, step *kernels.Step) error {
	for u := range step.Rows {
		heads, out := rowOf(op.Heads, u, 2*op.Units), rowOf(op.Out, u, op.Units)
		copy(out, heads)
		if !step.Training {
			continue
		}
		for k, e := range noise(step, op.Stream, u, op.Units) {
			out[k] = float32(float64(heads[k]) + math.Exp(float64(heads[op.Units+int64(k)])/2)*float64(e))
		}
	}
	return nil
}

// SampleBackward makes the gradients of the heads and the divergence.
func (device) SampleBackward(op *kernels.SampleBackward, step *kernels.Step) error {
	w := float64(step.TermWeight(op.Term, kernels.Loss{Weight: op.Weight})) / float64(step.WholeRows())
	total := 0.0
	for u := range step.Rows {
		dh, heads := rowOf(op.DH, u, op.Units), rowOf(op.Heads, u, 2*op.Units)
		means, logs := heads[:op.Units], heads[op.Units:]
		for k, e := range noise(step, op.Stream, u, op.Units) {
			m, v, g := float64(means[k]), float64(logs[k]), float64(dh[k])
			variance := math.Exp(v)
			if v > kernels.MaxLogVariance {
				variance = math.Inf(1)
			}
			total += (m*m + variance - 1 - v) / 2
			dm, dv := g+w*m, g*float64(e)*math.Exp(v/2)/2+w*(variance-1)/2
			if !finite(dm) || !finite(dv) {
				return &kernels.NotFiniteError{Tensor: op.Name, What: "gradient", Row: -1}
			}
			means[k], logs[k] = float32(dm), float32(dv)
		}
	}
	if total *= w; !finite(total) {
		return &kernels.NotFiniteError{Tensor: op.Name, What: "loss", Row: -1}
	}
	if !op.Silent {
		step.Loss[op.Term] += total
	}
	return nil
}
