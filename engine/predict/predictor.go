package predict

import (
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
	model     *model.Model
	net       *network.Network
	device    kernels.Device
	batchSize int64
	limit     int64
	bound     map[int]*csr.Matrix
	rows      int64 // of the bound datasets, -1 before
	program   *program.Program
	readers   []*csr.Reader // by slot
	step      kernels.Step
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
	device, err := placement.Open()
	if err != nil {
		return nil, err
	}
	m.Use()
	return &Predictor{
		model: m, net: m.Network(), device: device, batchSize: batchSize, limit: placement.Limit, bound: map[int]*csr.Matrix{}, rows: -1,
	}, nil
}

// Bind gives an input layer its rows.
func (p *Predictor) Bind(layer string, d *csr.Matrix) error {
	i, err := p.net.Layer(layer)
	if err != nil {
		return err
	}
	l := &p.net.Layers[i]
	switch {
	case l.Kind != network.Input:
		return fault.New(fault.InvalidArgument, "layer %q is no input layer; only inputs take a dataset here", layer)
	case p.bound[i] != nil:
		return fault.New(fault.InvalidState, "layer %q has a dataset already", layer)
	case d.Columns() != l.Size:
		return fault.New(fault.InvalidData, "the dataset has %d columns, layer %q has %d units", d.Columns(), layer, l.Size)
	case p.rows >= 0 && d.Rows() != p.rows:
		return fault.New(fault.InvalidData, "the dataset for layer %q has %d rows, the ones bound before have %d", layer, d.Rows(), p.rows)
	}
	if err := d.Use(); err != nil {
		return err
	}
	p.bound[i], p.rows = d, d.Rows()
	return nil
}

// Rows of the bound datasets, -1 when none is bound.
func (p *Predictor) Rows() int64 { return p.rows }

// Cancel makes a running call end after its batch.
func (p *Predictor) Cancel() { p.cancelled.Store(true) }

// Close gives memory, datasets and model back.
func (p *Predictor) Close() error {
	if p.program != nil {
		p.program.Free()
	}
	for _, d := range p.bound {
		d.Unuse()
	}
	p.bound = nil
	p.model.Unuse()
	return p.device.Close()
}

// prepare builds the forward program before the first call that needs rows.
func (p *Predictor) prepare() error {
	if p.program != nil {
		return nil
	}
	for i, l := range p.net.Layers {
		if l.Kind == network.Input && p.bound[i] == nil {
			return fault.New(fault.InvalidState, "no dataset is bound to input layer %q", l.Name)
		}
	}
	built, err := program.Build(program.Spec{
		Network: p.net, Device: p.device, Rows: max(1, min(p.batchSize, p.rows)), Limit: p.limit,
		Weights: func(name string) (kernels.Buffer, error) {
			tensor, err := p.model.Tensor(name)
			if err != nil {
				return nil, err
			}
			return tensor.Buffer(), nil
		},
		Entries: func(layer int) int64 { return p.bound[layer].MaxBatchEntries(p.batchSize) },
	})
	if err != nil {
		return err
	}
	p.program = built
	p.step = kernels.Step{Sparse: make([]*kernels.SparseBatch, len(built.Slots)+1)}
	for slot, layer := range built.Slots {
		p.readers = append(p.readers, &csr.Reader{Matrix: p.bound[layer], Scaling: p.net.Layers[layer].Scaling == network.L2})
		p.step.Sparse[slot] = &kernels.SparseBatch{}
	}
	p.step.Sparse[len(built.Slots)] = &kernels.SparseBatch{}
	return nil
}

// begin takes the model for reading; the caller calls the returned function at the end.
func (p *Predictor) begin() (func(), error) {
	p.cancelled.Store(false)
	return p.model.TryRead()
}

// allRows stands in for a list of rows that was not given.
func (p *Predictor) allRows(rows []int64) ([]int64, error) {
	if p.rows < 0 {
		return nil, fault.New(fault.InvalidState, "no dataset is bound to the predictor")
	}
	if rows == nil {
		rows = make([]int64, p.rows)
		for i := range rows {
			rows[i] = int64(i)
		}
		return rows, nil
	}
	for n, row := range rows {
		if row < 0 || row >= p.rows {
			return nil, fault.New(fault.InvalidArgument, "rows[%d] is %d; the bound datasets have rows 0 to %d", n, row, p.rows-1)
		}
	}
	return rows, nil
}

// batches computes the hidden layers for the rows, batch by batch, and calls each with the place of the batch's first row.
func (p *Predictor) batches(rows []int64, each func(first int64, batch []int64) error) error {
	if err := p.prepare(); err != nil {
		return err
	}
	for first := int64(0); first < int64(len(rows)); first += p.batchSize {
		if p.cancelled.Load() {
			return fault.New(fault.Cancelled, "the call was cancelled after %d of %d rows", first, len(rows))
		}
		batch := rows[first:min(first+p.batchSize, int64(len(rows)))]
		p.step.Rows = int64(len(batch))
		for slot, reader := range p.readers {
			if err := reader.Batch(batch, 0, false, p.step.Sparse[slot]); err != nil {
				return err
			}
		}
		if err := p.program.Run(&p.step); err != nil {
			return err
		}
		if err := each(first, batch); err != nil {
			return err
		}
	}
	return nil
}

// output finds an output layer by name; empty means the only one.
func (p *Predictor) output(name string) (int, error) {
	found := -1
	for i, l := range p.net.Layers {
		if l.Kind != network.Output {
			continue
		}
		if l.Name == name {
			return i, nil
		}
		if name == "" && found >= 0 {
			return 0, fault.New(fault.InvalidArgument, "the network has several output layers; name one")
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
		i, err = p.net.Layer(layer)
	}
	if err != nil {
		return err
	}
	l := &p.net.Layers[i]
	if l.Kind == network.Input {
		return fault.New(fault.InvalidArgument, "layer %q is an input; ask for a hidden or an output layer", layer)
	}
	if stride < l.Size {
		return fault.New(fault.InvalidArgument, "stride is %d, but layer %q has %d units", stride, l.Name, l.Size)
	}
	if rows, err = p.allRows(rows); err != nil {
		return err
	}
	if int64(len(dst)) < int64(len(rows))*stride {
		return fault.New(fault.InvalidArgument, "dst holds %d floats, %d rows of %d need %d", len(dst), len(rows), stride,
			int64(len(rows))*stride)
	}
	return p.batches(rows, func(first int64, batch []int64) error {
		out := dst[first*stride : (first+int64(len(batch)))*stride]
		if l.Kind == network.Output {
			return p.device.Scores(&kernels.Scores{Scorer: p.program.Scorer(i), Out: out, Stride: stride}, &p.step)
		}
		h := p.program.Hidden(i).Float32()
		for u := range int64(len(batch)) {
			copy(out[u*stride:u*stride+l.Size], h[u*l.Size:(u+1)*l.Size])
		}
		return nil
	})
}
