package reference

import (
	"syscall"

	"dsstne/engine/fault"
	"dsstne/kernels"
)

// name is what the backend and its only device are called.
const name = "reference"

func init() { kernels.Register(backend{}) }

type backend struct{}

func (backend) Name() string { return name }

func (backend) Devices() []kernels.DeviceInfo { return []kernels.DeviceInfo{device{}.Info()} }

func (backend) Open(id int, _ kernels.Options) (kernels.Device, error) {
	if id != 0 {
		return nil, fault.New(fault.DeviceUnavailable, "there is no device %s:%d; the only one is %s:0", name, id, name)
	}
	return device{}, nil
}

// device has no state: buffers belong to whoever allocated them.
type device struct{}

func (device) Info() kernels.DeviceInfo {
	info := kernels.DeviceInfo{Name: name, Kind: name, Threads: 1}
	var system syscall.Sysinfo_t
	if err := syscall.Sysinfo(&system); err == nil {
		info.Available = int64(system.Freeram) * int64(system.Unit)
	}
	return info
}

func (device) Alloc(n int64) (kernels.Buffer, error) { return kernels.AllocHost(n) }

func (device) WorkspaceSize(any, int64) int64 { return 0 }

func (device) Close() error { return nil }
