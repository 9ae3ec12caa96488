package train

import (
	"encoding/json"
	"math"
	"sync"
	"sync/atomic"

	"dsstne/engine/csr"
	"dsstne/engine/fault"
	"dsstne/engine/model"
	"dsstne/engine/network"
	"dsstne/engine/program"
	"dsstne/engine/random"
	"dsstne/kernels"
)

// Trainer improves one model. Run is for one goroutine at a time; Progress and Cancel may be called from any.
type Trainer struct {
	settings settings
	model    *model.Model
	net      *network.Network
	device   kernels.Device
	bound    map[int]*csr.Matrix // by layer
	rows     int64               // of the bound datasets

	program *program.Program
	feeds   []feed // by slot of the program
	step    kernels.Step
	order   []int64
	seen    int64 // examples of all runs

	cancelled atomic.Bool
	mu        sync.Mutex // guards progress
	progress  Progress
	// loss of an epoch so far, summed over its examples
	lossEpoch    int64
	lossSum      float64
	lossExamples int64
}

// feed makes the batches of one layer.
type feed struct {
	reader *csr.Reader
	batch  kernels.SparseBatch
}

// Progress is a snapshot of a trainer.
type Progress struct {
	Running           bool
	Step              uint64
	StepsPerEpoch     uint64
	Epoch             uint64 // whole epochs done
	Examples          uint64 // seen in the current epoch
	Loss              float64
	EpochLoss         float64
	LearningRate      float64
	ExamplesPerSecond float64 // of the running or last run, as is Seconds
	Seconds           float64
}

// Open reads the options (JSON, docs/training.md) and makes the device ready.
func Open(m *model.Model, options []byte) (*Trainer, error) {
	s, err := readSettings(options)
	if err != nil {
		return nil, err
	}
	device, err := s.placement.Open()
	if err != nil {
		return nil, err
	}
	m.Use()
	return &Trainer{
		settings: s, model: m, net: m.Network(), device: device, bound: map[int]*csr.Matrix{},
		progress: Progress{Loss: math.NaN(), EpochLoss: math.NaN()},
	}, nil
}

// Bind feeds an input layer, or the targets of an output layer, with a dataset, which stays in use until Close.
func (t *Trainer) Bind(layer string, d *csr.Matrix) error {
	i, err := t.net.Layer(layer)
	if err != nil {
		return err
	}
	l := &t.net.Layers[i]
	switch {
	case l.Kind == network.Hidden:
		return fault.New(fault.InvalidArgument, "layer %q is hidden; datasets are bound to input and output layers", layer)
	case t.program != nil:
		return fault.New(fault.InvalidState, "the trainer has begun; datasets are bound before the first run")
	case t.bound[i] != nil:
		return fault.New(fault.InvalidState, "layer %q has a dataset already", layer)
	case d.Columns() != l.Size:
		return fault.New(fault.InvalidData, "the dataset has %d columns, layer %q has %d units", d.Columns(), layer, l.Size)
	case len(t.bound) > 0 && d.Rows() != t.rows:
		return fault.New(fault.InvalidData, "the dataset for layer %q has %d rows, the ones bound before have %d", layer, d.Rows(), t.rows)
	case d.Rows() == 0:
		return fault.New(fault.InvalidData, "the dataset for layer %q has no rows; there is nothing to learn from", layer)
	case d.NonZeros() == 0:
		return fault.New(fault.InvalidData, "all %d rows of the dataset for layer %q are empty; there is nothing to learn from",
			d.Rows(), layer)
	}
	if err := t.checkTargets(i, d); err != nil {
		return err
	}
	if err := d.Use(); err != nil {
		return err
	}
	t.bound[i] = d
	t.mu.Lock() // Progress reads the rows
	defer t.mu.Unlock()
	t.rows = d.Rows()
	return nil
}

// checkTargets refuses values that an output's loss gives no meaning to.
func (t *Trainer) checkTargets(layer int, d *csr.Matrix) error {
	for _, term := range t.net.Terms {
		if term.Layer != layer {
			continue
		}
		high, allowed := math.Inf(1), "at least 0"
		switch term.Loss.Kind {
		case kernels.Squared:
			return nil
		case kernels.SigmoidCrossEntropy:
			high, allowed = 1, "from 0 to 1"
		}
		if row, column, value, found := d.FirstOutside(0, high); found {
			return fault.New(fault.InvalidData,
				"row %d, column %d: the target is %g; this loss needs targets %s. Scale the values, use X.astype(bool) or loss=\"squared\"",
				row, column, value, allowed)
		}
	}
	return nil
}

// spec says what the program is made from; every input and output must be bound.
func (t *Trainer) spec() (program.Spec, error) {
	spec := program.Spec{
		Network: t.net, Device: t.device, Rows: min(t.settings.batchSize, t.rows), Limit: t.settings.placement.Limit,
		Training: &program.Training{Optimizer: t.settings.optimizer},
		Weights: func(name string) (kernels.Buffer, error) {
			tensor, err := t.model.Tensor(name)
			if err != nil {
				return nil, err
			}
			return tensor.Buffer(), nil
		},
	}
	seen := map[*csr.Matrix]bool{}
	for i, l := range t.net.Layers {
		if l.Kind == network.Hidden {
			continue
		}
		d := t.bound[i]
		if d == nil {
			return spec, fault.New(fault.InvalidState, "no dataset is bound to layer %q", l.Name)
		}
		if !seen[d] {
			seen[d] = true
			spec.Data = append(spec.Data, program.Part{Name: "data", Of: l.Name, Bytes: d.Bytes(), Device: "host", Held: true})
		}
	}
	// Asked once: the offsets belong to the caller, and everything that is sized by them must agree.
	entries := map[int]int64{}
	for layer, d := range t.bound {
		entries[layer] = d.MaxBatchEntries(spec.Rows)
	}
	spec.Entries = func(layer int) int64 { return entries[layer] }
	return spec, nil
}

// Plan tells the memory and the operations of a run as JSON, and allocates nothing.
func (t *Trainer) Plan() ([]byte, error) {
	spec, err := t.spec()
	if err != nil {
		return nil, err
	}
	plan, err := program.Describe(spec)
	if err != nil {
		return nil, err
	}
	return json.Marshal(plan)
}

// prepare builds the program before the first step.
func (t *Trainer) prepare() error {
	if t.program != nil {
		return nil
	}
	spec, err := t.spec()
	if err != nil {
		return err
	}
	p, err := program.Build(spec)
	if err != nil {
		return err
	}
	t.program = p
	t.feeds = make([]feed, len(p.Slots))
	t.step = kernels.Step{
		Training: true, RatesFrom: 1, Seed: t.settings.seed, Sparse: make([]*kernels.SparseBatch, len(p.Slots)),
		Loss: make([]float64, len(t.net.Terms)),
	}
	for slot, layer := range p.Slots {
		l := &t.net.Layers[layer]
		t.feeds[slot].reader = &csr.Reader{
			Matrix: t.bound[layer], Scaling: l.Scaling == network.L2, Denoising: l.Denoising, Seed: t.settings.seed,
			Stream: random.StreamDenoising | uint32(layer), Limit: spec.Entries(layer),
		}
		t.step.Sparse[slot] = &t.feeds[slot].batch
	}
	t.order = make([]int64, 0, spec.Rows)
	return nil
}

// Progress is a snapshot; it never blocks for long.
func (t *Trainer) Progress() Progress {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.progress
	if t.rows > 0 {
		p.StepsPerEpoch = uint64(t.stepsPerEpoch())
	}
	return p
}

func (t *Trainer) stepsPerEpoch() int64 {
	return (t.rows + t.settings.batchSize - 1) / t.settings.batchSize
}

// Cancel makes a running Run end at the end of its step; without one it does nothing.
func (t *Trainer) Cancel() { t.cancelled.Store(true) }

// Close gives memory, datasets and model back.
func (t *Trainer) Close() error {
	if t.program != nil {
		t.program.Free()
	}
	for _, d := range t.bound {
		d.Unuse()
	}
	t.bound = nil
	t.model.Unuse()
	return t.device.Close()
}
