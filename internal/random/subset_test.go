package random_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/internal/random"
)

func TestASubsetHasDistinctNumbersInOrder(t *testing.T) {
	for _, of := range []int64{0, 1, 2, 7, 64, 1000, 1<<31 - 1} {
		for _, n := range []int64{0, 1, of / 3, of / 2, of - 1, of} {
			if n < 0 || n > min(of, 1000) {
				continue
			}
			got := new(random.Subset).Draw(1, 2, 3, 4, of, n)
			require.Len(t, got, int(n))
			for i, number := range got {
				require.True(t, number >= 0 && int64(number) < of)
				require.True(t, i == 0 || got[i-1] < number)
			}
		}
	}
}

func TestEverySubsetIsEquallyLikely(t *testing.T) {
	const draws = 30000
	for _, n := range []int64{2, 3} { // of five; 3 are drawn by the 2 that are left out
		counts := map[string]int{}
		for row := range int64(draws) {
			counts[fmt.Sprint(new(random.Subset).Draw(9, 8, 7, row, 5, n))]++
		}
		require.Len(t, counts, 10)
		for set, count := range counts { // a deviation of 52, times 5
			require.InDelta(t, draws/10, count, 260, set)
		}
	}
}

func TestASubsetIsAFunctionOfItsArguments(t *testing.T) {
	draw := func(seed uint64, stream uint32, step, row int64) []int32 {
		return new(random.Subset).Draw(seed, stream, step, row, 1<<20, 40)
	}
	want := draw(1, 2, 3, 4)
	require.Equal(t, want, draw(1, 2, 3, 4))
	for _, other := range [][]int32{draw(2, 2, 3, 4), draw(1, 3, 3, 4), draw(1, 2, 4, 4), draw(1, 2, 3, 5)} {
		require.NotEqual(t, want, other)
	}
	require.True(t, slices.IsSorted(want))
}

func TestADrawDoesNotDependOnTheOnesBefore(t *testing.T) {
	var s random.Subset
	for _, n := range []int64{40, 3, 999, 1000, 0, 500, 501, 7} {
		require.Equal(t, new(random.Subset).Draw(1, 2, 3, n, 1000, n), s.Draw(1, 2, 3, n, 1000, n))
	}
}

func TestThereIsNoLargerSubset(t *testing.T) {
	require.Panics(t, func() { new(random.Subset).Draw(0, 0, 0, 0, 3, 4) })
	require.Panics(t, func() { new(random.Subset).Draw(0, 0, 0, 0, 1<<31, 4) })
	require.Panics(t, func() { new(random.Subset).Draw(0, 0, 0, 0, 3, -1) })
}

func BenchmarkSubset(b *testing.B) {
	var s random.Subset
	for row := range int64(b.N) {
		s.Draw(1, 2, 3, row, 40000, 135)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*135), "ns/number")
}
