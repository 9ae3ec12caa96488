// Package cpu is the CPU backend: it hands ops, translated to C by package c, to a fixed pool of workers.
package cpu

import (
	"fmt"
	"runtime"
	"strings"

	"dsstne/internal/fault"
	"dsstne/kernels"
	"dsstne/kernels/cpu/c"
)

func init() { kernels.Register(backend{}) }

type backend struct{}

func (backend) Name() string { return "cpu" }

// Role is what the devices are for.
func (backend) Role() kernels.Role { return kernels.Host }

// InstructionSets lists what this CPU can run, widest first.
func InstructionSets() []string {
	var names []string
	for level := c.Widest; level >= c.Portable; level-- {
		if t := c.Select(level); t != nil {
			names = append(names, t.Name())
		}
	}
	return names
}

func (backend) Devices() []kernels.DeviceInfo {
	return []kernels.DeviceInfo{{
		Name: "cpu", Kind: InstructionSets()[0], Available: kernels.HostAvailable(), Threads: runtime.GOMAXPROCS(0),
		Precisions: precisions(c.Select(c.Widest)),
	}}
}

// Extras lists none.
func (backend) Extras() []kernels.Extra { return nil }

// Join needs nothing but the host's memory.
func (backend) Join(devices []kernels.Device) ([]kernels.Communicator, error) {
	return kernels.NewHostGroup(len(devices)), nil
}

// Open starts the workers. Every id is the same CPU: several devices of it are virtual ones.
func (backend) Open(id int, o kernels.Options) (kernels.Device, error) {
	table, err := choose(o.InstructionSet)
	if err != nil {
		return nil, err
	}
	if err := kernels.CheckKind(o.Precision); err != nil {
		return nil, err
	}
	if o.Precision == kernels.TensorFloat32 {
		return nil, fault.New(fault.InvalidArgument,
			"precision is %q, which only CUDA devices have; on the CPU use bfloat16 or float32", o.Precision)
	}
	threads := o.Threads
	if threads <= 0 {
		threads = runtime.GOMAXPROCS(0) // follows the cgroup and the affinity mask
	}
	name := "cpu"
	if o.Of > 1 {
		name = fmt.Sprintf("cpu[%d/%d]", id, o.Of)
		threads = max(1, threads*(id+1)/o.Of-threads*id/o.Of)
	}
	return &device{name: name, table: table.With(o.Precision), pool: c.NewPool(threads)}, nil
}

func precisions(t *c.Table) []string {
	if t != nil && t.BFloat16() {
		return kernels.PrecisionWords[:2]
	}
	return kernels.PrecisionWords[:1]
}

func choose(name string) (*c.Table, error) {
	var usable []string
	for level := c.Widest; level >= c.Portable; level-- {
		t := c.Select(level)
		if t == nil {
			continue
		}
		if name == "" || name == "auto" || name == t.Name() {
			return t, nil
		}
		usable = append(usable, t.Name())
	}
	return nil, fault.New(fault.Unsupported, "instruction set %q cannot be used on this CPU; use one of auto, %s", name,
		strings.Join(usable, ", "))
}

type device struct {
	kernels.HostMemory
	kernels.HostSteps
	name  string
	table *c.Table
	pool  *c.Pool
}

func (d *device) Info() kernels.DeviceInfo {
	return kernels.DeviceInfo{Name: d.name, Kind: d.table.Name(), Available: -1, Threads: d.pool.Workers, Precisions: precisions(d.table)}
}

func (d *device) Available() int64 { return kernels.HostAvailable() }

func (d *device) WorkspaceSize(op any, rows int64) int64 {
	return d.table.WorkspaceSize(op, rows, d.pool.Workers)
}

func (d *device) Close() error {
	d.pool.Close()
	return nil
}

func (d *device) run(call *c.Call) error { return d.pool.Run(d.table, call) }

func (d *device) Fill(op *kernels.Fill) error { return d.run(d.table.Fill(op)) }

func (d *device) Gather(op *kernels.Gather, s *kernels.Step) error {
	return d.run(d.table.Gather(op, s))
}

func (d *device) Dense(op *kernels.Dense, s *kernels.Step) error {
	return d.run(d.table.Dense(op, s, d.pool.Workers))
}

func (d *device) Activate(op *kernels.Activate, s *kernels.Step) error {
	return d.run(d.table.Activate(op, s))
}

func (d *device) OutputStats(op *kernels.Output, s *kernels.Step) error {
	if op.Items == 0 {
		return noStats(op, s)
	}
	return d.run(d.table.OutputStats(op, s, d.pool.Workers))
}

func (d *device) OutputStep(op *kernels.Output, s *kernels.Step) error {
	if op.Items == 0 {
		return noStep(op, s)
	}
	return d.run(d.table.OutputStep(op, s, d.pool.Workers))
}

func (d *device) Backward(op *kernels.Backward, s *kernels.Step) error {
	return d.run(d.table.Backward(op, s))
}

func (d *device) DenseBackward(op *kernels.DenseBackward, s *kernels.Step) error {
	return d.run(d.table.DenseBackward(op, s, d.pool.Workers))
}

func (d *device) Scatter(op *kernels.Scatter, s *kernels.Step) error {
	return d.run(d.table.Scatter(op, s))
}

func (d *device) Replay(op *kernels.Replay, s *kernels.Step) error {
	return d.run(d.table.Replay(op, s))
}

func (d *device) Update(op *kernels.Update, s *kernels.Step) error {
	return d.run(d.table.Update(op, s))
}

func (d *device) Scores(op *kernels.Scores, s *kernels.Step) error {
	return d.run(d.table.Scores(op, s, d.pool.Workers))
}

func (d *device) TopK(op *kernels.TopK, s *kernels.Step) error {
	return d.run(d.table.TopK(op, s, d.pool.Workers))
}
