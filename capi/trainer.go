package main

// #include "abi.h"
import "C"

import (
	"dsstne/engine/model"
	"dsstne/engine/options"
	"dsstne/engine/train"
	"dsstne/internal/fault"
)

type trainer struct{ *train.Trainer }

func (*trainer) kind() kind     { return trainerKind }
func (t *trainer) close() error { return t.Close() }

//export dsstne_trainer_open
func dsstne_trainer_open(model C.dsstne_model, optionText *C.const_char, out *C.dsstne_trainer,
	err *C.dsstne_error) C.dsstne_status {
	return guard("dsstne_trainer_open", err, func(c *call) error {
		o := optionsIn(c, optionText, options.ReadTrainer)
		return with(c, model, sharing, func(m *modelObject) error {
			return open(c, out, here, func() (object, error) {
				t, err := train.Open(m.Model, o)
				return &trainer{t}, err
			})
		})
	})
}

//export dsstne_trainer_bind
func dsstne_trainer_bind(handle C.dsstne_trainer, layer *C.const_char, data C.dsstne_dataset,
	err *C.dsstne_error) C.dsstne_status {
	return guard("dsstne_trainer_bind", err, func(c *call) error {
		name := c.requiredText(layer, "layer")
		return with(c, handle, changing, func(t *trainer) error {
			return with(c, data, sharing, func(d *dataset) error {
				return hop(func() error { return t.Bind(name, d.matrix) })
			})
		})
	})
}

//export dsstne_trainer_set_row_weights
func dsstne_trainer_set_row_weights(handle C.dsstne_trainer, layer *C.const_char, weights *C.const_float,
	nRows C.int64_t, err *C.dsstne_error) C.dsstne_status {
	return guard("dsstne_trainer_set_row_weights", err, func(c *call) error {
		name := c.requiredText(layer, "layer")
		given := slice(c, (*float32)(weights), int64(nRows), "weights", "n_rows")
		return with(c, handle, changing, func(t *trainer) error { return t.Weigh(name, given) })
	})
}

//export dsstne_trainer_plan
func dsstne_trainer_plan(handle C.dsstne_trainer, buf *C.char, length *C.size_t, err *C.dsstne_error) C.dsstne_status {
	return guard("dsstne_trainer_plan", err, func(c *call) error {
		return with(c, handle, reading, func(t *trainer) error { return textOut(c, buf, length, t.Plan) })
	})
}

//export dsstne_trainer_run
func dsstne_trainer_run(handle C.dsstne_trainer, maxSteps C.uint64_t, maxSeconds C.double, progress *C.dsstne_progress,
	err *C.dsstne_error) C.dsstne_status {
	return guard("dsstne_trainer_run", err, func(c *call) error {
		if progress != nil {
			checkStruct(c, progress, "progress")
		}
		return with(c, handle, changing, func(t *trainer) error {
			var p train.Progress
			err := fanOut(len(t.Ranks), func() (err error) {
				p, err = t.Run(uint64(maxSteps), float64(maxSeconds))
				return err
			})
			switch fault.KindOf(err) {
			case fault.OK, fault.Cancelled, fault.NotFinite:
				progressOut(p, progress)
			}
			return err
		})
	})
}

//export dsstne_trainer_profile
func dsstne_trainer_profile(handle C.dsstne_trainer, steps C.uint64_t, buf *C.char, length *C.size_t,
	err *C.dsstne_error) C.dsstne_status {
	return guard("dsstne_trainer_profile", err, func(c *call) error {
		return with(c, handle, changing, func(t *trainer) error {
			return textOut(c, buf, length, func() (text []byte, err error) {
				err = fanOut(len(t.Ranks), func() (err error) {
					text, err = t.Profile(uint64(steps))
					return err
				})
				return text, err
			})
		})
	})
}

//export dsstne_trainer_progress
func dsstne_trainer_progress(handle C.dsstne_trainer, progress *C.dsstne_progress,
	err *C.dsstne_error) C.dsstne_status {
	return guard("dsstne_trainer_progress", err, func(c *call) error {
		checkStruct(c, progress, "progress")
		return with(c, handle, watching, func(t *trainer) error {
			progressOut(t.Progress(), progress)
			return nil
		})
	})
}

// progressOut writes progress to the caller's struct; out may be null.
func progressOut(p train.Progress, out *C.dsstne_progress) {
	if out == nil {
		return
	}
	filled := C.dsstne_progress{
		step:                C.uint64_t(p.Step),
		steps_per_epoch:     C.uint64_t(p.StepsPerEpoch),
		epoch:               C.uint64_t(p.Epoch),
		examples:            C.uint64_t(p.Examples),
		loss:                C.double(p.Loss),
		epoch_loss:          C.double(p.EpochLoss),
		learning_rate:       C.double(p.LearningRate),
		examples_per_second: C.double(p.ExamplesPerSecond),
		seconds:             C.double(p.Seconds),
	}
	if p.Running {
		filled.running = 1
	}
	structOut(out, &filled, out.struct_size)
}

//export dsstne_trainer_save
func dsstne_trainer_save(handle C.dsstne_trainer, path, optionText *C.const_char, best C.dsstne_model,
	err *C.dsstne_error) C.dsstne_status {
	return guard("dsstne_trainer_save", err, func(c *call) error {
		file := c.pathIn(path)
		o := optionsIn(c, optionText, options.ReadCheckpoint)
		return with(c, handle, changing, func(t *trainer) error {
			save := func(best *model.Model) error {
				return hop(func() error { return t.Save(file, o.Attributes, best, o.Background) })
			}
			if best == 0 {
				return save(nil)
			}
			return withNamed(c, best, "best", sharing, func(m *modelObject) error { return save(m.Model) })
		})
	})
}

//export dsstne_trainer_settle
func dsstne_trainer_settle(handle C.dsstne_trainer, err *C.dsstne_error) C.dsstne_status {
	return guard("dsstne_trainer_settle", err, func(c *call) error {
		return with(c, handle, changing, func(t *trainer) error { return hop(t.Settle) })
	})
}

//export dsstne_trainer_resume
func dsstne_trainer_resume(handle C.dsstne_trainer, path *C.const_char, best *C.dsstne_model,
	err *C.dsstne_error) C.dsstne_status {
	return guard("dsstne_trainer_resume", err, func(c *call) error {
		file := c.pathIn(path)
		notNull(c, best, "best")
		return with(c, handle, changing, func(t *trainer) error {
			return hop(func() error {
				m, err := t.Resume(file, options.ReadTrainer)
				*best = 0
				if m != nil {
					*best = C.dsstne_model(handles.add(&modelObject{m}))
				}
				return err
			})
		})
	})
}

//export dsstne_trainer_fork
func dsstne_trainer_fork(handle C.dsstne_trainer, optionText *C.const_char, copied *C.dsstne_model,
	out *C.dsstne_trainer, err *C.dsstne_error) C.dsstne_status {
	return guard("dsstne_trainer_fork", err, func(c *call) error {
		o := optionsIn(c, optionText, options.ReadTrainer)
		notNull(c, copied, "model")
		return with(c, handle, changing, func(t *trainer) error {
			return open(c, out, here, func() (object, error) {
				f, err := t.Fork(o)
				if err != nil {
					return nil, err
				}
				*copied = C.dsstne_model(handles.add(&modelObject{f.Model}))
				return &trainer{f}, nil
			})
		})
	})
}

//export dsstne_trainer_continue
func dsstne_trainer_continue(handle, other C.dsstne_trainer, err *C.dsstne_error) C.dsstne_status {
	return guard("dsstne_trainer_continue", err, func(c *call) error {
		return with(c, handle, changing, func(t *trainer) error {
			return withNamed(c, other, "other", changing, func(from *trainer) error {
				return hop(func() error { return t.Continue(from.Trainer) })
			})
		})
	})
}

//export dsstne_trainer_close
func dsstne_trainer_close(handle C.dsstne_trainer, err *C.dsstne_error) C.dsstne_status {
	return guard("dsstne_trainer_close", err, func(c *call) error {
		return handles.close(uint64(handle), trainerKind, c.name)
	})
}
