package conformance

import (
	"math"

	"dsstne/kernels"
)

// unitSumsCase is a UnitSums.
type unitSumsCase struct {
	title string
	step  *kernels.Step
	x     []float32 // [B, units]
	units int64
}

func (c *unitSumsCase) name() string { return c.title }

func (c *unitSumsCase) run(d kernels.Device) (r result, err error) {
	p := &place{device: d}
	defer p.free()
	op := &kernels.UnitSums{X: p.guarded(c.x, c.units), Units: c.units, Sums: p.guarded(make([]float32, c.units), 1)}
	err = d.UnitSums(op, c.step)
	r.add("sums", op.Sums)
	return r, err
}

func (c *unitSumsCase) bounds() map[string][]float64 {
	sums := make([]sum, c.units)
	for n, x := range c.x {
		sums[int64(n)%c.units].product(1, float64(x))
	}
	return map[string][]float64{"sums": boundsOf(sums)}
}

func unitSumsCases() (cases []opCase) {
	s := newSampler(51)
	for range 24 {
		shape := pick(s, "shape", layerShapes...)
		c := &unitSumsCase{step: s.step(kernels.Optimizer{}, shape[0]), units: shape[2]}
		c.x = s.normal(shape[0]*c.units, s.size())
		c.title = s.title()
		cases = append(cases, c)
	}
	s.covered()
	return cases
}

// sparsityCase is a Sparsity.
type sparsityCase struct {
	title        string
	step         *kernels.Step
	sums         []float32
	mean, weight float32
	silent       bool
}

func (c *sparsityCase) name() string { return c.title }

func (c *sparsityCase) run(d kernels.Device) (r result, err error) {
	p := &place{device: d}
	defer p.free()
	op := &kernels.Sparsity{
		Units: int64(len(c.sums)), Sums: p.guarded(c.sums, 1), Mean: c.mean, Weight: c.weight, Term: 1, Silent: c.silent,
	}
	step := fresh(c.step)
	err = d.Sparsity(op, step)
	r.add("sums", op.Sums)
	return append(r, field{"loss", step.Loss}), err
}

// bounds: the mean m has the roundoff of a quotient, and 1-m that and one of 1. Near its ends m is no better than that.
func (c *sparsityCase) bounds() map[string][]float64 {
	p, rows, total := float64(c.mean), float64(c.step.WholeRows()), 0.0
	slopes := make([]float64, len(c.sums))
	for k, sum := range c.sums {
		m := max(1e-6, min(1-1e-6, float64(sum)/rows))
		ofM, ofRest := 4*unit, 4*unit+3*unit/(1-m) // relative errors
		slopes[k] = float64(c.weight)/rows*(p/m*(ofM+4*unit)+(1-p)/(1-m)*(ofRest+4*unit)) + underflow
		terms := p*(math.Abs(math.Log(max(p, 1e-30)/m))+1) + (1-p)*(math.Abs(math.Log(max(1-p, 1e-30)/(1-m)))+1)
		total += p*ofM + (1-p)*ofRest + 4*functionError*terms
	}
	return map[string][]float64{"sums": slopes, "loss": {0, float64(c.weight)*total + underflow}}
}

func sparsityCases() (cases []opCase) {
	s := newSampler(52)
	for range 24 {
		rows := pick(s, "rows", int64(1), 7, 100)
		c := &sparsityCase{step: s.step(kernels.Optimizer{}, rows), silent: pick(s, "silent", false, false, true)}
		c.mean, c.weight = pick(s, "mean", float32(0.05), 0.5, 0, 1), pick(s, "weight", float32(2), 0.01, 1e-20)
		means := pick(s, "means", "between", "between", "beyond the ends")
		for _, x := range s.normal(pick(s, "units", int64(1), 8, 129, 1003), 1) {
			if means == "between" {
				x = 1 / (1 + float32(math.Exp(-3*float64(x))))
			}
			c.sums = append(c.sums, x*float32(c.step.WholeRows()))
		}
		c.title = s.title()
		cases = append(cases, c)
	}
	s.covered()
	return cases
}
