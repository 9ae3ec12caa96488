package tensor

import (
	"encoding/binary"
	"math"

	"dsstne/internal/fault"
	"dsstne/kernels"
)

// CheckFinite is fault.NotFinite, with the place, if a piece of a tensor of floating-point numbers, from byte `at` on,
// has NaN or infinity.
func (t *Tensor) CheckFinite(at int64, piece []byte) error {
	i := int64(-1)
	switch t.DType {
	case F16:
		i = firstHalfNotFinite(piece, 0x7c00)
	case BF16:
		i = firstHalfNotFinite(piece, 0x7f80)
	default:
		i = firstNotFinite(piece)
	}
	if i < 0 {
		return nil
	}
	number, place := float32(0), at/t.DType.Size()+i
	switch piece = piece[t.DType.Size()*i:]; t.DType {
	case F16:
		number = kernels.StoredFloat16.Widen(binary.LittleEndian.Uint16(piece))
	case BF16:
		number = kernels.StoredBFloat16.Widen(binary.LittleEndian.Uint16(piece))
	default:
		number = math.Float32frombits(binary.LittleEndian.Uint32(piece))
	}
	return fault.New(fault.NotFinite, "%s, row %d, column %d: %v is not finite", t.Name, place/t.columns(),
		place%t.columns(), number)
}

// firstHalfNotFinite is the position, in elements, of the first NaN or infinity among little-endian numbers of 2 bytes,
// which have all of these exponent bits set, or -1. Four at a time, as in firstNotFinite.
func firstHalfNotFinite(halves []byte, exponents uint16) int64 {
	const each = 0x0001_0001_0001_0001
	lowest := exponents & -exponents
	at := 0
	for ; at+8 <= len(halves); at += 8 {
		four := binary.LittleEndian.Uint64(halves[at:])&(uint64(exponents)*each) + uint64(lowest)*each
		if four&(0x8000*each) != 0 {
			break
		}
	}
	for ; at+2 <= len(halves); at += 2 {
		if binary.LittleEndian.Uint16(halves[at:])&exponents == exponents {
			return int64(at / 2)
		}
	}
	return -1
}

// firstNotFinite is the position, in elements, of the first NaN or infinity among little-endian float32, or -1.
//
// Such a number has all exponent bits set. Two at a time: masked to the exponents, adding the lowest exponent bit
// carries into the sign's place exactly then, and never beyond it.
func firstNotFinite(floats []byte) int64 {
	const (
		exponents = 0x7f800000_7f800000
		lowest    = 0x00800000_00800000
		signs     = 0x80000000_80000000
		stride    = 64
	)
	at := 0
	for ; at+stride <= len(floats); at += stride {
		p := floats[at : at+stride : at+stride]
		carry := binary.LittleEndian.Uint64(p)&exponents + lowest
		carry |= binary.LittleEndian.Uint64(p[8:])&exponents + lowest
		carry |= binary.LittleEndian.Uint64(p[16:])&exponents + lowest
		carry |= binary.LittleEndian.Uint64(p[24:])&exponents + lowest
		carry |= binary.LittleEndian.Uint64(p[32:])&exponents + lowest
		carry |= binary.LittleEndian.Uint64(p[40:])&exponents + lowest
		carry |= binary.LittleEndian.Uint64(p[48:])&exponents + lowest
		carry |= binary.LittleEndian.Uint64(p[56:])&exponents + lowest
		if carry&signs != 0 {
			break
		}
	}
	for ; at+4 <= len(floats); at += 4 {
		if binary.LittleEndian.Uint32(floats[at:])&0x7f800000 == 0x7f800000 {
			return int64(at / 4)
		}
	}
	return -1
}
