package tensor

import (
	"encoding/binary"
	"math"
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

func floatBytes(values []float32) []byte {
	b := make([]byte, 0, 4*len(values))
	for _, v := range values {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return b
}
