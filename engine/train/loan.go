package train

import (
	"sync"

	"dsstne/internal/fault"
)

// weights is the state of a loan: the model lends the trainer weights that stay on devices from run to run.
type weights struct {
	devices sync.Mutex // held by users of the devices beside Run: a reader of the model may fetch the weights at any time
	loaded  int64      // the model's count of changes, plus 1, when the devices had its weights
	trained int64      // the model's step that the devices' weights are of
	stored  int64      // and that of those in the model's memory
}

// load copies the model's weights to the devices unless they have them.
func (t *Trainer) load() error {
	if !t.program.HasCopies() {
		return nil
	}
	changes := t.Model.Changes() + 1
	if t.weights.loaded != changes {
		t.weights.loaded, t.weights.stored = 0, t.Model.Step()
		if err := t.program.Load(); err != nil {
			return err
		}
	}
	t.weights.loaded = changes + 1 // the run counts as a change when it ends, however it ends
	return nil
}

// lend ends a run: the weights stay on the devices until somebody reads the model, or until a device has failed.
func (t *Trainer) lend(err error) error {
	t.weights.trained = t.Model.Step()
	t.Model.Lend(t, t.store)
	switch fault.KindOf(err) {
	case fault.OK, fault.Cancelled, fault.NotFinite:
		return err
	}
	if failure := t.giveBack(); failure != nil {
		err = fault.Wrap(err, "%v", failure)
	}
	return err
}

// giveBack ends the loan. If the devices' weights are lost, the model has the weights that were stored last.
func (t *Trainer) giveBack() error {
	err := t.Model.Return(t)
	if err != nil {
		t.Model.SetStep(t.weights.stored)
	}
	t.weights.loaded = 0
	return err
}

// store brings the weights back to the model.
func (t *Trainer) store() error {
	t.weights.devices.Lock()
	defer t.weights.devices.Unlock()
	stored, err := t.program.Store()
	switch step := t.weights.trained; {
	case err == nil:
		t.weights.stored = step
	case stored == 0:
		err = fault.Wrap(err, "the weights of step %d cannot be brought back from the device; the model has those of step %d",
			step, t.weights.stored)
	default:
		err = fault.Wrap(err, "the weights of step %d cannot be brought back from the device; the model has %d of its "+
			"tensors, and the others of step %d", step, stored, t.weights.stored)
	}
	return err
}
