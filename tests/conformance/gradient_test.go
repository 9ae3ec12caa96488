package conformance

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/internal/random"
	"dsstne/kernels"
)

// Finite differences. The loss L of a small network is compared at w + e and w - e for every weight, with e a power of two
// and weights on a grid of 2^-12, so that w +- e are exact in float32. Three such quotients, at e, e/2 and e/4, are combined
// so that the error terms of order e^2 and e^4 cancel (Romberg); what is left is of order (e^3/8)^2, 1e-9 times a seventh
// derivative.
//
// The ops store hidden values, statistics and gradients in float32, so that L is rounded: by roundoff times the sum of
// |dL/dh h| over some tens of hidden values and |dL/dlse lse|, a few 1e-7, which the quotient at e/4 = 1/64 makes 2e-5 or
// more. That explains the reference's tolerance (the worst case seen is 5e-5). A backend that computes in float32 adds the
// rounding of sums of up to eight products: again the same, a few times over.
const (
	difference         = 1.0 / 16
	referenceTolerance = 1e-4
	float32Tolerance   = 4e-4
)

const gradientRows, gradientItems, gradientUnits = 3, 6, 4

// netCase is input -> hidden 1 -> hidden 2 -> output, where the output may also see hidden 1.
type netCase struct {
	activation  kernels.Activation
	loss        kernels.Loss
	temperature float32
	tied        bool // the output shares the input's weight
	skip        bool // the output has hidden 1 as its second source
	stored      bool // the loss is that of the stored entries
	weighted    bool // the rows have weights
	sparse      bool // hidden 2 has a penalty on the means of its units
	normed      bool // hidden 2 is normalised over the batch
	byRow       bool // or each row of it
	dropout     float32
}

// net holds a case's data: the input's weight, the dense weight, the output's weights and the biases.
type net struct {
	netCase
	step                   *kernels.Step
	in, dense, out, second *weight // out is in where they are tied
	bias1, bias2, biasOut  *weight
	scale                  *weight // of hidden 2, if it is normalised
}

func newNet(c netCase, seed uint64) *net {
	s := newSampler(seed)
	grid := func(w *weight) *weight {
		for i, x := range w.value {
			w.value[i] = float32(math.Round(float64(x)*4096) / 4096)
		}
		w.written = true
		return w
	}
	sgd := kernels.Optimizer{}
	n := &net{netCase: c}
	input := s.batch(gradientRows, gradientItems, "full", true)
	target := s.batch(gradientRows, gradientItems, "sparse", takesNegative(c.loss))
	if c.stored && c.loss.Compares() {
		target = s.batch(gradientRows, gradientItems, "full", false)
		addNegatives(target, 2)
	}
	n.step = s.step(sgd, gradientRows, input, target)
	if c.weighted {
		n.step.RowWeights = [][]float32{nil, {2, 0, 0.5}}
	}
	n.in = grid(s.weight("in", gradientItems, gradientUnits, 0.5, sgd))
	n.dense = grid(s.weight("dense", gradientUnits, gradientUnits, 0.5, sgd))
	n.bias1, n.bias2 = grid(s.weight("bias1", gradientUnits, 1, 1, sgd)), grid(s.weight("bias2", gradientUnits, 1, 1, sgd))
	n.moveFromKinks()
	if c.normed {
		n.scale = grid(s.weight("scale", gradientUnits, 1, 1, sgd))
	}
	n.biasOut = grid(s.weight("biasOut", gradientItems, 1, 1, sgd))
	n.out = n.in
	if !c.tied {
		n.out = grid(s.weight("out", gradientItems, gradientUnits, 1, sgd))
	}
	if c.skip {
		n.second = grid(s.weight("second", gradientItems, gradientUnits, 1, sgd))
	}
	return n
}

// hasKink reports whether a derivative of the activation jumps at 0: the second one of ELU and soft-sign, which differences
// see too.
func (n *net) hasKink() bool {
	return hasKink(n.activation.Kind)
}

func hasKink(kind kernels.ActivationKind) bool {
	switch kind {
	case kernels.ReLU, kernels.ELU, kernels.SELU, kernels.LeakyReLU, kernels.Softsign:
		return true
	}
	return false
}

// moveFromKinks moves the biases of units with a kink at 0 away from it, so that few seeds are needed to find a smooth net.
// All units of a ReLU move upwards, where it has a slope.
func (n *net) moveFromKinks() {
	if !n.hasKink() {
		return
	}
	for _, bias := range []*weight{n.bias1, n.bias2} {
		for i, b := range bias.value {
			away := 1 + math.Abs(float64(b))
			if b < 0 && n.activation.Kind != kernels.ReLU {
				away = -away
			}
			bias.value[i] = float32(away)
		}
	}
}

func (n *net) weights() []*weight {
	list := []*weight{n.in, n.dense, n.bias1, n.bias2, n.biasOut}
	if !n.tied {
		list = append(list, n.out)
	}
	if n.skip {
		list = append(list, n.second)
	}
	if n.normed {
		list = append(list, n.scale)
	}
	return list
}

// running is a net on a device, every op bound.
type running struct {
	*net
	place             *place
	device            kernels.Device
	placed            map[*weight]*kernels.Weights
	hidden            [2]kernels.Buffer
	output            *kernels.Output
	forward, backward []func(*kernels.Step) error
}

func (n *net) on(d kernels.Device) *running {
	p := &place{device: d}
	r := &running{net: n, place: p, device: d, placed: map[*weight]*kernels.Weights{}}
	for _, w := range n.weights() {
		r.placed[w] = w.place(p)
	}
	buffer := func() kernels.Buffer { return p.alloc(gradientRows * gradientUnits) }
	h1, h2, dh1, dh2 := buffer(), buffer(), buffer(), buffer()
	epilogue := func(bias *weight, layer uint32) kernels.Epilogue {
		return kernels.Epilogue{
			Bias: r.placed[bias].Value, Activation: n.activation, Dropout: n.dropout, Alpha: dropsToAlpha(n.activation.Kind),
			Stream: random.StreamDropout | layer,
		}
	}
	e1, e2 := epilogue(n.bias1, 1), epilogue(n.bias2, 2)

	gather := &kernels.Gather{Input: 0, Weight: r.placed[n.in], Out: h1, Epilogue: &e1}
	gather.Workspace = p.workspace(gather, n.step.Most())
	dense := &kernels.Dense{In: h1, Weight: r.placed[n.dense], Out: h2, Epilogue: &e2}
	back1 := &kernels.Backward{H: h1, DH: dh1, Units: gradientUnits, Epilogue: e1, Bias: r.placed[n.bias1]}
	back2 := &kernels.Backward{H: h2, DH: dh2, Units: gradientUnits, Epilogue: e2, Bias: r.placed[n.bias2]}
	r.forward = []func(*kernels.Step) error{
		func(s *kernels.Step) error { return d.Gather(gather, s) },
		func(s *kernels.Step) error { return d.Dense(dense, s) },
	}
	place := 1 // its place
	if n.activation.Kind.SlopeNeedsSum() {
		r.keepSums(gather, dense, back1, back2)
		place = 2
	}
	dense.Workspace = p.workspace(dense, n.step.Most())
	output := &kernels.Output{
		Target: 1, Term: 1, Items: gradientItems, Temperature: n.temperature, Loss: n.loss, TiedInput: -1,
		Bias: r.placed[n.biasOut], Weighted: n.weighted,
		Sources: []kernels.OutputSource{{H: h2, DH: dh2, Weight: r.placed[n.out]}}, Stats: p.alloc(2 * gradientRows),
	}
	if n.skip {
		output.Sources = append(output.Sources, kernels.OutputSource{H: h1, DH: dh1, Weight: r.placed[n.second]})
	}
	if n.tied {
		output.TiedInput, output.TiedGradient = 0, p.alloc(gradientItems*gradientUnits)
	}
	if n.loss.Marginal() {
		output.Loss = n.loss.OfMarginal()
	}
	output.Workspace = p.workspace(output, n.step.Most())
	denseBack := &kernels.DenseBackward{DZ: dh2, In: h1, DIn: dh1, Accumulate: n.skip, Weight: r.placed[n.dense]}
	denseBack.Workspace = p.workspace(denseBack, n.step.Most())
	var norm, penalty, normBack []func(*kernels.Step) error
	if n.normed {
		norm, normBack = r.normalise(dense, back2)
	}
	if n.sparse {
		sums := p.alloc(gradientUnits)
		unitSums := &kernels.UnitSums{X: h2, Units: gradientUnits, Sums: sums}
		sparsity := &kernels.Sparsity{Units: gradientUnits, Sums: sums, Mean: 0.25, Weight: 0.5, Term: 1}
		penalty = []func(*kernels.Step) error{
			func(s *kernels.Step) error { return d.UnitSums(unitSums, s) },
			func(s *kernels.Step) error { return d.Sparsity(sparsity, s) },
		}
		back2.Shift = sums
	}
	scatter := &kernels.Scatter{Input: 0, DZ: dh1, Weight: r.placed[n.in], TiedGradient: output.TiedGradient}
	scatter.Workspace = p.workspace(scatter, n.step.Most())

	r.hidden, r.output = [2]kernels.Buffer{h1, h2}, output
	r.forward = slices.Concat(r.forward[:place+1], norm, r.forward[place+1:], penalty)
	if n.loss.NeedsStats() && !n.stored {
		r.forward = append(r.forward, func(s *kernels.Step) error { return d.OutputStats(output, s) })
	}
	if n.loss.Marginal() {
		r.forward = append(r.forward, r.marginalTargets())
	}
	if n.stored {
		r.addEntries()
	} else {
		r.forward = append(r.forward, func(s *kernels.Step) error { return d.OutputStep(output, s) })
	}
	r.backward = append(r.backward, func(s *kernels.Step) error { return d.Backward(back2, s) })
	r.backward = append(append(r.backward, normBack...), []func(*kernels.Step) error{
		func(s *kernels.Step) error { return d.DenseBackward(denseBack, s) },
		func(s *kernels.Step) error { return d.Backward(back1, s) },
		func(s *kernels.Step) error { return d.Scatter(scatter, s) },
	}...)
	return r
}

// marginalTargets makes the operation by which only some targets count.
func (r *running) marginalTargets() func(*kernels.Step) error {
	entries := len(r.step.Sparse[1].Indices)
	r.output.Targets = kernels.TargetValues{
		ByRow: r.place.alloc(entries), ByItem: r.place.alloc(entries), Sums: r.place.alloc(gradientRows),
	}
	op := &kernels.MarginalTargets{
		Output: r.output, Entries: int64(entries), NormalizeRows: r.loss.NormalizeRows, OneScale: r.loss.OneScale,
		OneTarget: r.loss.OneTarget,
	}
	op.Workspace = r.place.workspace(op, r.step.Most())
	return func(s *kernels.Step) error { return r.device.MarginalTargets(op, s) }
}

// keepSums lets the layers end apart from their sums, which the way back reads.
func (r *running) keepSums(gather *kernels.Gather, dense *kernels.Dense, back1, back2 *kernels.Backward) {
	apart := func(out *kernels.Buffer, e **kernels.Epilogue, back *kernels.Backward) func(*kernels.Step) error {
		back.H = r.place.alloc(gradientRows * gradientUnits)
		end := &kernels.Activate{In: back.H, Out: *out, Units: gradientUnits, Epilogue: **e}
		*out, *e, end.Epilogue.Bias = back.H, &kernels.Epilogue{Bias: end.Epilogue.Bias}, nil
		return func(s *kernels.Step) error { return r.device.Activate(end, s) }
	}
	end1, end2 := apart(&gather.Out, &gather.Epilogue, back1), apart(&dense.Out, &dense.Epilogue, back2)
	r.forward = []func(*kernels.Step) error{r.forward[0], end1, r.forward[1], end2}
}

// normalise adds a normalisation behind a layer's sums, and the way back through it behind that of the layer.
func (r *running) normalise(
	dense *kernels.Dense, back *kernels.Backward,
) (forward, backward []func(*kernels.Step) error) {
	d, p := r.device, r.place
	end, z := *dense.Epilogue, p.alloc(gradientRows*gradientUnits)
	dense.Out, dense.Epilogue = z, nil
	norm := kernels.Norm{
		Mean: p.alloc(gradientUnits), Variance: p.alloc(gradientUnits), Scale: r.placed[r.scale].Value, Epsilon: 0.25,
		ByRow: r.byRow,
	}
	rows := &kernels.RowMoments{X: z, Units: gradientUnits, Mean: norm.Mean, Variance: norm.Variance}
	moments := &kernels.UnitMoments{X: z, Units: gradientUnits, Moments: p.alloc(2*gradientUnits + 1)}
	combine := &kernels.CombineMoments{
		Parts: moments.Moments, Ranks: 1, Units: gradientUnits, Mean: norm.Mean, Variance: norm.Variance,
	}
	activate := &kernels.Activate{In: z, Out: back.H, Units: gradientUnits, Norm: &norm, Epilogue: end}
	sums := &kernels.NormSums{DY: back.DH, X: z, Norm: norm, Units: gradientUnits, Sums: p.alloc(2 * gradientUnits)}
	through := &kernels.NormBackward{
		DY: back.DH, X: z, Norm: norm, Units: gradientUnits, Parts: sums.Sums, Ranks: 1, Scale: r.placed[r.scale],
	}
	return []func(*kernels.Step) error{
			func(s *kernels.Step) error {
				if r.byRow {
					return d.RowMoments(rows, s)
				}
				return errors.Join(d.UnitMoments(moments, s), d.CombineMoments(combine, s))
			},
			func(s *kernels.Step) error { return d.Activate(activate, s) },
		}, []func(*kernels.Step) error{
			func(s *kernels.Step) error { return d.NormSums(sums, s) },
			func(s *kernels.Step) error { return d.NormBackward(through, s) },
		}
}

// addEntries adds the output at its stored entries, and the gradients with respect to its weights.
func (r *running) addEntries() {
	from, d := r.output, r.device
	op := &kernels.OutputEntries{
		Target: from.Target, Term: from.Term, Entries: int64(len(r.step.Sparse[1].Indices)), Sources: from.Sources,
		Bias: from.Bias, Loss: from.Loss, Items: gradientItems + 3, Stream: entriesStream,
		Temperature: from.Temperature,
	}
	op.DZ, op.Workspace = r.place.alloc(int(op.Entries)), r.place.workspace(op, r.step.Most())
	r.forward = append(r.forward, func(s *kernels.Step) error { return d.OutputEntries(op, s) })
	scatter := func(w *kernels.Weights, scatter *kernels.Scatter) {
		scatter.Input, scatter.Weight = op.Target, w
		r.backward = append(r.backward, func(s *kernels.Step) error { return d.Scatter(scatter, s) })
	}
	for _, source := range op.Sources {
		if op.Temperature == 0 {
			scatter(source.Weight, &kernels.Scatter{Values: op.DZ, DZ: source.H})
			continue
		}
		op.Directions = r.place.alloc(gradientRows * gradientUnits)
		op.X, op.Y = r.place.alloc(int(op.Entries)), r.place.alloc(gradientItems)
		scatter(source.Weight, &kernels.Scatter{Values: op.X, DZ: op.Directions, Own: op.Y})
	}
	scatter(op.Bias, &kernels.Scatter{Values: op.DZ})
}

// lossOf runs ops and returns what they added to the loss.
func (r *running) lossOf(ops ...func(*kernels.Step) error) (float64, error) {
	step := fresh(r.step)
	for _, op := range ops {
		if err := op(step); err != nil {
			return 0, err
		}
	}
	return step.Loss[1], nil
}

// gradients are the written ones, by weight.
func (r *running) gradients() (g result, err error) {
	_, err = r.lossOf(append(slices.Clone(r.forward), r.backward...)...)
	for _, w := range r.weights() {
		g.add(w.name, r.placed[w].Gradient)
	}
	return g, err
}

// quotient is (L(w + e) - L(w - e)) / 2e for number i of a weight.
func (r *running) quotient(w *weight, i int, e float32) (float64, error) {
	value := r.placed[w].Value
	set := func(x float32) { write(value, int64(i), []float32{x}) }
	defer set(w.value[i])
	set(w.value[i] + e)
	above, err := r.lossOf(r.forward...)
	if err != nil {
		return 0, err
	}
	set(w.value[i] - e)
	below, err := r.lossOf(r.forward...)
	return (above - below) / (2 * float64(e)), err
}

// derivative combines three quotients.
func (r *running) derivative(w *weight, i int) (float64, error) {
	var q [3]float64
	for n := range q {
		var err error
		if q[n], err = r.quotient(w, i, difference/float32(int(1)<<n)); err != nil {
			return 0, err
		}
	}
	coarse, fine := (4*q[1]-q[0])/3, (4*q[2]-q[1])/3
	return (16*fine - coarse) / 15, nil
}

// smooth reports whether no kink lies within reach of a difference: units are away from that of their activation, logits
// from those of the loss.
func (n *net) smooth(d kernels.Device) (bool, error) {
	r := n.on(d)
	defer r.place.free()
	if _, err := r.lossOf(r.forward...); err != nil {
		return false, err
	}
	if n.hasKink() {
		for layer, hidden := range r.hidden {
			e := &kernels.Epilogue{
				Activation: n.activation, Dropout: n.dropout, Alpha: dropsToAlpha(n.activation.Kind),
				Stream: random.StreamDropout | uint32(layer+1),
			}
			for i, h := range contents(hidden) {
				h -= float32(alphaShift(e, n.step))
				dropped := keep(e, n.step, int64(i)/gradientUnits, int64(i)%gradientUnits) == 0
				if n.activation.Kind != kernels.ReLU {
					h = float32(math.Abs(float64(h)))
				}
				if !dropped && h <= 0.25 {
					return false, nil
				}
			}
		}
	}
	if n.loss.Marginal() {
		return r.keepsTargets()
	}
	if n.loss.Kind == kernels.ScaledMarginal || n.loss.Kind.ElementWise() {
		return r.awayFromLimits()
	}
	return true, nil
}

// keepsTargets reports whether the same targets count wherever a difference moves a weight: some of them, and not all.
func (r *running) keepsTargets() (bool, error) {
	counts := func() (list []bool) {
		for _, t := range contents(r.output.Targets.ByRow) {
			list = append(list, t != 0)
		}
		return list
	}
	middle := counts()
	if !slices.Contains(middle, true) || !slices.Contains(middle, false) {
		return false, nil
	}
	for _, w := range r.weights() {
		for i := range w.value {
			for _, e := range []float32{difference, -difference} {
				write(r.placed[w].Value, int64(i), []float32{w.value[i] + e})
				if _, err := r.lossOf(r.forward...); err != nil {
					return false, err
				}
				write(r.placed[w].Value, int64(i), []float32{w.value[i]})
				if !slices.Equal(counts(), middle) {
					return false, nil
				}
			}
		}
	}
	return true, nil
}

func (r *running) awayFromLimits() (bool, error) {
	scores, targets := r.scores(), r.targets()
	middle, err := scores()
	if err != nil {
		return false, err
	}
	for i, z := range middle {
		if r.loss.Kind.ElementWise() {
			if bends(r.loss, targets[i], z-0.25, z+0.25) {
				return false, nil
			}
			continue
		}
		a := 1 / (1 + math.Exp(-z))
		if math.Abs(a-float64(r.loss.OneTarget)) < 0.05 || math.Abs(a-float64(r.loss.ZeroTarget)) < 0.05 {
			return false, nil
		}
	}
	if !r.loss.Kind.ElementWise() {
		return true, nil
	}
	for _, w := range r.weights() { // a weight may move a logit further than that
		for i := range w.value {
			if bent, err := r.bendsWithin(w, i, scores, middle, targets); bent || err != nil {
				return false, err
			}
		}
	}
	return true, nil
}

// scores returns a function that computes the logits, [B, I], once the hidden values are there.
func (r *running) scores() func() ([]float64, error) {
	op := &kernels.Scores{Out: make([]float32, gradientRows*gradientItems), Stride: gradientItems}
	op.Items, op.Sources = gradientItems, r.output.Sources
	op.Bias, op.Temperature = r.output.Bias, r.temperature
	op.Workspace = r.place.workspace(op, r.step.Most())
	return func() ([]float64, error) {
		if err := r.device.Scores(op, r.step); err != nil {
			return nil, err
		}
		z := make([]float64, len(op.Out))
		for i, x := range op.Out {
			z[i] = float64(x)
		}
		return z, nil
	}
}

// bendsWithin reports whether a kink lies between the logits and those with number i of a weight moved by a difference.
func (r *running) bendsWithin(
	w *weight, i int, scores func() ([]float64, error), middle, targets []float64,
) (bool, error) {
	value := r.placed[w].Value
	defer write(value, int64(i), []float32{w.value[i]})
	for _, e := range []float32{difference, -difference} {
		write(value, int64(i), []float32{w.value[i] + e})
		if _, err := r.lossOf(r.forward...); err != nil {
			return false, err
		}
		moved, err := scores()
		if err != nil {
			return false, err
		}
		for n, z := range moved {
			if bends(r.loss, targets[n], min(z, middle[n]), max(z, middle[n])) {
				return true, nil
			}
		}
	}
	return false, nil
}

// bends reports whether an element-wise loss, or the activation before it, has a kink between two logits.
func bends(l kernels.Loss, t, low, high float64) bool {
	if hasKink(l.Activation.Kind) && low < 0 && high > 0 {
		return true
	}
	a, b := activated(l.Activation, low), activated(l.Activation, high)
	switch l.Kind {
	case kernels.Hinge:
		if t == 0 {
			t = -1
		}
		return (1-t*a)*(1-t*b) < 0
	case kernels.CosineContrastive:
		return t == 0 && (a-float64(l.ZeroTarget))*(b-float64(l.ZeroTarget)) < 0
	case kernels.Absolute, kernels.L2Hinge:
		return (a-t)*(b-t) < 0
	}
	return false
}

// targets are t of every row and item, [B, I].
func (n *net) targets() []float64 {
	c := outputCase{step: n.step, items: gradientItems}
	return c.targets()
}

// gradientAgrees compares every written gradient with finite differences.
func gradientAgrees(n *net, d kernels.Device, tolerance float64) error {
	r := n.on(d)
	defer r.place.free()
	gradients, err := r.gradients()
	if err != nil {
		return err
	}
	for which, w := range n.weights() {
		for i := range w.value {
			want, err := r.derivative(w, i)
			if err != nil {
				return err
			}
			if got := gradients[which].data[i]; !(math.Abs(got-want) <= tolerance*(1+math.Abs(want))) {
				return fmt.Errorf("%+v: gradient of %s[%d] = %g, but the loss moves by %g", n.netCase, w.name, i, got, want)
			}
		}
	}
	return nil
}

// netCases are all losses with all activations and both kinds of logits, and along with them, in turn, everything else.
// Losses behind an activation of the output come with one hidden activation only.
func netCases() (cases []netCase) {
	pairs, period := len(activations)*len(losses), len(activations) // until the same pairs come again
	for period%len(losses) != 0 {
		period += len(activations)
	}
	for n := range 2 * pairs {
		loss := losses[(n+n%pairs/period)%len(losses)]
		c := netCase{activation: activations[n%len(activations)], loss: loss, tied: n/4%2 == 1}
		if loss.Activation.Kind != kernels.Linear && c.activation.Kind != kernels.Tanh {
			continue
		}
		c.dropout, c.weighted = []float32{0, 0.25}[n/5%2], n/7%2 == 0
		// Means that are neither 0 nor 1 have a derivative.
		c.sparse = c.activation.Kind == kernels.Sigmoid && c.dropout == 0 && n/6%2 == 0
		c.normed = !hasKink(c.activation.Kind) && n/9%2 == 0 && !c.sparse
		c.byRow = c.normed && n/2%2 == 0
		if n >= pairs {
			c.temperature = 0.5
		} else {
			c.skip = !c.tied && n/8%2 == 0 // a tied output has one source
		}
		c.stored = !c.tied && n/3%2 == 0
		cases = append(cases, c)
	}
	for n, act := range activations {
		cases = append(cases, netCase{activation: act, loss: pairLoss, stored: true, weighted: n%2 == 0, skip: n%3 == 0})
		cases = append(cases, netCase{activation: act, loss: marginalLoss, weighted: n%2 == 1, tied: n%3 == 0,
			temperature: float32(n%2) / 2})
	}
	return cases
}

// few are cases that have, between them, every activation and every loss with both kinds of logits, and every option.
func few(cases []netCase) (list []netCase) {
	seen := map[any]bool{}
	for _, c := range cases {
		known := len(seen)
		for _, feature := range []any{
			[2]any{c.activation, c.temperature}, [2]any{c.loss, c.temperature}, [2]any{"tied", c.tied},
			[2]any{"skip", c.skip}, [2]any{"dropout", c.dropout}, [2]any{"stored", c.stored},
			[2]any{"weighted", c.weighted}, [2]any{"sparse", c.sparse},
			[2]any{"normed", c.normed}, [2]any{"by row", c.byRow},
		} {
			seen[feature] = true
		}
		if len(seen) > known {
			list = append(list, c)
		}
	}
	return list
}

func TestGradientsAreTheDerivativesOfTheLoss(t *testing.T) {
	t.Parallel()
	forEveryBackend(t, func(t *testing.T, open opener) {
		d, tolerance := open(1), float32Tolerance
		if d.Info().Kind == oracle(t).Info().Kind {
			tolerance = referenceTolerance
		}
		cases := netCases()
		if slow(d) {
			cases = few(cases)
		}
		for _, c := range some(d, cases, 0) {
			require.NoError(t, gradientAgrees(smoothNet(t, c), d, tolerance))
		}
	})
}

// smoothSeeds are those found before, for another backend.
var smoothSeeds = map[netCase]uint64{}

// smoothNet tries seeds until no kink is near.
func smoothNet(t *testing.T, c netCase) *net {
	reference := oracle(t)
	for seed := smoothSeeds[c]; seed < 20000; seed++ {
		n := newNet(c, seed)
		smooth, err := n.smooth(reference)
		require.NoError(t, err)
		if smooth {
			smoothSeeds[c] = seed
			return n
		}
	}
	require.Fail(t, "no seed keeps away from the kinks", "%+v", c)
	return nil
}
