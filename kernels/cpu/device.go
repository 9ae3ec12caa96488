// Package cpu is the CPU backend: package c does the operations by a fixed pool of workers, except for a few that are
// so small that they need neither vectors nor other workers.
package cpu

import (
	"fmt"
	"runtime"
	"slices"
	"strings"

	"dsstne/internal/fault"
	"dsstne/kernels"
	"dsstne/kernels/cpu/c"
)

func init() { kernels.Register(backend{}) }

type backend struct{ kernels.HostBackend }

func (backend) Name() string { return "cpu" }

func (backend) Role() kernels.Role { return kernels.Host }

// InstructionSets lists what this CPU can run, widest first.
func InstructionSets() (names []string) {
	for _, t := range c.Tables() {
		names = append(names, t.Name())
	}
	return names
}

func (backend) Devices() []kernels.DeviceInfo {
	widest := c.Tables()[0]
	return []kernels.DeviceInfo{{
		Name: "cpu", Kind: widest.Name(), Available: kernels.HostAvailable(), Threads: runtime.GOMAXPROCS(0),
		Precisions: precisions(widest), FastBFloat16: widest.FastBFloat16(),
	}}
}

// Open starts the workers. Every id is the same CPU: several devices of it are virtual ones.
func (backend) Open(id int, o kernels.Options) (kernels.Device, error) {
	sets, set := InstructionSets(), 0
	if o.InstructionSet != "" && o.InstructionSet != "auto" {
		set = slices.Index(sets, o.InstructionSet)
	}
	if set < 0 {
		return nil, fault.New(fault.Unsupported, "instruction set %q cannot be used on this CPU; use one of auto, %s",
			o.InstructionSet, strings.Join(sets, ", "))
	}
	table := c.Tables()[set]
	o.Precision = o.Precision.On(kernels.DeviceInfo{FastBFloat16: table.FastBFloat16()})
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
	threads = min(threads, max(64, 4*runtime.GOMAXPROCS(0))) // more cost time and memory, and help nobody
	name := "cpu"
	caller := 1 // a thread of the caller works too; for the other virtual devices Go has one
	if o.Of > 1 {
		name = fmt.Sprintf("cpu[%d/%d]", id, o.Of)
		threads = kernels.VirtualThreads(threads, id, o.Of)
	}
	if id > 0 {
		caller = 0
	}
	claimed := c.ClaimThreads(threads - caller)
	if claimed+caller == 0 {
		return nil, fault.New(fault.OutOfMemory,
			"the system has no thread left for the device %s: use fewer virtual devices, or raise the limit (ulimit -u, "+
				"or pids.max of the container)", name)
	}
	return &device{Ops: c.NewOps(table, o.Precision, claimed+caller), name: name, claimed: claimed}, nil
}

// precisions are those that the CPU has instructions for.
func precisions(t *c.Table) []string {
	if t.BFloat16() {
		return kernels.PrecisionWords[:2]
	}
	return kernels.PrecisionWords[:1]
}

type device struct {
	kernels.HostMemory
	kernels.HostSteps
	c.Ops
	name    string
	claimed int // threads
}

func (d *device) Info() kernels.DeviceInfo {
	return kernels.DeviceInfo{
		Name: d.name, Kind: d.Ops.Name(), Available: -1, Threads: d.Workers, Precisions: precisions(d.Table),
		FastBFloat16: d.FastBFloat16(),
	}
}

func (d *device) Close() error {
	d.Pool.Close()
	c.ReleaseThreads(d.claimed)
	d.claimed = 0
	return nil
}
