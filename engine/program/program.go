package program

import (
	"fmt"

	"dsstne/engine/fault"
	"dsstne/engine/network"
	"dsstne/kernels"
)

// Spec is what a program is made from.
type Spec struct {
	Network *network.Network
	Device  kernels.Device
	Weights func(name string) (kernels.Buffer, error) // a model's tensors
	Rows    int64                                     // the largest batch, B
	// Entries is the most stored entries a batch of a bound layer can have; BatchBytes what such a batch takes.
	Entries func(layer int) int64
	Data    []Part // the bound datasets, for the plan
	Limit   int64  // memory_limit in bytes, 0 = none
	// Training: nil builds the forward part only.
	Training *Training
}

// Training is what the backward part needs.
type Training struct {
	Optimizer kernels.Optimizer
	// WriteGradients leaves the weights alone and writes whole gradients (see Program.Gradient).
	WriteGradients bool
}

// Op is one bound kernel call.
type Op struct {
	Text string
	run  func(*kernels.Step) error
}

// Program is a list of bound calls and the memory they work in.
type Program struct {
	Plan   Plan
	Slots  []int // layer that each slot of Step.Sparse feeds: the inputs and, in training, the outputs
	ops    []Op
	flush  []Op
	hidden map[int]kernels.Buffer // output of each hidden layer, [B, K]
	scorer map[int]kernels.Scorer // of each output layer
	grads  map[string]kernels.Buffer
	memory *memory
}

// Describe plans without allocating.
func Describe(spec Spec) (*Plan, error) {
	b := newBuilder(spec, true)
	if err := b.build(); err != nil {
		return nil, err
	}
	b.p.Plan.Available = spec.Device.Available()
	info := spec.Device.Info()
	info.Available = b.p.Plan.Available
	b.p.Plan.Devices = []kernels.DeviceInfo{info}
	return &b.p.Plan, nil
}

// Build plans, compares the plan with the memory there is, allocates and binds.
func Build(spec Spec) (*Program, error) {
	dry := newBuilder(spec, true)
	if err := dry.build(); err != nil {
		return nil, err
	}
	if err := dry.p.Plan.fits(spec.Device); err != nil {
		return nil, err
	}
	b := newBuilder(spec, false)
	if err := b.build(); err != nil {
		b.p.memory.free()
		return nil, err
	}
	return b.p, nil
}

// Run walks the list once.
func (p *Program) Run(step *kernels.Step) error { return walk(p.ops, step) }

// Flush brings weights that are updated lazily up to step.Number.
func (p *Program) Flush(step *kernels.Step) error { return walk(p.flush, step) }

func walk(ops []Op, step *kernels.Step) error {
	for i := range ops {
		if err := ops[i].run(step); err != nil {
			return err
		}
	}
	return nil
}

// Hidden is the output of a hidden layer, [B, units].
func (p *Program) Hidden(layer int) kernels.Buffer { return p.hidden[layer] }

// Scorer is the inference side of an output layer.
func (p *Program) Scorer(layer int) kernels.Scorer { return p.scorer[layer] }

// Gradient is the written gradient of a tensor, nil unless Training.WriteGradients.
func (p *Program) Gradient(tensor string) kernels.Buffer { return p.grads[tensor] }

// Slot is the place of a layer's batch in Step.Sparse, -1 if it has none.
func (p *Program) Slot(layer int) int {
	for i, l := range p.Slots {
		if l == layer {
			return i
		}
	}
	return -1
}

// Free gives the program's memory back; the weights stay.
func (p *Program) Free() { p.memory.free() }

// builder holds what Build needs while the list is made.
type builder struct {
	spec    Spec
	net     *network.Network
	p       *Program
	tensors map[string]network.Tensor
	weights map[string]*kernels.Weights
	grad    map[int]kernels.Buffer // dL/d(output of a hidden layer), [B, K]
	summed  map[int]bool           // grad holds something already
	scratch []func(kernels.Buffer) // who wants the shared workspace
	most    int64                  // its size
	// tiedGradient is where an output layer leaves its part of the gradient of the weight it shares, by the name of that weight
	tiedGradient map[string]kernels.Buffer
}

func newBuilder(spec Spec, dry bool) *builder {
	return &builder{
		spec: spec, net: spec.Network,
		p: &Program{
			hidden: map[int]kernels.Buffer{}, scorer: map[int]kernels.Scorer{}, grads: map[string]kernels.Buffer{},
			memory: &memory{device: spec.Device, dry: dry},
		},
		tensors: map[string]network.Tensor{}, weights: map[string]*kernels.Weights{},
		grad: map[int]kernels.Buffer{}, summed: map[int]bool{}, tiedGradient: map[string]kernels.Buffer{},
	}
}

func (b *builder) build() error {
	tensors, err := b.net.Tensors()
	if err != nil {
		return err
	}
	m := b.p.memory
	for _, t := range tensors {
		b.tensors[t.Name] = t
		m.note("weights", t.Name, 4*t.Rows*t.Columns, true)
	}
	m.parts = append(m.parts, b.spec.Data...)
	b.slots()
	if err := b.forward(); err != nil {
		return err
	}
	if b.spec.Training != nil {
		if err := b.backward(); err != nil {
			return err
		}
	}
	workspace, err := m.alloc("workspace", "the ops in turn", b.most)
	if err != nil {
		return err
	}
	for _, take := range b.scratch {
		take(workspace)
	}
	return b.finishPlan()
}

func (b *builder) finishPlan() error {
	plan := &b.p.Plan
	plan.Parts, plan.Limit, plan.Available = b.p.memory.parts, b.spec.Limit, -1
	for _, part := range plan.Parts {
		plan.Bytes += part.Bytes
	}
	for _, op := range b.p.ops {
		plan.Operations = append(plan.Operations, op.Text)
	}
	for _, op := range b.p.flush {
		plan.Operations = append(plan.Operations, "at the end of a run: "+op.Text)
	}
	return nil
}

// slots numbers the batches: the inputs, then in training the targets.
func (b *builder) slots() {
	for i, layer := range b.net.Layers {
		if layer.Kind == network.Input || (layer.Kind == network.Output && b.spec.Training != nil) {
			b.p.Slots = append(b.p.Slots, i)
			b.p.memory.note("batch", layer.Name, BatchBytes(b.spec.Rows, b.spec.Entries(i), b.spec.Training == nil), false)
		}
	}
}

// BatchBytes is the memory of a sparse batch: by row its offset and its sum, by entry 2 words, and to have the order by item
// too, 4 words of the batch and 6 of the sort.
func BatchBytes(rows, entries int64, rowsOnly bool) int64 {
	words := int64(12)
	if rowsOnly {
		words = 2
	}
	return 4 * (2*rows + words*entries)
}

func (b *builder) add(text string, run func(*kernels.Step) error) {
	b.p.ops = append(b.p.ops, Op{Text: text, run: run})
}

// workspace reserves scratch memory for an op; all ops share one, since they run one after the other.
func (b *builder) workspace(op any, take func(kernels.Buffer)) {
	n := b.spec.Device.WorkspaceSize(op, b.spec.Rows)
	if n > 0 {
		b.most = max(b.most, n)
		b.scratch = append(b.scratch, take)
	}
}

// weight binds a tensor, with optimizer state in training. A tensor that is asked for twice (shared) is one.
func (b *builder) weight(name string) (*kernels.Weights, error) {
	if w := b.weights[name]; w != nil {
		return w, nil
	}
	t, found := b.tensors[name]
	if !found {
		return nil, fault.New(fault.Internal, "network has no tensor %q", name)
	}
	w := &kernels.Weights{Name: name, Rows: t.Rows, Columns: t.Columns, NoDecay: t.Source < 0}
	b.weights[name] = w
	var err error
	if w.Value, err = b.spec.Weights(name); err != nil {
		return nil, err
	}
	training, m := b.spec.Training, b.p.memory
	if training == nil {
		return w, nil
	}
	if training.WriteGradients {
		w.Gradient, err = m.alloc("gradients", name, t.Rows*t.Columns)
		b.p.grads[name] = w.Gradient
		return w, err
	}
	for i := range training.Optimizer.States() {
		if w.State[i], err = m.alloc("optimizer state", name, t.Rows*t.Columns); err != nil {
			return nil, err
		}
	}
	if b.isLazy(t) {
		if w.Last, err = m.alloc("steps of last updates", name, t.Rows); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// isLazy: only the rows that a batch touches are updated, and an update with gradient zero would change something.
func (b *builder) isLazy(t network.Tensor) bool {
	return t.Source >= 0 && b.net.Layers[t.Source].Kind == network.Input && b.sharedBy(t.Name) < 0 &&
		b.spec.Training.Optimizer.MovesUntouched(true)
}

// sharedBy is the output layer that shares a tensor, -1 if none does.
func (b *builder) sharedBy(name string) int {
	for i, layer := range b.net.Layers {
		if layer.Shared == name {
			return i
		}
	}
	return -1
}

// biasOf binds a layer's bias, nil if it has none.
func (b *builder) biasOf(layer int) (*kernels.Weights, error) {
	if !b.net.Layers[layer].Bias {
		return nil, nil
	}
	return b.weight(b.net.Layers[layer].Name + ".bias")
}

func shape(w *kernels.Weights) string { return fmt.Sprintf("%s[%d, %d]", w.Name, w.Rows, w.Columns) }
