package train

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"time"

	"dsstne/engine/csr"
	"dsstne/engine/model"
	"dsstne/engine/modelfile"
	"dsstne/engine/program"
	"dsstne/engine/tensor"
	"dsstne/internal/fault"
	"dsstne/internal/parallel"
)

// A checkpoint is the file of the model with further tensors, the states of the optimizer and what the caller adds, and
// with an attribute, the record. At the end of a run no row of a weight lags behind and no rates are kept, so that
// nothing else is needed to go on.

// record is what a trainer goes on from beside weights and states, as JSON of the attribute.
type record struct {
	Options      json.RawMessage   `json:"options"` // as they were given
	Precision    string            `json:"precision"`
	Datasets     map[string]string `json:"datasets"`         // digests by layer
	Epochs       int64             `json:"epochs,omitempty"` // those that were begun, if the last one is complete or not
	Step         int64             `json:"step"`             // of the trainer; the model may have been trained before
	OriginStep   int64             `json:"origin_step,omitempty"`
	OriginEpochs int64             `json:"origin_epochs,omitempty"`
	Examples     int64             `json:"examples"` // of all steps
	LossEpoch    int64             `json:"loss_epoch"`
	LossSum      float64           `json:"loss_sum"`
	LossExamples int64             `json:"loss_examples"`
	EpochLoss    *float64          `json:"epoch_loss"` // nil: no epoch is complete
	BestStep     int64             `json:"best_step,omitempty"`
}

// Names of the further tensors. A layer's name has no slash.
const (
	statePrefix = "optimizer/"
	bestPrefix  = "best/"
)

func stateName(s program.State) string { return fmt.Sprintf("%s%d/%s", statePrefix, s.Index, s.Weight) }

// pauseOfSave leaves nearly all of a processor to training: a quarter of a megabyte takes 0.2 ms.
const pauseOfSave = 4 * time.Millisecond

// saving is a file that is being written beside training.
type saving struct {
	hurry chan struct{} // closed when somebody waits
	done  chan error
}

// Save writes a checkpoint. best, if not nil, is a model of the same form whose weights are kept in it too. With
// background, it copies everything and returns; the next Save, Settle or Close waits for the file and has its error. If
// there is no memory for a copy, it writes at once.
func (t *Trainer) Save(path string, attributes map[string]string, best *model.Model, background bool) error {
	if err := cmp.Or(t.Settle(), t.complete()); err != nil {
		return err
	}
	if background && !filepath.IsAbs(path) { // the process may change its folder meanwhile
		folder, err := os.Getwd()
		if err != nil {
			return fault.From(fault.IO, err, "cannot save %s: the current folder is not known", path)
		}
		path = folder + "/" + path // not Join, which would cancel ".." against a folder that is a link
	}
	unlock, err := t.Model.TryRead()
	if err != nil {
		return fault.Wrap(err, "cannot save %s", path)
	}
	defer unlock()
	text, err := t.record(best)
	if err != nil {
		return fault.Wrap(err, "cannot save %s", path)
	}
	attributes = maps.Clone(attributes)
	if attributes == nil {
		attributes = map[string]string{}
	}
	attributes[model.Checkpoint] = string(text)
	content := t.Model.Content(attributes)
	states, err := t.states()
	if err != nil {
		return err
	}
	shared, err := weightsOf(best)
	if err != nil {
		free(states)
		return fault.Wrap(err, "cannot save %s: the best weights", path)
	}
	content.Tensors = append(content.Tensors, states...)
	if background && t.snapshot.fits(t, content.Tensors) {
		content.Tensors = t.snapshot.take(content.Tensors, t.options.Placement.Threads)
		free(states)
		content.Tensors = append(content.Tensors, shared...) // which nobody changes
		t.write(path, content, func() { free(shared) })
		return nil
	}
	content.Tensors = append(content.Tensors, shared...)
	err = modelfile.Save(path, content, t.options.Placement.Threads)
	free(states)
	free(shared)
	return err
}

// weightsOf shares the weights of a model as tensors of a checkpoint.
func weightsOf(best *model.Model) ([]*tensor.Tensor, error) {
	if best == nil {
		return nil, nil
	}
	unlock, err := best.TryRead()
	if err != nil {
		return nil, err
	}
	defer unlock()
	var shared []*tensor.Tensor
	for _, w := range best.Tensors() {
		if w.Layer >= 0 {
			w = w.Share()
			w.Name = bestPrefix + w.Name
			shared = append(shared, w)
		}
	}
	return shared, nil
}

// write begins to write a file whose tensors nobody changes until after is called.
func (t *Trainer) write(path string, content *modelfile.Content, after func()) {
	s := &saving{make(chan struct{}), make(chan error, 1)}
	t.saving = s
	content.Pause = func() {
		select {
		case <-s.hurry:
		case <-time.After(pauseOfSave):
		}
	}
	go func() {
		err := parallel.Guarded(func(int) error { return modelfile.Save(path, content, 1) }, 0)
		after()
		s.done <- err
	}()
}

// Settle waits for the checkpoint that is being written, if there is one, and returns its error.
func (t *Trainer) Settle() error {
	s := t.saving
	if s == nil {
		return nil
	}
	t.saving = nil
	close(s.hurry)
	return <-s.done
}

// states are the optimizer's states as tensors; they share memory with the program where they can.
func (t *Trainer) states() ([]*tensor.Tensor, error) {
	var list []*tensor.Tensor
	if t.program == nil {
		for _, waiting := range t.waiting {
			list = append(list, waiting.Share())
		}
		return list, nil
	}
	for _, s := range t.program.States() {
		shape := []int64{s.Rows, s.Columns}
		if buffer := t.program.StateBuffer(s); buffer != nil {
			list = append(list, tensor.Of(stateName(s), shape, buffer.Share()))
			continue
		}
		made, err := tensor.New(stateName(s), tensor.F32, shape, -1)
		if err == nil {
			list = append(list, made)
			err = t.program.ReadState(s, made.Float32())
		}
		if err != nil {
			free(list)
			return nil, err
		}
	}
	return list, nil
}

func free(list []*tensor.Tensor) {
	for _, t := range list {
		t.Free()
	}
}

// position is the step after which training goes on: a step that has failed counts, see count.
func (t *Trainer) position() int64 {
	if t.program == nil {
		return t.began
	}
	return t.step.Number
}

// complete refuses a trainer that lacks datasets.
func (t *Trainer) complete() error {
	for i, port := range t.Ports {
		if (port.Reads || port.Scores) && t.Dataset(i) == nil {
			return fault.New(fault.InvalidState, "no dataset is bound to layer %q", port.Name)
		}
	}
	return nil
}

// record describes where the trainer is.
func (t *Trainer) record(best *model.Model) ([]byte, error) {
	datasets, err := t.digests()
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	r := record{
		Options: t.options.Text, Precision: t.Precision().String(), Datasets: datasets, Epochs: t.begun(t.position()),
		Step: t.position(), OriginStep: t.origin.step, OriginEpochs: t.origin.epochs, Examples: t.seen,
		LossEpoch: t.lossEpoch, LossSum: t.lossSum, LossExamples: t.lossExamples,
	}
	if loss := t.progress.EpochLoss; !math.IsNaN(loss) {
		r.EpochLoss = &loss
	}
	if best != nil {
		r.BestStep = best.Step()
	}
	return json.Marshal(r)
}

// digests identifies the datasets, once.
func (t *Trainer) digests() (map[string]string, error) {
	if t.datasets == nil {
		found := map[string]string{}
		for i, port := range t.Ports {
			if d := t.Dataset(i); d != nil {
				sum, err := csr.Digest(d, t.options.Placement.Threads)
				if err != nil {
					return nil, fault.Wrap(err, "layer %q", port.Name)
				}
				found[port.Name] = sum + t.weightsDigest(i)
			}
		}
		t.datasets = found
	}
	return t.datasets, nil
}
