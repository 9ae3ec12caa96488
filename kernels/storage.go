package kernels

import "math"

// Storage is the type of a weight's numbers in memory. Operations compute with float32 numbers; every number of a type
// of 2 bytes is one.
type Storage int32

// The types, all as IEEE 754 and little-endian has them, but for BFloat16: the upper half of a float32. Two numbers of
// 2 bytes make an element of a buffer.
const (
	StoredFloat32 Storage = iota
	StoredFloat16
	StoredBFloat16
)

// Bytes is the size of a number.
func (s Storage) Bytes() int64 {
	if s == StoredFloat32 {
		return 4
	}
	return 2
}

// Elements is how many elements of a buffer n numbers take.
func (s Storage) Elements(n int64) int64 { return (n*s.Bytes() + 3) / 4 }

// Slice is the part of a buffer that has n of its numbers, from one on. If that one is the second of two in an element,
// the part has the one before, too: then skip is 1.
func (s Storage) Slice(b Buffer, first, n int64) (part Buffer, skip int64) {
	begin := first * s.Bytes() / 4
	skip = first - begin*4/s.Bytes()
	return b.Slice(begin, s.Elements(skip+n)), skip
}

// Row is a row in the host's memory, or a copy of it as float32.
func (w *Weights) Row(i int64) []float32 {
	if w.Storage == StoredFloat32 {
		return w.Value.Float32()[i*w.Columns : (i+1)*w.Columns]
	}
	row := make([]float32, w.Columns)
	for k, x := range View[uint16](w.Value)[w.Skip+i*w.Columns : w.Skip+(i+1)*w.Columns] {
		row[k] = w.Storage.Widen(x)
	}
	return row
}

// Widen is a number of a type of 2 bytes as float32.
func (s Storage) Widen(half uint16) float32 {
	if s == StoredBFloat16 {
		return math.Float32frombits(uint32(half) << 16)
	}
	magnitude := uint32(half&0x7fff) << 13
	if x := half & 0x7c00; x == 0x7c00 { // infinity or NaN
		magnitude |= 0x7f800000
	} else { // the exponent's bias is 112 less
		magnitude = math.Float32bits(math.Float32frombits(magnitude) * 0x1p112)
	}
	return math.Float32frombits(magnitude | uint32(half&0x8000)<<16)
}
