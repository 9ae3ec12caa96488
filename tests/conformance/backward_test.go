package conformance

import (
	"math"

	"dsstne/kernels"
)

// backwardCase is a Backward.
type backwardCase struct {
	title     string
	step      *kernels.Step
	units     int64
	shift     []float32 // [units], or nil
	h, dh     []float32
	epilogue  *kernels.Epilogue
	bias      *weight
	optimizer kernels.Optimizer
}

func (c *backwardCase) name() string { return c.title }

func (c *backwardCase) run(d kernels.Device) (r result, err error) {
	p := &place{device: d}
	defer p.free()
	op := &kernels.Backward{
		H: p.guarded(c.h, c.units), DH: p.guarded(c.dh, c.units), Units: c.units, Epilogue: *c.epilogue, Optimizer: c.optimizer,
	}
	if c.bias != nil {
		op.Bias = c.bias.place(p)
		op.Epilogue.Bias = op.Bias.Value
	}
	if c.shift != nil {
		op.Shift = p.floats(c.shift)
	}
	err = d.Backward(op, c.step)
	r.add("h", op.H)
	r.add("dh", op.DH)
	r.addWeights(op.Bias)
	return r, err
}

func (c *backwardCase) bounds() map[string][]float64 {
	sums := make([]sum, c.units)
	bounds := make([]float64, c.step.Rows*c.units)
	for u := range c.step.Rows {
		for k := range c.units {
			n := u*c.units + k
			dz, off := c.dz(u, k)
			bounds[n] = off
			sums[k].add(dz, math.Abs(dz), off)
		}
	}
	to := map[string][]float64{"dh": bounds}
	if c.bias != nil {
		r := ruleOf(c.optimizer, c.step.RatesOf(c.step.Number), c.bias.noDecay)
		c.bias.updateBounds(to, r, func(k int64) (float64, float64, bool) { return sums[k].value, sums[k].bound(), true })
	}
	return to
}

// dz is the gradient by a unit's sum and its bound. A slope made of a = h/scale has the roundoff of a, and where it is a
// difference (1-a, 1-a*a) that of 1.
func (c *backwardCase) dz(u, k int64) (dz, off float64) {
	n := u*c.units + k
	scale := keep(c.epilogue, c.step, u, k)
	if scale == 0 {
		return 0, 0
	}
	dz = float64(c.dh[n]) * scale
	size := math.Abs(dz)
	if c.shift != nil {
		dz += float64(c.shift[k]) * scale
		size += math.Abs(float64(c.shift[k])) * scale
	}
	a := float64(c.h[n])
	if !c.epilogue.Activation.Kind.SlopeNeedsSum() {
		a = (a - alphaShift(c.epilogue, c.step)) / scale
	}
	slope, magnitude := slopeOf(c.epilogue.Activation, a)
	return dz * slope, 8*unit*size*magnitude + underflow*(1+scale)
}

// alphaShift is what alpha dropout adds to units that are kept: p times the magnitude of the lowest value, scaled.
func alphaShift(e *kernels.Epilogue, step *kernels.Step) float64 {
	low, p := shiftOf(e, step), float64(e.Dropout)
	return p * low / math.Sqrt((1-p)+low*low*p*(1-p))
}

func backwardCases() (cases []opCase) {
	s := newSampler(12)
	for range 48 {
		shape := pick(s, "shape", layerShapes...)
		b, units := shape[0], shape[2]
		c := &backwardCase{units: units, optimizer: s.optimizer()}
		c.step = s.step(c.optimizer, b)
		size := s.size()
		var bias []float32
		c.epilogue, bias = s.epilogue(units, 1)
		c.dh = s.normal(b*units, size)
		c.h = s.normal(b*units, 1)
		if pick(s, "shift", false, false, true) {
			c.shift = s.normal(units, size)
		}
		for n := range c.h {
			z := float64(c.h[n])
			switch c.epilogue.Activation.Kind {
			case kernels.Sigmoid, kernels.Tanh: // values near their ends, too
				z *= 4
			}
			if c.epilogue.Activation.Kind.SlopeNeedsSum() {
				c.h[n] *= 4
				continue
			}
			z = activated(c.epilogue.Activation, z)
			c.h[n] = float32(z*keep(c.epilogue, c.step, int64(n)/units, int64(n)%units) + alphaShift(c.epilogue, c.step))
		}
		if bias != nil {
			c.bias = s.weight("bias", units, 1, 1, c.optimizer)
			c.bias.noDecay = pick(s, "exempt", true, false)
			c.bias.written = pick(s, "written", false, true)
		}
		c.title = s.title()
		cases = append(cases, c)
	}
	s.covered()
	return cases
}

// denseBackwardCase is a DenseBackward.
type denseBackwardCase struct {
	title      string
	step       *kernels.Step
	dz, in     []float32
	din        []float32 // content before the op; nil: not wanted
	accumulate bool
	weight     *weight
	optimizer  kernels.Optimizer
	precision  kernels.Precision
}

func (c *denseBackwardCase) name() string { return c.title }

func (c *denseBackwardCase) run(d kernels.Device) (r result, err error) {
	p := &place{device: d}
	defer p.free()
	op := &kernels.DenseBackward{
		DZ: p.guarded(c.dz, c.weight.rows), In: p.guarded(c.in, c.weight.columns), Weight: c.weight.place(p),
		Accumulate: c.accumulate, Optimizer: c.optimizer,
	}
	if c.din != nil {
		op.DIn = p.guarded(c.din, c.weight.columns)
	}
	op.Workspace = p.workspace(op, c.step.Most())
	err = d.DenseBackward(op, c.step)
	r.add("din", op.DIn)
	r.add("in", op.In)
	r.add("dz", op.DZ)
	r.addWeights(op.Weight)
	return r, err
}

func (c *denseBackwardCase) bounds() map[string][]float64 {
	to := map[string][]float64{}
	rows, columns := c.weight.rows, c.weight.columns
	if c.din != nil {
		to["din"] = make([]float64, c.step.Rows*columns)
		for u := range c.step.Rows {
			sums := make([]sum, columns)
			for k := range columns {
				if c.accumulate {
					sums[k].product(1, float64(c.din[u*columns+k]))
				}
			}
			for unit := range rows {
				for k := range columns {
					sums[k].factors(float64(c.dz[u*rows+unit]), float64(c.weight.value[unit*columns+k]), c.precision)
				}
			}
			for k := range columns {
				to["din"][u*columns+k] = sums[k].bound()
			}
		}
	}
	r := ruleOf(c.optimizer, c.step.RatesOf(c.step.Number), c.weight.noDecay)
	c.weight.updateBounds(to, r, func(i int64) (float64, float64, bool) {
		var dw sum
		for u := range c.step.Rows {
			dw.factors(float64(c.dz[u*rows+i/columns]), float64(c.in[u*columns+i%columns]), c.precision)
		}
		return dw.value, dw.bound(), true
	})
	return to
}

func denseBackwardCases(p kernels.Precision) (cases []opCase) {
	s := newSampler(13)
	for range 48 {
		shape := pick(s, "shape", layerShapes...)
		b, columns, units := shape[0], shape[1], shape[2]
		c := &denseBackwardCase{optimizer: s.optimizer(), precision: p}
		c.step = s.step(c.optimizer, b)
		c.dz, c.in = s.normal(b*units, s.size()), s.normal(b*columns, 1)
		c.weight = s.weight("w", units, columns, 1, c.optimizer)
		c.weight.written = pick(s, "written", false, true)
		c.weight.noDecay = pick(s, "exempt", false, false, true)
		if pick(s, "din", true, true, false) {
			c.din = s.normal(b*columns, 1)
			c.accumulate = pick(s, "accumulate", false, true)
		}
		c.title = s.title()
		cases = append(cases, c)
		if len(cases)%4 == 0 {
			locked := *c
			locked.title, locked.weight = c.title+", locked", c.weight.asLocked()
			cases = append(cases, &locked)
		}
	}
	s.covered()
	return cases
}

// scatterCase is a Scatter.
type scatterCase struct {
	title     string
	step      *kernels.Step
	values    []float32 // [entries], in the order by item; nil: those of the batch
	dz        []float32 // nil: ones
	tied      []float32 // [touched items, K], nil = untied
	own       []float32 // [touched items], or nil
	weight    *weight
	optimizer kernels.Optimizer
}

func (c *scatterCase) name() string { return c.title }

func (c *scatterCase) run(d kernels.Device) (r result, err error) {
	p := &place{device: d}
	defer p.free()
	op := &kernels.Scatter{Input: 1, Weight: c.weight.place(p), Optimizer: c.optimizer}
	if c.dz != nil {
		op.DZ = p.guarded(c.dz, c.weight.columns)
	}
	if c.values != nil {
		op.Values = p.guarded(c.values, 1)
	}
	if c.tied != nil {
		op.TiedGradient = p.guarded(c.tied, c.weight.columns)
	}
	if c.own != nil {
		op.Own = p.guarded(c.own, 1)
	}
	op.Workspace = p.workspace(op, c.step.Most())
	err = d.Scatter(op, c.step)
	r.add("dz", op.DZ)
	r.addWeights(op.Weight)
	return r, err
}

func (c *scatterCase) bounds() map[string][]float64 {
	b, columns := c.step.Sparse[1], c.weight.columns
	sums := map[int64]*sum{}
	for n, item := range b.Items {
		for k := range columns {
			dw := &sum{}
			for e := b.ItemOffsets[n]; e < b.ItemOffsets[n+1]; e++ {
				dw.product(float64(c.valueOf(e)), float64(c.dzOf(b.ItemRows[e], k)))
			}
			if c.tied != nil {
				dw.product(1, float64(c.tied[int64(n)*columns+k]))
			}
			if c.own != nil {
				dw.product(float64(c.own[n]), float64(c.weight.value[int64(item)*columns+k]))
			}
			sums[int64(item)*columns+k] = dw
		}
	}
	to := map[string][]float64{}
	r := ruleOf(c.optimizer, c.step.RatesOf(c.step.Number), c.weight.noDecay)
	c.weight.updateBounds(to, r, func(i int64) (float64, float64, bool) {
		if dw := sums[i]; dw != nil {
			return dw.value, dw.bound(), true
		}
		return 0, 0, false
	})
	return to
}

func (c *scatterCase) valueOf(entry int32) float32 {
	if c.values == nil {
		return c.step.Sparse[1].ItemValues[entry]
	}
	return c.values[entry]
}

func (c *scatterCase) dzOf(row int32, k int64) float32 {
	if c.dz == nil {
		return 1
	}
	return c.dz[int64(row)*c.weight.columns+k]
}

func scatterCases() (cases []opCase) {
	s := newSampler(14)
	for range 64 {
		shape := pick(s, "shape", layerShapes...)
		b, items, units := shape[0], shape[1], shape[2]
		c := &scatterCase{optimizer: s.optimizer()}
		batch := s.batch(b, items, pick(s, "batch", batchKinds...), true)
		c.step = s.step(c.optimizer, b, nil, batch)
		size := s.size()
		if pick(s, "values", false, true) {
			c.values = s.normal(int64(len(batch.Indices)), size)
		}
		if pick(s, "ones", false, false, true) {
			units = 1
		} else {
			c.dz = s.normal(b*units, size)
		}
		c.weight = s.weight("w", items, units, 1, c.optimizer)
		c.weight.written = pick(s, "written", false, false, true)
		c.weight.noDecay = pick(s, "exempt", false, false, true)
		if pick(s, "tied", false, true) {
			c.tied = s.normal(int64(len(batch.Items))*units, 1)
		} else if !c.weight.written && c.optimizer.MovesUntouched(!c.weight.noDecay) {
			// Rows that the batch touches are up to date, as a Replay has left them; the others may be behind.
			c.weight.last = make([]int32, items)
			for _, item := range batch.Items {
				c.weight.last[item] = int32(c.step.Number - 1)
			}
		}
		if c.dz != nil && c.tied == nil && pick(s, "own", false, true) {
			c.own = s.normal(int64(len(batch.Items)), size)
		}
		c.title = s.title()
		cases = append(cases, c)
	}
	s.covered()
	return cases
}
