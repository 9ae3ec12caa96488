package random

import (
	"encoding/binary"
	"hash/fnv"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// fingerprint is a digest of a thousand rows.
func fingerprint(fill func(dst []float32, row int64)) uint64 {
	digest, dst := fnv.New64a(), make([]float32, 1001)
	for row := range int64(1000) {
		fill(dst, row)
		if err := binary.Write(digest, binary.LittleEndian, dst); err != nil {
			panic(err)
		}
	}
	return digest.Sum64()
}

func TestInitialNumbersKeepTheirBits(t *testing.T) {
	require.EqualValues(t, uint64(0xfcde51a8f27cdbc8), fingerprint(func(dst []float32, row int64) {
		FillUniform(dst, 7, StreamInit|3, row, -0.25, 0.25)
	}))
	require.EqualValues(t, uint64(0xdfd02c58123b4705), fingerprint(func(dst []float32, row int64) {
		FillNormal(dst, 7, StreamInit|3, row, 0, 0.25)
	}))
}

func TestLogarithmSineAndCosineAreExactToUnitsInTheLastPlace(t *testing.T) {
	const unit = 1.0 / (1 << 52)
	for i := range uint32(1 << 16) {
		word := i<<16 | i // both ends, and all over
		x := (float64(word) + 1) / (1 << 32)
		require.InDelta(t, math.Log(x), logarithm(x), 2*unit*math.Abs(math.Log(x)))
		x = 2 * math.Pi * float64(word) / (1 << 32)
		sine, cosine := sineAndCosine(x)
		require.InDelta(t, math.Sin(x), sine, unit)
		require.InDelta(t, math.Cos(x), cosine, unit)
	}
}

func TestFillNormalHasItsMeanAndDeviation(t *testing.T) {
	values := make([]float32, samples)
	FillNormal(values, 3, StreamInit, 0, 2, 0.5)
	mean, deviation := moments(values)
	// Standard errors: 0.5/sqrt(n) of the mean, 0.5/sqrt(2n) of the deviation.
	require.InDelta(t, 2, mean, 5*0.5/math.Sqrt(samples))
	require.InDelta(t, 0.5, deviation, 5*0.5/math.Sqrt(2*samples))
}

func TestFillNormalHasTheDistributionFunctionOfTheNormal(t *testing.T) {
	values := make([]float32, samples)
	FillNormal(values, 3, StreamInit, 0, 0, 1)
	for _, x := range []float64{-3, -2, -1, -0.5, 0, 0.5, 1, 2, 3} {
		below := 0.0
		for _, v := range values {
			if float64(v) < x {
				below++
			}
		}
		want := 0.5 * math.Erfc(-x/math.Sqrt2)
		require.InDelta(t, want, below/samples, 5*math.Sqrt(want*(1-want)/samples), "below %v", x)
	}
}

func TestFillNormalPairsAreUncorrelated(t *testing.T) {
	values := make([]float32, samples)
	FillNormal(values, 3, StreamInit, 0, 0, 1)
	sum := 0.0
	for i := 0; i < samples; i += 2 {
		sum += float64(values[i]) * float64(values[i+1])
	}
	require.Less(t, math.Abs(sum), 5*math.Sqrt(samples/2))
}

func TestFillNormalIsFiniteForEveryExtremeWord(t *testing.T) {
	for _, words := range [][2]uint32{{0, 0}, {0, 1<<32 - 1}, {1<<32 - 1, 0}, {1<<32 - 1, 1<<32 - 1}} {
		x, y := normalPair(words[0], words[1])
		require.Less(t, math.Abs(x)+math.Abs(y), 2*6.7)
	}
}

func TestFillNormalOfAShorterRowIsThePrefix(t *testing.T) {
	long, short := make([]float32, 12), make([]float32, 7)
	FillNormal(long, 3, StreamInit, 1, 0, 1)
	FillNormal(short, 3, StreamInit, 1, 0, 1)
	require.Equal(t, long[:7], short)
}
