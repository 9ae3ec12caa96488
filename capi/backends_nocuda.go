//go:build nocuda || !linux || !amd64

package main

import "dsstne/kernels"

func init() {
	kernels.Register(kernels.Absent{
		Backend: "cuda", Reason: "this build of dsstne has no CUDA backend; it computes on the CPU",
	})
}
