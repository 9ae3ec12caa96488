package conformance

import (
	"math"

	"dsstne/kernels"
)

// marginalLoss is a soft-max of which only some targets count.
var marginalLoss = kernels.Loss{Kind: kernels.Softmax, Weight: 2, NormalizeRows: true, OneScale: 1.5, OneTarget: 0.3}

// marginalCase is a MarginalTargets, described as the output whose targets it makes.
type marginalCase struct {
	outputCase
	byRow bool // the targets are wanted in the order by row alone
}

func (c *marginalCase) run(d kernels.Device) (r result, err error) {
	p := &place{device: d}
	defer p.free()
	entries := len(c.step.Sparse[1].Indices)
	output := &kernels.Output{
		Target: 1, Term: 1, Items: c.items, Temperature: c.temperature, Loss: c.loss.OfMarginal(), TiedInput: -1,
		Sources: c.placeSources(p), Stats: p.floats(c.statistics()), ByRow: c.byRow,
		Targets: kernels.TargetValues{
			ByRow: p.filled(entries+3, 7), Sums: p.guarded(make([]float32, c.step.Rows), 1),
		},
	}
	if !c.byRow {
		output.Targets.ByItem = p.filled(entries+3, 7)
	}
	if c.addend != nil {
		output.Addend = kernels.Addend{Sum: p.guarded(c.addend, c.stride), Stride: c.stride, First: c.first}
	}
	if c.bias != nil {
		output.Bias = c.bias.place(p)
	}
	op := &kernels.MarginalTargets{
		Output: output, Entries: int64(entries) + 3, NormalizeRows: c.loss.NormalizeRows, OneScale: c.loss.OneScale,
		OneTarget: c.loss.OneTarget,
	}
	op.Workspace = p.workspace(op, c.step.Most())
	err = d.MarginalTargets(op, fresh(c.step))
	for n, source := range output.Sources {
		r.add(fieldOf("h", n), source.H)
		r.addWeights(source.Weight)
	}
	r.addWeights(output.Bias)
	r.add("addend", output.Addend.Sum)
	r.add("stats", output.Stats)
	r.add("by row", output.Targets.ByRow)
	r.add("by item", output.Targets.ByItem)
	r.add("sums", output.Targets.Sums)
	return r, err
}

// bounds: a target may or may not count where its probability is as near to the limit as the logit is uncertain.
func (c *marginalCase) bounds() map[string][]float64 {
	b, z, stats := c.step.Sparse[1], c.logits(), c.statistics()
	to, of := map[string][]float64{}, map[[2]int32]float64{}
	for u := range int32(c.step.Rows) {
		var total sum
		for e := b.Offsets[u]; e < b.Offsets[u+1]; e++ {
			t, x, logSumExp := float64(b.Values[e]), z[int64(u)*c.items+int64(b.Indices[e])], float64(stats[2*u+1])
			if c.loss.NormalizeRows && t != 0 {
				t /= float64(b.RowSum[u])
			}
			t *= float64(c.loss.OneScale)
			bound := 4*unit*t + underflow
			off := x.bound() + 4*unit*(math.Abs(x.value)+math.Abs(logSumExp)+1)
			if c.loss.OneTarget != 1 && math.Abs(x.value-logSumExp-math.Log(float64(c.loss.OneTarget))) <= off {
				bound += t
			}
			to["by row"], of[[2]int32{u, b.Indices[e]}] = append(to["by row"], bound), bound
			total.add(t, t, bound)
		}
		to["sums"] = append(to["sums"], total.bound())
	}
	for n, item := range b.Items {
		for _, u := range b.ItemRows[b.ItemOffsets[n]:b.ItemOffsets[n+1]] {
			if !c.byRow {
				to["by item"] = append(to["by item"], of[[2]int32{u, item}])
			}
		}
	}
	if len(b.Indices) == 0 {
		return map[string][]float64{"sums": to["sums"]}
	}
	return to
}

func marginalCases() (cases []opCase) {
	s := newSampler(41)
	o := kernels.Optimizer{}
	for range 64 {
		c := &marginalCase{}
		c.loss = kernels.Loss{
			Kind: kernels.Softmax, Weight: 1, NormalizeRows: pick(s, "normalize", false, true),
			OneScale: pick(s, "one scale", float32(1), 1, 0.25, 30), OneTarget: pick(s, "one target", float32(0.9), 0.3, 0.01, 1e-6, 1),
		}
		shape := pick(s, "shape", outputShapes...)
		b, units := shape[0], shape[2]
		c.items = shape[1]
		target := s.batch(b, c.items, pick(s, "target", batchKinds...), false)
		if pick(s, "zeros", false, false, true) { // that are stored
			addNegatives(target, 3)
		}
		c.step = s.step(o, b, nil, target)
		size := pick(s, "size", outputSize{1, 1, 1}, outputSize{3, 3, 1}, outputSize{100, 100, 1e3}, outputSize{1, 1e-30, 1e-30})
		sources := pick(s, "sources", 1, 1, 1, 2, 3, 0)
		for n := range sources {
			columns := units
			if n > 0 {
				columns = 1 + units/2
			}
			c.sources = append(c.sources, hiddenSource{
				h:      s.normal(b*columns, size.h),
				weight: s.weight(fieldOf("w", n), c.items, columns, size.w/math.Sqrt(float64(columns)), o),
			})
		}
		if pick(s, "bias", true, false) || sources == 0 {
			c.bias = s.weight("bias", c.items, 1, size.b, o)
		}
		if sources == 1 && size.w > 1e-15 {
			c.temperature = pick(s, "temperature", float32(0), 0.1, 1)
		}
		c.byRow = pick(s, "by row alone", false, false, true)
		c.title = s.title()
		cases = append(cases, c)
		if c.temperature == 0 && pick(s, "added", false, false, true) {
			cases = append(cases, &marginalCase{*c.added(s, len(cases)%2 == 0), c.byRow})
		}
	}
	s.covered()
	return cases
}
