// Package cuda is the backend for NVIDIA devices. Its kernels are src/*.cu, compiled by the build for each generation
// of devices and embedded from images; package driver loads them, if there is a driver. Nothing of the driver is
// touched before somebody asks for the devices or opens one.
package cuda
