//go:build !nocuda && linux && amd64

package driver

// #include <cuda.h>
import "C"

import (
	"errors"
	"fmt"
	"reflect"
	"slices"

	"dsstne/internal/fault"
)

// Error is an answer of the driver other than success.
type Error struct {
	Call string // what was called, as the driver names it
	Code int    // CUresult
	Name string // "CUDA_ERROR_OUT_OF_MEMORY"
	Text string // "out of memory"
}

func (e *Error) Error() string {
	if e.Text == "" {
		return fmt.Sprintf("%s: %s (%d)", e.Call, e.Name, e.Code)
	}
	return fmt.Sprintf("%s: %s (%s, %d)", e.Call, e.Text, e.Name, e.Code)
}

// fatal are the codes after which, as the driver's documentation says, the process must be ended to go on: a kernel or
// the hardware has failed.
var fatal = []C.CUresult{
	C.CUDA_ERROR_ILLEGAL_ADDRESS, C.CUDA_ERROR_LAUNCH_TIMEOUT, C.CUDA_ERROR_ASSERT, C.CUDA_ERROR_HARDWARE_STACK_ERROR,
	C.CUDA_ERROR_ILLEGAL_INSTRUCTION, C.CUDA_ERROR_MISALIGNED_ADDRESS, C.CUDA_ERROR_INVALID_ADDRESS_SPACE,
	C.CUDA_ERROR_INVALID_PC, C.CUDA_ERROR_LAUNCH_FAILED, C.CUDA_ERROR_ECC_UNCORRECTABLE,
	C.CUDA_ERROR_NVLINK_UNCORRECTABLE, C.CUDA_ERROR_CONTAINED, C.CUDA_ERROR_CONTEXT_IS_DESTROYED,
	C.CUDA_ERROR_DEINITIALIZED, C.CUDA_ERROR_TENSOR_MEMORY_LEAK, C.CUDA_ERROR_EXTERNAL_DEVICE,
}

// kind is what the error means to the engine.
func (e *Error) kind() fault.Kind {
	switch e.Code {
	case C.CUDA_ERROR_OUT_OF_MEMORY: // of the device, or pinned
		return fault.OutOfMemory
	case C.CUDA_ERROR_INVALID_IMAGE, C.CUDA_ERROR_NO_BINARY_FOR_GPU, C.CUDA_ERROR_INVALID_PTX,
		C.CUDA_ERROR_UNSUPPORTED_PTX_VERSION, C.CUDA_ERROR_JIT_COMPILER_NOT_FOUND, C.CUDA_ERROR_JIT_COMPILATION_DISABLED:
		return fault.Unsupported // no embedded image fits the device or its driver
	case C.CUDA_ERROR_NO_DEVICE, C.CUDA_ERROR_INVALID_DEVICE, C.CUDA_ERROR_DEVICE_UNAVAILABLE,
		C.CUDA_ERROR_DEVICE_NOT_LICENSED, C.CUDA_ERROR_NOT_INITIALIZED, C.CUDA_ERROR_STUB_LIBRARY,
		C.CUDA_ERROR_SYSTEM_NOT_READY, C.CUDA_ERROR_SYSTEM_DRIVER_MISMATCH,
		C.CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE, C.CUDA_ERROR_OPERATING_SYSTEM, C.CUDA_ERROR_NOT_PERMITTED:
		return fault.DeviceUnavailable // or it does not let us in
	}
	return fault.DeviceFailed
}

// Lost reports whether an error, or one of several that are joined, says that a device has failed or gone and can do
// nothing any more.
func Lost(err error) bool { return errors.Is(err, errLost) }

var errLost = errors.New("a device is lost")

// Is answers Lost.
func (e *Error) Is(target error) bool {
	return target == errLost && (slices.Contains(fatal, C.CUresult(e.Code)) || e.kind() == fault.DeviceUnavailable)
}

// As makes a driver's error one of the engine's family, which is what fault.KindOf asks for.
func (e *Error) As(target any) bool {
	family, ok := target.(**fault.Error)
	if ok {
		*family = &fault.Error{Kind: e.kind(), Message: e.Error()}
	}
	return ok
}

// failure turns a code into an error, nil for success, with the driver's own name and text.
func failure(call string, code C.CUresult) error {
	if code == C.CUDA_SUCCESS {
		return nil
	}
	return newError(call, int(code))
}

// wrapped turns an error of cu, which is a code in disguise, into one of this package.
func wrapped(call string, err error) error {
	if err == nil {
		return nil
	}
	if code := reflect.ValueOf(err); code.CanInt() {
		return newError(call, int(code.Int()))
	}
	return fault.From(fault.Internal, err, "%s", call)
}

func newError(call string, code int) *Error {
	e := &Error{Call: call, Code: code, Name: fmt.Sprintf("CUDA_ERROR_%d", code)}
	var text *C.char
	if C.cuGetErrorName(C.CUresult(code), &text) == C.CUDA_SUCCESS && text != nil {
		e.Name = C.GoString(text)
	}
	if C.cuGetErrorString(C.CUresult(code), &text) == C.CUDA_SUCCESS && text != nil {
		e.Text = C.GoString(text)
	}
	return e
}
