//go:build !nocuda && linux && amd64

package driver

/*
#include <cuda.h>
#include <stdlib.h>
#include "loader.h"
*/
import "C"

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"gorgonia.org/cu"

	"dsstne/internal/fault"
)

// Mode says who may use a device.
type Mode int

// The modes, with the driver's numbers.
const (
	Shared     Mode = C.CU_COMPUTEMODE_DEFAULT
	Prohibited Mode = C.CU_COMPUTEMODE_PROHIBITED
	Exclusive  Mode = C.CU_COMPUTEMODE_EXCLUSIVE_PROCESS // one process at a time
)

// OldestCapability is the lowest compute capability that kernels are compiled for, times ten.
const OldestCapability = 80

// DeviceInfo is what can be told of a device without a context on it.
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
	Users           []User // processes that compute on it, this one left out, as far as is known
	Others          int    // how many more there are

	handle int
	ours   bool // this process has a context on it
}

// User is a process that computes on a device.
type User struct {
	PID   int
	Name  string // empty if it is not told
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

// Count tells how many devices there are.
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

// Check describes a device that can be used; of another it says in words why it cannot.
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

// describe tells about one device.
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

// askingNVML is held while the library is asked, which is opened then.
var askingNVML sync.Mutex

// addUsage asks who uses the device's memory.
func (d *DeviceInfo) addUsage() {
	askingNVML.Lock()
	defer askingNVML.Unlock()
	bus := make([]byte, 32)
	var usage C.dsstne_device_usage
	if C.cuDeviceGetPCIBusId((*C.char)(ptr(bus)), C.int(len(bus)), C.CUdevice(d.handle)) != C.CUDA_SUCCESS ||
		C.dsstne_driver_usage((*C.char)(ptr(bus)), &usage) != 0 {
		return
	}
	if int64(usage.total) < d.Memory {
		return // not the same thing
	}
	if int64(usage.total)-d.Memory < d.Memory/8 { // otherwise the device is a part of that one
		d.Free = max(0, min(d.Memory, int64(usage.free)))
	}
	d.Others = int(usage.others)
	for _, user := range usage.user[:usage.users] {
		name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", user.pid))
		bytes := int64(user.bytes)
		d.Users = append(d.Users, User{PID: int(user.pid), Name: strings.TrimSpace(string(name)), Bytes: max(-1, bytes)})
	}
}

// Unusable says why the device cannot be used; empty if it can.
func (d DeviceInfo) Unusable() string {
	switch {
	case d.Capability < OldestCapability:
		return fmt.Sprintf("%s has compute capability %d.%d, and %d.%d or newer is needed", d.Name, d.Capability/10, d.Capability%10,
			OldestCapability/10, OldestCapability%10)
	case d.Mode == Prohibited:
		return d.Name + " is in compute mode \"prohibited\", in which nobody may use it"
	case d.Mode == Exclusive && len(d.Users) > 0 && !d.ours && !d.shared(): // in a container, our own number is not the one that is told
		return fmt.Sprintf("%s is in compute mode \"exclusive process\" and in use by %s", d.Name, d.Users[0])
	}
	return ""
}

// shared tells whether the one process that may use the device is the server of MPS, which computes for all.
func (d DeviceInfo) shared() bool {
	return slices.ContainsFunc(d.Users, func(u User) bool { return strings.HasPrefix(u.Name, mpsServer) })
}

// mpsServer is nvidia-cuda-mps-server, of which the system keeps 15 letters.
const mpsServer = "nvidia-cuda-mps"

// usageWords tells how the device is used: its mode, free memory and users.
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

// UsersText names those who use the device; empty if nobody does or it is not told.
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
