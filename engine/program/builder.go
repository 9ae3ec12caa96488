package program

import (
	"slices"

	"dsstne/internal/fault"
	"dsstne/kernels"
)

// Builder collects the operations of one rank, and the memory they work in. Buffers are nil after a failure and in a
// dry run.
type Builder struct {
	spec   Spec
	batch  int64 // rows of the largest whole batch; spec.Rows are the most that the rank has of one
	rank   int   // number among all
	part   *part
	err    error
	device kernels.Device
	dry    bool // only counts

	prefix   string // of the tensors of the model whose computation is running, see Part
	slot     int    // of its first batch
	declared bool   // Batches was called

	tensors      []Tensor
	weights      map[string]*weight
	order        []*weight      // as they were bound
	last         []kernels.Op   // see AddLast
	gradients    kernels.Buffer // of all weights, in steps that write them
	gradientSize int64
	needsWhole   bool // a weight that learns is updated from a gradient that is there whole: Tensor.Summed or MaxNorm

	scratch, early scratch         // early: of operations that are kernels.Early
	unconfirmed    *kernels.Agrees // of the last exchange, if no Agree has followed
	entries        []int64         // by slot: of the batches that come from the host
}

// scratch is memory that operations use in turn.
type scratch struct {
	users []*kernels.Buffer
	size  int64
}

// take notes a user, and how much it needs.
func (s *scratch) take(workspace *kernels.Buffer, n int64) {
	if n > 0 {
		s.size = max(s.size, n)
		s.users = append(s.users, workspace)
	}
}

// give allocates the memory, in the plan as a workspace of those users, and gives it to them.
func (s *scratch) give(b *Builder, of string) {
	if s.size == 0 || b.err != nil {
		return
	}
	workspace := b.Alloc("workspace", of, s.size)
	for _, to := range s.users {
		*to = workspace
	}
}

func newBuilder(spec Spec, local int, dry bool) *Builder {
	batch, rank := spec.Rows, spec.First+local
	if world := int64(spec.world()); spec.Parallel == Data {
		spec.Rows = (batch + world - 1) / world
	}
	device := spec.Ranks[local].Device
	b := &Builder{
		spec: spec, batch: batch, rank: rank, device: device, dry: dry, weights: map[string]*weight{},
		part: &part{
			Rank: spec.Ranks[local], rows: spec.Rows, hidden: map[int]kernels.Buffer{}, shard: map[int]Shard{},
			first: map[string]int64{},
		},
	}
	if before := spec.Follows; before != nil {
		b.part.follows = before.parts[local]
		b.part.firstSlot = b.part.follows.firstSlot + len(b.part.follows.batches)
		b.entries = append(b.entries, b.part.follows.step.Entries...)
	}
	b.slot = b.part.firstSlot
	if b.byRows() {
		b.part.rowShare = &rowShare{rank, spec.world()}
	}
	b.part.begin.Rare, b.part.flush.Rare = true, true
	return b
}

func (b *Builder) build() error {
	p := b.part
	if p.follows != nil {
		p.step.Sections = append(p.step.Sections, p.follows.step.Sections...)
	}
	for _, list := range []*kernels.List{&p.begin, &p.step, &p.flush} {
		list.Sections = append(list.Sections, kernels.Section{Rows: b.spec.Rows})
	}
	b.spec.Computation(b)
	if b.writes() {
		b.applyGradients()
	}
	for _, op := range b.last {
		b.Add(op)
	}
	if b.World() > len(b.spec.Ranks) {
		b.shareAcrossProcesses()
	}
	b.scratch.give(b, "the ops in turn")
	b.early.give(b, "the ops that make batches")
	return b.err
}

// first reports whether the rank is the first one of this process.
func (b *Builder) first() bool { return b.rank == b.spec.First }

// Training is nil in inference.
func (b *Builder) Training() *Training { return b.spec.Training }

// Wants reports whether somebody reads the values of a hidden layer, beside the operations.
func (b *Builder) Wants(layer int) bool {
	return b.prefix == "" && slices.Contains(b.spec.Wanted, layer)
}

// Rows is the most rows that the rank has of a batch.
func (b *Builder) Rows() int64 { return b.spec.Rows }

// Rank is the number of the rank among World ranks.
func (b *Builder) Rank() int { return b.rank }

// World is the number of ranks.
func (b *Builder) World() int { return b.spec.world() }

// byRows reports whether each of several ranks has the whole model and a part of each batch's rows.
func (b *Builder) byRows() bool { return b.World() > 1 && b.spec.Parallel == Data }

// writes reports whether a step writes the gradients of all weights before it updates one. A cap on norms needs whole
// vectors of a weight after its update, also where a step touches parts of them only.
func (b *Builder) writes() bool {
	return b.byRows() || b.Training() != nil && (b.needsWhole || b.Training().Optimizer.ClipNorm > 0)
}

// Sharded reports whether each of several ranks has a share of the items.
func (b *Builder) Sharded() bool { return b.World() > 1 && !b.byRows() }

// Items is the range of n items that the rank has.
func (b *Builder) Items(n int64) (first, end int64) {
	if b.Sharded() {
		return ShardOf(n, b.rank, b.World())
	}
	return 0, n
}

// Add adds an operation to the list of a step.
func (b *Builder) Add(op kernels.Op) { add(&b.part.step, op) }

// AddLast adds an operation to the end of a step, behind all updates and exchanges: only good steps come to it.
func (b *Builder) AddLast(op kernels.Op) { b.last = append(b.last, op) }

// AddWith is Add of operations that need scratch memory, of the size that the device takes from sized; all operations
// share it.
func (b *Builder) AddWith(workspace *kernels.Buffer, sized any, ops ...kernels.Op) {
	b.Scratch(workspace, sized)
	for _, op := range ops {
		b.Add(op)
	}
}

// Scratch gives an operation scratch memory.
func (b *Builder) Scratch(workspace *kernels.Buffer, sized any) {
	b.scratch.take(workspace, b.device.WorkspaceSize(sized, b.spec.Rows))
}

// OwnScratch gives an operation that updates a weight scratch memory. Separate devices may use it until the step ends.
func (b *Builder) OwnScratch(workspace *kernels.Buffer, op any, of string) {
	if kernels.ReachesHost(b.device) {
		b.Scratch(workspace, op)
	} else {
		b.Apart(workspace, op, of)
	}
}

// Apart gives an operation scratch memory that no other operation writes.
func (b *Builder) Apart(workspace *kernels.Buffer, op any, of string) {
	if n := b.device.WorkspaceSize(op, b.spec.Rows); n > 0 {
		*workspace = b.Alloc("workspace", of, n)
	}
}

// Alloc takes memory for n elements. The plan lists it as name of whom it is for.
func (b *Builder) Alloc(name, of string, n int64) kernels.Buffer {
	if b.err != nil {
		return nil
	}
	b.note(name, of, 4*n, false)
	if b.dry {
		return nil
	}
	buffer, err := b.device.Alloc(n)
	if err != nil {
		if of != "" {
			name += " of " + of
		}
		b.Fail(fault.Wrap(err, "%s", name))
		return nil
	}
	b.part.buffers = append(b.part.buffers, buffer)
	return buffer
}

// Constants takes memory for n elements and fills it with numbers of the host.
func (b *Builder) Constants(name string, n int64, numbers func() []float32) kernels.Buffer {
	buffer := b.Alloc(name, "", n)
	if buffer != nil {
		b.Fail(b.device.Write(buffer, 0, numbers()))
	}
	return buffer
}

// Note adds memory to the plan that is allocated elsewhere.
func (b *Builder) Note(part Part) { b.part.plan = append(b.part.plan, part) }

func (b *Builder) note(name, of string, bytes int64, held bool) {
	b.Note(Part{Name: name, Of: of, Bytes: bytes, Device: b.device.Info().Name, Held: held})
}

// Fail ends the building, if there is an error.
func (b *Builder) Fail(err error) {
	if b.err == nil {
		b.err = err
	}
}

// Terms says how many losses a step has.
func (b *Builder) Terms(n int) { b.part.loss = make([]float64, n) }

// Hidden says where the dense value of a layer is, for Program.Hidden.
func (b *Builder) Hidden(layer int, value kernels.Buffer) { b.part.hidden[layer] = value }

// Output says how an output layer scores the rank's items, for Program.Shards.
func (b *Builder) Output(layer int, shard Shard) { b.part.shard[layer] = shard }

// Part runs the computation of a model that is a part of the program's. The names of its tensors begin with prefix. It
// returns how the model's output layer scores; FirstSlot is then the slot of its first batch.
func (b *Builder) Part(prefix string, output int, compute Computation) Shard {
	whole, shards, hidden := b.prefix, b.part.shard, b.part.hidden
	b.prefix, b.part.shard, b.part.hidden = whole+prefix, map[int]Shard{}, map[int]kernels.Buffer{}
	compute(b)
	shard := b.part.shard[output]
	b.prefix, b.part.shard, b.part.hidden = whole, shards, hidden
	return shard
}

// Shard is what Output has said, in this program or in the one that comes first.
func (b *Builder) Shard(layer int) Shard {
	shard, here := b.part.shard[layer]
	if !here && b.part.follows != nil {
		shard = b.part.follows.shard[layer]
	}
	return shard
}

// sum adds an exchange of numbers.
func (b *Builder) sum(op *kernels.AllReduce) {
	b.Add(op)
	b.unconfirmed = &op.Agrees
}

// AllReduce sums a [B, units] buffer over the ranks.
func (b *Builder) AllReduce(what string, buffer kernels.Buffer, units int64) {
	b.sum(&kernels.AllReduce{What: what, Buffer: buffer, Count: kernels.Count{PerRow: units}})
}

// SumOfRows sums n numbers over the ranks where each has a part of the batch's rows; elsewhere all have the same.
func (b *Builder) SumOfRows(what string, buffer kernels.Buffer, n int64) {
	if b.byRows() && b.World() > 1 {
		b.sum(&kernels.AllReduce{What: what, Buffer: buffer, Count: kernels.Count{Fixed: n}})
	}
}

// PartsOfRows collects n numbers from every rank where each has a part of the batch's rows, in the plan as name of whom
// they are for; elsewhere all have the same, and the only part is that of the rank. own is the number of its part. The
// exchange of the gradients follows, in which the ranks agree.
func (b *Builder) PartsOfRows(name, of string, part kernels.Buffer, n int64) (all kernels.Buffer, ranks, own int64) {
	if !b.byRows() {
		return part, 1, 0
	}
	all, _ = b.gatherFixed(name, of, part, n)
	return all, int64(b.World()), int64(b.Rank())
}

// gatherFixed collects n numbers from every rank, in the plan as name of whom they are for.
func (b *Builder) gatherFixed(
	name, of string, part kernels.Buffer, n int64,
) (all kernels.Buffer, by *kernels.AllGather) {
	all = b.Alloc(name, of, int64(b.World())*n)
	by = &kernels.AllGather{What: name + " of " + of, Part: part, All: all, Count: kernels.Count{Fixed: n}}
	b.Add(by)
	return all, by
}

// AllGather collects n numbers for each row from every rank, in the plan as name of whom they are for.
func (b *Builder) AllGather(what, name, of string, part kernels.Buffer, n int64) kernels.Buffer {
	all := b.Alloc(name, of, int64(b.World())*n*b.spec.Rows)
	gather := &kernels.AllGather{What: what, Part: part, All: all, Count: kernels.Count{PerRow: n}}
	b.Add(gather)
	b.unconfirmed = &gather.Agrees
	return all
}

// Agree comes before operations that change weights by numbers from other ranks: the sums of a step that has failed on
// one rank change no weight. The ranks agree in the last exchange. What they compute between that and Agree is from
// equal numbers on all of them, so it fails on all or on none. Replay needs none, since it takes nothing from other
// ranks.
func (b *Builder) Agree() {
	if b.unconfirmed != nil {
		*b.unconfirmed, b.unconfirmed = true, nil
	}
}

// Shard is what a rank has of an output layer, or of any weight whose rows are ranked.
type Shard struct {
	kernels.Scorer
	First int64 // the first of its items
}

// ShardOf cuts n rows, or items, as equally as possible: shards differ by one row at most, and may be empty.
func ShardOf(n int64, rank, ranks int) (first, end int64) {
	return n * int64(rank) / int64(ranks), n * int64(rank+1) / int64(ranks)
}

// HostName is what plans call the host's memory, seen from a device: the device itself if it computes there.
func HostName(device kernels.Device) string {
	if kernels.ReachesHost(device) {
		return device.Info().Name
	}
	return "host"
}

func add(list *kernels.List, op kernels.Op) {
	last := &list.Sections[len(list.Sections)-1]
	last.Ops = append(last.Ops, op)
}

// list adds the operations of a device's list.
func (p *Plan) list(prefix string, list kernels.List, device kernels.Device) {
	for _, section := range list.Sections {
		for _, op := range section.Ops {
			p.Operations = append(p.Operations, prefix+textOf(op, section.Rows, device))
		}
	}
}

// textOf describes an operation of a section of that many rows, with the way that a device which has several does it.
func textOf(op kernels.Op, rows int64, device kernels.Device) string {
	text := op.String()
	if explainer, has := device.(kernels.Explainer); has {
		if way := explainer.Explain(op, rows); way != "" {
			text += " (" + way + ")"
		}
	}
	return text
}
