//go:build !nocuda && linux && amd64

package cuda

import (
	"fmt"
	"slices"
	"strings"

	"dsstne/engine/fault"
	"dsstne/kernels"
	"dsstne/kernels/cuda/driver"
)

func init() { kernels.Register(backend{}) }

type backend struct{}

func (backend) Name() string { return "cuda" }

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
	return kernels.DeviceInfo{
		Name:       fmt.Sprintf("cuda:%d", d.ID),
		Kind:       fmt.Sprintf("%s, compute capability %d.%d", d.Name, d.Capability/10, d.Capability%10),
		Memory:     d.Memory,
		Available:  d.Free,
		Precisions: kernels.PrecisionWords,
		Used:       d.UsersText(),
		Missing:    d.Unusable(),
	}
}

// Open makes a device ready.
func (backend) Open(id int, o kernels.Options) (kernels.Device, error) {
	info, err := driver.Check(id)
	if err != nil {
		return nil, err
	}
	if o.InstructionSet != "" && o.InstructionSet != "auto" {
		return nil, fault.New(fault.Unsupported, "device \"cuda:%d\" has no instruction set %q to choose", id, o.InstructionSet)
	}
	if forms := []string{"", formSimple, formFused, formChunked}; !slices.Contains(forms, o.Form) {
		return nil, fault.New(fault.InvalidArgument, "%q is no form of the output op; there are %s", o.Form, strings.Join(forms[1:], ", "))
	}
	return open(info, o)
}
