package tensor

import (
	"encoding/binary"
	"math"

	"dsstne/internal/fault"
)

// CheckFinite is fault.NotFinite, with the place, if a piece of an F32 tensor, from byte `at` on, has NaN or infinity.
func (t *Tensor) CheckFinite(at int64, piece []byte) error {
	i := firstNotFinite(piece)
	if i < 0 {
		return nil
	}
	number := math.Float32frombits(binary.LittleEndian.Uint32(piece[4*i:]))
	place := at/4 + i
	return fault.New(fault.NotFinite, "%s, row %d, column %d: %v is not finite", t.Name, place/t.columns(),
		place%t.columns(), number)
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
