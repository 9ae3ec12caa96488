package tensor

import (
	"unsafe"

	"dsstne/internal/fault"
	"dsstne/kernels"
)

// DType is the type of a tensor's elements.
type DType uint8

// The types of a model's tensors: weights are F32, vectors that are searched also F16 and BF16, names of items are U8
// and I64, and a matrix in compressed row form is I64 (offsets), I32 (column indices) and F32 (values).
const (
	F32 DType = iota
	U8
	I64
	I32
	F16
	BF16
)

// types are the names in files and descriptions, and the bytes of an element.
var types = [...]struct {
	name string
	size int64
}{
	F32: {"F32", 4}, U8: {"U8", 1}, I64: {"I64", 8}, I32: {"I32", 4}, F16: {"F16", 2}, BF16: {"BF16", 2},
}

// TypeOf is the type of weights of a storage.
func TypeOf(s kernels.Storage) DType {
	return [...]DType{kernels.StoredFloat32: F32, kernels.StoredFloat16: F16, kernels.StoredBFloat16: BF16}[s]
}

// IsFloat reports whether elements are floating-point numbers, which must be finite.
func (d DType) IsFloat() bool { return d == F32 || d == F16 || d == BF16 }

// String is the name of the type in files and descriptions.
func (d DType) String() string { return types[d].name }

// Size is the number of bytes of an element.
func (d DType) Size() int64 { return types[d].size }

// Tensor is a named, dense, row-major array whose memory lies outside the Go heap.
type Tensor struct {
	Name  string
	DType DType
	Shape []int64
	Layer int // index of the layer it belongs to, -1 for names of items

	size   int64 // bytes
	buffer *kernels.HostBuffer
}

// New allocates a tensor of zeros.
func New(name string, dtype DType, shape []int64, layer int) (*Tensor, error) {
	size, ok := ByteSize(dtype.Size(), shape)
	if !ok {
		return nil, fault.New(fault.InvalidArgument, "%s: shape %s is too large", name, ShapeText(shape))
	}
	buffer, err := kernels.AllocHost((size + 3) / 4)
	if err != nil {
		return nil, fault.Wrap(err, "%s %s needs %s bytes", name, ShapeText(shape), fault.Grouped(size))
	}
	return &Tensor{Name: name, DType: dtype, Shape: shape, Layer: layer, size: size, buffer: buffer}, nil
}

// Of is a tensor of numbers that a buffer holds already; it owns the buffer.
func Of(name string, shape []int64, buffer *kernels.HostBuffer) *Tensor {
	return &Tensor{Name: name, Shape: shape, size: 4 * buffer.Len(), buffer: buffer, Layer: -1}
}

// Buffer is the memory as the ops of a backend take it; the tensor owns it.
func (t *Tensor) Buffer() kernels.Buffer { return t.buffer }

// Float32 is a view of an F32 tensor, and nil for another type and after Free.
func (t *Tensor) Float32() []float32 {
	if t.DType != F32 {
		return nil
	}
	return t.buffer.Float32()
}

// Int64 is a view of an I64 tensor, and nil for another type and after Free.
func (t *Tensor) Int64() []int64 {
	if t.DType != I64 {
		return nil
	}
	return kernels.View[int64](t.buffer)
}

// Int32 is a view of an I32 tensor, and nil for another type and after Free.
func (t *Tensor) Int32() []int32 {
	if t.DType != I32 {
		return nil
	}
	return t.buffer.Int32()
}

// Bytes is a view of the memory of a tensor of any type, little-endian, and nil after Free.
func (t *Tensor) Bytes() []byte {
	words := t.buffer.Int32()
	if len(words) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), t.size)
}

// Size is the memory in bytes.
func (t *Tensor) Size() int64 { return t.size }

// Free gives the memory back; views of it are invalid from then on.
func (t *Tensor) Free() { t.buffer.Free() }

// Share returns a tensor of the same name, shape and memory. Before either of the two is written, its Own is called.
func (t *Tensor) Share() *Tensor {
	shared := *t
	shared.buffer = t.buffer.Share()
	return &shared
}

// IsShared reports whether another tensor has the same memory.
func (t *Tensor) IsShared() bool { return t.buffer.IsShared() }

// Own makes a private copy of the memory if another tensor has it too; Buffer stays valid, other views do not.
func (t *Tensor) Own() error {
	return fault.Wrap(t.buffer.Own(), "a private copy of %s %s needs %s bytes", t.Name, ShapeText(t.Shape),
		fault.Grouped(t.size))
}

// Elements is the product of the shape.
func (t *Tensor) Elements() int64 { return t.size / t.DType.Size() }

// columns is the length of the last axis, at least 1.
func (t *Tensor) columns() int64 {
	if len(t.Shape) < 2 {
		return 1
	}
	return max(1, t.Shape[len(t.Shape)-1])
}
