package program

import (
	"regexp"
	"slices"
	"strconv"
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

// Configure sets what later devices use unless told otherwise; 0 and "auto" mean automatic. Threads below 0 and an empty
// instruction set stay as they were.
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
	if threads >= 0 {
		defaults.threads = threads
	}
	if instructionSet != "" {
		defaults.instructionSet = instructionSet
	}
	return nil
}

// Threads is n, or the default of Configure if n is 0, which is 0 again if that is automatic.
func Threads(n int) int {
	defaults.Lock()
	defer defaults.Unlock()
	if n == 0 {
		n = defaults.threads
	}
	return n
}

// openCPU makes the CPU ready, with the defaults of Configure.
func openCPU(threads int, precision kernels.Precision) (kernels.Device, error) {
	o := kernels.Options{Threads: Threads(threads), Precision: precision}
	defaults.Lock()
	o.InstructionSet = defaults.instructionSet
	defaults.Unlock()
	return kernels.Lookup("cpu").Open(0, o)
}

// Devices lists the devices of all backends that compute for users, as a trainer would open them, and why absent ones are
// absent.
func Devices() []kernels.DeviceInfo {
	var list []kernels.DeviceInfo
	for _, b := range kernels.Registered() {
		if b.Name() == "reference" {
			continue
		}
		for _, info := range b.Devices() {
			if info.Name == "cpu" {
				info = configured(info)
			}
			list = append(list, info)
		}
	}
	if kernels.Lookup("cuda") == nil {
		list = append(list, kernels.DeviceInfo{Name: "cuda", Available: -1, Missing: noCUDA})
	}
	return list
}

// configured is the description of the CPU with the defaults of Configure.
func configured(info kernels.DeviceInfo) kernels.DeviceInfo {
	device, err := openCPU(0, kernels.Float32)
	if err != nil {
		return info // Configure has tried it, so this cannot be; and a description must not fail
	}
	available := info.Available
	info = device.Info()
	info.Available = available
	_ = device.Close()
	return info
}

const noCUDA = "this build of dsstne has no CUDA backend; it computes on the CPU"

// Placement is what options say about where to compute.
type Placement struct {
	Device    string
	Threads   int
	Limit     int64 // memory_limit in bytes, 0 = none
	Precision kernels.Precision
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
	const onlyCUDA = "tensorfloat32"
	word := o.Word("precision", "float32", append([]string{onlyCUDA}, kernels.PrecisionWords...)...)
	if word == onlyCUDA {
		o.Fail("precision", "is %q, which only CUDA devices have; on the CPU use bfloat16 or float32", word)
	}
	p.Precision = kernels.Precision(max(0, slices.Index(kernels.PrecisionWords, word)))
	return p
}

var (
	someCPU = regexp.MustCompile(`^cpu:[0-9]+$`)
	someGPU = regexp.MustCompile(`^cuda(:[0-9]+)?$`)
)

// Open makes the device of a placement ready.
func (p Placement) Open() (kernels.Device, error) {
	switch {
	case slices.Contains([]string{"auto", "all", "cpu", "cpu:0"}, p.Device):
		return openCPU(p.Threads, p.Precision)
	case someGPU.MatchString(p.Device):
		return p.openGPU()
	case someCPU.MatchString(p.Device):
		return nil, fault.New(fault.Unsupported, "device %q: this version computes on one device; use \"cpu\"", p.Device)
	default:
		return nil, fault.New(fault.InvalidArgument, "devices is %q; it must be one of auto, all, cpu, cuda:0%s", p.Device,
			strictjson.Suggestion(p.Device, []string{"auto", "all", "cpu", "cuda:0"}))
	}
}

// openGPU makes a CUDA device ready; "cuda" is the first one.
func (p Placement) openGPU() (kernels.Device, error) {
	backend := kernels.Lookup("cuda")
	if backend == nil {
		return nil, fault.New(fault.DeviceUnavailable, "device %q: %s", p.Device, noCUDA)
	}
	id := 0
	if _, number, found := strings.Cut(p.Device, ":"); found {
		var err error
		if id, err = strconv.Atoi(number); err != nil {
			return nil, fault.New(fault.InvalidArgument, "device %q: no machine has that many", p.Device)
		}
	}
	return backend.Open(id, kernels.Options{Precision: p.Precision})
}
