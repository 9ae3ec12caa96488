package conformance

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/internal/random"
	"dsstne/kernels"
)

// sampleCase is a Sample, or with a gradient dh a SampleBackward.
type sampleCase struct {
	title     string
	step      *kernels.Step
	heads, dh []float32 // [B, 2 units], [B, units]
	units     int64
	weight    float32
	silent    bool
}

func (c *sampleCase) name() string { return c.title }

const sampleStream = random.StreamNoise | 3

func (c *sampleCase) run(d kernels.Device) (r result, err error) {
	p := &place{device: d}
	defer p.free()
	step, heads := fresh(c.step), p.guarded(c.heads, 2*c.units)
	if c.dh == nil {
		op := &kernels.Sample{Heads: heads, Units: c.units, Stream: sampleStream}
		op.Out = p.guarded(make([]float32, c.step.Rows*c.units), c.units)
		err = d.Sample(op, step)
		r.add("heads", heads)
		r.add("out", op.Out)
		return r, err
	}
	op := &kernels.SampleBackward{
		Heads: heads, DH: p.guarded(c.dh, c.units), Units: c.units, Stream: sampleStream, Weight: c.weight, Term: 1,
		Silent: c.silent,
	}
	op.Workspace = p.workspace(op, c.step.Most())
	err = d.SampleBackward(op, step)
	r.add("heads", heads)
	r.add("dh", op.DH)
	return append(r, field{"loss", step.Loss}), err
}

// bounds: an exponential has the error of the function, and everything else a few roundings.
func (c *sampleCase) bounds() map[string][]float64 {
	out, heads := make([]float64, len(c.heads)/2), make([]float64, len(c.heads))
	w := float64(c.step.TermWeight(1, kernels.Loss{Weight: c.weight})) / float64(c.step.WholeRows())
	total, of := 0.0, 4*functionError
	for u := range c.step.Rows {
		e := make([]float32, c.units)
		random.Noise(e, c.step.Seed, sampleStream, c.step.Number, c.step.First+u)
		for k := range c.units {
			m, v := float64(c.heads[2*u*c.units+k]), float64(c.heads[(2*u+1)*c.units+k])
			deviation, variance, n := math.Exp(v/2), math.Exp(v), u*c.units+k
			if c.step.Training {
				out[n] = of*(math.Abs(m)+deviation*math.Abs(float64(e[k]))) + underflow
			}
			if c.dh == nil {
				continue
			}
			g := math.Abs(float64(c.dh[n]))
			heads[2*u*c.units+k] = of*(g+w*math.Abs(m)) + underflow
			heads[(2*u+1)*c.units+k] = of*(g*math.Abs(float64(e[k]))*deviation+w*(variance+1)) + underflow
			total += of * w * (m*m + variance + 1 + math.Abs(v))
		}
	}
	if c.dh == nil {
		return map[string][]float64{"out": out}
	}
	return map[string][]float64{"heads": heads, "loss": {0, total + underflow}}
}

func sampleCases(backward bool) (cases []opCase) {
	s := newSampler(53)
	for range 32 {
		shape := pick(s, "shape", layerShapes...)
		rows, units := shape[0], shape[2]
		c := &sampleCase{step: s.step(kernels.Optimizer{}, rows), units: units}
		c.heads = s.normal(2*rows*units, pick(s, "size", 1.0, 1e-20, 20))
		for n := range c.heads {
			c.heads[n] = min(c.heads[n], 80)
		}
		c.step.First = pick(s, "first", int64(0), 5)
		if backward {
			c.dh = s.normal(rows*units, 1)
			c.weight, c.silent = pick(s, "weight", float32(0.2), 1, 0), pick(s, "silent", false, false, true)
		} else {
			c.step.Training = pick(s, "training", true, true, false)
		}
		c.title = s.title()
		cases = append(cases, c)
	}
	s.covered()
	return cases
}

func TestALogVarianceBeyondTheLargestIsNoNumber(t *testing.T) {
	forEveryBackend(t, func(t *testing.T, open opener) {
		for _, v := range []float32{89, float32(math.Inf(1)), float32(math.NaN()), 1e30} {
			c := &sampleCase{step: newSampler(1).step(kernels.Optimizer{}, 1), units: 1, weight: 1}
			c.heads, c.dh = []float32{0, v}, []float32{0}
			_, err := c.run(open(1))
			var notFinite *kernels.NotFiniteError
			require.ErrorAs(t, err, &notFinite)
		}
	})
}

// The noise moves units by the deviation: its mean over many is 0, its deviation that of the heads.
func TestSampledUnitsHaveTheMeanAndTheVarianceOfTheHeads(t *testing.T) {
	const rows, units = 64, 257
	forEveryBackend(t, func(t *testing.T, open opener) {
		c := &sampleCase{step: newSampler(2).step(kernels.Optimizer{}, rows), units: units}
		for range rows {
			c.heads = append(c.heads, slices.Repeat([]float32{3}, units)...)
			c.heads = append(c.heads, slices.Repeat([]float32{float32(math.Log(4))}, units)...)
		}
		r, err := c.run(open(1))
		require.NoError(t, err)
		mean, square := 0.0, 0.0
		out := r[slices.IndexFunc(r, func(f field) bool { return f.name == "out" })].data[:rows*units]
		for _, x := range out {
			mean += x / rows / units
			square += (x - 3) * (x - 3) / rows / units
		}
		require.InDelta(t, 3, mean, 4*2/math.Sqrt(rows*units))
		require.InDelta(t, 4, square, 4*4*math.Sqrt(2.0/rows/units))
	})
}
