//go:build !nocuda && linux && amd64

package cuda

import (
	"fmt"

	"dsstne/engine/fault"
	"dsstne/kernels"
	"dsstne/kernels/cuda/driver"
)

func init() { kernels.Register(backend{}) }

type backend struct{}

func (backend) Name() string { return "cuda" }

// notYet is why a device that could be used is not. Devices, and with it devices="auto", goes by it, too.
const notYet = "this version of dsstne finds CUDA devices and does not compute on them"

// Devices lists the devices. If there is none, the one entry says why.
func (backend) Devices() []kernels.DeviceInfo {
	found, err := driver.Devices()
	if err != nil {
		return []kernels.DeviceInfo{{Name: "cuda", Available: -1, Missing: err.Error()}}
	}
	list := make([]kernels.DeviceInfo, len(found))
	for i, device := range found {
		list[i] = describe(device)
	}
	return list
}

func describe(d driver.DeviceInfo) kernels.DeviceInfo {
	info := kernels.DeviceInfo{
		Name:       fmt.Sprintf("cuda:%d", d.ID),
		Kind:       fmt.Sprintf("%s, compute capability %d.%d", d.Name, d.Capability/10, d.Capability%10),
		Available:  d.Free,
		Precisions: []string{"float32", "tensorfloat32", "bfloat16"},
		Used:       d.UsersText(),
		Missing:    d.Unusable(),
	}
	if info.Missing == "" {
		info.Missing = fmt.Sprintf("%s is there, but %s", d.Name, notYet)
	}
	return info
}

// Open makes a device ready.
func (backend) Open(id int, _ kernels.Options) (kernels.Device, error) {
	if _, err := driver.Check(id); err != nil {
		return nil, err
	}
	return nil, fault.New(fault.Unsupported, "device \"cuda:%d\": %s; use \"cpu\"", id, notYet)
}
