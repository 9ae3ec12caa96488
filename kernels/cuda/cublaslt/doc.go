//go:build !nocuda && linux && amd64

// Package cublaslt multiplies matrices with NVIDIA's cuBLASLt, which is opened when a device is, if it is installed; no header
// of it is needed. A Product has everything that can be made before a step, so that running it only puts work into a stream,
// which may be captured. Its algorithm is the first that the library proposes: it follows from shapes, device and version, and
// each gives the same bits every time.
package cublaslt
