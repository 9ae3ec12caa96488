//go:build !nocuda && linux && amd64

package conformance

// The tests see the driver that a process finds as it begins: that of the machine, or the emulated one where LD_LIBRARY_PATH
// names its folder, as `make test-long` does.
import _ "dsstne/kernels/cuda"
