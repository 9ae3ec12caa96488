package random

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

const samples = 1 << 18

// moments returns the mean and the deviation.
func moments(values []float32) (mean, deviation float64) {
	for _, v := range values {
		mean += float64(v)
	}
	mean /= float64(len(values))
	for _, v := range values {
		deviation += (float64(v) - mean) * (float64(v) - mean)
	}
	return mean, math.Sqrt(deviation / float64(len(values)))
}

func uniforms() []float32 {
	values := make([]float32, 0, samples)
	for row := range int64(samples / 1024) {
		for column := range int64(1024) {
			values = append(values, Uniform(7, StreamDropout|3, 11, row, column))
		}
	}
	return values
}

func TestUniformIsAWordOfPhiloxAtThePlace(t *testing.T) {
	words := Philox(99, [4]uint32{1234, 56, 78, StreamDenoising | 2})
	require.Equal(t, float32(words[3]>>8)/(1<<24), Uniform(99, StreamDenoising|2, 78, 56, 4*1234+3))
}

func TestUniformIsAtLeastZeroAndBelowOne(t *testing.T) {
	for _, v := range uniforms() {
		require.True(t, v >= 0 && v < 1, "%v", v)
	}
}

func TestUniformIsAMultipleOfTwoToTheMinus24(t *testing.T) {
	for _, v := range uniforms()[:1024] {
		require.Equal(t, math.Trunc(float64(v)*(1<<24)), float64(v)*(1<<24))
	}
}

func TestUniformFillsAHundredBinsEvenly(t *testing.T) {
	var bins [100]float64
	for _, v := range uniforms() {
		bins[int(v*100)]++
	}
	chi := 0.0
	for _, count := range bins {
		chi += (count - samples/100.0) * (count - samples/100.0) / (samples / 100.0)
	}
	// 99 degrees of freedom: one good generator in ten thousand is above 161, and one below 54.
	require.True(t, chi > 54 && chi < 161, "chi squared is %v", chi)
}

func TestUniformOfNeighbouringPlacesIsUncorrelated(t *testing.T) {
	at := func(place [4]int64) float64 {
		return float64(Uniform(5, StreamDropout|uint32(place[0]), place[1], place[2], place[3])) - 0.5
	}
	for axis, name := range []string{"stream", "step", "row", "column"} {
		t.Run(name, func(t *testing.T) {
			sum := 0.0
			for i := range int64(100_000) {
				place := [4]int64{1, i % 10, i / 10 % 100, i / 1000}
				next := place
				next[axis]++
				sum += at(place) * at(next)
			}
			// The sum has deviation sqrt(n)/12; five of them are exceeded twice in ten million.
			require.Less(t, math.Abs(sum), 5*math.Sqrt(100_000)/12)
		})
	}
}

func TestUniformAtAgreesWithUniform(t *testing.T) {
	columns := []int32{0, 1, 2, 3, 4, 1000, 1001, 1002, 1003, math.MaxInt32, 5}
	got := make([]float32, len(columns))
	UniformAt(got, 1<<40|3, StreamDenoising|2, 77, 1<<33|9, columns)
	for i, column := range columns {
		require.Equal(t, Uniform(1<<40|3, StreamDenoising|2, 77, 1<<33|9, int64(column)), got[i])
	}
}

func TestFillUniformAgreesWithUniform(t *testing.T) {
	got := make([]float32, 11) // not a multiple of four
	FillUniform(got, 3, StreamInit|5, 17, 0, 1)
	for column, v := range got {
		require.Equal(t, Uniform(3, StreamInit|5, 0, 17, int64(column)), v)
	}
}

func TestFillUniformStaysInItsInterval(t *testing.T) {
	values := make([]float32, samples)
	FillUniform(values, 3, StreamInit, 0, -0.3, 0.1)
	for _, v := range values {
		require.True(t, v >= -0.3 && v <= 0.1, "%v", v)
	}
}

func TestFillUniformHasTheMeanAndDeviationOfItsInterval(t *testing.T) {
	values := make([]float32, samples)
	FillUniform(values, 3, StreamInit, 0, -0.3, 0.1)
	mean, deviation := moments(values)
	// Five standard errors of the mean, 0.4/sqrt(12 n), and about as many of the deviation.
	require.InDelta(t, -0.1, mean, 5*0.4/math.Sqrt(12*samples))
	require.InDelta(t, 0.4/math.Sqrt(12), deviation, 5*0.4/math.Sqrt(12*samples))
}

func TestRowsDiffer(t *testing.T) {
	a, b := make([]float32, 8), make([]float32, 8)
	FillNormal(a, 3, StreamInit, 1, 0, 1)
	FillNormal(b, 3, StreamInit, 2, 0, 1)
	require.NotEqual(t, a, b)
}
