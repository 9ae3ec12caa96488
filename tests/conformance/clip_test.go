package conformance

import (
	"math"

	"dsstne/kernels"
)

// clipCase is a ClipNorm.
type clipCase struct {
	title     string
	step      *kernels.Step
	gradients []float32
	limit     float32
}

func (c *clipCase) name() string { return c.title }

func (c *clipCase) run(d kernels.Device) (r result, err error) {
	p := &place{device: d}
	defer p.free()
	op := &kernels.ClipNorm{
		Gradients: p.guarded(c.gradients, 1), Count: int64(len(c.gradients)), Limit: c.limit,
	}
	op.Workspace = p.workspace(op, c.step.Most())
	err = d.ClipNorm(op, c.step)
	r.add("gradients", op.Gradients)
	return r, err
}

// bounds: squares are added in float64, so that a factor has the roundings of a float32 number and of a product. Where the
// norm is close to the limit, the factor is close to 1.
func (c *clipCase) bounds() map[string][]float64 {
	squares := 0.0
	for _, g := range c.gradients {
		squares += float64(g) * float64(g)
	}
	norm, bounds := math.Sqrt(squares), make([]float64, len(c.gradients))
	for i, g := range c.gradients {
		if norm > float64(c.limit)*(1-1e-9) {
			bounds[i] = 3*unit*math.Abs(float64(g))*float64(c.limit)/norm + underflow
		}
	}
	return map[string][]float64{"gradients": bounds}
}

func clipCases() (cases []opCase) {
	s := newSampler(53)
	for range 32 {
		c := &clipCase{step: s.step(kernels.Optimizer{}, 1)}
		c.gradients = s.normal(pick(s, "numbers", int64(1), 3, 64, 1000, 65_537, 300_000), s.size())
		norm := math.Sqrt(kernels.Dot(c.gradients, c.gradients))
		c.limit = float32(norm * pick(s, "limit over norm", 0.5, 1e-3, 0.99, 1.01, 1000))
		if pick(s, "zeros", false, false, false, true) {
			clear(c.gradients)
		}
		c.title = s.title()
		cases = append(cases, c)
	}
	s.covered()
	return cases
}
