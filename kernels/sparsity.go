package kernels

import (
	"fmt"
	"math"
)

// UnitSums adds up each unit of a layer over the batch: Sums[k] = sum over u of X[u,k].
type UnitSums struct {
	Name  string // of the layer
	X     Buffer // [B, Units]
	Units int64
	Sums  Buffer // [Units]
}

func (o *UnitSums) Do(r Rank, s *Step) error { return r.Device.UnitSums(o, s) }
func (o *UnitSums) String() string           { return "UnitSums " + o.Name }

// Work: it reads X.
func (o *UnitSums) Work(s *Sizes) Work { return Work{Bytes: numbers(s.Rows, o.Units)} }

// Sparsity is a penalty on the mean m of each unit over the batch: its Kullback-Leibler divergence from Mean, which
// keeps units off for most rows (Ng, "Sparse autoencoder", CS294A lecture notes, 2011). With p = Mean and m_k = Sums[k]
// over Step.WholeRows(), but at least 1e-6 and at most 1 - 1e-6,
//
//	loss    = Weight sum over k of p ln(p/m_k) + (1-p) ln((1-p)/(1-m_k))      added to Step.Loss[Term]
//	Sums[k] = Weight / Step.WholeRows() (-p/m_k + (1-p)/(1-m_k))              what Backward adds to dL/dh
type Sparsity struct {
	Name   string // of the layer, for error messages
	Units  int64
	Sums   Buffer  // [Units], in: those of UnitSums over all ranks
	Mean   float32 // 0 <= p <= 1
	Weight float32
	Term   int
	Silent bool // another rank adds the loss
}

func (o *Sparsity) Do(r Rank, s *Step) error { return r.Device.Sparsity(o, s) }
func (o *Sparsity) String() string {
	return fmt.Sprintf("Sparsity %s, mean %g, weight %g", o.Name, o.Mean, o.Weight)
}

// Work: it reads and writes a number for each unit.
func (o *Sparsity) Work(*Sizes) Work { return Work{Bytes: 2 * numbers(float64(o.Units), 1)} }

// leastMean is the least mean that Sparsity tells from 0.
const leastMean = 1e-6

// Penalty is the penalty of a unit with a sum, without Weight, and its derivative by the mean.
func (o *Sparsity) Penalty(sum, rows float64) (loss, slope float64) {
	p, m := float64(o.Mean), max(leastMean, min(1-leastMean, sum/rows))
	return xLogRatio(p, m) + xLogRatio(1-p, 1-m), (1-p)/(1-m) - p/m
}

// xLogRatio is x ln(x/y), 0 for x = 0.
func xLogRatio(x, y float64) float64 {
	if x == 0 {
		return 0
	}
	return x * math.Log(x/y)
}

// Apply computes the op where the host reaches the sums.
func (o *Sparsity) Apply(s *Step) error {
	sums, rows, total := o.Sums.Float32()[:o.Units], float64(s.WholeRows()), 0.0
	for k, sum := range sums {
		loss, slope := o.Penalty(float64(sum), rows)
		total += loss + 0*float64(sum) // which is not finite where the sum is not
		sums[k] = float32(float64(o.Weight) * slope / rows)
	}
	if total *= float64(o.Weight); math.IsNaN(total) || math.IsInf(total, 0) {
		return &NotFiniteError{Tensor: "loss", What: "loss", Row: -1}
	}
	if !o.Silent {
		s.Loss[o.Term] += total
	}
	return nil
}
