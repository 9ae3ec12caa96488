package csr_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/engine/csr"
	"dsstne/internal/fault"
	"dsstne/kernels"
)

func readerWithNegatives(t testing.TB, parts csr.Parts, negatives int64) *csr.Reader {
	return &csr.Reader{Source: opened(t, parts), Negatives: negatives, Seed: 3, Stream: 5 << 24}
}

// pairsOf are the stored entries and the negatives of each row.
func pairsOf(b *kernels.SparseBatch) (stored, negatives []map[int32]float32) {
	for u := range len(b.Offsets) - 1 {
		s, n := map[int32]float32{}, map[int32]float32{}
		for e := b.Offsets[u]; e < b.Offsets[u+1]; e++ {
			if b.Values[e] == 0 {
				n[b.Indices[e]] = 0
			} else {
				s[b.Indices[e]] = b.Values[e]
			}
		}
		stored, negatives = append(stored, s), append(negatives, n)
	}
	return stored, negatives
}

func TestNegativesAreDistinctItemsWithoutAnEntry(t *testing.T) {
	for _, columns := range []int64{1, 2, 40, 1000} {
		for _, each := range []int64{1, 3, 1 << 20} {
			t.Run(fmt.Sprintf("%d columns, %d negatives", columns, each), func(t *testing.T) {
				parts := randomParts(uint64(columns), 50, columns)
				plain := &csr.Reader{Source: opened(t, parts)}
				want, _ := pairsOf(batchOf(t, plain, all(50)...))
				got := batchOf(t, readerWithNegatives(t, parts, each), all(50)...)
				requireOrdersAgree(t, got)
				stored, negatives := pairsOf(got)
				require.Equal(t, want, stored)
				for u := range stored {
					n := int64(len(stored[u]))
					require.Equal(t, min(each*n, columns-n), int64(len(negatives[u])), "row %d", u)
					require.Len(t, got.Indices[got.Offsets[u]:got.Offsets[u+1]], len(stored[u])+len(negatives[u]), "an item twice")
				}
				for e := range got.Indices {
					require.True(t, got.Indices[e] >= 0 && int64(got.Indices[e]) < columns)
				}
				for u := range stored {
					for e := got.Offsets[u] + 1; e < got.Offsets[u+1]; e++ {
						require.Less(t, got.Indices[e-1], got.Indices[e])
					}
				}
			})
		}
	}
}

func all(rows int64) (list []int64) {
	for row := range rows {
		list = append(list, row)
	}
	return list
}

func TestEveryItemWithoutAnEntryIsDrawnEquallyOften(t *testing.T) {
	const columns, steps = 10, 20000
	r := readerWithNegatives(t, csr.Parts{Columns: columns, Offsets64: []int64{0, 3}, Indices32: []int32{0, 4, 9}}, 1)
	counts := map[int32]int{}
	var b kernels.SparseBatch
	for step := range int64(steps) {
		require.NoError(t, r.Batch([]int64{0}, step, true, &b))
		_, negatives := pairsOf(&b)
		for item := range negatives[0] {
			counts[item]++
		}
	}
	require.Len(t, counts, columns-3)
	for item, n := range counts { // a deviation of 70, times 5
		require.InDelta(t, steps*3.0/7, n, 350, "item %d", item)
	}
}

func TestNegativesAreAFunctionOfSeedStepAndPlace(t *testing.T) {
	parts := randomParts(1, 4, 100)
	draw := func(change func(*csr.Reader), step int64, rows ...int64) []map[int32]float32 {
		r := readerWithNegatives(t, parts, 2)
		change(r)
		var b kernels.SparseBatch
		require.NoError(t, r.Batch(rows, step, true, &b))
		_, negatives := pairsOf(&b)
		return negatives
	}
	same := func(*csr.Reader) {}
	want := draw(same, 7, all(4)...)
	require.Equal(t, want, draw(same, 7, all(4)...))
	require.NotEqual(t, want, draw(same, 8, all(4)...))
	require.NotEqual(t, want, draw(func(r *csr.Reader) { r.Seed++ }, 7, all(4)...))
	require.NotEqual(t, want, draw(func(r *csr.Reader) { r.Stream++ }, 7, all(4)...))
}

func TestNothingIsDrawnOutsideTraining(t *testing.T) {
	r := readerWithNegatives(t, randomParts(2, 9, 30), 4)
	var b kernels.SparseBatch
	require.NoError(t, r.Batch(all(9), 1, false, &b))
	require.NotContains(t, b.Values, float32(0))
}

func TestABatchHasRoomForItsNegatives(t *testing.T) {
	require.Equal(t, int64(30), csr.WithNegatives(10, 2, 4, 100))
	require.Equal(t, int64(40), csr.WithNegatives(30, 2, 4, 10))
	require.Equal(t, int64(10), csr.WithNegatives(10, 0, 4, 100))
	require.Equal(t, int64(50), csr.WithNegatives(50, 2, 4, 10), "a batch may repeat rows")
}

func TestMoreNegativesThanABatchCanNumberAreRefused(t *testing.T) {
	r := readerWithNegatives(t, csr.Parts{Columns: 1 << 30, Offsets64: []int64{0, 1}, Indices32: []int32{5}}, 1<<29)
	err := r.Batch([]int64{0, 0, 0, 0, 0}, 1, true, new(kernels.SparseBatch))
	require.Contains(t, refusal(t, fault.InvalidArgument, err),
		"a batch of 5 rows holds 2684354565 entries with their negatives, more than 2147483647")
}

func BenchmarkNegatives(b *testing.B) {
	r := readerWithNegatives(b, randomParts(4, 4096, 20000), 1)
	rows, out := all(4096), new(kernels.SparseBatch)
	for step := range int64(b.N) {
		require.NoError(b, r.Batch(rows, step, true, out))
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(out.Indices)), "ns/entry")
}
