package network

import (
	"fmt"
	"slices"
	"strings"

	"dsstne/engine/program"
	"dsstne/engine/strictjson"
	"dsstne/internal/random"
	"dsstne/kernels"
)

// outputLayer gives every item a score, the logit z, and behind it, for the loss, the value of its activation.
type outputLayer struct {
	capped
	temperature float32 // divisor of cosine logits; 0 = the logits are dot products
	cap         float32 // on the norm of the gradient of a row with respect to its logits; 0: none
	// What the definition gives; function is empty if it is what the loss has anyway.
	function   string
	activation kernels.Activation // linear for "softmax", too
}

func (*outputLayer) word() string { return "output" }

func (*outputLayer) scores() bool { return true }

func (*outputLayer) accepts(source kind) bool { return !source.scores() }

func (k *outputLayer) read(r *reader, o *strictjson.Object, l *Layer, earlier []Layer) {
	l.Size = dataSize(o)
	l.Sources = r.sources(o, l, earlier)
	readSkips(r, o, l, earlier)
	l.Bias = o.Bool("bias", true)
	k.temperature = o.Float32("temperature", 0, strictjson.NotNegative)
	readShared(o, l, earlier)
	k.readWeightNorm(o)
	l.Initializer = initializer(o, l)
	if o.Has("activation") {
		k.function, k.activation = readActivation(o, "", outputFunctions...)
	} else {
		refuseAlphas(o)
	}
	for _, key := range []string{"dropout", "alpha_dropout", "sparsity", batchNormKey, layerNormKey} {
		o.Refuse(key, "is given, but an output layer has none; it belongs on the hidden layers before it")
	}
	k.cap = readCap(o)
}

func (k *outputLayer) define(n *Network, l *Layer) fields {
	return slices.Concat(
		fields{{"sources", n.defineSources(l)}}, n.defineSkips(l),
		fields{{"size", defineSize(l)}, {"bias", l.Bias}, {"temperature", k.temperature}},
		defineActivation(k.function, k.activation),
		fields{{"shared", n.defineShared(l)}, {"initializer", defineInitializer(l)}}, defineCap(k.cap),
		k.defineWeightNorm(),
	)
}

func (k *outputLayer) check(n *Network, i int, o *strictjson.Object) {
	l := &n.Layers[i]
	if len(l.Sources) > kernels.MaxSources {
		o.Fail("sources", "has %d layers; an output takes at most %d", len(l.Sources), kernels.MaxSources)
	}
	if len(l.Sources)+len(l.Skips) == 0 && !l.Bias {
		o.Fail("sources", "is empty and there is no bias, so the layer has nothing to learn")
	}
	k.checkInputs(n, i, o)
	switch {
	case k.cap > 0 && k.temperature != 0:
		o.Fail(deltaNormKey, "is %v, but the layer has cosine logits (temperature), whose gradient it cannot limit", k.cap)
	case k.cap > 0 && n.touchesEntries(i):
		o.Fail(deltaNormKey, "is %v, but a loss of stored entries or negatives has no gradient of all items", k.cap)
	}
	if k.temperature != 0 && len(l.Sources) != 1 {
		o.Fail("temperature", "is %v, which needs exactly one source, but the layer has %d", k.temperature, len(l.Sources))
	}
	if k.function != "" {
		term := n.termOf(i)
		loss := term.Loss.Kind
		if own := functionOf(term.Loss); own != "" {
			o.Fail("activation", "is %q, but the loss %q has the activation %q; other activations go with the losses %s",
				k.function, lossWord(term.Loss), own, strings.Join(valueLosses(), ", "))
		} else if k.function == kernels.Softmax.String() {
			o.Fail("activation", "is %q, which only the loss %q has; the loss is %q", k.function, kernels.Softmax, loss)
		}
	}
}

// checkInputs applies the rules about sources that are input layers, and about skips.
func (k *outputLayer) checkInputs(n *Network, i int, o *strictjson.Object) {
	l := &n.Layers[i]
	inputs := n.inputsOf(i)
	if most := kernels.MaxParts - 1; len(inputs)+len(l.Skips) > most {
		o.Fail("sources", "has %d input layers and %d skips; an output takes at most %d of them together", len(inputs),
			len(l.Skips), most)
	}
	if len(l.Skips) > 0 {
		if k.temperature != 0 {
			o.Fail("skips", "is given, but the layer has cosine logits (temperature), to which nothing is added")
		}
		if n.touchesEntries(i) {
			o.Fail("skips", "is given, but a loss of stored entries or negatives takes sources only")
		}
	}
	if len(inputs) == 0 {
		return
	}
	first := n.Layers[inputs[0]].Name
	if k.temperature != 0 {
		o.Fail("temperature", "is %v, but the source %q is an input layer; cosine logits compare items with a hidden layer",
			k.temperature, first)
	}
	if n.touchesEntries(i) {
		o.Fail("sources", "has %q, an input layer, but a loss of stored entries or negatives takes hidden layers only; put "+
			"one between them", first)
	}
}

// outputFunctions are the words for an output's activation.
var outputFunctions = append(slices.Clone(kernels.ActivationWords), kernels.Softmax.String())

// valueLosses are the words of the losses that any activation goes with, but soft-max.
func valueLosses() (words []string) {
	for n, word := range kernels.LossWords {
		if kernels.LossKind(n).ElementWise() {
			words = append(words, word)
		}
	}
	return words
}

// functionOf is the activation that a loss decides; empty if it takes that of the output.
func functionOf(loss kernels.Loss) string {
	switch {
	case loss.Kind.ElementWise():
		return ""
	case loss.Pairs:
		return kernels.Linear.String()
	case loss.Kind == kernels.Softmax:
		return kernels.Softmax.String()
	}
	return kernels.Sigmoid.String()
}

// behind returns the activation that a loss, which has been read, is behind. A function that goes without saying is
// forgotten.
func (k *outputLayer) behind(loss kernels.Loss) kernels.Activation {
	if own := functionOf(loss); k.function == own || own == "" && k.function == kernels.Linear.String() {
		k.function, k.activation = "", kernels.Activation{}
	}
	if !loss.Kind.ElementWise() {
		return kernels.Activation{}
	}
	return k.activation
}

// negativesOf is the stream of the random numbers by which an output has its negatives.
func negativesOf(layer int) uint32 { return random.StreamNegatives | uint32(layer) }

// forward declares how each rank scores its items. Other layers cannot use the scores.
func (k *outputLayer) forward(b *builder, i int) {
	l := &b.net.Layers[i]
	first, end := b.Items(l.Size)
	shard := program.Shard{First: first}
	shard.Items, shard.Temperature, shard.Bias = end-first, k.temperature, b.bias(i)
	for _, s := range b.those(l.Sources, false) {
		source := kernels.OutputSource{H: b.values[s].out, Weight: b.weight(i, s)}
		shard.Sources = append(shard.Sources, source)
	}
	switch {
	case b.Training() != nil && (b.net.adds(i) || k.caps(b, i)):
		b.sumAddend(i)
	case b.net.adds(i):
		b.addScores(i, &shard)
	}
	b.Output(i, shard)
}

// adds reports whether inputs or skips add to the logits of an output.
func (n *Network) adds(output int) bool {
	return len(n.inputsOf(output))+len(n.Layers[output].Skips) > 0
}

// addsScores reports whether the scores of an output are added up in memory: a single input scores by itself.
func (n *Network) addsScores(output int) bool {
	return n.adds(output) && (len(n.Layers[output].reading()) > 1 || len(n.inputsOf(output)) == 0)
}

// sumAddend computes what inputs and skips add to the logits, in the place of the gradient with respect to these.
func (b *builder) sumAddend(i int) {
	l, v, inputs := &b.net.Layers[i], &b.values[i], b.net.inputsOf(i)
	*v = value{units: l.Size, slot: -1, gradient: b.Alloc("sums beside the products", l.Name, b.Rows()*l.Size)}
	if len(inputs) > 0 {
		b.addSources(i, inputs, v.gradient, nil)
	}
	b.addSkips(i, v.gradient, len(inputs) > 0)
}

// addScores makes a scorer that has the hidden layers and the bias one that has inputs and skips, too. A single input
// scores by itself; several scores are added up.
func (b *builder) addScores(i int, shard *program.Shard) {
	l, inputs := &b.net.Layers[i], b.net.inputsOf(i)
	sparse := func(s int) *kernels.SparseSource {
		name := b.net.WeightName(i, s)
		return &kernels.SparseSource{
			Name: name, Input: b.whole[s], Rows: b.net.Layers[s].Size, Columns: l.Size, First: shard.First,
			Values: b.weight(i, s).Value,
		}
	}
	if !b.net.addsScores(i) {
		shard.Sparse = sparse(inputs[0])
		return
	}
	var parts []kernels.Scorer
	bias := shard.Bias // which the first part has
	if len(shard.Sources) > 0 || len(inputs) == 0 && bias != nil {
		parts, bias = append(parts, shard.Scorer), nil
	}
	for _, s := range inputs {
		parts = append(parts, kernels.Scorer{Items: shard.Items, Sparse: sparse(s), Bias: bias})
		bias = nil
	}
	sum := &kernels.Blend{Items: shard.Items, Shards: 1, Stride: b.Rows()}
	part := func() (string, kernels.Buffer) {
		name := fmt.Sprintf("%s, part %d", l.Name, len(sum.Parts))
		scores := b.Alloc("scores", name, b.Rows()*shard.Items)
		sum.Parts = append(sum.Parts, kernels.BlendPart{Scores: scores})
		return name, scores
	}
	for _, scorer := range parts {
		op := &kernels.Scores{Scorer: scorer}
		op.Name, op.To = part()
		b.AddWith(&op.Workspace, op, op)
	}
	for _, s := range l.Skips {
		op := &kernels.Skip{
			From: b.net.Layers[s].Name, In: b.values[s].out, Stride: l.Size, First: shard.First, Units: shard.Items,
		}
		op.Name, op.Out = part()
		b.Add(op)
	}
	sum.Weights = b.Constants("weights of parts", int64(len(sum.Parts)), func() []float32 {
		return slices.Repeat([]float32{1}, len(sum.Parts))
	})
	sum.Out = sum.Parts[0].Scores
	b.Add(sum)
	shard.Scorer = kernels.Scorer{Items: shard.Items, IsGiven: true, Given: sum.Out}
}

// caps reports whether a step caps the gradient of the logits: only where something learns by it.
func (k *outputLayer) caps(b *builder, i int) bool { return k.cap > 0 && b.goesBack(i) }

func (k *outputLayer) loss(b *builder, i, term int) {
	if b.net.Terms[term].touchesEntries() {
		k.lossOfEntries(b, i, term)
		return
	}
	l, scorer, loss, caps := &b.net.Layers[i], b.Shard(i).Scorer, b.net.Terms[term].Loss, k.caps(b, i)
	op := &kernels.Output{
		Name: l.Name, Target: b.slots[i], Term: term, Items: scorer.Items, Bias: scorer.Bias, Temperature: k.temperature,
		Loss: loss, Weighted: b.Training().Weighted, Optimizer: b.Training().Optimizer, TiedInput: -1,
		// MarginalTargets writes, between the statistics and the step, what the statistics may have read.
		Continues: loss.NeedsStats() && !loss.Marginal(),
	}
	for n, s := range b.those(l.Sources, false) {
		source := scorer.Sources[n]
		if caps && scorer.Items > 0 { // without items the op leaves 0 as their part of the gradient
			source.Weight = unchanged(source.Weight)
		} else {
			source.DH, source.Accumulate = b.addTo(s, b.Sharded())
		}
		op.Sources = append(op.Sources, source)
	}
	if caps && op.Bias != nil {
		op.Bias = unchanged(op.Bias)
	}
	if b.net.adds(i) || caps {
		b.addTo(i, b.Sharded() && !caps)
		op.Addend = kernels.Addend{
			Sum: b.values[i].gradient, Stride: l.Size, First: b.Shard(i).First, Empty: !b.net.adds(i),
		}
	}
	if loss.NeedsStats() {
		op.Stats = b.Alloc("soft-max statistics", l.Name, 2*b.Rows())
	}
	tensor, slot := b.tied(i)
	if slot >= 0 && !op.Sources[0].Weight.Locked {
		op.TiedInput = slot
		touched := min(b.Entries(slot), scorer.Items)
		op.TiedGradient = b.LeaveGradient(tensor, touched*op.Sources[0].Weight.Columns)
	}
	if slot < 0 && !caps { // of a tied weight, the input updates rows, too
		for _, source := range op.Sources {
			b.KeepRounded(op, source.Weight)
		}
	}
	if loss.Marginal() {
		op.Loss = loss.OfMarginal()
	}
	b.KeepLogits(op)
	b.ReadTarget(op)
	b.OwnScratch(&op.Workspace, op, l.Name)
	if loss.NeedsStats() {
		b.Add(kernels.OutputStats{Output: op})
		if b.Sharded() { // the statistics of each rank's items become those of all
			parts := b.AllGather("the statistics of "+l.Name, "soft-max statistics", l.Name+" of all devices", op.Stats, 2)
			b.Add(&kernels.CombineStats{Name: l.Name, Shards: int64(b.World()), Stride: b.Rows(), Parts: parts, Stats: op.Stats})
		}
	}
	if loss.Marginal() {
		b.countTargets(op, loss)
	}
	b.Agree()
	b.Add(kernels.OutputStep{Output: op})
	if caps {
		k.updateCapped(b, i)
	}
}

// unchanged is a weight that an operation reads only.
func unchanged(w *kernels.Weights) *kernels.Weights {
	return &kernels.Weights{Name: w.Name, Rows: w.Rows, Columns: w.Columns, Value: w.Value, Locked: true}
}

// updateCapped caps the gradient that the OutputStep has left of all logits, and goes back by it as a hidden layer
// does: to the bias, the weights and the hidden layers before. Each rank has the gradient of its items until all have
// all, and goes on with its own.
func (k *outputLayer) updateCapped(b *builder, i int) {
	l, shard, dz := &b.net.Layers[i], b.Shard(i), b.values[i].gradient
	if b.Sharded() {
		b.AllReduce("the gradient of "+l.Name, dz, l.Size)
	}
	b.Agree()
	b.Add(&kernels.CapRows{Name: l.Name, DZ: dz, Units: l.Size, Cap: k.cap})
	if shard.Items == 0 {
		return
	}
	if b.Sharded() {
		own := b.Alloc("capped gradients", l.Name, b.Rows()*shard.Items)
		b.Add(&kernels.Skip{
			Name: l.Name, From: l.Name, In: dz, Stride: l.Size, First: shard.First, Out: own, Units: shard.Items,
		})
		dz = own
	}
	if bias := b.freeBias(i); bias != nil {
		b.Add(&kernels.Backward{
			Name: l.Name, H: dz, DH: dz, Units: shard.Items, Bias: bias, Optimizer: b.Training().Optimizer,
		})
	}
	b.backToSources(i, b.those(l.Sources, false), dz)
}

// countTargets adds the operation that finds the targets below the limit of a soft-max. Each rank finds those of its
// items; the sums of a row are those of all ranks.
func (b *builder) countTargets(op *kernels.Output, loss kernels.Loss) {
	made := &kernels.MarginalTargets{
		Output: op, Entries: b.Entries(op.Target), NormalizeRows: loss.NormalizeRows, OneScale: loss.OneScale,
		OneTarget: loss.OneTarget,
	}
	op.Targets.ByRow = b.Alloc("targets that count", op.Name, made.Entries)
	if !op.ByRow {
		op.Targets.ByItem = b.Alloc("targets that count, by item", op.Name, made.Entries)
	}
	op.Targets.Sums = b.Alloc("sums of targets that count", op.Name, b.Rows())
	b.Apart(&made.Workspace, made, "targets of "+op.Name) // the output's own has what the statistics leave
	b.Add(made)
	if b.Sharded() {
		b.AllReduce("the targets of "+op.Name+" that count", op.Targets.Sums, 1)
	}
}

// backward updates the weights of inputs, and goes back to skips.
func (k *outputLayer) backward(b *builder, i int) {
	b.backToSources(i, b.net.inputsOf(i), b.values[i].gradient)
	b.backToSkips(i, b.values[i].gradient)
}

// lossOfEntries is loss at the stored entries of the target alone. A step reads the rows of the weights that belong to
// their items, and updates them as those of an input.
func (k *outputLayer) lossOfEntries(b *builder, i, term int) {
	l, scorer, slot := &b.net.Layers[i], b.Shard(i).Scorer, b.slots[i]
	op := &kernels.OutputEntries{
		Name: l.Name, Target: slot, Term: term, Entries: b.Entries(slot), Bias: scorer.Bias,
		Loss: b.net.Terms[term].Loss, Items: l.Size, Stream: negativesOf(i),
		Temperature: k.temperature,
	}
	op.DZ = b.Alloc("entry gradients", l.Name, op.Entries)
	var updates []kernels.Op
	update := func(w *kernels.Weights, scatter *kernels.Scatter) {
		if w.Locked {
			return
		}
		b.CatchUp(w, slot)
		scatter.Input, scatter.Weight, scatter.Optimizer = slot, w, b.Training().Optimizer
		b.Scratch(&scatter.Workspace, scatter)
		updates = append(updates, scatter)
	}
	for n, s := range l.Sources {
		source := scorer.Sources[n]
		source.DH, source.Accumulate = b.addTo(s, b.Sharded())
		op.Sources = append(op.Sources, source)
		scatter := &kernels.Scatter{Values: op.DZ, DZ: source.H}
		if k.temperature != 0 {
			units := source.Weight.Columns
			op.Directions = b.Alloc("directions of rows", l.Name, b.Rows()*units)
			op.X = b.Alloc("turned entry gradients", l.Name, op.Entries)
			op.Y = b.Alloc("item gradients along items", l.Name, min(op.Entries, scorer.Items))
			scatter.Values, scatter.DZ, scatter.Own = op.X, op.Directions, op.Y
		}
		update(source.Weight, scatter)
	}
	if op.Bias != nil {
		update(op.Bias, &kernels.Scatter{Values: op.DZ})
	}
	b.Agree()
	b.AddWith(&op.Workspace, op, op)
	for _, update := range updates {
		b.Add(update)
	}
}
