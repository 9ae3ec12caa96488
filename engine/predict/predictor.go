package predict

import (
	"slices"
	"sync/atomic"

	"dsstne/engine/csr"
	"dsstne/engine/fault"
	"dsstne/engine/model"
	"dsstne/engine/network"
	"dsstne/engine/program"
	"dsstne/engine/strictjson"
	"dsstne/kernels"
)

// Predictor serves one call at a time; Cancel may be called meanwhile.
type Predictor struct {
	*program.Binding
	batchSize int64
	limit     int64
	program   *program.Program
	keeping   bool           // the program was built so that devices keep the data, if they can
	read      int64          // rows that were read on the host
	planned   int64          // most rows of a batch: what the program has room for
	held      []program.Part // memory that there is between calls
	readers   []*csr.Reader  // by slot
	further   [2]csr.Reader  // of the slots behind these; large, so they stay
	step      kernels.Step   // after the program's slots there are those for items to leave out and for targets
	cancelled atomic.Bool
}

// Open reads the options (JSON: batch_size, devices, threads, precision, memory_limit) and makes the device ready.
func Open(m *model.Model, options []byte) (*Predictor, error) {
	o, err := strictjson.Parse(options, "predictor options")
	if err != nil {
		return nil, err
	}
	batchSize := o.Int("batch_size", 512, strictjson.Between(1, 1<<20))
	placement := program.ReadPlacement(o)
	if err := o.Done(); err != nil {
		return nil, err
	}
	binding, err := program.NewBinding(m, placement, true)
	if err != nil {
		return nil, err
	}
	p := &Predictor{
		Binding: binding, batchSize: batchSize, limit: placement.Limit,
	}
	p.held = []program.Part{{Name: "weights", Bytes: m.Bytes(), Device: program.HostName(p.Ranks[0].Device), Held: true}}
	return p, nil
}

// Bind gives an input layer its rows.
func (p *Predictor) Bind(layer string, d *csr.Matrix) error {
	i, err := p.Check(layer, d)
	if err != nil {
		return err
	}
	if p.Net.Layers[i].Kind != network.Input {
		return fault.New(fault.InvalidArgument, "layer %q is no input layer; only inputs take a dataset here", layer)
	}
	return p.Hold(i, d)
}

// Cancel makes a running call end after its batch.
func (p *Predictor) Cancel() { p.cancelled.Store(true) }

// Close gives memory, datasets and model back.
func (p *Predictor) Close() error {
	if p.program != nil {
		p.program.Free()
	}
	return p.Binding.Close()
}

// prepare builds the forward program before the first call that needs rows.
func (p *Predictor) prepare(asked rowList) error {
	pays := p.keepingPays(asked)
	if p.program != nil && (p.keeping || !pays) {
		return p.Copies().Refresh()
	}
	spec, err := p.Spec(max(1, min(p.batchSize, p.Rows())), p.limit, network.Input)
	if err != nil {
		return err
	}
	if p.keeping = pays; !pays {
		spec.Keep = nil
	}
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
	for _, layer := range built.Slots {
		p.readers = append(p.readers, &csr.Reader{
			Matrix: p.Dataset(layer), Scaling: p.Net.Layers[layer].Scaling == network.L2, Limit: spec.Entries(layer, spec.Rows),
			RowsOnly: true,
		})
		p.step.Sparse = append(p.step.Sparse, &kernels.SparseBatch{})
	}
	return p.Copies().Refresh()
}

// keepingPays: data that a device keeps are copied whole. So it pays when several batches of as many rows as there are have been,
// or are to be, copied otherwise.
func (p *Predictor) keepingPays(asked rowList) bool {
	return p.read+asked.count >= p.Rows() && p.Rows() > p.batchSize
}

// begin takes the model for reading; the caller calls the returned function at the end.
func (p *Predictor) begin() (func(), error) {
	p.cancelled.Store(false)
	return p.Model.TryRead()
}

// output finds an output layer by name; empty means the only one.
func (p *Predictor) output(name string) (int, error) {
	if name != "" {
		i, err := p.Net.Layer(name)
		if err == nil && p.Net.Layers[i].Kind != network.Output {
			err = fault.New(fault.InvalidArgument, "layer %q is no output layer; only outputs rank items", name)
		}
		return i, err
	}
	found := -1
	for i, l := range p.Net.Layers {
		if l.Kind != network.Output {
			continue
		}
		if found >= 0 {
			return 0, fault.New(fault.InvalidArgument, "the network has several output layers, such as %q and %q; name one",
				p.Net.Layers[found].Name, l.Name)
		}
		found = i
	}
	return found, nil
}

// Predict writes the activations of a hidden layer, or the scores of an output layer (empty name: the output), one row of
// dst, stride floats long, for each row.
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
		i, err = p.Net.Layer(layer)
	}
	if err != nil {
		return err
	}
	l := &p.Net.Layers[i]
	if l.Kind == network.Input {
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
	if err := p.prepare(asked); err != nil {
		return err
	}
	workspaces, err := p.scoreWorkspaces(i, p.batchRows(asked))
	if err != nil {
		return err
	}
	defer workspaces.free()
	return p.batches(p.program, p.cut(asked), func(b *batch) error {
		if _, err := p.program.Settle(0); err != nil {
			return err
		}
		first, n := b.places[0], int64(len(b.rows))
		out := dst[first*stride : (first+n)*stride]
		if l.Kind == network.Output {
			return p.scores(i, out, stride, workspaces)
		}
		return p.hidden(i, n, out, stride)
	})
}

// hidden writes the activations of n rows.
func (p *Predictor) hidden(layer int, n int64, out []float32, stride int64) error {
	h, size := p.program.Hidden(layer), p.Net.Layers[layer].Size
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

// scores writes the scores of an output layer; each device those of its items.
func (p *Predictor) scores(layer int, out []float32, stride int64, workspaces buffers) error {
	shards := p.program.Shards(layer)
	return p.program.Plan.Explain(program.Together(p.Ranks, func(rank int) error {
		s := shards[rank]
		if s.Items == 0 {
			return nil
		}
		return p.Ranks[rank].Device.Scores(&kernels.Scores{
			Scorer: s.Scorer, Out: out[s.First:], Stride: stride, Workspace: workspaces[rank],
		}, &p.step)
	}))
}

// buffers are freed together; nil ones are left alone.
type buffers []kernels.Buffer

func (b buffers) free() {
	for _, buffer := range b {
		if buffer != nil {
			buffer.Free()
		}
	}
}

// scoreWorkspaces takes what the scores of up to rows rows need, by rank, if that fits into memory. A hidden layer needs none.
func (p *Predictor) scoreWorkspaces(layer int, rows int64) (buffers, error) {
	list, sizes := make(buffers, len(p.Ranks)), make([]int64, len(p.Ranks))
	if p.Net.Layers[layer].Kind != network.Output {
		return list, nil
	}
	var parts []program.Part
	for rank, shard := range p.program.Shards(layer) {
		device := p.Ranks[rank].Device
		sizes[rank] = device.WorkspaceSize(&kernels.Scores{Scorer: shard.Scorer}, rows)
		parts = append(parts, program.Part{Name: "workspace", Of: "the scores", Bytes: 4 * sizes[rank], Device: device.Info().Name})
	}
	if err := program.Fits(p.Ranks, p.limit, append(parts, p.held...)); err != nil {
		return list, err
	}
	for rank, size := range sizes {
		var err error
		if list[rank], err = p.Ranks[rank].Device.Alloc(size); err != nil {
			list.free()
			return nil, p.program.Plan.Explain(err)
		}
	}
	return list, nil
}
