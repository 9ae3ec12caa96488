package conformance

import (
	"fmt"
	"math"
	"slices"

	"dsstne/kernels"
)

// outputShapes are batch rows, items and units.
var outputShapes = [][3]int64{
	{1, 1, 1}, {2, 2, 3}, {7, 13, 16}, {31, 14, 31}, {32, 15, 64}, {33, 100, 100}, {100, 1003, 31}, {257, 1003, 16},
	{257, 13, 256}, {7, 1003, 256}, {2, 4099, 100}, {32, 1003, 64}, {33, 15, 1}, {100, 100, 3}, {1, 14, 256}, {257, 100, 33},
	{1, 4099, 64}, {31, 1, 100}, {7, 2, 31}, {64, 256, 64},
}

var losses = []kernels.Loss{
	{Kind: kernels.SigmoidCrossEntropy, Weight: 1},
	{Kind: kernels.ScaledMarginal, Weight: 0.5, OneScale: 2, ZeroScale: 0.7, OneTarget: 0.9, ZeroTarget: 0.1},
	{Kind: kernels.Softmax, Weight: 1},
	{Kind: kernels.Softmax, Weight: 2, NormalizeRows: true},
	{Kind: kernels.Squared, Weight: 0.25},
	{Kind: kernels.Hinge, Weight: 0.5},
	{Kind: kernels.Absolute, Weight: 0.5},
	{Kind: kernels.L2Hinge, Weight: 2},
	{Kind: kernels.CosineContrastive, Weight: 1, ZeroScale: 0.7, ZeroTarget: 0.4},
	// Items with and without a target that weigh differently.
	{Kind: kernels.SigmoidCrossEntropy, Weight: 1, OneScale: 3, ZeroScale: 0.25},
	{Kind: kernels.Squared, Weight: 0.5, ZeroScale: 0.5},
	{Kind: kernels.Hinge, Weight: 1, OneScale: 1},
	{Kind: kernels.Absolute, Weight: 1, OneScale: 2, ZeroScale: 0.1, Activation: kernels.Activation{Kind: kernels.Sigmoid}},
	{Kind: kernels.L2Hinge, Weight: 1, OneScale: 0.5, ZeroScale: 2},
	// Values of each activation, and each loss of values.
	{Kind: kernels.Squared, Weight: 1, Activation: kernels.Activation{Kind: kernels.Sigmoid}},
	{Kind: kernels.Hinge, Weight: 1, Activation: kernels.Activation{Kind: kernels.Tanh}},
	{Kind: kernels.Absolute, Weight: 2, Activation: kernels.Activation{Kind: kernels.ReLU}},
	{Kind: kernels.L2Hinge, Weight: 1, Activation: kernels.Activation{Kind: kernels.ELU, Alpha: 0.25}},
	{Kind: kernels.Squared, Weight: 0.5, Activation: kernels.Activation{Kind: kernels.SELU}},
	{Kind: kernels.Squared, Weight: 1, Activation: kernels.Activation{Kind: kernels.LeakyReLU, Alpha: 0.25}},
	{Kind: kernels.L2Hinge, Weight: 1, Activation: kernels.Activation{Kind: kernels.Softplus}},
	{Kind: kernels.Absolute, Weight: 1, Activation: kernels.Activation{Kind: kernels.Softsign}},
	{Kind: kernels.Squared, Weight: 1, Activation: kernels.Activation{Kind: kernels.GELU}},
	{Kind: kernels.Hinge, Weight: 1, Activation: kernels.Activation{Kind: kernels.SiLU}},
}

// takesNegative reports whether a loss gives a meaning to targets below 0.
func takesNegative(loss kernels.Loss) bool {
	low, _ := loss.Targets()
	return low < 0
}

// hiddenSource is the host-side content of a kernels.OutputSource.
type hiddenSource struct {
	h, dh      []float32 // [B, K]; dh is the content before the op, nil: not wanted
	accumulate bool
	weight     *weight
}

// outputCase is an OutputStep, or with onlyStats the OutputStats before it, or with both of them both.
type outputCase struct {
	title       string
	onlyStats   bool
	both        bool
	continues   bool // see kernels.Output
	keeps       bool // the logits, if the device does
	step        *kernels.Step
	items       int64
	sources     []hiddenSource
	bias        *weight
	temperature float32
	loss        kernels.Loss
	optimizer   kernels.Optimizer
	precision   kernels.Precision
	tied        bool      // the input of slot 0 shares the weight of the only source
	addend      []float32 // [B, stride], nil: none
	stride      int64
	first       int64 // the column of item 0
	empty       bool  // the addend has no numbers yet
	given       bool  // the targets stand in Output.Targets, and others in the batch
}

func (c *outputCase) name() string { return c.title }

func (c *outputCase) run(d kernels.Device) (r result, err error) {
	p := &place{device: d}
	defer p.free()
	op := &kernels.Output{
		Target: 1, Term: 1, Items: c.items, Temperature: c.temperature, Loss: c.loss, Optimizer: c.optimizer, TiedInput: -1,
		Continues: c.continues, Weighted: c.step.RowWeights != nil,
	}
	op.Sources = c.placeSources(p)
	if c.addend != nil {
		op.Addend = kernels.Addend{
			Sum: p.guarded(c.addend, c.stride), Stride: c.stride, First: c.first, Empty: c.empty,
		}
	}
	if c.bias != nil {
		op.Bias = c.bias.place(p)
	}
	if c.tied {
		op.TiedInput = 0
		columns := c.sources[0].weight.columns
		op.TiedGradient = p.guarded(make([]float32, int64(len(c.step.Sparse[0].Items))*columns), columns)
	}
	if c.loss.NeedsStats() {
		op.Stats = p.guarded(make([]float32, 2*c.step.Rows), 2)
		if !c.onlyStats && !c.both {
			write(op.Stats, 0, c.statistics())
		}
	}
	if keeper, is := d.(kernels.LogitKeeper); is && c.keeps {
		if n := keeper.LogitsSize(op, c.step.Most()); n > 0 {
			op.Logits = p.filled(int(n), float32(math.NaN()))
		}
	}
	op.Workspace = p.workspace(op, c.step.Most())
	step := fresh(c.step)
	if c.given {
		batch := *step.Sparse[1]
		op.Targets = kernels.TargetValues{
			ByRow: p.floats(batch.Values), ByItem: p.floats(batch.ItemValues), Sums: p.guarded(batch.RowSum, 1),
		}
		others := func(x []float32) []float32 { return slices.Repeat([]float32{7}, len(x)) }
		batch.Values, batch.ItemValues, batch.RowSum = others(batch.Values), others(batch.ItemValues), others(batch.RowSum)
		step.Sparse = []*kernels.SparseBatch{step.Sparse[0], &batch}
	}
	if c.onlyStats || c.both {
		err = d.OutputStats(op, step)
	}
	if !c.onlyStats && err == nil {
		err = d.OutputStep(op, step)
	}
	r.add("stats", op.Stats)
	for n, source := range op.Sources {
		r.add(fieldOf("h", n), source.H)
		r.add(fieldOf("dh", n), source.DH)
		r.addWeights(source.Weight)
	}
	r.addWeights(op.Bias)
	r.add("tied", op.TiedGradient)
	r.add("addend", op.Addend.Sum)
	return append(r, field{"loss", step.Loss}), err
}

// placeSources puts the hidden layers and their weights on the device.
func (c *outputCase) placeSources(p *place) (list []kernels.OutputSource) {
	for _, s := range c.sources {
		source := kernels.OutputSource{H: p.guarded(s.h, s.weight.columns), Weight: s.weight.place(p), Accumulate: s.accumulate}
		if s.dh != nil {
			source.DH = p.guarded(s.dh, s.weight.columns)
		}
		list = append(list, source)
	}
	return list
}

func fieldOf(word string, n int) string { return word + string(rune('0'+n)) }

// statistics are maximum and log-sum-exp, as the step gets them: computed here, so that a step is tested apart from the
// backend's own OutputStats.
func (c *outputCase) statistics() []float32 {
	stats := make([]float32, 2*c.step.Rows)
	z := c.logits()
	for u := range c.step.Rows {
		maximum, total := math.Inf(-1), 0.0
		for i := range c.items {
			maximum = math.Max(maximum, z[u*c.items+i].value)
		}
		for i := range c.items {
			total += math.Exp(z[u*c.items+i].value - maximum)
		}
		stats[2*u], stats[2*u+1] = float32(maximum), float32(maximum+math.Log(total))
	}
	return stats
}

// outputSize are magnitudes of hidden values and weights, whose product sets that of the logits.
type outputSize struct{ h, w, b float64 }

func outputCases(onlyStats bool, p kernels.Precision) (cases []opCase) {
	s := newSampler(15)
	offered := losses
	if onlyStats {
		offered = slices.DeleteFunc(slices.Clone(losses), func(l kernels.Loss) bool { return !l.NeedsStats() })
	}
	for range 80 {
		loss := pick(s, "loss", offered...)
		c := &outputCase{onlyStats: onlyStats, loss: loss, optimizer: s.optimizer(), precision: p}
		shape := pick(s, "shape", outputShapes...)
		b, items, units := shape[0], shape[1], shape[2]
		c.items = items
		target := s.batch(b, items, pick(s, "target", batchKinds...), takesNegative(loss))
		input := s.batch(b, items, pick(s, "input", batchKinds...), true)
		c.step = s.step(c.optimizer, b, input, target)

		cosine := pick(s, "temperature", float32(0), 0, 0.1, 1)
		size := outputSize{1, 1, 1}
		sources := 1
		switch c.temperature = cosine; cosine {
		case 0:
			size = pick(s, "size", outputSize{1, 1, 1}, outputSize{1, 1, 1}, outputSize{100, 100, 1e3}, outputSize{1, 1e-30, 1e-30},
				outputSize{1e-20, 1e-19, 1e-39})
			sources = pick(s, "sources", 1, 1, 1, 2, 3, 0)
		default:
			// Squares of float32 must not underflow here: how small a norm may be is no part of the contract.
			size = pick(s, "cosine size", outputSize{1, 1, 1}, outputSize{1e4, 1e-12, 1}, outputSize{1e-12, 1e4, 100})
		}
		written := pick(s, "written", false, false, true)
		for n := range sources {
			columns := units
			if n > 0 {
				columns = 1 + units/2 // sources of different widths
			}
			source := hiddenSource{h: s.normal(b*columns, size.h)}
			source.weight = s.weight(fieldOf("w", n), items, columns, size.w/math.Sqrt(float64(columns)), c.optimizer)
			source.weight.written = written
			if pick(s, "dh", true, true, true, false) {
				source.dh = s.normal(b*columns, 1e-2*size.w)
				source.accumulate = pick(s, "accumulate", false, true)
			}
			// a zero hidden vector and a zero item
			clear(source.h[(b/2)*columns : (b/2+1)*columns])
			clear(source.weight.value[(items/3)*columns : (items/3+1)*columns])
			c.sources = append(c.sources, source)
		}
		if pick(s, "bias", true, false) || sources == 0 {
			c.bias = s.weight("bias", items, 1, size.b, c.optimizer)
			c.bias.noDecay, c.bias.written = pick(s, "exempt", true, true, false), written
		}
		if sources == 1 {
			c.tied = pick(s, "tied", false, true)
		}
		c.title = s.title()
		cases = append(cases, c)
	}
	s.covered()
	for n, c := range slices.Clone(cases) {
		if c := c.(*outputCase); n%3 == 0 && c.temperature == 0 {
			cases = append(cases, c.added(s, n%4 == 0))
			if n%2 == 0 {
				cases = append(cases, c.leaving(n%4 == 0))
			}
		}
	}
	if onlyStats {
		return cases
	}
	for n, c := range slices.Clone(cases) {
		if n%4 == 0 {
			cases = append(cases, c.(*outputCase).locked(n/4%3))
		}
	}
	for n, c := range slices.Clone(cases) {
		if c := c.(*outputCase); n%8 == 0 || c.loss.Kind == kernels.Softmax && n%2 == 0 {
			cases = append(cases, c.withGiven())
		}
	}
	return cases
}

// withGiven is the case with the targets where MarginalTargets leaves them.
func (c *outputCase) withGiven() *outputCase {
	made := *c
	made.title, made.given = c.title+", given targets", true
	return &made
}

// added is the case with what inputs add to its logits; among others: the columns of other devices' items are around them.
func (c *outputCase) added(s *sampler, amongOthers bool) *outputCase {
	made := *c
	made.title, made.stride = c.title+", added", c.items
	if amongOthers {
		made.title, made.stride, made.first = c.title+", added among others", c.items+8, 3
	}
	made.addend = s.normal(c.step.Rows*made.stride, 1)
	return &made
}

// leaving is the case that leaves its gradient where nothing was added to its logits; what stands there is not a number.
func (c *outputCase) leaving(amongOthers bool) *outputCase {
	made := *c
	made.title, made.stride, made.empty = c.title+", leaving its gradient", c.items, true
	if amongOthers {
		made.title, made.stride, made.first = c.title+", leaving its gradient among others", c.items+8, 3
	}
	made.addend = slices.Repeat([]float32{float32(math.NaN())}, int(c.step.Rows*made.stride))
	return &made
}

// locked is the case with all weights locked, or 1: all but the bias, or 2: all but that of the last source.
func (c *outputCase) locked(but int) *outputCase {
	made := *c
	made.title, made.tied = fmt.Sprintf("%s, locked %d", c.title, but), false
	made.sources = slices.Clone(c.sources)
	for n, source := range made.sources {
		if but < 2 || n < len(made.sources)-1 {
			made.sources[n].weight = source.weight.asLocked()
		}
	}
	if c.bias != nil && but != 1 {
		made.bias = c.bias.asLocked()
	}
	return &made
}
