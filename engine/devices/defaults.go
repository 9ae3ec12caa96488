package devices

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

// Configure sets the defaults of devices that are opened later: 0 and "auto" mean automatic, -1 and "" no change.
func Configure(threads int, instructionSet string) error {
	device, err := host().Open(0, kernels.Options{Threads: 1, InstructionSet: instructionSet})
	if err == nil {
		err = device.Close()
	}
	if err != nil {
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

// Threads is n, or the default of Configure if n is 0; 0 is automatic.
func Threads(n int) int {
	defaults.Lock()
	defer defaults.Unlock()
	if n == 0 {
		n = defaults.threads
	}
	return n
}

// openHost makes the host ready, as one of several virtual devices, with the defaults of Configure.
func openHost(id, of, threads int, precision kernels.Precision) (kernels.Device, error) {
	o := kernels.Options{Threads: Threads(threads), Of: of, Precision: precision}
	defaults.Lock()
	o.InstructionSet = defaults.instructionSet
	defaults.Unlock()
	return host().Open(id, o)
}

// host is the backend that computes where there is no accelerator.
func host() kernels.Backend { return kernels.WithRole(kernels.Host)[0] }

// List describes the devices of all backends that compute for users, as a trainer opens them, or why they are absent.
func List() []kernels.DeviceInfo {
	info := host().Devices()[0]
	// Configure has tried the defaults, so this cannot fail; and a description must not fail.
	if device, err := openHost(0, 1, 0, kernels.Float32); err == nil {
		available := info.Available
		info = device.Info()
		info.Available = available
		_ = device.Close()
	}
	list := []kernels.DeviceInfo{info}
	for _, b := range kernels.WithRole(kernels.Accelerator) {
		list = append(list, b.Devices()...)
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
