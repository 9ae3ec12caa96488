//go:build !nocuda && linux && amd64

package main

import _ "dsstne/kernels/cuda"
