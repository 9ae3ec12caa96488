package conformance

import (
	"math"

	"dsstne/kernels"
)

// normed are the numbers of a Norm on the host.
type normed struct {
	mean, variance, scale []float32
	epsilon               float32
	byRow                 bool
}

// norm draws one of a layer; the moments are those of its units or of its rows.
func (s *sampler) norm(rows, units int64, size float64) normed {
	n := normed{scale: s.normal(units, 1), epsilon: 1e-5, byRow: pick(s, "by row", false, true)}
	if n.byRow {
		units = rows
	}
	n.mean, n.variance = s.normal(units, size), s.normal(units, size)
	for k, x := range n.variance {
		n.variance[k] = float32(math.Min(float64(x)*float64(x), math.MaxFloat32/2))
	}
	if pick(s, "constant", false, false, true) {
		clear(n.variance)
	}
	return n
}

func (n *normed) place(p *place) kernels.Norm {
	return kernels.Norm{
		Mean: p.floats(n.mean), Variance: p.floats(n.variance), Scale: p.floats(n.scale), Epsilon: n.epsilon, ByRow: n.byRow,
	}
}

// at is the place of the moments of an element of [B, units].
func (n *normed) at(element int) int {
	if units := len(n.scale); n.byRow {
		return element / units
	} else {
		return element % units
	}
}

// inverse is 1 / sqrt(variance + epsilon) of an element.
func (n *normed) inverse(element int) float64 {
	return 1 / math.Sqrt(float64(n.variance[n.at(element)])+float64(n.epsilon))
}

// xhat is a centred number, and how far it may be off: the difference has its roundoff, and the root and its reciprocal
// some more.
func (n *normed) xhat(x float32, element int) (value, off float64) {
	inverse := n.inverse(element)
	value = (float64(x) - float64(n.mean[n.at(element)])) * inverse
	return value, 6*unit*math.Abs(value) + underflow*(1+3*inverse)
}

// unitMomentsCase is a UnitMoments.
type unitMomentsCase struct {
	title string
	step  *kernels.Step
	x     []float32
	units int64
}

func (c *unitMomentsCase) name() string { return c.title }

func (c *unitMomentsCase) run(d kernels.Device) (r result, err error) {
	p := &place{device: d}
	defer p.free()
	op := &kernels.UnitMoments{X: p.guarded(c.x, c.units), Units: c.units}
	op.Moments = p.guarded(make([]float32, op.Size()), 1)
	err = d.UnitMoments(op, c.step)
	r.add("moments", op.Moments)
	return r, err
}

func (c *unitMomentsCase) bounds() map[string][]float64 {
	bounds := make([]float64, 2*c.units)
	for k := range c.units {
		x := make([]float32, c.step.Rows)
		for u := range x {
			x[u] = c.x[int64(u)*c.units+k]
		}
		bounds[k], bounds[c.units+k] = momentsBound(x)
	}
	return map[string][]float64{"moments": bounds}
}

// momentsBound is how far a mean of numbers may be off, and the sum of the squared deviations: a mean that is off by e
// moves a square by 2 |d| e + e^2.
func momentsBound(x []float32) (mean, squares float64) {
	var total, of sum
	for _, x := range x {
		total.product(1, float64(x))
	}
	middle := total.value / float64(len(x))
	off := (total.bound()+2*unit*math.Abs(total.value))/float64(len(x)) + underflow
	for _, x := range x {
		d := math.Abs(float64(x) - middle)
		of.add(d*d, d*d, 2*(d+off)*(off+2*unit*(d+off))+off*off+underflow)
	}
	return off, of.bound()
}

func unitMomentsCases() (cases []opCase) {
	s := newSampler(61)
	for range 32 {
		cases = append(cases, s.moments())
	}
	s.covered()
	return cases
}

// moments draws the numbers of a layer.
func (s *sampler) moments() *unitMomentsCase {
	shape := pick(s, "shape", layerShapes...)
	c := &unitMomentsCase{step: s.step(kernels.Optimizer{}, shape[0]), units: shape[2]}
	size := s.size()
	c.x = s.normal(shape[0]*c.units, size)
	switch pick(s, "mean", "near", "near", "far", "constant") {
	case "far":
		for i := range c.x {
			c.x[i] += float32(1000 * size)
		}
	case "constant":
		for i := range c.x {
			c.x[i] = c.x[int64(i)%c.units]
		}
	}
	c.title = s.title()
	return c
}

// combineMomentsCase is a CombineMoments of parts of a batch.
type combineMomentsCase struct {
	title string
	step  *kernels.Step
	parts []float32
	ranks int64
	units int64
}

func (c *combineMomentsCase) name() string { return c.title }

func (c *combineMomentsCase) run(d kernels.Device) (r result, err error) {
	p := &place{device: d}
	defer p.free()
	op := &kernels.CombineMoments{
		Parts: p.guarded(c.parts, 1), Ranks: c.ranks, Units: c.units, Mean: p.guarded(make([]float32, c.units), 1),
		Variance: p.guarded(make([]float32, c.units), 1),
	}
	err = d.CombineMoments(op, c.step)
	r.add("mean", op.Mean)
	r.add("variance", op.Variance)
	return r, err
}

// bounds: all backends compute in float64 and round once; what cancels in a mean is far below that.
func (c *combineMomentsCase) bounds() map[string][]float64 {
	mean, variance := make([]float64, c.units), make([]float64, c.units)
	for k := range c.units {
		var rows, squares, largest float64
		for r := range c.ranks {
			part := c.parts[r*(2*c.units+1):]
			rows += float64(part[2*c.units])
			largest = max(largest, math.Abs(float64(part[k])))
			squares += float64(part[c.units+k]) + 4*float64(part[k])*float64(part[k])*float64(part[2*c.units])
		}
		mean[k], variance[k] = unit*largest+underflow, unit*squares/max(1, rows)+underflow
	}
	return map[string][]float64{"mean": mean, "variance": variance}
}

func combineMomentsCases() (cases []opCase) {
	s := newSampler(62)
	for range 24 {
		c := &combineMomentsCase{ranks: pick(s, "ranks", int64(1), 2, 5), units: pick(s, "units", int64(1), 8, 129, 1003)}
		size, whole := s.size(), int64(0)
		for r := range c.ranks {
			rows := pick(s, "rows", int64(7), 1, 0, 100)
			if r == 0 {
				rows = max(1, rows)
			}
			part := make([]float32, 2*c.units+1)
			if part[2*c.units] = float32(rows); rows > 0 {
				copy(part, s.normal(c.units, size))
				for k, x := range s.normal(c.units, size) {
					part[c.units+int64(k)] = x * x * float32(rows-1)
				}
			}
			c.parts, whole = append(c.parts, part...), whole+rows
		}
		c.step = s.step(kernels.Optimizer{}, whole)
		c.title = s.title()
		cases = append(cases, c)
	}
	s.covered()
	return cases
}

// rowMomentsCase is a RowMoments.
type rowMomentsCase struct{ unitMomentsCase }

func (c *rowMomentsCase) run(d kernels.Device) (r result, err error) {
	p := &place{device: d}
	defer p.free()
	op := &kernels.RowMoments{
		X: p.guarded(c.x, c.units), Units: c.units, Mean: p.guarded(make([]float32, c.step.Rows), 1),
		Variance: p.guarded(make([]float32, c.step.Rows), 1),
	}
	err = d.RowMoments(op, c.step)
	r.add("mean", op.Mean)
	r.add("variance", op.Variance)
	return r, err
}

func (c *rowMomentsCase) bounds() map[string][]float64 {
	mean, variance := make([]float64, c.step.Rows), make([]float64, c.step.Rows)
	for u := range c.step.Rows {
		of, squares := momentsBound(c.x[u*c.units : (u+1)*c.units])
		mean[u], variance[u] = of, squares/float64(c.units)+underflow
	}
	return map[string][]float64{"mean": mean, "variance": variance}
}

func rowMomentsCases() (cases []opCase) {
	s := newSampler(66)
	for range 32 {
		cases = append(cases, &rowMomentsCase{*s.moments()})
	}
	s.covered()
	return cases
}

// squares draws variances.
func (s *sampler) squares(n int64, size float64) []float32 {
	x := s.normal(n, size)
	for k := range x {
		x[k] *= x[k]
	}
	return x
}

// moveMomentsCase is a MoveMoments.
type moveMomentsCase struct {
	title                                        string
	step                                         *kernels.Step
	mean, variance, runningMean, runningVariance []float32
	momentum                                     float32
}

func (c *moveMomentsCase) name() string { return c.title }

func (c *moveMomentsCase) run(d kernels.Device) (r result, err error) {
	p := &place{device: d}
	defer p.free()
	op := &kernels.MoveMoments{
		Units: int64(len(c.mean)), Mean: p.floats(c.mean), Variance: p.floats(c.variance), Momentum: c.momentum,
		RunningMean: p.guarded(c.runningMean, 1), RunningVariance: p.guarded(c.runningVariance, 1),
	}
	err = d.MoveMoments(op, c.step)
	r.add("mean", op.RunningMean)
	r.add("variance", op.RunningVariance)
	return r, err
}

func (c *moveMomentsCase) bounds() map[string][]float64 {
	of := func(running, batch []float32) []float64 {
		bounds := make([]float64, len(running))
		for k := range bounds {
			bounds[k] = 4*unit*max(math.Abs(float64(running[k])), math.Abs(float64(batch[k]))) + underflow
		}
		return bounds
	}
	return map[string][]float64{"mean": of(c.runningMean, c.mean), "variance": of(c.runningVariance, c.variance)}
}

func moveMomentsCases() (cases []opCase) {
	s := newSampler(63)
	for range 12 {
		units, size := pick(s, "units", int64(1), 8, 129, 1003), s.size()
		c := &moveMomentsCase{step: s.step(kernels.Optimizer{}, 7), momentum: pick(s, "momentum", float32(0.1), 0, 1)}
		c.mean, c.runningMean = s.normal(units, size), s.normal(units, size)
		c.variance, c.runningVariance = s.squares(units, size), s.squares(units, size)
		c.title = s.title()
		cases = append(cases, c)
	}
	s.covered()
	return cases
}

// normSumsCase is a NormSums.
type normSumsCase struct {
	title string
	step  *kernels.Step
	dy, x []float32
	norm  normed
	units int64
}

func (c *normSumsCase) name() string { return c.title }

func (c *normSumsCase) run(d kernels.Device) (r result, err error) {
	p := &place{device: d}
	defer p.free()
	op := &kernels.NormSums{
		DY: p.guarded(c.dy, c.units), X: p.guarded(c.x, c.units), Norm: c.norm.place(p), Units: c.units,
		Sums: p.guarded(make([]float32, 2*c.units), 1),
	}
	err = d.NormSums(op, c.step)
	r.add("sums", op.Sums)
	return r, err
}

func (c *normSumsCase) bounds() map[string][]float64 {
	sums := make([]sum, 2*c.units)
	for n, dy := range c.dy {
		k := int64(n) % c.units
		xhat, off := c.norm.xhat(c.x[n], n)
		sums[k].product(1, float64(dy))
		sums[c.units+k].add(float64(dy)*xhat, math.Abs(float64(dy)*xhat), math.Abs(float64(dy))*off+underflow*(1+math.Abs(xhat)))
	}
	return map[string][]float64{"sums": boundsOf(sums)}
}

func normSumsCases() (cases []opCase) {
	s := newSampler(64)
	for range 24 {
		shape := pick(s, "shape", layerShapes...)
		c := &normSumsCase{step: s.step(kernels.Optimizer{}, shape[0]), units: shape[2]}
		size := s.size()
		c.dy, c.x, c.norm = s.normal(shape[0]*c.units, s.size()), s.normal(shape[0]*c.units, size), s.norm(shape[0], c.units, size)
		c.title = s.title()
		cases = append(cases, c)
	}
	s.covered()
	return cases
}

// normBackwardCase is a NormBackward.
type normBackwardCase struct {
	normSumsCase
	parts       []float32 // [ranks, 2, units]
	ranks, rank int64
	constant    bool
	scale       *weight
	optimizer   kernels.Optimizer
}

func (c *normBackwardCase) run(d kernels.Device) (r result, err error) {
	p := &place{device: d}
	defer p.free()
	op := &kernels.NormBackward{
		DY: p.guarded(c.dy, c.units), X: p.guarded(c.x, c.units), Norm: c.norm.place(p), Units: c.units,
		Parts: p.guarded(c.parts, 1), Ranks: c.ranks, Rank: c.rank, Constant: c.constant, Scale: c.scale.place(p),
		Optimizer: c.optimizer,
	}
	op.Norm.Scale = op.Scale.Value
	err = d.NormBackward(op, c.step)
	r.add("dy", op.DY)
	r.add("x", op.X)
	r.addWeights(op.Scale)
	return r, err
}

// meansAt are the means of g and of g xhat that an element's gradient is less by, and how far they may be off.
func (c *normBackwardCase) meansAt(element int) (means, offs [2]float64) {
	k := int64(element) % c.units
	if !c.norm.byRow {
		for r := int64(0); r < c.ranks && !c.constant; r++ {
			for which := range int64(2) {
				part := float64(c.parts[(2*r+which)*c.units+k]) / float64(c.step.WholeRows())
				means[which] += math.Abs(float64(c.scale.value[k])) * part
			}
		}
		return means, offs
	}
	var sums [2]sum
	first := element - int(k)
	for n := first; n < first+int(c.units); n++ {
		g := float64(c.dy[n]) * float64(c.scale.value[n-first])
		xhat, off := c.norm.xhat(c.x[n], n)
		sums[0].add(g, math.Abs(g), unit*math.Abs(g)+underflow)
		sums[1].add(g*xhat, math.Abs(g*xhat), math.Abs(g)*(off+2*unit*math.Abs(xhat))+underflow*(1+math.Abs(xhat)))
	}
	for which := range sums {
		means[which], offs[which] = sums[which].value/float64(c.units), sums[which].bound()/float64(c.units)
	}
	return means, offs
}

func (c *normBackwardCase) bounds() map[string][]float64 {
	bounds := make([]float64, len(c.dy))
	for n, dy := range c.dy {
		scale, inverse := math.Abs(float64(c.scale.value[int64(n)%c.units])), c.norm.inverse(n)
		xhat, off := c.norm.xhat(c.x[n], n)
		means, offs := c.meansAt(n)
		size := scale*math.Abs(float64(dy)) + math.Abs(means[0]) + math.Abs(xhat*means[1])
		of := size*8*unit + off*math.Abs(means[1]) + offs[0] + math.Abs(xhat)*offs[1]
		bounds[n] = of*inverse + underflow*(1+inverse)
	}
	to := map[string][]float64{"dy": bounds}
	r := ruleOf(c.optimizer, c.step.RatesOf(c.step.Number), c.scale.noDecay)
	c.scale.updateBounds(to, r, func(k int64) (float64, float64, bool) {
		return float64(c.parts[(2*c.rank+1)*c.units+k]), 0, true
	})
	return to
}

func normBackwardCases() (cases []opCase) {
	s := newSampler(65)
	for range 32 {
		shape := pick(s, "shape", layerShapes...)
		c := &normBackwardCase{optimizer: s.optimizer(), ranks: pick(s, "ranks", int64(1), 3)}
		c.step, c.units, c.rank = s.step(c.optimizer, shape[0]), shape[2], c.ranks-1
		size := pick(s, "size", 1.0, 1e4, 1e-3)
		c.dy, c.x, c.norm = s.normal(shape[0]*c.units, 1), s.normal(shape[0]*c.units, size), s.norm(shape[0], c.units, size)
		c.parts, c.constant = s.normal(2*c.ranks*c.units, 1), pick(s, "constant", false, false, true)
		c.scale = s.weight("scale", c.units, 1, 1, c.optimizer)
		c.scale.noDecay = pick(s, "exempt", true, false)
		c.scale.written = pick(s, "written", false, true)
		c.title = s.title()
		cases = append(cases, c)
		if len(cases)%4 == 0 {
			locked := *c
			locked.title, locked.scale = c.title+", locked", c.scale.asLocked()
			cases = append(cases, &locked)
		}
	}
	s.covered()
	return cases
}
