package conformance

import (
	"math"
	"slices"

	"dsstne/kernels"
)

// entriesCase is an OutputEntries, described as an output whose loss is that of the stored entries.
type entriesCase struct{ outputCase }

func (c *entriesCase) run(d kernels.Device) (r result, err error) {
	p := &place{device: d}
	defer p.free()
	entries := int64(len(c.step.Sparse[1].Indices))
	op := &kernels.OutputEntries{Target: 1, Term: 1, Loss: c.loss, Entries: entries + 3}
	op.Sources = c.placeSources(p)
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
	return append(r, field{"loss", step.Loss}), err
}

// bounds: those of an output, of the stored entries alone.
func (c *entriesCase) bounds() map[string][]float64 {
	z, parts := c.logits(), make([]part, c.step.Rows*c.items)
	b, targets := c.step.Sparse[1], c.targets()
	var total part
	for u := range c.step.Rows {
		for _, i := range b.Indices[b.Offsets[u]:b.Offsets[u+1]] {
			n := u*c.items + int64(i)
			parts[n] = c.part(u, z[n], targets[n], 0, 0)
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

func entriesCases() (cases []opCase) {
	s := newSampler(22)
	offered := slices.DeleteFunc(slices.Clone(losses), kernels.Loss.NeedsStats)
	for range 64 {
		loss := pick(s, "loss", offered...)
		c := &entriesCase{outputCase{loss: loss}}
		shape := pick(s, "shape", outputShapes...)
		b, units := shape[0], shape[2]
		c.items = shape[1]
		target := s.batch(b, c.items, pick(s, "target", batchKinds...), takesNegative(loss))
		if pick(s, "zeros", false, false, true) { // that are stored
			for n, item := range target.Items {
				if item%3 == 0 {
					clear(target.ItemValues[target.ItemOffsets[n]:target.ItemOffsets[n+1]])
				}
			}
			for e, item := range target.Indices {
				if item%3 == 0 {
					target.Values[e] = 0
				}
			}
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
		c.title = s.title()
		cases = append(cases, c)
	}
	s.covered()
	return cases
}
