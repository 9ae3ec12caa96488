package main

// #include "abi.h"
import "C"

import (
	"unsafe"

	"dsstne/engine/model"
	"dsstne/engine/options"
	"dsstne/engine/solve"
	"dsstne/internal/fault"
)

type solver struct{ *solve.Solver }

func (*solver) kind() kind     { return solverKind }
func (s *solver) close() error { return s.Close() }

//export dsstne_solver_open
func dsstne_solver_open(optionText *C.const_char, out *C.dsstne_solver, err *C.dsstne_error) C.dsstne_status {
	return guard("dsstne_solver_open", err, func(c *call) error {
		o := optionsIn(c, optionText, options.ReadSolver)
		return open(c, out, here, func() (object, error) {
			s, err := solve.Open(o)
			return &solver{s}, err
		})
	})
}

//export dsstne_solver_bind
func dsstne_solver_bind(handle C.dsstne_solver, layer *C.const_char, data C.dsstne_dataset,
	err *C.dsstne_error) C.dsstne_status {
	return guard("dsstne_solver_bind", err, func(c *call) error {
		name := c.requiredText(layer, "layer")
		return with(c, handle, changing, func(s *solver) error {
			return with(c, data, sharing, func(d *dataset) error {
				return hop(func() error { return s.Bind(name, d.matrix) })
			})
		})
	})
}

//export dsstne_solver_plan
func dsstne_solver_plan(handle C.dsstne_solver, buf *C.char, length *C.size_t, err *C.dsstne_error) C.dsstne_status {
	return guard("dsstne_solver_plan", err, func(c *call) error {
		return with(c, handle, reading, func(s *solver) error { return textOut(c, buf, length, s.Plan) })
	})
}

//export dsstne_solver_run
func dsstne_solver_run(handle C.dsstne_solver, maxSeconds C.double, progress *C.dsstne_solver_state,
	err *C.dsstne_error) C.dsstne_status {
	return guard("dsstne_solver_run", err, func(c *call) error {
		if progress != nil {
			checkStruct(c, progress, "progress")
		}
		return with(c, handle, changing, func(s *solver) error {
			var p solve.Progress
			err := here(func() (err error) {
				p, err = s.Run(float64(maxSeconds))
				return err
			})
			switch fault.KindOf(err) {
			case fault.OK, fault.Cancelled:
				solverProgressOut(p, progress)
			}
			return err
		})
	})
}

//export dsstne_solver_progress
func dsstne_solver_progress(handle C.dsstne_solver, progress *C.dsstne_solver_state,
	err *C.dsstne_error) C.dsstne_status {
	return guard("dsstne_solver_progress", err, func(c *call) error {
		checkStruct(c, progress, "progress")
		return with(c, handle, watching, func(s *solver) error {
			solverProgressOut(s.Progress(), progress)
			return nil
		})
	})
}

// solverProgressOut writes progress to the caller's struct; out may be null.
func solverProgressOut(p solve.Progress, out *C.dsstne_solver_state) {
	if out == nil {
		return
	}
	filled := C.dsstne_solver_state{
		done: C.uint64_t(p.Done), steps: C.uint64_t(p.Steps), seconds: C.double(p.Seconds),
		unfinished: C.uint64_t(p.Unfinished),
	}
	if p.Running {
		filled.running = 1
	}
	structOut(out, &filled, out.struct_size)
}

//export dsstne_model_from_solver
func dsstne_model_from_solver(handle C.dsstne_solver, out *C.dsstne_model, err *C.dsstne_error) C.dsstne_status {
	return guard("dsstne_model_from_solver", err, func(c *call) error {
		return with(c, handle, changing, func(s *solver) error {
			return openModel(c, out, func() (*model.Model, error) { return s.Model() })
		})
	})
}

//export dsstne_solver_get_array
func dsstne_solver_get_array(handle C.dsstne_solver, name *C.const_char, dst unsafe.Pointer, bytes C.size_t,
	err *C.dsstne_error) C.dsstne_status {
	return guard("dsstne_solver_get_array", err, func(c *call) error {
		array := c.requiredText(name, "name")
		if bytes%4 > 0 {
			c.fail("bytes is %d; the numbers of an array have 4 bytes", bytes)
		}
		memory := slice(c, (*float32)(dst), int64(bytes/4), "dst", "bytes")
		return with(c, handle, changing, func(s *solver) error {
			return hop(func() error { return s.Array(array, memory) })
		})
	})
}

//export dsstne_solver_close
func dsstne_solver_close(handle C.dsstne_solver, err *C.dsstne_error) C.dsstne_status {
	return guard("dsstne_solver_close", err, func(c *call) error {
		return handles.close(uint64(handle), solverKind, c.name)
	})
}
