package random

// The multipliers of the two products of a round, and what is added to the two halves of the key after each round.
const (
	multiplier0 = 0xD2511F53
	multiplier1 = 0xCD9E8D57
	weyl0       = 0x9E3779B9
	weyl1       = 0xBB67AE85
)

// Philox is Philox4x32-10: four random words for each counter. The lower half of the key is the paper's first key word.
func Philox(key uint64, counter [4]uint32) [4]uint32 {
	k0, k1 := uint32(key), uint32(key>>32)
	a, b, c, d := counter[0], counter[1], counter[2], counter[3]
	// Written out, because the compiler neither unrolls loops nor keeps arrays in registers.
	p, q := uint64(a)*multiplier0, uint64(c)*multiplier1
	a, b, c, d = uint32(q>>32)^b^k0, uint32(q), uint32(p>>32)^d^k1, uint32(p)
	k0, k1 = k0+weyl0, k1+weyl1
	p, q = uint64(a)*multiplier0, uint64(c)*multiplier1
	a, b, c, d = uint32(q>>32)^b^k0, uint32(q), uint32(p>>32)^d^k1, uint32(p)
	k0, k1 = k0+weyl0, k1+weyl1
	p, q = uint64(a)*multiplier0, uint64(c)*multiplier1
	a, b, c, d = uint32(q>>32)^b^k0, uint32(q), uint32(p>>32)^d^k1, uint32(p)
	k0, k1 = k0+weyl0, k1+weyl1
	p, q = uint64(a)*multiplier0, uint64(c)*multiplier1
	a, b, c, d = uint32(q>>32)^b^k0, uint32(q), uint32(p>>32)^d^k1, uint32(p)
	k0, k1 = k0+weyl0, k1+weyl1
	p, q = uint64(a)*multiplier0, uint64(c)*multiplier1
	a, b, c, d = uint32(q>>32)^b^k0, uint32(q), uint32(p>>32)^d^k1, uint32(p)
	k0, k1 = k0+weyl0, k1+weyl1
	p, q = uint64(a)*multiplier0, uint64(c)*multiplier1
	a, b, c, d = uint32(q>>32)^b^k0, uint32(q), uint32(p>>32)^d^k1, uint32(p)
	k0, k1 = k0+weyl0, k1+weyl1
	p, q = uint64(a)*multiplier0, uint64(c)*multiplier1
	a, b, c, d = uint32(q>>32)^b^k0, uint32(q), uint32(p>>32)^d^k1, uint32(p)
	k0, k1 = k0+weyl0, k1+weyl1
	p, q = uint64(a)*multiplier0, uint64(c)*multiplier1
	a, b, c, d = uint32(q>>32)^b^k0, uint32(q), uint32(p>>32)^d^k1, uint32(p)
	k0, k1 = k0+weyl0, k1+weyl1
	p, q = uint64(a)*multiplier0, uint64(c)*multiplier1
	a, b, c, d = uint32(q>>32)^b^k0, uint32(q), uint32(p>>32)^d^k1, uint32(p)
	k0, k1 = k0+weyl0, k1+weyl1
	p, q = uint64(a)*multiplier0, uint64(c)*multiplier1
	return [4]uint32{uint32(q>>32) ^ b ^ k0, uint32(q), uint32(p>>32) ^ d ^ k1, uint32(p)}
}
