//go:build !nocuda && linux && amd64

package driver

/*
#include <cuda.h>
#include "nvml.h"
*/
import "C"

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"gorgonia.org/cu"

	"dsstne/internal/fault"
	"dsstne/kernels"
	"dsstne/kernels/cuda/dynamic"
)

// Mode says who may use a device, in the driver's numbers.
type Mode int

// The modes that restrict the use of a device.
const (
	Prohibited Mode = C.CU_COMPUTEMODE_PROHIBITED
	Exclusive  Mode = C.CU_COMPUTEMODE_EXCLUSIVE_PROCESS // one process at a time
)

// OldestCapability is the lowest compute capability that kernels are compiled for, times ten.
const OldestCapability = 80

// DeviceInfo is what is known of a device without a context on it.
type DeviceInfo struct {
	ID              int
	Name            string // "NVIDIA H200"
	Capability      int    // compute capability times ten: 90
	Multiprocessors int
	SharedBytes     int   // most shared memory a block may ask for
	L2Bytes         int   // second-level cache
	Memory          int64 // bytes
	Free            int64 // bytes, -1 if unknown
	Mode            Mode
	Users           []User // other processes that compute on it, as far as is known
	Others          int    // how many more there are

	handle int
	ours   bool // this process has a context on it; in a container, Users have other numbers than it knows
}

// User is a process that computes on a device.
type User struct {
	PID   int
	Name  string // empty if unknown
	Bytes int64  // of the device's memory, -1 if unknown
}

func (u User) String() string {
	name := u.Name
	if name == "" {
		name = "a process of another container or user"
	}
	if u.Bytes < 0 {
		return fmt.Sprintf("%s (pid %d)", name, u.PID)
	}
	return fmt.Sprintf("%s (pid %d, %.1f GiB)", name, u.PID, float64(u.Bytes)/(1<<30))
}

// Count is how many devices there are.
func Count() (int, error) {
	count, err := cu.NumDevices()
	return count, wrapped("cuDeviceGetCount", err)
}

// Devices lists the devices, or says why there is none.
func Devices() ([]DeviceInfo, error) {
	if err := Load(); err != nil {
		return nil, err
	}
	count, err := Count()
	if err != nil {
		return nil, err
	}
	list := make([]DeviceInfo, count)
	for id := range list {
		if list[id], err = describe(id); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// Check describes a device, or returns an error that says why it cannot be used.
func Check(id int) (DeviceInfo, error) {
	info, err := describe(id)
	if err != nil {
		return info, fault.Wrap(err, "device \"cuda:%d\"", id)
	}
	if reason := info.Unusable(); reason != "" {
		return info, fault.New(fault.DeviceUnavailable, "device \"cuda:%d\": %s", id, reason)
	}
	return info, nil
}

// describe asks the driver about a device.
func describe(id int) (DeviceInfo, error) {
	info := DeviceInfo{ID: id, Free: -1}
	if err := Load(); err != nil {
		return info, err
	}
	if count, err := Count(); err != nil {
		return info, err
	} else if id < 0 || id >= count {
		return info, fault.New(fault.DeviceUnavailable, "%s", present(count))
	}
	device, err := cu.GetDevice(id)
	if err != nil {
		return info, wrapped("cuDeviceGet", err)
	}
	info.handle = int(device)
	if info.Name, err = device.Name(); err != nil {
		return info, wrapped("cuDeviceGetName", err)
	}
	if info.Memory, err = device.TotalMem(); err != nil {
		return info, wrapped("cuDeviceTotalMem", err)
	}
	var major, minor, mode int
	for attribute, to := range map[cu.DeviceAttribute]*int{
		cu.ComputeCapabilityMajor: &major, cu.ComputeCapabilityMinor: &minor, cu.ComputeMode: &mode,
		cu.MultiprocessorCount: &info.Multiprocessors, cu.L2CacheSize: &info.L2Bytes,
		C.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: &info.SharedBytes,
	} {
		if *to, err = device.Attribute(attribute); err != nil {
			return info, wrapped("cuDeviceGetAttribute", err)
		}
	}
	if _, active, err := device.PrimaryCtxState(); err == nil {
		info.ours = active != 0
	}
	info.Capability, info.Mode = 10*major+minor, Mode(mode)
	info.addUsage()
	return info, nil
}

func present(count int) string {
	if count == 1 {
		return "it is not there; the only device is cuda:0"
	}
	return fmt.Sprintf("it is not there; there are %d devices, cuda:0 to cuda:%d", count, count-1)
}

// findNVML finds NVIDIA's management library, and reports whether it can be asked.
var findNVML = sync.OnceValue(func() bool {
	f := dynamic.Functions{
		Names: unsafe.Pointer(C.nvml_names()), Slots: C.nvml_slots(), Count: C.COUNT, Optional: 1,
	}
	return nil == f.Find([]kernels.LibraryFile{{Name: "libnvidia-ml.so.1"}}, "", func(string) string {
		if C.nvml_init() != 0 {
			return "it does not start"
		}
		return ""
	})
})

// askingNVML is held while the library is asked.
var askingNVML sync.Mutex

// mostUsers is how many users are named.
const mostUsers = 16

// addUsage asks who uses the device's memory.
func (d *DeviceInfo) addUsage() {
	askingNVML.Lock()
	defer askingNVML.Unlock()
	bus := make([]byte, 32)
	id := (*C.char)(ptr(bus))
	var device unsafe.Pointer
	var memory C.nvml_memory
	if !findNVML() || C.cuDeviceGetPCIBusId(id, C.int(len(bus)), C.CUdevice(d.handle)) != C.CUDA_SUCCESS ||
		C.nvml_device(id, &device) != 0 || C.nvml_memory_of(device, &memory) != 0 || int64(memory.total) < d.Memory {
		return // unknown, or not the same thing
	}
	if int64(memory.total)-d.Memory < d.Memory/8 { // otherwise the device is a part of that one
		d.Free = max(0, min(d.Memory, int64(memory.free)))
	}
	for _, process := range processesOn(device) {
		switch pid := int(process.pid); {
		case pid == os.Getpid():
		case len(d.Users) == mostUsers:
			d.Others++
		default:
			name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
			bytes := max(-1, int64(process.bytes))
			d.Users = append(d.Users, User{PID: pid, Name: strings.TrimSpace(string(name)), Bytes: bytes})
		}
	}
}

// processesOn are those that compute on a device, none if the library does not tell. If there is too little room, it
// says how many there are; there may be more of them when it is asked again.
func processesOn(device unsafe.Pointer) []C.nvml_process {
	const insufficientSize, attempts, spare = 7, 4, 64
	count := C.uint(0)
	for range attempts {
		list := make([]C.nvml_process, count+spare)
		count = C.uint(len(list))
		switch C.nvml_processes_of(device, &count, &list[0]) {
		case 0:
			return list[:count]
		case insufficientSize:
		default:
			return nil
		}
	}
	return nil
}

// Unusable says why the device cannot be used; empty if it can.
func (d DeviceInfo) Unusable() string {
	switch {
	case d.Capability < OldestCapability:
		return fmt.Sprintf("%s has compute capability %d.%d, and %d.%d or newer is needed", d.Name, d.Capability/10,
			d.Capability%10, OldestCapability/10, OldestCapability%10)
	case d.Mode == Prohibited:
		return d.Name + " is in compute mode \"prohibited\", in which nobody may use it"
	case d.Mode == Exclusive && len(d.Users) > 0 && !d.ours && !d.shared():
		return fmt.Sprintf("%s is in compute mode \"exclusive process\" and in use by %s", d.Name, d.Users[0])
	}
	return ""
}

// shared reports whether the one process that may use the device is the server of MPS, which computes for all. The
// system keeps 15 letters of its name, nvidia-cuda-mps-server.
func (d DeviceInfo) shared() bool {
	return slices.ContainsFunc(d.Users, func(u User) bool { return strings.HasPrefix(u.Name, "nvidia-cuda-mps") })
}

// usageWords are the device's name, mode, free memory and users.
func (d DeviceInfo) usageWords() string {
	parts := []string{d.Name}
	if d.Mode == Exclusive {
		parts = append(parts, "in compute mode \"exclusive process\"")
	}
	if d.Free >= 0 {
		parts = append(parts, fmt.Sprintf("%.1f of %.1f GiB free", float64(d.Free)/(1<<30), float64(d.Memory)/(1<<30)))
	}
	if words := d.UsersText(); words != "" {
		parts = append(parts, "used by "+words)
	}
	return strings.Join(parts, ", ")
}

// UsersText names the processes that use the device; empty if there are none or they are unknown.
func (d DeviceInfo) UsersText() string {
	var words []string
	for _, user := range d.Users {
		words = append(words, user.String())
	}
	if d.Others > 0 {
		words = append(words, fmt.Sprintf("%d more", d.Others))
	}
	return strings.Join(words, " and ")
}
