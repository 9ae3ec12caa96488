package conformance

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/kernels"
)

// momentsCase is a Moments. It has no bounds: sums are defined to the bit.
type momentsCase struct {
	title  string
	op     kernels.Moments // without buffers
	rows   int64
	scores []float32
	stored *kernels.SparseBatch
}

func (c *momentsCase) name() string                 { return c.title }
func (c *momentsCase) bounds() map[string][]float64 { return nil }

func (c *momentsCase) run(d kernels.Device) (r result, err error) {
	p := &place{device: d}
	defer p.free()
	op := c.op
	op.Scores, op.Out = p.guarded(c.scores, op.Items), p.guarded(guards(8*c.rows), 8)
	step := &kernels.Step{
		Number: 1, Rows: c.rows, MaxRows: c.rows + guardRows, Sparse: []*kernels.SparseBatch{nil, c.stored},
	}
	err = d.Moments(&op, step)
	r.addInts("out", integers(contents(op.Out)))
	return r, err
}

// spoilScores makes scores of a kind.
func spoilScores(s *sampler, scores []float32, kind string) {
	for i := range scores {
		switch kind {
		case "equal":
			scores[i] = 0.1
		case "huge":
			scores[i] *= 1e37
		case "tiny":
			scores[i] *= 1e-44
		case "far from 0":
			scores[i] += 1e6
		case "not finite":
			scores[i] = []float32{scores[i], infinite, -infinite, float32(math.NaN())}[s.IntN(4)]
		}
	}
}

var scoreKinds = []string{"normal", "equal", "huge", "tiny", "far from 0", "not finite"}

func momentsCases() (cases []opCase) {
	s := newSampler(131)
	for range 60 {
		shape := pick(s, "shape", [2]int64{1, 1}, [2]int64{3, 255}, [2]int64{7, 256}, [2]int64{33, 1003}, [2]int64{2, 9001})
		c := &momentsCase{rows: shape[0], op: kernels.Moments{Name: "a part", Items: shape[1], Stored: 1}}
		c.op.First = pick(s, "first", int64(0), 5)
		c.scores = s.normal(c.rows*c.op.Items, 1)
		spoilScores(s, c.scores, pick(s, "scores", scoreKinds...))
		c.stored = s.batch(c.rows, c.op.Items+c.op.First+3, pick(s, "stored", "sparse", "gaps", "full", "empty"), false)
		c.title = s.title()
		cases = append(cases, c)
	}
	s.covered()
	return cases
}

// blendCase is a Blend of parts with the moments of their shards. It has no bounds.
type blendCase struct {
	title   string
	op      kernels.Blend // without buffers
	rows    int64
	scores  [][]float32
	moments [][]float64 // nil: none
	weights []float32
}

func (c *blendCase) name() string                 { return c.title }
func (c *blendCase) bounds() map[string][]float64 { return nil }

func (c *blendCase) run(d kernels.Device) (r result, err error) {
	p := &place{device: d}
	defer p.free()
	op := c.op
	op.Parts, op.Weights = nil, p.floats(c.weights)
	for n, scores := range c.scores {
		part := kernels.BlendPart{Scores: p.guarded(scores, op.Items)}
		if c.moments[n] != nil {
			part.Moments = p.floats(kernels.Bits(c.moments[n]))
		}
		op.Parts = append(op.Parts, part)
	}
	op.Out = op.Parts[0].Scores
	err = d.Blend(&op, &kernels.Step{Number: 1, Rows: c.rows, MaxRows: c.rows + guardRows})
	out := contents(op.Out)
	for i, x := range out {
		if x != x { // which NaN it is depends on the CPU
			out[i] = float32(math.NaN())
		}
	}
	r.addFloats("out", out)
	return r, err
}

func blendCases() (cases []opCase) {
	s := newSampler(137)
	for range 60 {
		shape := pick(s, "shape", [2]int64{1, 1}, [2]int64{3, 255}, [2]int64{33, 256}, [2]int64{2, 5003})
		c := &blendCase{rows: shape[0], op: kernels.Blend{Items: shape[1], Shards: pick(s, "shards", int64(1), 2, 5)}}
		c.op.Stride = c.rows + guardRows
		parts := pick(s, "parts", 1, 2, 3, kernels.MaxParts)
		c.weights = s.normal(int64(parts), 1)
		if pick(s, "weights", "normal", "one is 0") != "normal" {
			c.weights[parts-1] = 0
		}
		for range parts {
			scores := s.normal(c.rows*c.op.Items, 1)
			spoilScores(s, scores, pick(s, "scores", scoreKinds...))
			c.scores = append(c.scores, scores)
			c.moments = append(c.moments, c.shards(s, pick(s, "moments", "spread", "spread", "equal", "none", "no items")))
		}
		c.title = s.title()
		cases = append(cases, c)
	}
	s.covered()
	return cases
}

// shards draws moments of the shards of each row.
func (c *blendCase) shards(s *sampler, kind string) []float64 {
	if kind == "none" {
		return nil
	}
	var list []float64
	for range c.op.Shards * c.op.Stride {
		n, origin, sum := float64(s.IntN(50)), s.NormFloat64(), 3*s.NormFloat64()
		switch {
		case kind == "no items" || n == 0:
			list = append(list, 0, 0, 0, 0)
		case kind == "equal":
			list = append(list, n, 7.25, 0, 0)
		default:
			list = append(list, n, origin, sum, sum*sum/n+s.Float64())
		}
	}
	return list
}

// listedCases are some of those of Scores, as operations of a list.
func listedCases() (cases []opCase) {
	for n, c := range append(rankingCases(false), sparseSourceCases(false)...) {
		if n%3 == 0 {
			listed := *c.(*rankingCase)
			listed.inList = true
			cases = append(cases, &listed)
		}
	}
	return cases
}

func TestMomentsAreThoseOfNumPy(t *testing.T) {
	// scores [3, 5, 4, 100, 1] of which item 3 is stored: mean 3.25, deviation sqrt(2.1875)
	d := oracle(t)
	p := &place{device: d}
	defer p.free()
	scores := p.floats([]float32{3, 5, 4, 100, 1})
	moments := p.floats(guards(8))
	stored := batchOf(5, []map[int32]float32{{3: 1}})
	step := &kernels.Step{Number: 1, Rows: 1, Sparse: []*kernels.SparseBatch{stored}}
	require.NoError(t, d.Moments(&kernels.Moments{Items: 5, Scores: scores, Out: moments}, step))
	require.Equal(t, []float64{4, 3, 1, 9}, kernels.View[float64](moments))
	op := &kernels.Blend{Items: 5, Shards: 1, Stride: 1, Parts: []kernels.BlendPart{{Scores: scores, Moments: moments}}}
	mean, factor := op.Standard(&op.Parts[0], 2, 0)
	require.Equal(t, 3.25, mean)
	require.InEpsilon(t, 2/math.Sqrt(2.1875), factor, 1e-15)
}

func TestPartsOfShardsHaveTheMomentsOfTheWhole(t *testing.T) {
	d, s := oracle(t), newSampler(139)
	p := &place{device: d}
	defer p.free()
	scores, stored := s.normal(1000, 1), s.batch(1, 1000, "sparse", false)
	step := &kernels.Step{Number: 1, Rows: 1, Sparse: []*kernels.SparseBatch{stored}}
	standard := func(cuts ...int64) (mean, factor float64) {
		all := p.floats(guards(8 * int64(len(cuts)-1)))
		for n, first := range cuts[:len(cuts)-1] {
			op := &kernels.Moments{Items: cuts[n+1] - first, First: first, Scores: p.floats(scores[first:cuts[n+1]])}
			op.Out = all.Slice(8*int64(n), 8)
			require.NoError(t, d.Moments(op, step))
		}
		op := &kernels.Blend{Shards: int64(len(cuts) - 1), Stride: 1}
		return op.Standard(&kernels.BlendPart{Moments: all}, 1, 0)
	}
	mean, factor := standard(0, 1000)
	shardMean, shardFactor := standard(0, 100, 100, 640, 1000)
	require.InEpsilon(t, mean, shardMean, 1e-12)
	require.InEpsilon(t, factor, shardFactor, 1e-12)
}
