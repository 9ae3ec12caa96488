package kernels

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// value is a number by the definition of IEEE 754, whose exponent and fraction have the given numbers of bits.
func value(bits uint16, exponentBits, fractionBits int) float64 {
	exponent, bias := int(bits&0x7fff>>fractionBits), 1<<(exponentBits-1)-1
	x := float64(bits & (1<<fractionBits - 1))
	switch {
	case exponent == 1<<exponentBits-1 && x != 0:
		return math.NaN()
	case exponent == 1<<exponentBits-1:
		x = math.Inf(1)
	case exponent == 0:
		x = math.Ldexp(x, 1-bias-fractionBits)
	default:
		x = math.Ldexp(x+math.Ldexp(1, fractionBits), exponent-bias-fractionBits)
	}
	return math.Copysign(x, 1-2*float64(bits>>15))
}

func TestEveryNumberOf2BytesIsWidened(t *testing.T) {
	for bits := range 1 << 16 {
		for storage, want := range map[Storage]float64{
			StoredFloat16: value(uint16(bits), 5, 10), StoredBFloat16: value(uint16(bits), 8, 7),
		} {
			got := float64(storage.Widen(uint16(bits)))
			if math.IsNaN(want) {
				require.True(t, math.IsNaN(got), "%v %#x", storage, bits)
			} else {
				require.Equal(t, math.Float64bits(want), math.Float64bits(got), "%v %#x", storage, bits)
			}
		}
	}
}

func TestSlicesOfAStorageHaveItsRows(t *testing.T) {
	for _, storage := range []Storage{StoredFloat32, StoredFloat16, StoredBFloat16} {
		for _, columns := range []int64{1, 2, 3, 8} {
			const rows = 5
			b, err := AllocHost(storage.Elements(rows * columns))
			require.NoError(t, err)
			halves := View[uint16](b)
			for i := range rows * columns {
				if storage == StoredFloat32 {
					b.Float32()[i] = float32(i)
				} else {
					halves[i] = uint16(0x3f00 + i)
				}
			}
			whole := &Weights{Rows: rows, Columns: columns, Value: b, Storage: storage}
			for first := range int64(rows) {
				for end := first; end <= rows; end++ {
					part := &Weights{Rows: end - first, Columns: columns, Storage: storage}
					part.Value, part.Skip = storage.Slice(b, first*columns, part.Rows*columns)
					for i := range part.Rows {
						require.Equal(t, whole.Row(first+i), part.Row(i))
					}
				}
			}
			b.Free()
		}
	}
}
