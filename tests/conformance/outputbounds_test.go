package conformance

import (
	"math"

	"dsstne/kernels"
)

// logits are z of every row and item, [B, I], with their bounds; magnitude is the sum of the absolute products. In bfloat16 the
// sum of the products with each source may be kept in it, before a bias is added and before a cosine is divided by the lengths.
func (c *outputCase) logits() []sum {
	all := make([]sum, c.step.Rows*c.items)
	lengths := c.lengths()
	for u := range c.step.Rows {
		for i := range c.items {
			z := &all[u*c.items+i]
			for _, s := range c.sources {
				k := s.weight.columns
				if c.temperature == 0 {
					h, w := s.h[u*k:(u+1)*k], s.weight.value[i*k:(i+1)*k]
					for n := range h {
						z.factors(float64(h[n]), float64(w[n]), c.precision)
					}
				} else {
					cosine, magnitude, off := c.cosine(lengths, u, i)
					t := float64(c.temperature)
					z.add(cosine/t, math.Abs(cosine/t), (off+4*unit*magnitude)/t)
				}
				if c.precision == kernels.BFloat16 {
					z.narrow(unit16 * (math.Abs(z.value) + z.bound()))
				}
			}
			if c.addend != nil && !c.empty {
				z.product(1, float64(c.addend[u*c.stride+c.first+i]))
				if c.precision == kernels.BFloat16 {
					z.narrow(unit16 * (math.Abs(z.value) + z.bound()))
				}
			}
			if c.bias != nil {
				z.product(1, float64(c.bias.value[i]))
			}
		}
	}
	return all
}

// lengths are |h_u| and |w_i|, needed for cosine logits.
type lengths struct{ h, w []float64 }

func (c *outputCase) lengths() lengths {
	if c.temperature == 0 {
		return lengths{}
	}
	of := func(x []float32, columns int64) []float64 {
		n := make([]float64, int64(len(x))/columns)
		for r := range n {
			row := x[int64(r)*columns : int64(r+1)*columns]
			n[r] = math.Sqrt(kernels.Dot(row, row))
		}
		return n
	}
	s := c.sources[0]
	return lengths{of(s.h, s.weight.columns), of(s.weight.value, s.weight.columns)}
}

// cosine of a row and an item, the sum of its absolute terms and its bound: the product and both norms are sums of K
// products, of which a norm's square root halves the error. What is rounded to bfloat16 are the normalised factors.
func (c *outputCase) cosine(l lengths, u, i int64) (value, magnitude, bound float64) {
	s := c.sources[0]
	k := s.weight.columns
	norm := l.h[u] * l.w[i]
	if norm == 0 {
		return 0, 0, 0
	}
	var z sum
	for n := range k {
		x := float64(s.h[u*k+n]) * float64(s.weight.value[i*k+n]) / norm
		value += x
		magnitude += math.Abs(x)
		z.narrow(narrowing(c.precision) * math.Abs(x))
	}
	return value, magnitude, 2*growth(k)*magnitude + 8*unit*math.Abs(value) + z.narrowedBound()
}

// part is one logit's loss and dz = r dl/dz with bounds; the magnitudes are those of the formula for a zero target and its
// correction for another one, which a backend may use.
type part struct {
	loss, lossMagnitude, lossBound float64
	dz, magnitude, bound           float64
}

// sigmoidOf gives a = sigmoid(z), and its bound when z is off by e: |a'| = a(1-a) grows at most by exp(e) on the way.
func sigmoidOf(z, e float64) (a, bound float64) {
	a = 1 / (1 + math.Exp(-z))
	return a, math.Min(e/4, exponentialOff(z, a, e)) + functionError*a + underflow
}

// exponentialOff bounds by how much min(1, exp(z)) or sigmoid(z), which is a, moves when z is off by e.
func exponentialOff(z, a, e float64) float64 {
	if e < 1 {
		return math.Min(1, a*math.Expm1(e))
	}
	return math.Exp(math.Min(0, z+e))
}

func softplusOf(z float64) float64 { return math.Max(z, 0) + math.Log1p(math.Exp(-math.Abs(z))) }

func (c *outputCase) part(u int64, z sum, t, n, logSumExp float64) part {
	l := c.loss
	x, e := z.value, z.bound()
	if l.Kind.ElementWise() {
		value, magnitude, bound := activatedBound(l.Activation, x, e)
		x, e = value, bound
		if l.Activation.Kind != kernels.Linear {
			e += 4 * unit * magnitude
		}
	}
	var p part
	switch l.Kind {
	case kernels.SigmoidCrossEntropy:
		a, off := sigmoidOf(x, e)
		p.loss, p.lossMagnitude = softplusOf(x)-t*x, softplusOf(x)+math.Abs(t*x)
		p.lossBound = (a+off+t)*e + functionError*(p.lossMagnitude+1) // log1p(exp(z)) may be accurate to the roundoff of 1
		p.dz, p.magnitude, p.bound = a-t, a+t, off
	case kernels.ScaledMarginal:
		a, off := sigmoidOf(x, e)
		zero := part{loss: float64(l.ZeroScale) * softplusOf(x), dz: float64(l.ZeroScale) * a}
		one := part{loss: float64(l.OneScale) * t * softplusOf(-x), dz: float64(l.OneScale) * t * (a - 1)}
		scale := float64(l.ZeroScale) + float64(l.OneScale)*t
		p.lossMagnitude, p.magnitude = zero.loss+one.loss, zero.dz+math.Abs(one.dz)
		p.lossBound = scale*(e+functionError) + functionError*p.lossMagnitude
		p.bound = scale * (off + 2*unit)
		// Where a is as near to its limit as it is uncertain, either side may be taken.
		chosen, inside, limit := zero, a > float64(l.ZeroTarget), float64(l.ZeroTarget)
		if t != 0 {
			chosen, inside, limit = one, a < float64(l.OneTarget), float64(l.OneTarget)
		}
		if math.Abs(a-limit) <= off+4*unit {
			p.lossBound += chosen.loss
			p.bound += math.Abs(chosen.dz)
		}
		if inside {
			p.loss, p.dz = chosen.loss, chosen.dz
		}
	case kernels.Softmax:
		if n == 0 {
			return part{}
		}
		if l.NormalizeRows {
			t, n = t/n, 1
		}
		probability := math.Exp(x - logSumExp)
		e += 2 * unit * (math.Abs(x-logSumExp) + math.Abs(x))
		p.loss, p.lossMagnitude = t*(logSumExp-x), t*(math.Abs(logSumExp)+math.Abs(x))
		p.lossBound = t * e
		p.dz, p.magnitude = n*probability-t, n*probability+t
		p.bound = n*(exponentialOff(x-logSumExp, probability, e)+probability*functionError+underflow) + 2*unit*t
	case kernels.Squared:
		p.loss, p.lossMagnitude = (x-t)*(x-t)/2, x*x+t*t
		p.lossBound = (math.Abs(x)+math.Abs(t))*e + e*e
		p.dz, p.magnitude, p.bound = x-t, math.Abs(x)+math.Abs(t), e
	case kernels.Hinge:
		if t == 0 {
			t = -1
		}
		margin, size := 1-t*x, 1+math.Abs(t*x)
		p.loss, p.lossMagnitude = max(0, margin), size+1+math.Abs(x)
		p.lossBound, p.magnitude = (1+math.Abs(t))*e, 1+math.Abs(t)
		if margin > 0 {
			p.dz = -t
		}
		// Where the margin is as near to 0 as it is uncertain, either side may be taken.
		if math.Abs(margin) <= math.Abs(t)*e+4*unit*size {
			p.bound = math.Abs(t)
		}
	case kernels.Absolute:
		p.loss, p.lossMagnitude = math.Abs(x-t), 2*math.Abs(x)+math.Abs(t)
		p.lossBound, p.magnitude = 2*e, 1
		switch {
		case x > t:
			p.dz = 1
		case x < t:
			p.dz = -1
		}
		if math.Abs(x-t) <= e+4*unit*(math.Abs(x)+math.Abs(t)) { // either side may be taken
			p.bound = 2
		}
	case kernels.L2Hinge:
		d := max(0, x-t)
		if t > 0 {
			d = min(0, x-t)
		}
		p.loss, p.lossMagnitude = d*d/2, x*x+t*t
		p.lossBound = (math.Abs(x)+math.Abs(t))*e + e*e
		p.dz, p.magnitude, p.bound = d, math.Abs(x)+math.Abs(t), e
	case kernels.CosineContrastive:
		beyond, scale := x-float64(l.ZeroTarget), float64(l.ZeroScale)
		p.lossMagnitude = scale*(math.Abs(x)+math.Abs(float64(l.ZeroTarget))) + t*(1+math.Abs(x))
		p.lossBound, p.magnitude = (scale+t)*e, scale+t
		switch {
		case t != 0:
			p.loss, p.dz = t*(1-x), -t
		case beyond > 0:
			p.loss, p.dz = scale*beyond, scale
		}
		if math.Abs(beyond) <= e+4*unit*(math.Abs(x)+math.Abs(float64(l.ZeroTarget))) { // either side may be taken
			p.bound = scale
		}
	default:
		panic(unhandled(l.Kind))
	}
	if l.TakesBoosts() {
		one, zero := l.Boosts()
		boost, most := float64(one), float64(max(one, zero))
		if t == 0 {
			boost, most = float64(zero), float64(zero)
		}
		p.loss, p.dz = boost*p.loss, boost*p.dz
		p.lossMagnitude, p.lossBound, p.magnitude, p.bound = most*p.lossMagnitude, most*p.lossBound, most*p.magnitude, most*p.bound
	}
	if l.Activation.Kind != kernels.Linear {
		at, off := x, e
		if l.Activation.Kind.SlopeNeedsSum() {
			at, off = z.value, z.bound()
		}
		slope, off := slopeBound(l.Activation, z.value, z.bound(), at, off)
		size := math.Abs(slope) + off
		p.bound = p.bound*size + math.Abs(p.dz)*off
		p.dz, p.magnitude = p.dz*slope, p.magnitude*size
	}
	r := float64(c.step.TermWeight(1, l)) / float64(c.step.WholeRows())
	if weights := c.step.WeightsOfRows(1); weights != nil {
		r *= float64(weights[u])
	}
	return part{r * p.loss, r * p.lossMagnitude, r*(p.lossBound+4*unit*p.lossMagnitude) + underflow,
		r * p.dz, r * p.magnitude, r*(p.bound+4*unit*p.magnitude) + underflow}
}

// slopeBound is the slope of an activation at a logit z, where its value is a (or what slopeOf takes), and how far it may
// be off, if these are.
func slopeBound(act kernels.Activation, z, zOff, a, aOff float64) (slope, off float64) {
	slope, magnitude := slopeOf(act, a)
	off = 2*aOff + 8*unit*magnitude // no slope is steeper than 2 in the value
	if hasKink(act.Kind) && math.Abs(z) <= zOff+underflow {
		off += 2 // either side may be taken
	}
	return slope, off
}

func (c *outputCase) bounds() map[string][]float64 {
	z := c.logits()
	if c.onlyStats {
		return map[string][]float64{"stats": c.statsBounds(z)}
	}
	parts, to := make([]part, len(z)), map[string][]float64{}
	var total part
	targets, stats := c.targets(), c.statistics()
	for n := range z {
		u := int64(n) / c.items
		parts[n] = c.part(u, z[n], targets[n], float64(c.step.Sparse[1].RowSum[u]), float64(stats[2*u+1]))
		total.lossMagnitude += parts[n].lossMagnitude
		total.lossBound += parts[n].lossBound
	}
	to["loss"] = []float64{0, total.lossBound + growth(int64(len(z)))*total.lossMagnitude}
	for n := range c.sources {
		c.sourceBounds(to, n, parts)
	}
	if c.addend != nil {
		to["addend"] = make([]float64, len(c.addend))
		for n, p := range parts {
			u, i := int64(n)/c.items, int64(n)%c.items
			off := unit + narrowing(c.precision)
			to["addend"][u*c.stride+c.first+i] = p.bound + off*(math.Abs(p.dz)+p.bound) + underflow
		}
	}
	if c.bias != nil {
		c.bias.updateBounds(to, c.rule(c.bias), func(i int64) (float64, float64, bool) {
			var db sum
			for u := range c.step.Rows {
				p := parts[u*c.items+i]
				db.add(p.dz, p.magnitude, p.bound)
			}
			return db.value, db.bound(), true
		})
	}
	return to
}

func (c *outputCase) rule(w *weight) rule {
	return ruleOf(c.optimizer, c.step.RatesOf(c.step.Number), w.noDecay)
}

// statsBounds: neither the maximum nor the log-sum-exp moves by more than the logits do.
func (c *outputCase) statsBounds(z []sum) []float64 {
	stats := c.statistics()
	bounds := make([]float64, len(stats))
	for u := range c.step.Rows {
		worst := 0.0
		for i := range c.items {
			worst = math.Max(worst, z[u*c.items+i].bound())
		}
		bounds[2*u] = worst + unit*math.Abs(float64(stats[2*u]))
		bounds[2*u+1] = worst + 4*unit*math.Abs(float64(stats[2*u])) + 4*unit*math.Abs(float64(stats[2*u+1])) +
			growth(c.items) + functionError*(1+math.Log(float64(c.items)))
	}
	return bounds
}

// targets are t of every row and item, [B, I].
func (c *outputCase) targets() []float64 {
	b := c.step.Sparse[1]
	t := make([]float64, c.step.Rows*c.items)
	for u := range c.step.Rows {
		for e := b.Offsets[u]; e < b.Offsets[u+1]; e++ {
			t[u*c.items+int64(b.Indices[e])] = float64(b.Values[e])
		}
	}
	return t
}

// sourceBounds bounds dh, the weight (or its written gradient) and the tied gradient of one source.
func (c *outputCase) sourceBounds(to map[string][]float64, n int, parts []part) {
	s := c.sources[n]
	k := s.weight.columns
	dh, dw := make([]sum, c.step.Rows*k), make([]sum, c.items*k)
	if s.accumulate {
		for j := range dh {
			dh[j].product(1, float64(s.dh[j]))
		}
	}
	lengths := c.lengths()
	for u := range c.step.Rows {
		for i := range c.items {
			h, w := s.h[u*k:(u+1)*k], s.weight.value[i*k:(i+1)*k]
			p := parts[u*c.items+i]
			if c.temperature == 0 {
				c.addDot(dh[u*k:(u+1)*k], p, w)
				c.addDot(dw[i*k:(i+1)*k], p, h)
				continue
			}
			cosine, _, off := c.cosine(lengths, u, i)
			if lengths.h[u] == 0 || lengths.w[i] == 0 {
				continue
			}
			t := float64(c.temperature)
			a := angle{cosine, off, growth(k), narrowing(c.precision), p.dz / t, p.magnitude / t, p.bound / t}
			a.add(dh[u*k:(u+1)*k], w, lengths.w[i], h, lengths.h[u])
			a.add(dw[i*k:(i+1)*k], h, lengths.h[u], w, lengths.w[i])
		}
	}
	if s.dh != nil {
		to[fieldOf("dh", n)] = boundsOf(dh)
	}
	touched := map[int64]bool{}
	if c.tied {
		to["tied"] = make([]float64, int64(len(c.step.Sparse[0].Items))*k)
		for row, item := range c.step.Sparse[0].Items {
			touched[int64(item)] = true
			copy(to["tied"][int64(row)*k:], boundsOf(dw[int64(item)*k:int64(item+1)*k]))
		}
	}
	s.weight.updateBounds(to, c.rule(s.weight), func(i int64) (float64, float64, bool) {
		return dw[i].value, dw[i].bound(), !touched[i/k]
	})
}

func boundsOf(sums []sum) []float64 {
	bounds := make([]float64, len(sums))
	for i := range sums {
		bounds[i] = sums[i].bound()
	}
	return bounds
}

// addDot adds dz x to a gradient.
func (c *outputCase) addDot(to []sum, p part, x []float32) {
	off := narrowing(c.precision) * (math.Abs(p.dz) + p.bound)
	for i := range to {
		v := math.Abs(float64(x[i]))
		to[i].add(p.dz*float64(x[i]), p.magnitude*v, p.bound*v+underflow*(1+v+math.Abs(p.dz)))
		to[i].narrow(off * v)
	}
}

// angle is what the gradients of one cosine logit have in common; dz is divided by the temperature.
type angle struct {
	cosine, off, growth, narrowing float64
	dz, magnitude, bound           float64
}

// add adds dz (x/|x| - cosine y/|y|) / |y|, the gradient by y. Its second part may be made of the first one's sum, whose
// product with y/|y| is off as the cosine is.
func (a angle) add(to []sum, x []float32, xx float64, y []float32, yy float64) {
	for i := range to {
		first, second := float64(x[i])/xx/yy, float64(y[i])/yy/yy
		size := math.Abs(first) + math.Abs(a.cosine*second)
		to[i].add(a.dz*(first-a.cosine*second), a.magnitude*size,
			a.bound*size+a.magnitude*(a.off*math.Abs(second)+(4*a.growth+8*unit)*size)+underflow*(1+size))
		to[i].narrow(a.narrowing * (math.Abs(a.dz) + a.bound) * size)
	}
}
