package program

import (
	"slices"
	"strings"
	"sync"

	"dsstne/engine/fault"
	"dsstne/engine/strictjson"
	"dsstne/kernels"
)

// defaults are the process-wide settings of Configure.
var defaults struct {
	sync.Mutex
	threads        int
	instructionSet string
}

// Configure sets what later devices use unless told otherwise; 0 and "" mean automatic.
func Configure(threads int, instructionSet string) error {
	device, err := kernels.Lookup("cpu").Open(0, kernels.Options{Threads: 1, InstructionSet: instructionSet})
	if err != nil {
		return err
	}
	if err := device.Close(); err != nil {
		return err
	}
	defaults.Lock()
	defer defaults.Unlock()
	defaults.threads, defaults.instructionSet = threads, instructionSet
	return nil
}

// Devices lists the devices of all backends that compute for users, and why absent ones are absent.
func Devices() []kernels.DeviceInfo {
	var list []kernels.DeviceInfo
	for _, b := range kernels.Registered() {
		if b.Name() != "reference" {
			list = append(list, b.Devices()...)
		}
	}
	if kernels.Lookup("cuda") == nil {
		list = append(list, kernels.DeviceInfo{Name: "cuda", Missing: noCUDA})
	}
	return list
}

const noCUDA = "this build of dsstne has no CUDA backend; it computes on the CPU"

// Placement is what options say about where to compute.
type Placement struct {
	Device  string
	Threads int
	Limit   int64 // memory_limit in bytes, 0 = none
}

// ReadPlacement takes "devices", "threads", "memory_limit" and "precision" from options.
func ReadPlacement(o *strictjson.Object) Placement {
	p := Placement{
		Device:  "auto",
		Threads: int(o.Int("threads", 0, strictjson.Between(0, 4096))),
		Limit:   o.Int("memory_limit", 0, strictjson.AtLeast(0)),
	}
	switch o.Type("devices") {
	case strictjson.ListType:
		names := o.Strings("devices")
		if len(names) != 1 {
			o.Fail("devices", "names %d devices; this version computes on one", len(names))
		} else {
			p.Device = names[0]
		}
	default:
		p.Device = o.String("devices", "auto")
	}
	word := o.Word("precision", "float32", "float32", "bfloat16", "tensorfloat32")
	if word != "float32" {
		o.Fail("precision", "is %q; this version computes in float32 only", word)
	}
	return p
}

// Open makes the device of a placement ready.
func (p Placement) Open() (kernels.Device, error) {
	name, number, _ := strings.Cut(p.Device, ":")
	switch {
	case name == "cuda":
		return nil, fault.New(fault.DeviceUnavailable, "device %q: %s", p.Device, noCUDA)
	case name == "cpu" && number != "" && number != "0" && number != "1":
		return nil, fault.New(fault.Unsupported, "device %q: this version computes on one device; use \"cpu\"", p.Device)
	case !slices.Contains([]string{"auto", "all", "cpu"}, name):
		return nil, fault.New(fault.InvalidArgument, "devices is %q; it must be one of auto, all, cpu, cuda:0%s", p.Device,
			strictjson.Suggestion(p.Device, []string{"auto", "all", "cpu", "cuda:0"}))
	}
	defaults.Lock()
	o := kernels.Options{Threads: p.Threads, InstructionSet: defaults.instructionSet}
	if o.Threads == 0 {
		o.Threads = defaults.threads
	}
	defaults.Unlock()
	return kernels.Lookup("cpu").Open(0, o)
}
