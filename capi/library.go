package main

// #include "abi.h"
import "C"

import (
	"sync"

	"dsstne/engine/devices"
	"dsstne/engine/options"
	"dsstne/kernels"
)

// Set by the build with -ldflags "-X main.version=... -X main.commit=...".
var (
	version = "0.0.0"
	commit  = ""
)

// versionText is the version as a C text, made once and never freed.
var versionText = sync.OnceValue(func() *C.char { return C.CString(version) })

//export dsstne_abi_version
func dsstne_abi_version() C.uint32_t { return C.DSSTNE_ABI_VERSION }

//export dsstne_version
func dsstne_version() *C.const_char { return (*C.const_char)(versionText()) }

//export dsstne_configure
func dsstne_configure(optionText *C.const_char, err *C.dsstne_error) C.dsstne_status {
	return guard("dsstne_configure", err, func(c *call) error {
		o := optionsIn(c, optionText, func(text []byte) (options.Library, error) {
			return options.ReadLibrary(text, readInjection)
		})
		if c.err != nil {
			return c.err
		}
		if o.KeepDevices != nil {
			devices.KeepIdle(*o.KeepDevices)
		}
		if o.MemoryLimit >= 0 {
			kernels.LimitHost(o.MemoryLimit)
		}
		if o.Folders != nil {
			kernels.SetLibraryFolders(o.Folders)
		}
		return devices.Configure(o.Threads, o.InstructionSet)
	})
}

//export dsstne_describe
func dsstne_describe(buf *C.char, length *C.size_t, err *C.dsstne_error) C.dsstne_status {
	return guard("dsstne_describe", err, func(c *call) error {
		return textOut(c, buf, length, describeLibrary)
	})
}

//export dsstne_cancel
func dsstne_cancel(handle C.uint64_t, err *C.dsstne_error) C.dsstne_status {
	return guard("dsstne_cancel", err, func(c *call) error {
		o, err := handles.enter(uint64(handle), "handle", c.name, watching, datasetKind, trainerKind, predictorKind,
			solverKind)
		if err != nil {
			return err
		}
		defer handles.leave(uint64(handle), watching, "")
		o.(interface{ Cancel() }).Cancel()
		return nil
	})
}
