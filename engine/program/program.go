package program

import (
	"slices"

	"dsstne/engine/network"
	"dsstne/kernels"
)

// Spec is what a program is made from.
type Spec struct {
	Network *network.Network
	Ranks   []Rank                                    // the devices, at least one
	Weights func(name string) (kernels.Buffer, error) // a model's tensors
	Copies  *Copies                                   // where devices keep copies of them, of which the caller takes care; nil: the program does
	Rows    int64                                     // the largest batch, B
	// Entries is the most stored entries that so many rows of what feeds a layer can have; BatchBytes what such a batch takes.
	Entries func(layer int, rows int64) int64
	Data    []Part // the bound datasets, for the plan
	// Keep describes columns first .. end of what feeds a layer, for devices that keep it; the same of the same dataset. Nil: all
	// batches are made on the host.
	Keep  func(layer int, first, end int64) (*kernels.Data, error)
	host  map[string]string // names of the feeds whose data stay on the host though they could be kept, and why
	Limit int64             // memory_limit in bytes, 0 = none
	// Parallel is how several ranks train.
	Parallel Parallel
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

// Program is a list of bound calls for each rank, and the memory they work in.
type Program struct {
	Plan  Plan
	Slots []int // layer that each slot of Step.Sparse feeds: the inputs and, in training, the outputs
	ranks []Rank
	parts []*part // by rank
	// broken is why the last step was not begun on all ranks, until Settle has told.
	broken error
}

// Describe plans without allocating.
func Describe(spec Spec) (*Plan, error) {
	_, p, err := placed(spec)
	if err != nil {
		return nil, err
	}
	p.Plan.Available = spec.Ranks[0].Device.Available()
	for n, rank := range spec.Ranks {
		info := rank.Device.Info()
		info.Available = -1
		if n == 0 {
			info.Available = p.Plan.Available
		} else if !reachesHost(rank.Device) { // it has memory of its own
			info.Available = rank.Device.Available()
		}
		p.Plan.Devices = append(p.Plan.Devices, info)
	}
	return &p.Plan, nil
}

// Build plans, compares the plan with the memory there is, allocates and binds.
func Build(spec Spec) (*Program, error) {
	spec, dry, err := placed(spec)
	if err != nil {
		return nil, err
	}
	if err := dry.Plan.fits(spec.Ranks); err != nil {
		return nil, err
	}
	built, err := withRoom(func() (*Program, error) { return build(spec, false) })
	return built, dry.Plan.Explain(err)
}

// build makes the lists of all ranks; a dry program has no memory.
func build(spec Spec, dry bool) (*Program, error) {
	p := &Program{ranks: spec.Ranks}
	for rank := range spec.Ranks {
		b := newBuilder(spec, rank, dry)
		p.parts, p.Slots = append(p.parts, b.p), b.slots
		if err := b.build(); err != nil {
			p.Free()
			return nil, err
		}
	}
	p.describe(spec)
	return p, nil
}

// describe fills the plan in.
func (p *Program) describe(spec Spec) {
	plan := &p.Plan
	plan.Limit, plan.Available = spec.Limit, -1
	if len(spec.Ranks) > 1 && spec.Training != nil {
		plan.Parallel = spec.Parallel.String()
	}
	for _, part := range p.parts {
		plan.Parts = append(plan.Parts, part.memory.parts...)
		where := ""
		if len(p.parts) > 1 {
			where = part.Device.Info().Name + ": "
		}
		for _, l := range []struct {
			when string
			ops  []Op
		}{{"at the start of a run: ", part.begin.ops}, {"", part.notes}, {"", part.cuts}, {"", part.step.ops}, {"at the end of a run: ", part.flush.ops}} {
			for _, op := range l.ops {
				plan.Operations = append(plan.Operations, where+l.when+op.Text)
			}
		}
	}
	for _, part := range plan.Parts {
		plan.Bytes += part.Bytes
	}
}

// Begin starts a run: what several ranks have of the model becomes what the model has now.
func (p *Program) Begin(step *kernels.Step) error {
	return p.once(func(part *part) error { return part.run(&part.begin, step) })
}

// Run begins a step by walking the lists once; Settle tells how it went, and of an error again: steps that were under way may
// have been ended by it.
func (p *Program) Run(step *kernels.Step) error {
	err := p.each(func(p *part) error { return p.runStep(step) })
	if len(p.parts) > 1 {
		p.broken = err
	}
	return err
}

// Flush brings weights that are updated lazily up to step.Number. No step is under way.
func (p *Program) Flush(step *kernels.Step) error {
	return p.once(func(part *part) error { return part.run(&part.flush, step) })
}

// once does something on all ranks and waits for it.
func (p *Program) once(work func(*part) error) error {
	p.broken = nil
	err := p.each(work)
	if _, failure := p.Settle(0); err == nil {
		err = failure
	}
	return err
}

// each does something on all ranks at the same time.
func (p *Program) each(work func(*part) error) error {
	return p.Plan.Explain(inOrder(p.ranks, func(rank int) error { return work(p.parts[rank]) }))
}

// Hidden is the output of a hidden layer, [B, units], on the first rank; the others have the same bits.
func (p *Program) Hidden(layer int) kernels.Buffer { return p.parts[0].hidden[layer] }

// Shards are the inference side of an output layer, by rank.
func (p *Program) Shards(layer int) []Shard {
	list := make([]Shard, len(p.parts))
	for rank, part := range p.parts {
		list[rank] = part.shard[layer]
	}
	return list
}

// Gradient is what a rank has of the written gradient of a tensor, nil unless Training.WriteGradients: all rows, or those of
// its shard, which begins at row first.
func (p *Program) Gradient(rank int, tensor string) (gradient kernels.Buffer, first int64) {
	return p.parts[rank].grads[tensor], p.parts[rank].first[tensor]
}

// Free gives the program's memory back; the weights stay.
func (p *Program) Free() {
	for _, part := range p.parts {
		part.stepList.Free()
		part.freeData()
		part.memory.free()
	}
}

// builder holds what Build needs while the list is made.
type builder struct {
	spec    Spec
	batch   int64 // rows of the largest whole batch; spec.Rows are the most that the rank has of one
	data    bool  // the rank has the whole model and a part of each batch
	rank    int
	device  kernels.Device
	net     *network.Network
	p       *part
	slots   []int // as Program.Slots
	tensors map[string]network.Tensor
	weights map[string]*kernels.Weights
	order   []string // of the weights, as they were bound
	// of data-parallel training: all gradients, where each begins, and how many numbers they are
	gradients    kernels.Buffer
	gradientAt   map[string]int64
	gradientSize int64
	grad         map[int]kernels.Buffer // dL/d(output of a hidden layer), [B, K]
	summed       map[int]bool           // grad holds something already
	scratch      []func(kernels.Buffer) // who wants the shared workspace
	most         int64                  // its size
	doubt        bool                   // ops have taken something from other ranks, and nobody has asked whether these are well
	others       []*keptData            // datasets that the device keeps for another list, which comes first
	// tiedGradient is where an output layer leaves its part of the gradient of the weight it shares, by the name of that weight
	tiedGradient map[string]kernels.Buffer
}

func newBuilder(spec Spec, rank int, dry bool) *builder {
	batch, data := spec.Rows, spec.Parallel == Data
	if ranks := int64(len(spec.Ranks)); data {
		spec.Rows = (batch + ranks - 1) / ranks
	}
	b := &builder{
		spec: spec, batch: batch, data: data, rank: rank, device: spec.Ranks[rank].Device, net: spec.Network,
		p: &part{
			Rank: spec.Ranks[rank], rank: rank, rows: spec.Rows, hidden: map[int]kernels.Buffer{}, shard: map[int]Shard{}, grads: map[string]kernels.Buffer{},
			first: map[string]int64{}, memory: &memory{device: spec.Ranks[rank].Device, dry: dry},
		},
		tensors: map[string]network.Tensor{}, weights: map[string]*kernels.Weights{}, gradientAt: map[string]int64{},
		grad: map[int]kernels.Buffer{}, summed: map[int]bool{}, tiedGradient: map[string]kernels.Buffer{},
	}
	// The batches are numbered: the inputs, then in training the targets.
	for i, layer := range b.net.Layers {
		if layer.Kind == network.Input || (layer.Kind == network.Output && spec.Training != nil) {
			b.slots = append(b.slots, i)
		}
	}
	return b
}

// alone tells whether there is only one rank.
func (b *builder) alone() bool { return len(b.spec.Ranks) == 1 }

// sharded tells whether each of several ranks has a shard of the items.
func (b *builder) sharded() bool { return !b.alone() && !b.data }

func (b *builder) build() error {
	tensors, err := b.net.Tensors()
	if err != nil {
		return err
	}
	m := b.p.memory
	for _, t := range tensors {
		b.tensors[t.Name] = t
		if first, end := b.rowsOf(t); b.inPlace(t) {
			m.parts = append(m.parts, Part{Name: "weights", Of: t.Name, Bytes: 4 * (end - first) * t.Columns, Device: HostName(b.device), Held: true})
		}
	}
	if b.rank == 0 {
		m.parts = append(m.parts, b.spec.Data...)
	}
	if !b.alone() {
		if held := b.p.Communicator.Memory(); held > 0 {
			m.note("exchange", "the group of devices", held, true)
		}
	}
	b.p.made = make([]*kernels.SparseBatch, len(b.slots))
	for slot, layer := range b.slots {
		if err := b.assemble(slot, b.feedOf(layer)); err != nil {
			return err
		}
	}
	b.noteBatches()
	if !b.alone() {
		if b.data {
			b.takeRows()
		} else {
			b.takeShards()
		}
	}
	if b.spec.Training != nil {
		b.p.loss = make([]float64, len(b.net.Terms))
	}
	if b.data {
		if err := b.allGradients(tensors); err != nil {
			return err
		}
	}
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
	return nil
}

// entriesOf is the most stored entries that the rank's part of a batch can have: those of the fullest rows, of which there are
// as many as the rank has of a batch; or all of the batch, unless its items are too few for that.
func (b *builder) entriesOf(f Feed) int64 {
	first, end := b.itemsOf(f.Columns)
	if f.whole {
		first, end = 0, f.Columns
	}
	most := f.Entries
	if b.data {
		most = f.part
	}
	return min(most, b.spec.Rows*(end-first))
}

// noteBatches plans the memory of the batches: on the host whole ones, and what each of several ranks has of them, of which the
// sum over the ranks is exact; and what each device has room for.
func (b *builder) noteBatches() {
	var entries []int64
	for slot, i := range b.slots {
		if b.p.made[slot] == nil {
			f := b.feedOf(i)
			b.noteBatch(f, b.spec.Training == nil)
			entries = append(entries, b.entriesOf(f))
		}
	}
	b.p.stepList.Entries = entries
	if size := b.device.StepSize(b.spec.Rows, entries); size > 0 {
		b.p.memory.note("batch", "the device's copies and the step's record", size, false)
	}
}

// noteBatch plans the memory of a feed's batches on the host: whole ones, and what each of several ranks has of them, which is
// an equal part as a rule; the sum over the ranks is exact.
func (b *builder) noteBatch(f Feed, rowsOnly bool) {
	whole := Part{Name: "batch", Of: f.Name, Bytes: BatchBytes(b.batch, f.Entries, rowsOnly), Device: HostName(b.device)}
	if !b.alone() {
		whole.Device = "host"
	}
	if b.rank == 0 {
		b.p.memory.parts = append(b.p.memory.parts, whole)
	}
	if !b.alone() && !f.whole {
		from, to := b.shardOf(f.Entries)
		cut := Part{Name: "batch", Of: "a part of " + f.Name, Bytes: ShardBytes(b.spec.Rows, to-from, rowsOnly), Device: HostName(b.device)}
		b.p.memory.parts = append(b.p.memory.parts, cut)
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

// ShardBytes is the memory of a shard of a batch, which shares with it the sums of rows and the entries by item.
func ShardBytes(rows, entries int64, rowsOnly bool) int64 {
	words := int64(4)
	if rowsOnly {
		words = 2
	}
	return 4 * (rows + words*entries)
}

// slot is the place of a layer's batch in Step.Sparse, -1 if it has none.
func (b *builder) slot(layer int) int { return slices.Index(b.slots, layer) }

func (b *builder) add(text string, run func(*kernels.Step) error) { b.p.step.add(text, run) }

// workspace reserves scratch memory for an op; all ops share one, since they run one after the other.
func (b *builder) workspace(op any, take func(kernels.Buffer)) {
	n := b.device.WorkspaceSize(op, b.spec.Rows)
	if n > 0 {
		b.most = max(b.most, n)
		b.scratch = append(b.scratch, take)
	}
}
