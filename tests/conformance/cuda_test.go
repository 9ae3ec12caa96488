//go:build !nocuda && linux && amd64

package conformance

import _ "dsstne/kernels/cuda"
