package program

import (
	"sync"

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

// openCPU makes the CPU ready, as number id of so many virtual devices, with the defaults of Configure.
func openCPU(id, of, threads int, precision kernels.Precision) (kernels.Device, error) {
	o := kernels.Options{Threads: Threads(threads), Of: of, Precision: precision}
	defaults.Lock()
	o.InstructionSet = defaults.instructionSet
	defaults.Unlock()
	return kernels.Lookup("cpu").Open(id, o)
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

// Extras are those of the backends that compute for users.
func Extras() []kernels.Extra {
	list := []kernels.Extra{}
	for _, b := range kernels.Registered() {
		list = append(list, b.Extras()...)
	}
	return list
}

// configured is the description of the CPU with the defaults of Configure.
func configured(info kernels.DeviceInfo) kernels.DeviceInfo {
	device, err := openCPU(0, 1, 0, kernels.Float32)
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
