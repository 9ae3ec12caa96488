package kernels

import (
	"fmt"
	"math"
)

// MaxParts is the most models that are added up.
const MaxParts = 8

// MomentLanes is how many sums Moments adds side by side.
const MomentLanes = 256

// Moments computes what the mean and the deviation of the scores of each row follow from. Items count that the row has
// not stored in a slot, and whose score is finite. With p the score of the first of them, and d_i = s_i - p for items
// that count and 0 for the others,
//
//	Out[u] = [number of items that count, p, sum of d_i, sum of d_i^2]
//
// in float64; without items, all are 0. Sums are defined to the bit: MomentLanes sums side by side, of which sum l
// takes the items l, l + MomentLanes, ... in this order, squares with a fused multiply-add; then the upper half of the
// sums is added to the lower half until one is left. Scores that are all equal have sums of 0.
type Moments struct {
	Name   string
	Items  int64
	Scores Buffer // [B, Items]
	Stored int    // slot
	First  int64  // how the slot numbers item 0
	Out    Buffer // float64 [B, 4]
}

func (o *Moments) Do(r Rank, s *Step) error { return r.Device.Moments(o, s) }
func (o *Moments) String() string {
	return fmt.Sprintf("Moments of the scores of %s for %d items", o.Name, o.Items)
}

// Blend adds up the scores of models, each standardised row by row with its mean m and deviation d:
//
//	Out[u, i] = sum over parts p of w_p / d_pu (s_pui - m_pu)
//
// in float64, with fused multiply-adds in the order of the parts, rounded once. A part whose scores of a row are all
// equal adds nothing to that row.
type Blend struct {
	Items          int64
	Parts          []BlendPart
	Weights        Buffer // [Parts]
	Shards, Stride int64  // of the moments; Stride is at least B
	Out            Buffer // [B, Items]; may be the scores of a part
}

// BlendPart is what a model adds to a Blend.
type BlendPart struct {
	Scores Buffer // [B, Items]
	// Moments are those of all shards, float64 [Shards, Stride, 4]; nil: m = 0 and d = 1.
	Moments Buffer
}

func (o *Blend) Do(r Rank, s *Step) error { return r.Device.Blend(o, s) }
func (o *Blend) String() string {
	return fmt.Sprintf("Blend the scores of %d models for %d items", len(o.Parts), o.Items)
}

// Standard returns the mean of row u's scores, and w / d for the weight w, or 0 if all are equal. The means m_r and
// squares of shards are combined with the mean m_0 of the first one that has items as origin (Chan, Golub and LeVeque,
// 1979):
//
//	m = m_0 + sum n_r (m_r - m_0) / n;  d^2 = sum [q_r + n_r (m_r - m)^2] / n;  q_r = squares_r - sum_r^2 / n_r
func (o *Blend) Standard(p *BlendPart, weight float32, u int64) (mean, factor float64) {
	if p.Moments == nil {
		return 0, float64(weight)
	}
	moments := View[float64](p.Moments)
	of := func(shard int64) (n, mean, squares float64) {
		at := moments[4*(shard*o.Stride+u):]
		if n = at[0]; n > 0 {
			mean, squares = at[1]+at[2]/n, at[3]-at[2]*at[2]/n
		}
		return
	}
	var count, origin, shift, squares float64
	for r := range o.Shards {
		n, m, _ := of(r)
		if count == 0 {
			origin = m
		}
		shift += float64(n * (m - origin)) // rounded, on every processor
		count += n
	}
	if count == 0 {
		return 0, 0
	}
	mean = origin + shift/count
	for r := range o.Shards {
		n, m, q := of(r)
		squares += q + float64(n*float64((m-mean)*(m-mean)))
	}
	if !(squares > 0) {
		return mean, 0
	}
	return mean, float64(weight) / math.Sqrt(squares/count)
}
