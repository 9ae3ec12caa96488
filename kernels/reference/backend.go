package reference

import (
	"dsstne/internal/fault"
	"dsstne/kernels"
)

// name is what the backend and its only device are called.
const name = "reference"

func init() { kernels.Register(backend{}) }

type backend struct{ kernels.HostBackend }

func (backend) Name() string { return name }

func (backend) Role() kernels.Role { return kernels.Oracle }

func (backend) Devices() []kernels.DeviceInfo {
	info := device{}.Info()
	info.Available = device{}.Available()
	return []kernels.DeviceInfo{info}
}

func (backend) Open(id int, o kernels.Options) (kernels.Device, error) {
	if id != 0 {
		return nil, fault.New(fault.DeviceUnavailable, "there is no device %s:%d; the only one is %s:0", name, id, name)
	}
	if err := kernels.CheckKind(o.Precision); err != nil {
		return nil, err
	}
	return &device{}, nil
}

// device has no state but results: buffers belong to whoever allocated them.
type device struct {
	kernels.HostMemory
	kernels.HostSteps
}

func (device) Info() kernels.DeviceInfo {
	return kernels.DeviceInfo{Name: name, Kind: name, Available: -1, Threads: 1}
}

func (device) WorkspaceSize(any, int64) int64 { return 0 }

func (device) Close() error { return nil }
