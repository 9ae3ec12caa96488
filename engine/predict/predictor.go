package predict

import (
	"slices"
	"sync/atomic"

	"dsstne/engine/csr"
	"dsstne/engine/devices"
	"dsstne/engine/model"
	"dsstne/engine/program"
	"dsstne/engine/session"
	"dsstne/internal/fault"
	"dsstne/kernels"
)

// Predictor serves one call at a time; Cancel may be called meanwhile.
type Predictor struct {
	*session.Binding
	batchSize int64
	reach     program.Reach
	program   *program.Program
	keeping   bool           // the program was built so that devices keep the data, if they can
	read      int64          // rows that were read on the host
	planned   int64          // most rows of a batch: what the program has room for
	wanted    []int          // hidden layers that calls have read
	held      []program.Part // memory that there is between calls, beside the screenings
	screenings
	readers   []*csr.Reader // by slot
	further   [2]csr.Reader // of the slots behind these; large, so they stay
	step      kernels.Step  // after the program's slots there are those for items to leave out and for targets
	service   *service      // nil: the predictor does not serve
	cancelled atomic.Bool
}

// Options are those of a predictor.
type Options struct {
	BatchSize int64
	Placement devices.Placement
}

// Open makes the devices ready: one of them, or that of the host, for a model that does not reach further.
func Open(m *model.Model, o Options) (_ *Predictor, err error) {
	reach := program.SeveralDevices
	if form, bounded := m.Form().(model.Bounded); bounded {
		rows, on := form.Bounds()
		if o.Placement, err = o.Placement.Within(on); err != nil {
			return nil, err
		}
		o.BatchSize, reach = min(o.BatchSize, rows), on
	}
	binding, err := session.New(m, o.Placement, m)
	if err != nil {
		return nil, err
	}
	where := program.HostName(binding.Ranks[0].Device)
	held := []program.Part{{Name: "weights", Bytes: m.Bytes(), Device: where, Held: true}}
	return &Predictor{Binding: binding, batchSize: o.BatchSize, reach: reach, held: held}, nil
}

// Bind gives an input layer its rows.
func (p *Predictor) Bind(layer string, d csr.Source) error {
	i, err := p.Check(layer, d)
	if err != nil {
		return err
	}
	if !p.Ports[i].Reads {
		return fault.New(fault.InvalidArgument, "layer %q is not an input layer; only inputs take a dataset here", layer)
	}
	return p.Hold(i, d)
}

// Cancel makes a running call end after its batch.
func (p *Predictor) Cancel() { p.cancelled.Store(true) }

// Close gives memory, datasets and model back.
func (p *Predictor) Close() error {
	if p.service != nil {
		p.service.call.close()
	}
	p.dropScreenings()
	if p.program != nil {
		p.program.Free()
	}
	return p.Binding.Close()
}

// prepare builds the forward program before the first call that needs rows, and before one that reads a layer which the
// program does not compute.
func (p *Predictor) prepare(asked rowList, layer int) error {
	pays := p.keeping || p.keepingPays(asked)
	computes := p.program != nil && (p.Ports[layer].Scores || p.program.Hidden(layer) != nil)
	if computes && pays == p.keeping {
		return p.Copies().Refresh()
	}
	spec, err := p.Spec(max(1, min(p.batchSize, p.Rows())), nil, pays)
	if err != nil {
		return err
	}
	if !p.Ports[layer].Scores && !slices.Contains(p.wanted, layer) {
		p.wanted = append(p.wanted, layer)
	}
	p.keeping, spec.Wanted = pays, p.wanted
	if p.program != nil {
		p.program.Free()
		p.program, p.readers = nil, nil
	}
	built, err := program.Build(spec)
	if err != nil {
		return err
	}
	p.program, p.planned, p.held = built, spec.Rows, slices.Clone(built.Plan.Parts)
	for i := range p.held {
		p.held[i].Held = true
	}
	p.step = kernels.Step{Sparse: []*kernels.SparseBatch{{}, {}}}
	for _, f := range built.Feeds() {
		p.readers = append(p.readers, p.Reader(&f, spec.Rows, 0, false))
		p.step.Sparse = append(p.step.Sparse, &kernels.SparseBatch{})
	}
	return p.Copies().Refresh()
}

// keepingPays reports whether devices should keep the data, which copies them whole: once calls have asked for as many
// rows as there are, in several batches.
func (p *Predictor) keepingPays(asked rowList) bool {
	return p.read+asked.count >= p.Rows() && p.Rows() > p.batchSize
}

// begin takes the model for reading, if its tensors are in order, and its share of the threads; the caller calls the
// returned function at the end.
func (p *Predictor) begin() (func(), error) {
	p.cancelled.Store(false)
	done, err := p.Model.TryRead()
	if err != nil {
		return nil, err
	}
	if err := p.Model.Check(); err != nil {
		done()
		return nil, err
	}
	end := p.Compute()
	return func() { end(); done() }, nil
}

// output finds an output layer by name; empty means the only one.
func (p *Predictor) output(name string) (int, error) {
	if name != "" {
		i, err := p.Layer(name)
		if err == nil && !p.Ports[i].Scores {
			err = fault.New(fault.InvalidArgument, "layer %q is not an output layer; only outputs rank items", name)
		}
		return i, err
	}
	found := -1
	for i := range p.Ports {
		l := &p.Ports[i]
		if !l.Scores {
			continue
		}
		if found >= 0 {
			return 0, fault.New(fault.InvalidArgument, "the model has several output layers, such as %q and %q; name one",
				p.Ports[found].Name, l.Name)
		}
		found = i
	}
	if found < 0 {
		return 0, fault.New(fault.InvalidArgument, "the model has no output layer, so it has no scores of items; ask for "+
			"the values of a hidden layer")
	}
	return found, nil
}

// Predict writes the activations of a hidden layer, or the scores of an output layer (empty: the only one). In dst,
// rows begin stride floats apart.
func (p *Predictor) Predict(layer string, rows []int64, dst []float32, stride int64) error {
	done, err := p.begin()
	if err != nil {
		return err
	}
	defer done()
	var i int
	if layer == "" {
		i, err = p.output("")
	} else {
		i, err = p.Layer(layer)
	}
	if err != nil {
		return err
	}
	l := &p.Ports[i]
	if l.Reads {
		return fault.New(fault.InvalidArgument, "layer %q is an input; ask for a hidden or an output layer", layer)
	}
	if stride < l.Size {
		return fault.New(fault.InvalidArgument, "stride is %d, but layer %q has %d units", stride, l.Name, l.Size)
	}
	asked, err := p.listed(rows)
	if err != nil {
		return err
	}
	if int64(len(dst)) < asked.count*stride {
		return fault.New(fault.InvalidArgument, "dst holds %d floats, %d rows of %d need %d", len(dst), asked.count, stride,
			asked.count*stride)
	}
	if err := p.prepare(asked, i); err != nil {
		return err
	}
	ops := make([]*kernels.Scores, len(p.Ranks))
	if l.Scores {
		list, err := p.scoring(i, p.batchRows(asked), ops)
		if err != nil {
			return err
		}
		defer list.Free()
	}
	return p.batches(p.program, p.cut(asked), func(b *batch) error {
		if _, err := p.program.Settle(0); err != nil {
			return err
		}
		first, n := b.places[0], int64(len(b.rows))
		out := dst[first*stride : (first+n)*stride]
		if l.Scores {
			return p.scores(i, ops, b.rows, out, stride)
		}
		return p.hidden(i, n, out, stride)
	})
}

// hidden writes the activations of n rows.
func (p *Predictor) hidden(layer int, n int64, out []float32, stride int64) error {
	h, size := p.program.Hidden(layer), p.Ports[layer].Size
	if stride == size {
		return p.Ranks[0].Device.Read(h, 0, out[:n*size])
	}
	for u := range n {
		if err := p.Ranks[0].Device.Read(h, u*size, out[u*stride:u*stride+size]); err != nil {
			return err
		}
	}
	return nil
}

// scoring makes the operations that score up to rows rows, by rank, and a program that has their workspaces.
func (p *Predictor) scoring(layer int, rows int64, ops []*kernels.Scores) (*program.Program, error) {
	spec := p.rankingSpec(rows)
	spec.Follows = p.program
	spec.Computation = func(b *program.Builder) {
		b.Batches(true)
		op := &kernels.Scores{Scorer: b.Shard(layer).Scorer}
		b.Scratch(&op.Workspace, op)
		ops[b.Rank()] = op
	}
	return program.Build(spec)
}

// scores writes the scores of an output layer for the rows of the last step; each device those of its items.
func (p *Predictor) scores(layer int, ops []*kernels.Scores, rows []int64, out []float32, stride int64) error {
	shards := p.program.Shards(layer)
	// What reads the rows needs them from the host: a batch that devices have made belongs to the step that is over.
	if s := ops[0].Sparse; s != nil && p.program.Makes(s.Input) {
		if err := p.readers[s.Input].Batch(rows, 0, false, p.step.Sparse[s.Input]); err != nil {
			return err
		}
	}
	return p.program.Plan.Explain(p.program.Together(func(rank int) error {
		op := ops[rank]
		if op.Items == 0 {
			return nil
		}
		op.Out, op.Stride = out[shards[rank].First:], stride
		return p.Ranks[rank].Device.Scores(op, &p.step)
	}))
}
