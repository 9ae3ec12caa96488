package program

import (
	"cmp"

	"dsstne/kernels"
)

// Spec is what a program is made from.
type Spec struct {
	Computation Computation
	// Ranks are those of this process, at least one; First is the first's number among World ranks (0: these are all).
	Ranks        []kernels.Rank
	First, World int
	Rows         int64             // the largest batch, B
	Precision    kernels.Precision // for the plan: that of the devices
	// Follows is the program whose list comes first in a step, nil for none.
	Follows *Program
	Weights func(name string) (kernels.Buffer, error) // a model's tensors
	Copies  Copies                                    // copies of weights that the caller owns; nil: the program does
	Held    []Part                                    // for the plan: memory that the caller has taken or will take
	Limit   int64                                     // memory_limit in bytes, 0 = none
	// MakeRoom frees memory that nobody uses at the moment, and reports whether there was any. It may be nil.
	MakeRoom func() bool
	Parallel Parallel // how several ranks train
	Training *Training
	// Wanted are hidden layers whose values are read, in inference: others are computed where an output needs them.
	Wanted []int
	// Given is memory that has a state of the optimizer already, for a single rank in the host's memory; nil: none has.
	// The program shares it.
	Given func(weight string, index int) *kernels.HostBuffer

	// What only saves time and there is no memory for: logits that are kept, rounded copies of weights.
	unkept, unrounded bool

	onHost map[string]string // names of the feeds whose data stay on the host though they could be kept, and why
}

// Training is what operations that update weights need; without it they are not listed.
type Training struct {
	Optimizer kernels.Optimizer
	Locked    map[string]bool // the tensors that training leaves as they are, by name; nil: none
	Weighted  bool            // rows have weights in the loss
	WholeRows string          // why a device needs all entries of a row of the targets; empty: it does not
}

// Computation adds the operations of one rank, and everything that they need. It may be called several times.
type Computation func(*Builder)

// Copies are copies of a model's weights in the memory of devices that do not reach the model's own.
type Copies interface {
	// Has reports whether a rank's device has a copy of n numbers of a tensor.
	Has(rank int, tensor string, n int64) bool
	// Of gives a rank's copy of what the model has in a buffer.
	Of(rank int, device kernels.Device, tensor string, from kernels.Buffer) (kernels.Buffer, error)
}

// world is the number of ranks that compute together.
func (s *Spec) world() int { return max(s.World, len(s.Ranks)) }

// Program is a list of operations for each rank of this process, and the memory they work in.
type Program struct {
	Plan  Plan
	team  *Team
	parts []*part // by rank of this process
	// broken is why the last step was not begun on all ranks, until Settle has reported it.
	broken error
}

// Draft plans without allocating: what it returns has a plan, and cannot run. Other drafts may follow it.
func Draft(spec Spec) (*Program, error) {
	_, p, err := drafted(spec)
	return p, err
}

// Describe is the plan of a draft, with the devices.
func Describe(spec Spec) (*Plan, error) {
	p, err := Draft(spec)
	if err != nil {
		return nil, err
	}
	p.Plan.Precision, p.Plan.Available = spec.Precision.String(), spec.Ranks[0].Device.Available()
	for n, rank := range spec.Ranks {
		info := rank.Device.Info()
		info.Available = -1
		if n == 0 {
			info.Available = p.Plan.Available
		} else if !kernels.ReachesHost(rank.Device) {
			info.Available = rank.Device.Available()
		}
		p.Plan.Devices = append(p.Plan.Devices, info)
	}
	p.describeOperations()
	return &p.Plan, nil
}

// Build plans, compares the plan with the memory there is, allocates and binds.
func Build(spec Spec) (*Program, error) {
	spec, dry, err := drafted(spec)
	if err != nil {
		return nil, err
	}
	if err := dry.Plan.fits(spec.Ranks, spec.MakeRoom); err != nil {
		return nil, err
	}
	p, err := build(spec, false)
	if isOutOfMemory(err) && spec.MakeRoom != nil && spec.MakeRoom() {
		p, err = build(spec, false)
	}
	return p, dry.Plan.Explain(err)
}

// drafted decides how ranks train, whether logits are kept and rounded copies of weights, and which data devices keep,
// and returns the dry program for that. If not everything fits it goes without the logits, then without the copies,
// then it leaves the largest datasets on the host.
func drafted(spec Spec) (Spec, *Program, error) {
	spec.onHost = map[string]string{}
	var err error
	if spec.Parallel, err = spec.parallel(); err != nil {
		return spec, nil, err
	}
	for {
		dry, err := build(spec, true)
		if err != nil {
			return spec, nil, err
		}
		first := dry.parts[0]
		less := first.keeps || first.rounds || len(first.resident) > 0
		switch {
		case !less || dry.Plan.fits(spec.Ranks, spec.MakeRoom) == nil:
			return spec, dry, nil
		case first.keeps:
			spec.unkept = true
		case first.rounds:
			spec.unrounded = true
		default:
			leaveOnHost(spec.onHost, &dry.Plan, first)
		}
	}
}

// build makes the lists of all ranks; a dry program has no memory.
func build(spec Spec, dry bool) (*Program, error) {
	p := &Program{team: NewTeam(spec.Ranks)}
	for local := range spec.Ranks {
		b := newBuilder(spec, local, dry)
		p.parts = append(p.parts, b.part)
		if err := b.build(); err != nil {
			p.Free()
			return nil, err
		}
	}
	p.addUp(spec)
	return p, nil
}

// addUp adds up the memory of all ranks.
func (p *Program) addUp(spec Spec) {
	plan := &p.Plan
	plan.Limit, plan.Available = spec.Limit, -1
	if spec.world() > 1 && spec.Training != nil {
		plan.Parallel = spec.Parallel.String()
	}
	for _, part := range p.parts {
		plan.Parts = append(plan.Parts, part.plan...)
	}
	for _, part := range plan.Parts {
		plan.Bytes += part.Bytes
	}
}

// describeOperations writes the operations of all ranks into the plan. This may take as long as executing them.
func (p *Program) describeOperations() {
	plan := &p.Plan
	for _, part := range p.parts {
		where := ""
		if len(p.parts) > 1 {
			where = part.Device.Info().Name + ": "
		}
		plan.list(where+"at the start of a run: ", part.begin, part.Device)
		for _, note := range part.planNotes {
			plan.Operations = append(plan.Operations, where+note)
		}
		for _, b := range part.batches {
			if b.share != nil {
				plan.Operations = append(plan.Operations, where+b.share.String())
			}
		}
		plan.list(where, part.step, part.Device)
		plan.list(where+"at the end of a run: ", part.flush, part.Device)
	}
}

// Begin starts a run: what several ranks have of the model becomes what the model has now.
func (p *Program) Begin(step *kernels.Step) error {
	return p.once(func(part *part) error { return part.run(&part.begin, step) })
}

// Run begins a step by walking the lists once. Settle reports its outcome, also after an error.
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
	_, failure := p.Settle(0)
	return cmp.Or(err, failure)
}

// each does something on all ranks at the same time.
func (p *Program) each(work func(*part) error) error {
	return p.Plan.Explain(p.team.InOrder(func(local int) error { return work(p.parts[local]) }))
}

// Together does something on all ranks at the same time, which has no collectives.
func (p *Program) Together(work func(local int) error) error { return p.team.Together(work) }

// Feeds are the feeds of the batches in Step.Sparse, by slot.
func (p *Program) Feeds() []Feed {
	list := make([]Feed, len(p.parts[0].batches))
	for n, b := range p.parts[0].batches {
		list[n] = b.feed
	}
	return list
}

// Hidden is the dense value of a layer, [B, units], on the first rank; the others have the same bits. Nil: it has none.
func (p *Program) Hidden(layer int) kernels.Buffer { return p.parts[0].hidden[layer] }

// Shards are the inference side of an output layer, by rank.
func (p *Program) Shards(layer int) []Shard {
	list := make([]Shard, len(p.parts))
	for rank, part := range p.parts {
		list[rank] = part.shard[layer]
	}
	return list
}

// Free gives the program's memory back; the weights stay.
func (p *Program) Free() {
	for _, part := range p.parts {
		part.step.Free()
		for _, k := range part.resident {
			if k.resident != nil {
				k.resident.Free()
			}
		}
		for _, b := range part.buffers {
			b.Free()
		}
		part.resident, part.buffers = nil, nil
	}
	p.team.Close()
}
