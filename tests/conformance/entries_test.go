package conformance

import (
	"math"
	"slices"

	"dsstne/internal/random"
	"dsstne/kernels"
)

// entriesCase is an OutputEntries, described as an output whose loss is that of the stored entries.
type entriesCase struct{ outputCase }

func (c *entriesCase) run(d kernels.Device) (r result, err error) {
	p := &place{device: d}
	defer p.free()
	entries := int64(len(c.step.Sparse[1].Indices))
	op := &kernels.OutputEntries{
		Target: 1, Term: 1, Loss: c.loss, Entries: entries + 3, Items: c.items, Stream: entriesStream,
		Temperature: c.temperature,
	}
	op.Sources = c.placeSources(p)
	if c.temperature != 0 {
		op.Directions = p.filled(int(c.step.Rows*op.Sources[0].Weight.Columns)+5, 7)
		op.X, op.Y = p.filled(int(op.Entries), 7), p.filled(len(c.step.Sparse[1].Items)+2, 7)
	}
	if c.bias != nil {
		op.Bias = c.bias.place(p)
	}
	op.DZ = p.filled(int(op.Entries), 7)
	op.Workspace = p.workspace(op, c.step.Most())
	step := fresh(c.step)
	err = d.OutputEntries(op, step)
	for n, source := range op.Sources {
		r.add(fieldOf("h", n), source.H)
		r.add(fieldOf("dh", n), source.DH)
		r.addWeights(source.Weight)
	}
	r.addWeights(op.Bias)
	r.add("dz", op.DZ)
	r.add("directions", op.Directions)
	r.add("x", op.X)
	r.add("y", op.Y)
	return append(r, field{"loss", step.Loss}), err
}

// entriesStream is that of the random numbers of pairs.
const entriesStream = 77

// bounds: those of an output, of the stored entries alone.
func (c *entriesCase) bounds() map[string][]float64 {
	z, parts := c.logits(), make([]part, c.step.Rows*c.items)
	b, targets := c.step.Sparse[1], c.targets()
	var total part
	for u := range c.step.Rows {
		c.rowParts(u, z, targets, parts)
		for _, i := range b.Indices[b.Offsets[u]:b.Offsets[u+1]] {
			n := u*c.items + int64(i)
			total.lossMagnitude += parts[n].lossMagnitude
			total.lossBound += parts[n].lossBound
		}
	}
	to := map[string][]float64{
		"loss": {0, total.lossBound + growth(int64(len(b.Indices)))*total.lossMagnitude},
	}
	for n, item := range b.Items {
		for _, u := range b.ItemRows[b.ItemOffsets[n]:b.ItemOffsets[n+1]] {
			p := parts[int64(u)*c.items+int64(item)]
			to["dz"] = append(to["dz"], p.bound+4*unit*p.magnitude)
		}
	}
	if c.temperature != 0 {
		c.turnBounds(to, parts)
		return to
	}
	for n, s := range c.sources {
		k := s.weight.columns
		dh := make([]sum, c.step.Rows*k)
		for j := range dh {
			if s.accumulate {
				dh[j].product(1, float64(s.dh[j]))
			}
		}
		for u := range c.step.Rows {
			for _, i := range b.Indices[b.Offsets[u]:b.Offsets[u+1]] {
				c.addDot(dh[u*k:(u+1)*k], parts[u*c.items+int64(i)], s.weight.value[int64(i)*k:(int64(i)+1)*k])
			}
		}
		if s.dh != nil {
			to[fieldOf("dh", n)] = boundsOf(dh)
		}
	}
	return to
}

// turnBounds are those of what cosine logits need beside dz.
func (c *entriesCase) turnBounds(to map[string][]float64, parts []part) {
	b, s, lengths, t := c.step.Sparse[1], c.sources[0], c.lengths(), float64(c.temperature)
	k := s.weight.columns
	dh := make([]sum, c.step.Rows*k)
	for j := range dh {
		to["directions"] = append(to["directions"], underflow)
		if u := int64(j) / k; lengths.h[u] != 0 {
			to["directions"][j] += (growth(k) + 8*unit) * math.Abs(float64(s.h[j])/lengths.h[u])
		}
		if s.accumulate {
			dh[j].product(1, float64(s.dh[j]))
		}
	}
	for n, item := range b.Items {
		i := int64(item)
		var own sum
		for _, row := range b.ItemRows[b.ItemOffsets[n]:b.ItemOffsets[n+1]] {
			u := int64(row)
			p, off := parts[u*c.items+i], 2*growth(k)+16*unit
			if lengths.h[u] == 0 || lengths.w[i] == 0 {
				to["x"] = append(to["x"], 0)
				continue
			}
			cosine, _, cosineOff := c.cosine(lengths, u, i)
			x := 1 / (t * lengths.w[i])
			to["x"] = append(to["x"], (p.bound+off*p.magnitude)*x+underflow*(1+x))
			y := math.Abs(cosine) * x / lengths.w[i]
			own.add(-p.dz*cosine*x/lengths.w[i], p.magnitude*y,
				(p.bound+off*p.magnitude)*y+(p.magnitude+p.bound)*cosineOff*x/lengths.w[i]+underflow*(1+y))
			a := angle{cosine, cosineOff, growth(k), 0, p.dz / t, p.magnitude / t, p.bound / t}
			a.add(dh[u*k:(u+1)*k], s.weight.value[i*k:(i+1)*k], lengths.w[i], s.h[u*k:(u+1)*k], lengths.h[u])
		}
		to["y"] = append(to["y"], own.bound())
	}
	if s.dh != nil {
		to[fieldOf("dh", 0)] = boundsOf(dh)
	}
}

// rowParts are those of the entries of a row.
func (c *entriesCase) rowParts(u int64, z []sum, targets []float64, parts []part) {
	b := c.step.Sparse[1]
	var negatives, others []int64
	for _, i := range b.Indices[b.Offsets[u]:b.Offsets[u+1]] {
		if n := u*c.items + int64(i); targets[n] == 0 {
			negatives = append(negatives, n)
		} else {
			others = append(others, n)
		}
	}
	switch {
	case c.loss.Pairs:
		c.pairParts(u, z, targets, negatives, others, parts)
	case c.loss.Kind == kernels.Softmax:
		c.sampledParts(u, z, targets, negatives, others, parts)
	default:
		for _, n := range append(negatives, others...) {
			parts[n] = c.part(u, z[n], targets[n], 0, 0)
		}
	}
}

// pairParts are those of differences, added up.
func (c *entriesCase) pairParts(u int64, z []sum, targets []float64, negatives, others []int64, parts []part) {
	if len(others) == 0 {
		return
	}
	shift := int(float64(len(others)) * float64(random.Uniform(c.step.Seed, entriesStream, c.step.Number, c.step.First+u, 4)))
	for at, e := range negatives {
		i := others[(at+shift)%len(others)]
		difference := sum{}
		difference.add(z[i].value-z[e].value, math.Abs(z[i].value)+math.Abs(z[e].value), z[i].bound()+z[e].bound())
		p, weight := c.part(u, difference, 1, 0, 0), targets[i]*float64(len(others))/float64(len(negatives))
		parts[e].lossMagnitude += weight * p.lossMagnitude
		parts[e].lossBound += weight*p.lossBound + underflow
		for sign, n := range map[float64]int64{1: i, -1: e} {
			parts[n].dz += sign * weight * p.dz
			parts[n].magnitude += weight * p.magnitude
			parts[n].bound += weight*p.bound + underflow
		}
	}
	for _, i := range others { // a sum over pairs
		parts[i].bound += growth(int64(len(negatives))) * parts[i].magnitude
	}
}

// sampledParts: the logits of negatives are corrected, and no log-sum-exp is off by more than the logits are.
func (c *entriesCase) sampledParts(u int64, z []sum, targets []float64, negatives, others []int64, parts []part) {
	all := append(slices.Clone(negatives), others...)
	correction, worst, top, total := 0.0, 0.0, math.Inf(-1), 0.0
	if len(negatives) > 0 {
		correction = math.Log(float64(c.items-int64(len(others))) / float64(len(negatives)))
	}
	corrected := map[int64]float64{}
	for at, n := range all {
		corrected[n] = z[n].value
		if at < len(negatives) {
			corrected[n] += correction
		}
		worst, top = math.Max(worst, z[n].bound()), math.Max(top, corrected[n])
	}
	for _, x := range corrected {
		total += math.Exp(x - top)
	}
	lse := top + math.Log(total)
	off := worst + 4*unit*(math.Abs(top)+math.Abs(lse)+math.Abs(correction)) + growth(int64(len(all))) +
		functionError*(2+math.Log(float64(len(all)))+math.Abs(correction))
	for _, n := range all {
		x := z[n]
		x.add(corrected[n]-z[n].value, math.Abs(correction), off)
		parts[n] = c.part(u, x, targets[n], float64(c.step.Sparse[1].RowSum[u]), lse)
	}
}

var pairLoss = kernels.Loss{Kind: kernels.SigmoidCrossEntropy, Weight: 2, Pairs: true}

// addNegatives makes the entries of each of some items 0.
func addNegatives(b *kernels.SparseBatch, each int32) {
	for n, item := range b.Items {
		if item%each == 0 {
			clear(b.ItemValues[b.ItemOffsets[n]:b.ItemOffsets[n+1]])
		}
	}
	for u := range b.RowSum {
		b.RowSum[u] = 0
		for e := b.Offsets[u]; e < b.Offsets[u+1]; e++ {
			if b.Indices[e]%each == 0 {
				b.Values[e] = 0
			}
			b.RowSum[u] += b.Values[e]
		}
	}
}

func entriesCases() (cases []opCase) {
	s := newSampler(22)
	offered := append(slices.Clone(losses), pairLoss)
	for range 96 {
		loss := pick(s, "loss", offered...)
		c := &entriesCase{outputCase{loss: loss}}
		shape := pick(s, "shape", outputShapes...)
		b, units := shape[0], shape[2]
		c.items = shape[1]
		target := s.batch(b, c.items, pick(s, "target", batchKinds...), takesNegative(loss))
		if pick(s, "zeros", false, false, true) || loss.Compares() { // that are stored, or negatives
			addNegatives(target, 3)
		}
		c.step = s.step(c.optimizer, b, nil, target)
		size := pick(s, "size", outputSize{1, 1, 1}, outputSize{1, 1, 1}, outputSize{100, 100, 1e3}, outputSize{1, 1e-30, 1e-30})
		sources := pick(s, "sources", 1, 1, 1, 2, 3, 0)
		for n := range sources {
			columns := units
			if n > 0 {
				columns = 1 + units/2
			}
			source := hiddenSource{h: s.normal(b*columns, size.h)}
			source.weight = s.weight(fieldOf("w", n), c.items, columns, size.w/math.Sqrt(float64(columns)), c.optimizer)
			if pick(s, "dh", true, true, true, false) {
				source.dh = s.normal(b*columns, 1e-2*size.w)
				source.accumulate = pick(s, "accumulate", false, true)
			}
			c.sources = append(c.sources, source)
		}
		if pick(s, "bias", true, false) || sources == 0 {
			c.bias = s.weight("bias", c.items, 1, size.b, c.optimizer)
		}
		if sources == 1 && size.w > 1e-15 { // y has the square of a length
			c.temperature = pick(s, "temperature", float32(0), 0.1, 1)
		}
		c.title = s.title()
		cases = append(cases, c)
	}
	s.covered()
	return cases
}
