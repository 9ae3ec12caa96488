//go:build !nocuda && linux && amd64

package driver

/*
#cgo CFLAGS: -std=c11 -O2 -Wall -Wextra
#cgo LDFLAGS: -L${SRCDIR}
#include "loader.h"
*/
import "C"

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"

	"dsstne/internal/fault"
	"dsstne/kernels/cuda/dynamic"
)

// Oldest is the oldest supported version of the driver's interface, as cuDriverGetVersion counts: that of driver 525.
const Oldest = 12000

var version int

// Load finds the driver and makes it ready; until then every function of it answers "no device". The answer stays the
// same for the life of the process. An error is fault.DeviceUnavailable and says in a sentence why there is no device.
func Load() error { return load() }

var load = sync.OnceValue(func() error {
	if reason := start(); reason != "" {
		return fault.New(fault.DeviceUnavailable, "%s", reason)
	}
	return nil
})

// Version is the version of the interface that the loaded driver supports: 12040 is CUDA 12.4.
func Version() int { return version }

// start loads the driver, or says why it could not.
func start() string {
	library, reason := dynamic.Open("libcuda.so.1")
	if reason != "" {
		return notOpened(reason)
	}
	var number C.int
	if code := C.dsstne_driver_version(library, &number); code != 0 {
		return fmt.Sprintf("libcuda.so.1 does not tell its version (error %d)", code)
	}
	if version = int(number); version < Oldest {
		return fmt.Sprintf("the NVIDIA driver is too old: it supports CUDA %s, and driver 525 (CUDA %s) or newer is needed",
			versionText(version), versionText(Oldest))
	}
	C.dsstne_driver_connect(library)
	if code := int(C.dsstne_driver_init(library)); code != 0 {
		return notStarted(newError("cuInit", code))
	}
	count, err := Count()
	switch {
	case err != nil:
		return err.Error()
	case count == 0:
		return noDevice()
	}
	return ""
}

func versionText(version int) string { return fmt.Sprintf("%d.%d", version/1000, version%1000/10) }

// notOpened says why libcuda.so.1 does not open.
func notOpened(loader string) string {
	if !strings.Contains(loader, "No such file") {
		return "the NVIDIA driver's libcuda.so.1 does not load: " + loader
	}
	if _, err := os.Stat("/proc/driver/nvidia/version"); err == nil {
		return "this machine has an NVIDIA driver, but its libcuda.so.1 was not found; a container must be started with " +
			"access to the GPUs"
	}
	return "no NVIDIA driver is installed: libcuda.so.1 was not found"
}

// notStarted says why cuInit failed.
func notStarted(e *Error) string {
	switch e.Name {
	case "CUDA_ERROR_NO_DEVICE":
		return noDevice()
	case "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH":
		return "the NVIDIA driver was updated, and its kernel module is still the old one; restart the machine"
	}
	if closed := notPermitted(); closed != "" {
		return closed
	}
	return "the NVIDIA driver does not start: " + e.Error()
}

// noDevice says why the driver sees no device.
func noDevice() string {
	if closed := notPermitted(); closed != "" {
		return closed
	}
	if visible, set := os.LookupEnv("CUDA_VISIBLE_DEVICES"); set {
		return fmt.Sprintf("the NVIDIA driver shows no device, and CUDA_VISIBLE_DEVICES is %q", visible)
	}
	return "the NVIDIA driver finds no device"
}

// access asks the system whether this process may open a file; tests replace it.
var access = syscall.Access

// notPermitted names the device file that this user may not open, if there is one.
func notPermitted() string {
	const readAndWrite = 4 | 2
	for _, path := range []string{"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia0"} {
		if err := access(path, readAndWrite); err == syscall.EACCES || err == syscall.EPERM {
			return fmt.Sprintf("no permission to use %s; ask for it, often by membership in the group that owns the file", path)
		}
	}
	return ""
}
