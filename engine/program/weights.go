package program

import (
	"slices"

	"dsstne/internal/fault"
	"dsstne/kernels"
)

// Tensor is a weight of a model, as a program sees it.
type Tensor struct {
	Name          string
	Rows, Columns int64
	ByItem        bool // rows are items: each of several ranks has a share of them
	// Touched: a step reads and updates only the rows of the items in its batch.
	Touched bool
	Decays  bool // weight decay applies
	Locked  bool // training leaves it as it is: it has no gradient and no state of the optimizer
	// Measured: a step computes it from the batch. It has no gradient and no state either.
	Measured bool
	// MaxNorm is the greatest Euclidean norm that an update leaves a row, or with NormByColumn a column; 0: any.
	MaxNorm      float32
	NormByColumn bool
	Storage      kernels.Storage // of its numbers in the model and on devices
	// Summed: several operations of a step have parts of its gradient, or the only one uses it transposed. They bind it
	// with Use, and the step writes all gradients before it updates a weight.
	Summed bool
}

// capped reports whether an update is followed by a CapWeight.
func (t *Tensor) capped() bool { return t.learns() && t.MaxNorm > 0 }

// learns reports whether a tensor has a gradient, and an update that follows from it.
func (t *Tensor) learns() bool { return !t.Locked && !t.Measured }

// weight is a tensor that is bound on a rank.
type weight struct {
	Tensor
	first, end int64 // the rank's rows
	bound      *kernels.Weights
	partial    kernels.Buffer // what one of its users has found of its gradient, for the user that updates it
	gradient   int64          // where its gradient begins in Builder.gradients
	uses       []use          // of a Summed one
	turned     kernels.Buffer // its transposed copy
	hasTurned  bool
}

// use is what one of the layers that share a weight computes with.
type use struct {
	of         string
	bound      *kernels.Weights
	transposed bool
}

// Tensors declares, once for each model and before its operations, the weights that they compute with.
func (b *Builder) Tensors(list []Tensor) {
	for _, t := range list {
		t.Name = b.prefix + t.Name
		b.tensors = append(b.tensors, t)
		w := &weight{Tensor: t, end: t.Rows}
		if b.isSharded(t) {
			w.first, w.end = ShardOf(t.Rows, b.rank, b.World())
		}
		b.weights[t.Name] = w
		b.needsWhole = b.needsWhole || t.Summed && t.learns() || t.capped()
		b.part.parameters += t.Rows * t.Columns
		if b.inPlace(t) {
			size := t.Storage.Bytes() * (w.end - w.first) * t.Columns
			b.Note(Part{Name: "weights", Of: t.Name, Bytes: size, Device: HostName(b.device), Held: true})
		}
	}
}

// allocGradients takes one buffer for the gradients of all weights that learn, which one operation exchanges and
// one clips. Between them are zeros.
func (b *Builder) allocGradients() {
	for _, t := range b.tensors {
		if !t.learns() {
			continue
		}
		w := b.weights[t.Name]
		w.gradient = b.gradientSize
		b.gradientSize += aligned((w.end - w.first) * t.Columns)
	}
	b.gradients = b.Alloc("gradients", "all weights", b.gradientSize)
}

// Weight binds a tensor, in training with the state of the optimizer. A tensor that is asked for twice is one.
func (b *Builder) Weight(name string) *kernels.Weights {
	name = b.prefix + name
	w := b.weights[name]
	if w == nil {
		b.Fail(fault.New(fault.Internal, "the program has no tensor %q", name))
		return &kernels.Weights{}
	}
	if w.bound == nil {
		b.order = append(b.order, w)
		w.bound = &kernels.Weights{
			Name: name, Rows: w.end - w.first, Columns: w.Columns, Storage: w.Storage, NoDecay: !w.Decays,
			Locked: w.Locked && b.Training() != nil,
		}
		b.value(w)
		if b.Training() != nil {
			if w.learns() {
				b.state(w)
			}
			if b.World() > 1 && !b.isSharded(w.Tensor) {
				b.replicate(w)
			}
		}
	}
	return w.bound
}

// Use binds a tensor for one of the layers that share it. The first one that reads it as it is writes the gradient, and
// the parts of the others are added to that. One that uses it transposed reads a copy, which each step makes.
func (b *Builder) Use(name, of string, transposed bool) *kernels.Weights {
	whole := b.Weight(name)
	w := b.weights[b.prefix+name]
	if w == nil || !w.Summed {
		return whole
	}
	for _, u := range w.uses {
		if u.of == of {
			return u.bound
		}
	}
	u := use{of, whole, transposed}
	first := !slices.ContainsFunc(w.uses, func(u use) bool { return u.bound == whole })
	learns := b.Training() != nil && w.learns()
	if transposed || learns && !first {
		part := *whole
		part.State, part.Last = [2]kernels.Buffer{}, nil
		if transposed {
			part.Name += " (transposed)"
			part.Rows, part.Columns, part.Value = whole.Columns, whole.Rows, b.transposed(w)
		}
		if learns {
			part.Gradient = b.Alloc("parts of gradients", w.Name+", used by "+of, part.Rows*part.Columns)
		}
		u.bound = &part
	}
	w.uses = append(w.uses, u)
	return u.bound
}

// transposed is the copy of a weight that those read who use it transposed.
func (b *Builder) transposed(w *weight) kernels.Buffer {
	if !w.hasTurned {
		w.hasTurned = true
		w.turned = b.Alloc("transposed weights", w.Name, w.bound.Rows*w.Columns)
		b.Add(&kernels.CopyMatrix{
			Name: w.Name + " transposed", In: w.bound.Value, Out: w.turned, Rows: w.Columns, Columns: w.bound.Rows,
			Transposed: true,
		})
	}
	return w.turned
}

// value binds the numbers of a weight.
func (b *Builder) value(w *weight) {
	whole, err := b.spec.Weights(w.Name)
	if err != nil {
		b.Fail(err)
		return
	}
	switch {
	case b.isSharded(w.Tensor):
		shard, skip := w.Storage.Slice(whole, w.first*w.Columns, (w.end-w.first)*w.Columns)
		w.bound.Value, w.bound.Skip = b.modelBuffer(w.Name, shard, !w.Locked), skip
		b.part.first[w.Name] = w.first
	case b.inPlace(w.Tensor) || b.Training() == nil: // a rank that only reads needs no copy
		w.bound.Value = b.modelBuffer(w.Name, whole, b.inPlace(w.Tensor) && !w.Locked)
	default:
		w.bound.Value = b.Alloc("weights", "a copy of "+w.Name, w.Rows*w.Columns)
	}
}

// state allocates what a weight needs in training.
func (b *Builder) state(w *weight) {
	optimizer, elements := b.Training().Optimizer, w.bound.Rows*w.Columns
	if b.gradients != nil {
		w.bound.Gradient = b.gradients.Slice(w.gradient, elements)
	}
	for i := range optimizer.States() {
		w.bound.State[i] = b.stateBuffer(w.Name, i, elements)
		b.part.states = append(b.part.states, held{State{w.Name, i, w.Rows, w.Columns}, w.first, w.bound.State[i]})
	}
	if b.IsLazy(w.Name) {
		w.bound.Last = b.Alloc("steps of last updates", w.Name, w.bound.Rows)
		b.part.last = append(b.part.last, w.bound.Last)
	}
}

// stateBuffer is memory for a state, or what has it already.
func (b *Builder) stateBuffer(weight string, index int, elements int64) kernels.Buffer {
	if b.spec.Given == nil || b.World() > 1 || !kernels.ReachesHost(b.device) {
		return b.Alloc("optimizer state", weight, elements)
	}
	b.note("optimizer state", weight, 4*elements, true)
	if b.dry || b.err != nil {
		return nil
	}
	given := b.spec.Given(weight, index).Share()
	b.part.buffers = append(b.part.buffers, given)
	return given
}

// replicate copies a weight from the first rank to all at the start of a run, after which all compute the same bits.
func (b *Builder) replicate(w *weight) {
	n := kernels.Count{Fixed: w.Rows * w.Columns}
	add(&b.part.begin, &kernels.Broadcast{What: w.bound.String(), Buffer: w.bound.Value, Count: n})
	for _, state := range w.bound.State[:b.Training().Optimizer.States()] {
		if !w.learns() {
			break
		}
		add(&b.part.begin, &kernels.Broadcast{What: "the state of " + w.bound.String(), Buffer: state, Count: n})
	}
}

// isSharded reports whether a weight is cut by rows, of which each rank has its own. Others are on every rank.
func (b *Builder) isSharded(t Tensor) bool { return b.Sharded() && t.ByItem }

// inPlace reports whether the rank computes with the model's own memory: with its shard, or as the first of the ranks.
func (b *Builder) inPlace(t Tensor) bool { return b.isSharded(t) || b.first() }

// IsLazy reports whether a step leaves out rows of a weight that its batch does not touch, though an update with
// gradient zero would change them. Such rows must catch up (kernels.Replay) before they are read.
func (b *Builder) IsLazy(name string) bool {
	w := b.weights[name]
	return w != nil && b.Training() != nil && !w.Locked && !b.writes() && w.Touched &&
		b.Training().Optimizer.MovesUntouched(true)
}

// KeepRounded gives a weight that an op multiplies by, and that one operation updates in a step, the rounded copy that
// the device reads, if it does and there is memory.
func (b *Builder) KeepRounded(op any, w *kernels.Weights) {
	device, is := b.device.(kernels.Rounder)
	of := b.weights[w.Name]
	if !is || b.Training() == nil || b.writes() || b.spec.unrounded || of == nil || of.Summed {
		return
	}
	if n := device.RoundedSize(op, w, b.spec.Rows); n > 0 {
		w.Rounded, b.part.rounds = b.Alloc("rounded weights", w.Name, n), true
		add(&b.part.begin, &kernels.Round{Weight: w})
	}
}

// KeepLogits gives an output that needs statistics memory for its logits, if the device keeps them and there is some.
func (b *Builder) KeepLogits(op *kernels.Output) {
	device, is := b.device.(kernels.LogitKeeper)
	if !is || !op.Continues || b.spec.unkept {
		return
	}
	if n := device.LogitsSize(op, b.spec.Rows); n > 0 {
		op.Logits, b.part.keeps = b.Alloc("logits", op.Name, n), true
	}
}

// CatchUp brings rows of a lazy weight up to date: those that a slot's batch touches, before it reads them, and all at
// the end.
func (b *Builder) CatchUp(w *kernels.Weights, slot int) {
	if b.IsLazy(w.Name) {
		optimizer := b.Training().Optimizer
		b.Add(&kernels.Replay{Input: slot, Weight: w, Optimizer: optimizer})
		add(&b.part.flush, &kernels.Replay{Input: -1, Weight: w, Optimizer: optimizer})
	}
}

// LeaveGradient takes memory for n numbers of a weight's gradient, which an operation that does not update the weight
// leaves for the one that does: a weight with several users has one update in a step.
func (b *Builder) LeaveGradient(name string, n int64) kernels.Buffer {
	w := b.weights[name]
	w.partial = b.Alloc("tied gradients", name, n)
	return w.partial
}

// PartialGradient is what another operation of the step has left; nil if there is none.
func (b *Builder) PartialGradient(name string) kernels.Buffer { return b.weights[name].partial }

// applyGradients updates all weights with the gradients that were written: with the sums of those of the ranks' rows,
// where each has some, from which every rank makes the same step.
func (b *Builder) applyGradients() {
	for _, w := range b.order {
		if w.learns() {
			b.addParts(w)
		}
	}
	if b.byRows() {
		count := kernels.Count{Fixed: b.gradientSize}
		b.sum(&kernels.AllReduce{What: "the gradients of all weights", Buffer: b.gradients, Count: count})
		b.Agree()
	}
	if limit := b.Training().Optimizer.ClipNorm; limit > 0 {
		op := &kernels.ClipNorm{Gradients: b.gradients, Count: b.gradientSize, Limit: limit}
		b.AddWith(&op.Workspace, op, op)
	}
	for _, w := range b.order {
		if w.learns() {
			b.Add(&kernels.Update{Weight: w.bound, Optimizer: b.Training().Optimizer})
		}
	}
	b.capWeights()
}

// capWeights scales vectors of weights that are too long. The norms of all columns come before the first of the caps,
// so that ranks agree once that they have those of all.
func (b *Builder) capWeights() {
	var caps []kernels.Op
	for _, w := range b.order {
		if !w.capped() {
			continue
		}
		op := &kernels.CapWeight{Weight: w.bound, Cap: w.MaxNorm}
		caps = append(caps, op)
		if !w.NormByColumn {
			continue
		}
		norms := &kernels.ColumnNorms{Weight: w.bound, Norms: b.Alloc("norms of columns", w.Name, w.Columns)}
		b.AddWith(&norms.Workspace, norms, norms)
		op.Norms, op.Ranks = norms.Norms, 1
		if b.isSharded(w.Tensor) {
			all, by := b.gatherFixed("norms on all ranks", w.Name, norms.Norms, w.Columns)
			op.Norms, op.Ranks, b.unconfirmed = all, int64(b.World()), &by.Agrees
		}
	}
	b.Agree()
	for _, op := range caps {
		b.Add(op)
	}
}

// addParts adds what those who share a weight have left of its gradient.
func (b *Builder) addParts(w *weight) {
	begun := slices.ContainsFunc(w.uses, func(u use) bool { return u.bound == w.bound })
	for _, u := range w.uses {
		if u.bound == w.bound {
			continue
		}
		b.Add(&kernels.CopyMatrix{
			Name: "the gradient of " + w.Name + " by " + u.of, In: u.bound.Gradient, Out: w.bound.Gradient,
			Rows: w.bound.Rows, Columns: w.Columns, Transposed: u.transposed, Accumulate: begun,
		})
		begun = true
	}
}

// copied is a tensor of the model, or a shard of one, and the copy on a device that does not reach the model's memory.
type copied struct {
	model, here kernels.Buffer
	owned       bool // this device's copy is what the model gets at the end of a run
}

// ModelBuffer is a buffer of the model: itself where the device reaches it, else a copy, which Program.Load or the
// owner of Copies fills. The plan counts copies that Spec.Held has once.
func (b *Builder) ModelBuffer(name string, model kernels.Buffer) kernels.Buffer {
	return b.modelBuffer(name, model, false)
}

func (b *Builder) modelBuffer(name string, model kernels.Buffer, owned bool) kernels.Buffer {
	if b.device.Reaches(model) {
		return model
	}
	if copies := b.spec.Copies; copies != nil {
		copy := Part{
			Name: "weights", Of: "the device's copy of " + name, Bytes: 4 * model.Len(), Device: b.device.Info().Name,
			Held: copies.Has(b.rank, name, model.Len()),
		}
		if !slices.Contains(b.spec.Held, copy) {
			b.Note(copy)
		}
		if b.dry || b.err != nil {
			return nil
		}
		here, err := copies.Of(b.rank, b.device, name, model)
		b.Fail(err)
		return here
	}
	here := b.Alloc("weights", "the device's copy of "+name, model.Len())
	b.part.copies = append(b.part.copies, copied{model, here, owned})
	return here
}

// Load makes the devices' copies equal to the model, before a run and after somebody else has changed the model.
func (p *Program) Load() error {
	for _, part := range p.parts {
		for _, c := range part.copies {
			if err := part.Device.Write(c.here, 0, c.model.Float32()); err != nil {
				return err
			}
		}
	}
	return nil
}

// HasCopies reports whether devices compute with copies of the model's weights.
func (p *Program) HasCopies() bool {
	return slices.ContainsFunc(p.parts, func(p *part) bool { return len(p.copies) > 0 })
}

// Store brings the weights that devices have trained back to the model: all weights or, if a device has stopped
// answering, none, since it may have sent others wrong numbers. After another failure it returns how many are back.
func (p *Program) Store() (stored int, err error) {
	for _, part := range p.parts {
		if len(p.parts) == 1 {
			continue
		}
		if err := part.answers(); err != nil {
			return 0, err
		}
	}
	for _, part := range p.parts {
		for _, c := range part.copies {
			if !c.owned {
				continue
			}
			if err := part.Device.Read(c.here, 0, c.model.Float32()); err != nil {
				return stored, err
			}
			stored++
		}
	}
	return stored, nil
}
