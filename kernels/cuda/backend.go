//go:build !nocuda && linux && amd64

package cuda

import (
	"fmt"
	"slices"
	"strings"

	"dsstne/internal/fault"
	"dsstne/kernels"
	"dsstne/kernels/cuda/cublaslt"
	"dsstne/kernels/cuda/driver"
	"dsstne/kernels/cuda/nccl"
)

func init() { kernels.Register(backend{}) }

type backend struct{}

func (backend) Name() string { return "cuda" }

// Role is what the devices are for.
func (backend) Role() kernels.Role { return kernels.Accelerator }

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

// Extras looks for the libraries as the opening and the joining of devices do.
func (backend) Extras() (list []kernels.Extra) {
	found, _ := driver.Devices()
	usable := len(slices.DeleteFunc(found, func(d driver.DeviceInfo) bool { return d.Unusable() != "" }))
	add := func(e kernels.Extra, otherwise string, load func() error, version func() string) {
		if err := load(); err == nil {
			e.Version = version()
		} else {
			e.Missing = err.Error() + "; " + otherwise
		}
		list = append(list, e)
	}
	if usable > 0 {
		add(kernels.Extra{Name: "cuBLASLt", For: "products of dense matrices"},
			"kernels of dsstne do these without it, which takes longer in float32", cublaslt.Load, cublaslt.Version)
	}
	if usable > 1 {
		add(kernels.Extra{Name: "NCCL", For: "exchange between devices"}, "devices copy to each other without it",
			nccl.Load, nccl.Version)
	}
	return list
}

func describe(d driver.DeviceInfo) kernels.DeviceInfo {
	return kernels.DeviceInfo{
		Name:       fmt.Sprintf("cuda:%d", d.ID),
		Kind:       fmt.Sprintf("%s, compute capability %d.%d", d.Name, d.Capability/10, d.Capability%10),
		Memory:     d.Memory,
		Available:  d.Free,
		Precisions: kernels.PrecisionWords, FastBFloat16: true,
		Used:    d.UsersText(),
		Missing: d.Unusable(),
	}
}

// Open makes a device ready.
func (backend) Open(id int, o kernels.Options) (kernels.Device, error) {
	info, err := driver.Check(id)
	if err != nil {
		return nil, err
	}
	o.Precision = o.Precision.On(describe(info))
	if err := kernels.CheckKind(o.Precision); err != nil {
		return nil, err
	}
	if o.InstructionSet != "" && o.InstructionSet != "auto" {
		return nil, fault.New(fault.Unsupported, "device \"cuda:%d\" has no instruction set %q to choose", id,
			o.InstructionSet)
	}
	if forms := []string{"", formSimple, formFused, formChunked}; !slices.Contains(forms, o.Form) {
		return nil, fault.New(fault.InvalidArgument, "%q is not a form of the output op; there are %s", o.Form,
			strings.Join(forms[1:], ", "))
	}
	return open(info, o)
}
