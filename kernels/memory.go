package kernels

import "unsafe"

// HostMemory is embedded by devices that compute in the memory of the process: whatever the host can view, they reach,
// and what the host writes is there at once.
type HostMemory struct{}

// Alloc is AllocHost.
func (HostMemory) Alloc(n int64) (Buffer, error) {
	b, err := AllocHost(n)
	if err != nil {
		return nil, err // b, which is nil, would be a Buffer that is not
	}
	return b, nil
}

// Reaches is true for buffers that have a host view.
func (HostMemory) Reaches(b Buffer) bool { return b.Len() == 0 || b.Float32() != nil }

// Write copies into the host's view.
func (HostMemory) Write(to Buffer, at int64, from []float32) error {
	copy(to.Float32()[at:at+int64(len(from))], from)
	return nil
}

// Read copies from the host's view.
func (HostMemory) Read(from Buffer, at int64, to []float32) error {
	copy(to, from.Float32()[at:at+int64(len(to))])
	return nil
}

// Available is HostAvailable.
func (HostMemory) Available() int64 { return HostAvailable() }

// Trim has nothing to give back.
func (HostMemory) Trim() {}

// Bits views other numbers as the float32 that have their bits, for Device.Write and Device.Read, which copy bits: two
// for a number of 8 bytes.
func Bits[T int32 | uint64 | float64](x []T) []float32 {
	var one T
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(x))), len(x)*int(unsafe.Sizeof(one)/4))
}

// View is the host's view of a buffer that holds numbers of 8 bytes; nil where Buffer.Float32 is, and for no buffer.
func View[T uint64 | int64 | float64](b Buffer) []T {
	if b == nil {
		return nil
	}
	x := b.Float32()
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(x))), len(x)/2)
}
