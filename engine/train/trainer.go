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
	*program.Binding
	settings settings

	program *program.Program
	feeds   []feed // by slot of the program
	step    kernels.Step
	order   []int64
	settled int64 // number of the last step of the run whose result is known
	seen    int64 // examples of all runs

	weights weights
	closed  bool

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
	binding, err := program.NewBinding(m, s.placement, false)
	if err != nil {
		return nil, err
	}
	return &Trainer{
		Binding: binding, settings: s, progress: Progress{Loss: math.NaN(), EpochLoss: math.NaN()},
	}, nil
}

// Bind feeds an input layer, or the targets of an output layer, with a dataset, which stays in use until Close.
func (t *Trainer) Bind(layer string, d *csr.Matrix) error {
	i, err := t.Check(layer, d)
	switch {
	case err != nil:
		return err
	case t.program != nil:
		return fault.New(fault.InvalidState, "the trainer has begun; datasets are bound before the first run")
	case d.Rows() == 0:
		return fault.New(fault.InvalidData, "the dataset for layer %q has no rows; there is nothing to learn from", layer)
	case d.NonZeros() == 0:
		return fault.New(fault.InvalidData, "all %d rows of the dataset for layer %q are empty; there is nothing to learn from",
			d.Rows(), layer)
	}
	if err := t.checkTargets(i, d); err != nil {
		return err
	}
	return t.Hold(i, d)
}

// checkTargets refuses values that an output's loss gives no meaning to.
func (t *Trainer) checkTargets(layer int, d *csr.Matrix) error {
	for _, term := range t.Net.Terms {
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
	spec, err := t.Spec(min(t.settings.batchSize, max(1, t.Rows())), t.settings.placement.Limit, network.Input, network.Output)
	spec.Parallel = t.settings.parallel
	spec.Training = &program.Training{Optimizer: t.settings.optimizer}
	return spec, err
}

// Plan tells the memory and the operations of a run as JSON, and allocates nothing.
func (t *Trainer) Plan() ([]byte, error) {
	t.weights.devices.Lock()
	defer t.weights.devices.Unlock()
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
		Loss: make([]float64, len(t.Net.Terms)),
	}
	for slot, layer := range p.Slots {
		l := &t.Net.Layers[layer]
		t.feeds[slot].reader = &csr.Reader{
			Matrix: t.Dataset(layer), Scaling: l.Scaling == network.L2, Denoising: l.Denoising, Seed: t.settings.seed,
			Stream: random.StreamDenoising | uint32(layer), Limit: spec.Entries(layer, spec.Rows),
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
	if t.Rows() > 0 {
		p.StepsPerEpoch = uint64(t.stepsPerEpoch())
	}
	return p
}

func (t *Trainer) stepsPerEpoch() int64 {
	return (t.Rows() + t.settings.batchSize - 1) / t.settings.batchSize
}

// Cancel makes a running Run end at the end of its step; without one it does nothing.
func (t *Trainer) Cancel() { t.cancelled.Store(true) }

// Close gives memory, datasets and model back, and the model its newest weights. If these cannot be had, it says so; the rest
// is given back then, too. Closing twice does nothing.
func (t *Trainer) Close() error {
	if t.closed {
		return nil
	}
	t.closed = true
	err := t.giveBack()
	if t.program != nil {
		t.program.Free()
	}
	if failure := t.Binding.Close(); err == nil {
		err = failure
	}
	return err
}
