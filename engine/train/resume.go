package train

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"

	"dsstne/engine/model"
	"dsstne/engine/modelfile"
	"dsstne/engine/program"
	"dsstne/engine/tensor"
	"dsstne/internal/fault"
	"dsstne/kernels"
)

// Resume makes a trainer that has its datasets and has not begun go on from a checkpoint, and the model that of the
// checkpoint, with its attributes. read reads the options that the checkpoint has. It returns the model with the best
// weights, or nil.
//
// With the option OtherData, its data may be others, and an epoch of them begins, as with Continue.
//
// Another network, dataset or option is fault.InvalidArgument and names the difference, but for the learning rate, its
// schedule, the devices and the memory limit, which are those of the trainer. A damaged file is fault.CorruptFile; the
// trainer and its model are as they were.
func (t *Trainer) Resume(path string, read func([]byte) (Options, error)) (*model.Model, error) {
	if t.program != nil || t.waiting != nil {
		return nil, fault.New(fault.InvalidState, "the trainer has begun; a checkpoint is read before the first run")
	}
	spec, err := t.spec()
	if err != nil {
		return nil, err
	}
	file, err := modelfile.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	best, err := t.resume(file, spec, read)
	return best, fault.Wrap(err, "%s", path)
}

func (t *Trainer) resume(
	file *modelfile.File, spec program.Spec, read func([]byte) (Options, error),
) (*model.Model, error) {
	text, found := file.Attributes[model.Checkpoint]
	if !found {
		return nil, fault.New(fault.InvalidArgument, "this file is a model, not a checkpoint; a trainer of the model that "+
			"it has begins with the optimizer's state at zero")
	}
	var r record
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return nil, fault.New(fault.CorruptFile, "the record of the checkpoint: %v", err)
	}
	given, err := read(r.Options)
	if err != nil {
		return nil, fault.New(fault.CorruptFile, "the options of the checkpoint: %v", err)
	}
	if err := t.compare(file, &r, &given); err != nil {
		return nil, err
	}
	threads := t.options.Placement.Threads
	if err := file.Read(nil, threads); err != nil { // nothing is changed by a file that is damaged
		return nil, err
	}
	unlock, err := t.Model.TryWriteAs(t)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := t.Model.Own(nil); err != nil {
		return nil, err
	}
	into := slices.DeleteFunc(t.Model.Tensors(), func(w *tensor.Tensor) bool { return w.Layer < 0 })
	waiting, err := statesOf(file, r.Step, spec)
	if err != nil {
		return nil, err
	}
	if err := file.Read(append(into, waiting...), threads); err != nil {
		free(waiting)
		return nil, err
	}
	t.Model.SetStep(file.Step)
	t.Model.SetAttributes(file.Attributes)
	unlock()
	p := &t.progress
	if r.EpochLoss != nil {
		p.EpochLoss = *r.EpochLoss
	}
	if t.options.OtherData {
		t.lossEpoch = r.Epochs
		t.goOn(r.Step, origin{r.Step, r.Epochs}, waiting)
		return t.readBest(file, &r, threads)
	}
	t.goOn(r.Step, origin{r.OriginStep, r.OriginEpochs}, waiting)
	t.seen, t.lossEpoch, t.lossSum, t.lossExamples = r.Examples, r.LossEpoch, r.LossSum, r.LossExamples
	if r.LossExamples > 0 {
		p.Loss = r.LossSum / float64(r.LossExamples)
	}
	return t.readBest(file, &r, threads)
}

// goOn makes the next step that after another.
func (t *Trainer) goOn(step int64, from origin, waiting []*tensor.Tensor) {
	t.waiting, t.began, t.origin = waiting, step, from
	t.reach(step)
}

// compare refuses a checkpoint of something else.
func (t *Trainer) compare(file *modelfile.File, r *record, saved *Options) error {
	differs := func(what string, here, there any) error {
		return fault.New(fault.InvalidArgument, "%s: the checkpoint has %v, this trainer has %v", what, there, here)
	}
	o := &t.options
	switch {
	case file.Definition != string(t.Model.Form().JSON()):
		return differing("network", []byte(file.Definition), t.Model.Form().JSON())
	case saved.Optimizer.Kind != o.Optimizer.Kind:
		return differs("optimizer", o.Optimizer.Kind, saved.Optimizer.Kind)
	case !t.locksLike(saved):
		return differs("locked", fmt.Sprintf("%q", o.Locked), fmt.Sprintf("%q", saved.Locked))
	case o.OtherData:
		return r.check()
	case saved.Optimizer.WeightDecay != o.Optimizer.WeightDecay:
		return differs("weight_decay", o.Optimizer.WeightDecay, saved.Optimizer.WeightDecay)
	case saved.Optimizer.L1 != o.Optimizer.L1:
		return differs("l1", o.Optimizer.L1, saved.Optimizer.L1)
	case saved.Optimizer.ClipNorm != o.Optimizer.ClipNorm:
		return differs("clip_norm", o.Optimizer.ClipNorm, saved.Optimizer.ClipNorm)
	case saved.Optimizer != o.Optimizer:
		return differs("optimizer", fmt.Sprintf("%+v", o.Optimizer), fmt.Sprintf("%+v", saved.Optimizer))
	case saved.BatchSize != o.BatchSize:
		return differs("batch_size", o.BatchSize, saved.BatchSize)
	case saved.Seed != o.Seed:
		return differs("seed", o.Seed, saved.Seed)
	case saved.KeepOrder != o.KeepOrder:
		return differs("shuffle", !o.KeepOrder, !saved.KeepOrder)
	case r.Precision != t.Precision().String():
		return differs("precision", t.Precision(), r.Precision)
	}
	datasets, err := t.digests()
	if err != nil {
		return err
	}
	for _, port := range t.Ports {
		if datasets[port.Name] != r.Datasets[port.Name] {
			return fault.New(fault.InvalidArgument, "dataset: the rows for layer %q, or their weights, are not those that the "+
				"checkpoint was trained with", port.Name)
		}
	}
	return r.check()
}

// locksLike reports whether other options of a trainer of this network lock the same weights, so that the optimizer has
// the same states.
func (t *Trainer) locksLike(o *Options) bool {
	locked, err := t.net.Locked(o.Locked)
	return err == nil && maps.Equal(locked, t.locked)
}

// check refuses numbers that no trainer has written.
func (r *record) check() error {
	least := min(r.OriginStep, r.Step-r.OriginStep, r.OriginEpochs, r.Epochs, r.LossExamples)
	if least < 0 || r.Step > math.MaxInt32 {
		return fault.New(fault.CorruptFile, "the record of the checkpoint has the step %d", r.Step)
	}
	return nil
}

// differing is the error for two definitions, which names the first part that differs.
func differing(what string, there, here []byte) error {
	var one, other any
	_, _ = json.Unmarshal(there, &one), json.Unmarshal(here, &other) // what cannot be read is nil, and differs
	what, one, other = difference(what, one, other)
	show := func(v any) string {
		if v == nil {
			return "none"
		}
		text, _ := json.Marshal(v) // of what was read from JSON
		return string(text[:min(len(text), 100)])
	}
	return fault.New(fault.InvalidArgument, "%s: the checkpoint has %s, this trainer has %s", what, show(one), show(other))
}

// difference finds the first part that differs, and its path; members of objects are compared by their sorted keys.
func difference(path string, one, other any) (string, any, any) {
	switch one := one.(type) {
	case map[string]any:
		two, is := other.(map[string]any)
		keys := slices.Sorted(maps.Keys(one))
		for key := range two {
			if _, both := one[key]; !both {
				keys = append(keys, key)
			}
		}
		slices.Sort(keys)
		for _, key := range keys {
			if is && !reflect.DeepEqual(one[key], two[key]) {
				return difference(path+"."+key, one[key], two[key])
			}
		}
	case []any:
		two, is := other.([]any)
		if !is || len(one) != len(two) {
			break
		}
		for i := range one {
			if !reflect.DeepEqual(one[i], two[i]) {
				if layer, named := one[i].(map[string]any); named && layer["name"] != nil {
					return difference(fmt.Sprintf("%s[%d] (%v)", path, i, layer["name"]), one[i], two[i])
				}
				return difference(fmt.Sprintf("%s[%d]", path, i), one[i], two[i])
			}
		}
	}
	return path, one, other
}

// statesOf allocates the states that a program needs, which a file must have, unless it was saved before the first
// step.
func statesOf(file *modelfile.File, step int64, spec program.Spec) ([]*tensor.Tensor, error) {
	draft, err := program.Draft(spec)
	if err != nil {
		return nil, err
	}
	states, waiting := draft.States(), []*tensor.Tensor{}
	for n, s := range states {
		shape := []int64{s.Rows, s.Columns}
		e, found := file.Entry(stateName(s))
		if n == 0 && !found && step == 0 {
			return nil, nil
		}
		if !found || e.DType != tensor.F32.String() || !slices.Equal(e.Shape, shape) {
			free(waiting)
			return nil, fault.New(fault.CorruptFile, "the checkpoint has no state %d of %s for this network", s.Index, s.Weight)
		}
		made, err := tensor.New(e.Name, tensor.F32, shape, -1)
		if err != nil {
			free(waiting)
			return nil, err
		}
		waiting = append(waiting, made)
	}
	return waiting, nil
}

// readBest makes a model of the best weights, if the file has them.
func (t *Trainer) readBest(file *modelfile.File, r *record, threads int) (*model.Model, error) {
	if r.BestStep == 0 {
		return nil, nil
	}
	best, err := t.Model.Copy()
	if err != nil {
		return nil, err
	}
	var into []*tensor.Tensor
	if err = best.Own(nil); err == nil {
		for _, w := range best.Tensors() {
			if w.Layer >= 0 {
				w = w.Share()
				w.Name = bestPrefix + w.Name
				into = append(into, w)
			}
		}
		err = file.Read(into, threads)
		free(into)
	}
	best.SetStep(r.BestStep)
	if err != nil {
		_ = best.Close()
		return nil, err
	}
	return best, nil
}

// restore gives a program that was built the states that wait for it.
func (t *Trainer) restore() error {
	t.step.Number, t.step.RatesFrom = t.began, t.began+1
	if len(t.waiting) > 0 && !t.adopts() {
		for n, s := range t.program.States() {
			if err := t.program.WriteState(s, t.waiting[n].Float32()); err != nil {
				return err
			}
		}
	}
	return t.program.SetLast(t.began)
}

// adopts reports whether a program can take the memory of the states that wait as it is.
func (t *Trainer) adopts() bool { return len(t.Ranks) == 1 && kernels.ReachesHost(t.Ranks[0].Device) }

// given is the memory of a state that waits.
func (t *Trainer) given(weight string, index int) *kernels.HostBuffer {
	name := stateName(program.State{Weight: weight, Index: index})
	n := slices.IndexFunc(t.waiting, func(w *tensor.Tensor) bool { return w.Name == name })
	return t.waiting[n].Buffer().(*kernels.HostBuffer)
}

// waitingPart is the plan's part for states that wait to be copied.
func (t *Trainer) waitingPart() program.Part {
	part := program.Part{Name: "checkpoint", Of: "optimizer state, until the run begins", Device: "host", Held: true}
	for _, w := range t.waiting {
		part.Bytes += w.Size()
	}
	return part
}

// Fork makes a trainer that goes on from where this one is, with a copy of the model; the two share memory until one of
// them trains. Options may differ in the learning rate, its schedule, weight decay and where it computes.
func (t *Trainer) Fork(o Options) (*Trainer, error) {
	if o.BatchSize != t.options.BatchSize || o.KeepOrder != t.options.KeepOrder ||
		o.Optimizer.Kind != t.options.Optimizer.Kind || !t.locksLike(&o) {
		return nil, fault.New(fault.InvalidArgument, "a fork has the batch_size, the order, the optimizer and the locked "+
			"weights of its trainer")
	}
	if err := t.complete(); err != nil {
		return nil, err
	}
	m, err := t.Model.Copy()
	if err != nil {
		return nil, err
	}
	f, err := Open(m, o)
	if err != nil {
		_ = m.Close()
		return nil, err
	}
	for i := range t.Ports {
		if d := t.Dataset(i); err == nil && d != nil {
			err = f.Hold(i, d)
		}
	}
	var waiting []*tensor.Tensor
	if err == nil {
		waiting, err = t.states()
	}
	if err != nil {
		_ = f.Close()
		_ = m.Close()
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	f.seen, f.lossEpoch, f.lossSum, f.lossExamples = t.seen, t.lossEpoch, t.lossSum, t.lossExamples
	f.progress, f.datasets, f.rowWeights = t.progress, t.datasets, slices.Clone(t.rowWeights)
	f.goOn(t.position(), t.origin, waiting)
	return f, nil
}

// Continue makes a trainer that has not begun go on from where another trainer of this network is, with other data,
// whose first epoch begins with the next step. Neither needs to have its data yet. The two share the optimizer's state
// until one of them trains.
func (t *Trainer) Continue(from *Trainer) error {
	switch {
	case t.program != nil || t.waiting != nil:
		return fault.New(fault.InvalidState, "the trainer has begun; it goes on from another before its first run")
	case string(t.Model.Form().JSON()) != string(from.Model.Form().JSON()):
		return fault.New(fault.InvalidArgument, "the other trainer is of another network")
	case t.options.Optimizer.Kind != from.options.Optimizer.Kind:
		return fault.New(fault.InvalidArgument, "the optimizer is %s, that of the other trainer %s; they have other states",
			t.options.Optimizer.Kind, from.options.Optimizer.Kind)
	case !maps.Equal(t.locked, from.locked):
		return fault.New(fault.InvalidArgument, "locked is %q, that of the other trainer %q; the optimizer has no state for "+
			"locked weights", t.options.Locked, from.options.Locked)
	}
	waiting, err := from.states()
	if err != nil {
		return err
	}
	step := from.position()
	epochs := from.begun(step) // one that was begun has its random order, and the next another
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lossEpoch, t.progress.EpochLoss = epochs, from.Progress().EpochLoss
	t.goOn(step, origin{step, epochs}, waiting)
	return nil
}
