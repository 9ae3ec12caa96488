package train

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"dsstne/engine/csr"
	"dsstne/engine/devices"
	"dsstne/engine/model"
	"dsstne/engine/network"
	"dsstne/engine/program"
	"dsstne/engine/schedule"
	"dsstne/engine/session"
	"dsstne/engine/tensor"
	"dsstne/internal/fault"
	"dsstne/kernels"
)

// Options are those of a trainer (docs/training.md).
type Options struct {
	Optimizer    kernels.Optimizer
	LearningRate float64
	Schedule     schedule.Schedule // of the learning rate
	BatchSize    int64
	Seed         uint64
	KeepOrder    bool     // rows in order; otherwise they are shuffled in every epoch
	Locked       []string // tensors that stay as they are, and layers whose tensors do
	Placement    devices.Placement
	Parallel     program.Parallel
	Checkpoints  bool   // plan memory to write checkpoints beside training
	OtherData    bool   // a checkpoint may be of other data, see Resume
	Text         []byte // all as JSON, for checkpoints
}

// Trainer improves one model. Run is for one goroutine at a time; Progress and Cancel may be called from any.
type Trainer struct {
	*session.Binding
	net     *network.Network
	options Options
	locked  map[string]bool // tensors, by name
	// rowWeights are the weights of the rows of the dataset, by output; nil, or nil for an output: all are 1.
	rowWeights [][]float32

	program *program.Program
	feeds   []feed // by slot of the program
	step    kernels.Step
	order   []int64
	settled int64 // number of the last step of the run whose result is known
	seen    int64 // examples of all runs

	weights weights
	closed  bool

	began    int64            // the step that the first run goes on from
	origin   origin           // where the epochs of the present datasets begin
	waiting  []*tensor.Tensor // the optimizer's states at that step, until there is a program
	datasets map[string]string
	snapshot snapshot
	saving   *saving

	profile  *profile // of the run that is profiled, else nil
	profiled []byte   // the last profile

	cancelled atomic.Bool
	mu        sync.Mutex // guards progress
	progress  Progress
	// loss of an epoch so far, summed over its examples
	lossEpoch    int64
	lossSum      float64
	lossExamples int64
}

// origin is a step, after which the epochs of the datasets begin, and the epochs that were begun before with others.
type origin struct{ step, epochs int64 }

// feed makes the batches of one layer.
type feed struct {
	name   string
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

// Open makes the devices ready.
func Open(m *model.Model, o Options) (*Trainer, error) {
	net := m.Network()
	if net == nil {
		return nil, fault.New(fault.InvalidArgument,
			"the model is not a network, so there is nothing to train; its tensors are given")
	}
	const last = 1 << 62 // steps after it would not be numbers of 64 bits for long
	if m.Step() > last {
		return nil, fault.New(fault.InvalidArgument, "the model records %s training steps, above %s; it cannot be trained",
			fault.Grouped(m.Step()), fault.Grouped(last))
	}
	locked, err := net.Locked(o.Locked)
	if err != nil {
		return nil, err
	}
	binding, err := session.New(m, o.Placement, nil)
	if err != nil {
		return nil, err
	}
	return &Trainer{
		Binding: binding, net: net, options: o, locked: locked, progress: Progress{Loss: math.NaN(), EpochLoss: math.NaN()},
	}, nil
}

// Bind feeds an input layer, or the targets of an output layer, with a dataset, which stays in use until Close.
func (t *Trainer) Bind(layer string, d csr.Source) error {
	i, err := t.Check(layer, d)
	switch {
	case err != nil:
		return err
	case t.program != nil:
		return fault.New(fault.InvalidState, "the trainer has begun; datasets are bound before the first run")
	case d.Rows() == 0:
		return fault.New(fault.InvalidData, "the dataset for layer %q has no rows; there is nothing to learn from", layer)
	case d.Statistics().NonZeros == 0:
		return fault.New(fault.InvalidData,
			"all %d rows of the dataset for layer %q are empty; there is nothing to learn from", d.Rows(), layer)
	}
	if err := t.checkTargets(i, d); err != nil {
		return err
	}
	return t.Hold(i, d)
}

// checkTargets refuses values that are not targets of an output's loss.
func (t *Trainer) checkTargets(layer int, d csr.Source) error {
	for _, term := range t.net.Terms {
		if term.Layer != layer {
			continue
		}
		low, high := term.Loss.Targets()
		if math.IsInf(low, -1) && math.IsInf(high, 1) {
			return nil
		}
		allowed := fmt.Sprintf("at least %g", low)
		if !math.IsInf(high, 1) {
			allowed = fmt.Sprintf("from %g to %g", low, high)
		}
		if row, column, value, found := csr.FirstOutside(d, low, high); found {
			return fault.New(fault.InvalidData, "row %d, column %d: the target is %g; this loss needs targets %s. "+
				`Scale the values, use X.astype(bool) or loss="squared"`, row, column, value, allowed)
		}
	}
	return nil
}

// spec says what the program is made from; every input and output must be bound.
func (t *Trainer) spec() (program.Spec, error) {
	training := &program.Training{
		Optimizer: t.options.Optimizer, Locked: t.locked, Weighted: t.rowWeights != nil, WholeRows: t.net.WholeRows(),
	}
	spec, err := t.Spec(min(t.options.BatchSize, max(1, t.Rows())), training, true)
	spec.Held = append(append(spec.Held, t.privateCopies()...), t.rowWeightsParts()...)
	spec.Parallel = t.options.Parallel
	if len(t.waiting) > 0 {
		if t.adopts() {
			spec.Given = t.given
		} else {
			spec.Held = append(spec.Held, t.waitingPart())
		}
	}
	if t.options.Checkpoints && err == nil {
		return t.withSnapshot(spec)
	}
	return spec, err
}

// Plan describes the memory and the operations of a run as JSON, and allocates nothing.
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
	if t.snapshot.refused {
		const reason = "checkpoints are written between two steps: there is no memory for "
		plan.Operations = append(plan.Operations, reason+snapshotOf)
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
		return explainSharing(err, spec.Held)
	}
	t.program = p
	feeds := p.Feeds()
	t.feeds = make([]feed, len(feeds))
	t.step = kernels.Step{
		Training: true, RatesFrom: 1, Seed: t.options.Seed, Sparse: make([]*kernels.SparseBatch, len(feeds)),
	}
	for slot := range feeds {
		t.feeds[slot].name = feeds[slot].Name
		t.feeds[slot].reader = t.Reader(&feeds[slot], spec.Rows, t.options.Seed, true)
		t.step.Sparse[slot] = &t.feeds[slot].batch
	}
	t.order = make([]int64, 0, spec.Rows)
	if err := cmp.Or(t.restore(), t.reserve()); err != nil {
		p.Free()
		t.program = nil
		return err
	}
	free(t.waiting)
	t.waiting = nil
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
	return (t.Rows() + t.options.BatchSize - 1) / t.options.BatchSize
}

// place is the number of whole epochs before a step is over, and the steps of the next one.
func (t *Trainer) place(step int64) (epochs, steps int64) {
	if step == t.origin.step { // also without datasets
		return t.origin.epochs, 0
	}
	done, all := step-t.origin.step, t.stepsPerEpoch()
	return t.origin.epochs + done/all, done % all
}

// begun is the number of epochs that have begun before the next step.
func (t *Trainer) begun(step int64) int64 {
	epochs, steps := t.place(step)
	if steps > 0 {
		epochs++
	}
	return epochs
}

// Cancel makes a running Run end at the end of its step; without one it does nothing.
func (t *Trainer) Cancel() { t.cancelled.Store(true) }

// Close gives memory, datasets and model back, and the model its newest weights. If those are not available it returns
// an error, and gives the rest back. Closing twice does nothing.
func (t *Trainer) Close() error {
	if t.closed {
		return nil
	}
	t.closed = true
	err := cmp.Or(t.Settle(), t.giveBack())
	t.snapshot.free()
	free(t.waiting)
	if t.program != nil {
		t.program.Free()
	}
	return cmp.Or(err, t.Binding.Close())
}
