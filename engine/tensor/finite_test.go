package tensor

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFirstNotFiniteFindsEveryPlace(t *testing.T) {
	bad := []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), math.Float32frombits(0xff800001)}
	for n := 1; n < 70; n++ {
		for at := range n {
			values := make([]float32, n)
			for i := range values {
				values[i] = math.Float32frombits(0xff7fffff) // the lowest finite number: nothing may carry over
			}
			require.EqualValues(t, -1, firstNotFinite(floatBytes(values)))
			values[at] = bad[(n+at)%len(bad)]
			require.EqualValues(t, at, firstNotFinite(floatBytes(values)))
		}
	}
}

func TestNumbersOf2BytesThatAreNotFiniteAreNamedWithTheirPlaces(t *testing.T) {
	for _, c := range []struct {
		dtype   DType
		largest uint16
		bad     map[uint16]string
	}{
		{F16, 0xfbff, map[uint16]string{0x7c00: "+Inf", 0xfc00: "-Inf", 0x7c01: "NaN", 0xffff: "NaN"}},
		{BF16, 0xff7f, map[uint16]string{0x7f80: "+Inf", 0xff80: "-Inf", 0x7f81: "NaN", 0xffff: "NaN"}},
	} {
		for n := 1; n < 20; n++ {
			x := &Tensor{Name: "vectors", DType: c.dtype, Shape: []int64{9, 3}}
			halves := slices.Repeat([]uint16{c.largest}, n) // nothing may carry over
			require.NoError(t, x.CheckFinite(0, halfBytes(halves)))
			for at := range n {
				for bad, word := range c.bad {
					halves[at] = bad
					err := x.CheckFinite(2*6, halfBytes(halves))
					require.ErrorContains(t, err, fmt.Sprintf("vectors, row %d, column %d: %s is", 2+at/3, at%3, word))
				}
				halves[at] = c.largest
			}
		}
	}
}

func halfBytes(values []uint16) (b []byte) {
	for _, v := range values {
		b = binary.LittleEndian.AppendUint16(b, v)
	}
	return b
}

func floatBytes(values []float32) []byte {
	b := make([]byte, 0, 4*len(values))
	for _, v := range values {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return b
}
