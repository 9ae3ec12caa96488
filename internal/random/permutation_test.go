package random

import (
	"math"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

func order(p Permutation) []int64 {
	list := make([]int64, p.n)
	for i := range list {
		list[i] = p.At(int64(i))
	}
	return list
}

func TestPermutationHitsEveryElementOnce(t *testing.T) {
	for _, n := range []int64{0, 1, 2, 3, 4, 5, 7, 16, 17, 1000, 1024, 1025, 1_000_000} {
		t.Run(strconv.FormatInt(n, 10), func(t *testing.T) {
			seen := make([]bool, n)
			for _, at := range order(NewPermutation(42, 3, n)) {
				require.False(t, seen[at], "%d comes twice", at)
				seen[at] = true
			}
		})
	}
}

func TestPermutationOfVeryManyStaysInRange(t *testing.T) {
	const n = 1<<40 + 12345
	p := NewPermutation(42, 3, n)
	for i := range int64(1000) {
		at := p.At(n - 1 - i)
		require.True(t, at >= 0 && at < n)
	}
}

func TestPermutationDiffersByEpoch(t *testing.T) {
	require.NotEqual(t, order(NewPermutation(42, 0, 1000)), order(NewPermutation(42, 1, 1000)))
}

func TestPermutationDiffersBySeed(t *testing.T) {
	require.NotEqual(t, order(NewPermutation(42, 0, 1000)), order(NewPermutation(43, 0, 1000)))
}

func TestPermutationIsAFunctionOfItsArguments(t *testing.T) {
	require.Equal(t, NewPermutation(42, 5, 1000), NewPermutation(42, 5, 1000))
}

func TestPermutationOfThreeTakesEveryOrderEquallyOften(t *testing.T) {
	const epochs = 6000
	counts := map[[3]int64]float64{}
	for epoch := range int64(epochs) {
		counts[[3]int64(order(NewPermutation(9, epoch, 3)))]++
	}
	chi := 0.0
	for _, count := range counts {
		chi += (count - epochs/6) * (count - epochs/6) / (epochs / 6)
	}
	require.Len(t, counts, 6)
	// 5 degrees of freedom: exceeded once in ten thousand.
	require.Less(t, chi, 25.7)
}

func TestPermutationPutsAnElementAnywhereEquallyOften(t *testing.T) {
	const n, epochs = 25, 10_000
	var counts [n]float64
	for epoch := range int64(epochs) {
		counts[NewPermutation(9, epoch, n).At(7)]++
	}
	chi := 0.0
	for _, count := range counts {
		chi += (count - epochs/n) * (count - epochs/n) / (epochs / n)
	}
	// 24 degrees of freedom: exceeded once in ten thousand.
	require.Less(t, chi, 58.6)
}

func TestPermutationSeparatesNeighbours(t *testing.T) {
	const n = 10_000
	list := order(NewPermutation(9, 0, n))
	sum := 0.0
	for i := 1; i < n; i++ {
		sum += math.Abs(float64(list[i] - list[i-1]))
	}
	// Two random positions are n/3 apart on average, with deviation n/sqrt(18).
	require.InDelta(t, n/3.0, sum/(n-1), 5*n/math.Sqrt(18*n))
}

func TestPermutationPanicsOutsideItsPositions(t *testing.T) {
	for _, i := range []int64{-1, 10} {
		require.Panics(t, func() { NewPermutation(1, 0, 10).At(i) })
	}
}

func TestPermutationPanicsAtANegativeLength(t *testing.T) {
	require.Panics(t, func() { NewPermutation(1, 0, -1) })
}
