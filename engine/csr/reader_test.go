package csr_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/engine/csr"
	"dsstne/internal/fault"
	"dsstne/internal/random"
	"dsstne/kernels"
)

// batchOf reads one batch in training.
func batchOf(t testing.TB, r *csr.Reader, rows ...int64) *kernels.SparseBatch {
	t.Helper()
	out := new(kernels.SparseBatch)
	require.NoError(t, r.Batch(rows, 1, true, out))
	return out
}

// randomParts is a matrix of unsorted rows with duplicates, zeros and empty rows.
func randomParts(seed uint64, rows int, columns int64) csr.Parts {
	rng := rand.New(rand.NewPCG(seed, 1))
	p := csr.Parts{Columns: columns, Offsets64: []int64{0}}
	for range rows {
		for range rng.IntN(30) * rng.IntN(2) {
			p.Indices32 = append(p.Indices32, int32(rng.Int64N(columns)))
			p.Values32 = append(p.Values32, float32(rng.IntN(7)-2))
		}
		p.Offsets64 = append(p.Offsets64, int64(len(p.Indices32)))
	}
	return p
}

// requireOrdersAgree compares the item order with a slow transpose of the row order.
func requireOrdersAgree(t testing.TB, b *kernels.SparseBatch) {
	t.Helper()
	type entry struct {
		item, row int32
		value     float32
	}
	var want, got []entry
	for u := range len(b.Offsets) - 1 {
		for p := b.Offsets[u]; p < b.Offsets[u+1]; p++ {
			want = append(want, entry{b.Indices[p], int32(u), b.Values[p]})
		}
	}
	slices.SortFunc(want, func(a, b entry) int { return int(a.item-b.item)<<20 + int(a.row-b.row) })
	require.Len(t, b.ItemOffsets, len(b.Items)+1)
	require.Zero(t, b.ItemOffsets[0])
	for j, item := range b.Items {
		require.True(t, j == 0 || b.Items[j-1] < item, "items ascend")
		require.Less(t, b.ItemOffsets[j], b.ItemOffsets[j+1])
		for p := b.ItemOffsets[j]; p < b.ItemOffsets[j+1]; p++ {
			got = append(got, entry{item, b.ItemRows[p], b.ItemValues[p]})
		}
	}
	require.Equal(t, want, got)
	require.Len(t, b.ItemRows, len(b.Indices))
	require.Len(t, b.ItemValues, len(b.Indices))
}

func TestABatchHoldsItsRows(t *testing.T) {
	b := batchOf(t, &csr.Reader{Source: opened(t, small())}, 2, 1, 0)
	require.Equal(t, &kernels.SparseBatch{
		Columns: 10, Offsets: []int32{0, 3, 3, 5}, Indices: []int32{0, 2, 9, 2, 5}, Values: []float32{3, 4, -5, 1, 2},
		RowSum: []float32{2, 0, 3},
		Items:  []int32{0, 2, 5, 9}, ItemOffsets: []int32{0, 1, 3, 4, 5}, ItemRows: []int32{0, 0, 2, 2, 0},
		ItemValues: []float32{3, 4, 1, 2, -5},
	}, b)
}

func TestABatchOfRowsOnlyHasNoOrderByItem(t *testing.T) {
	b := batchOf(t, &csr.Reader{Source: opened(t, small()), RowsOnly: true}, 2, 1, 0)
	require.Equal(t, &kernels.SparseBatch{
		Columns: 10, Offsets: []int32{0, 3, 3, 5}, Indices: []int32{0, 2, 9, 2, 5}, Values: []float32{3, 4, -5, 1, 2},
		RowSum: []float32{2, 0, 3},
	}, b)
}

func TestARowMayAppearTwiceInABatch(t *testing.T) {
	b := batchOf(t, &csr.Reader{Source: opened(t, small())}, 0, 0)
	require.Equal(t, []int32{2, 5, 2, 5}, b.Indices)
	require.Equal(t, []int32{0, 1, 0, 1}, b.ItemRows)
}

func TestABatchOfNoRowsIsEmpty(t *testing.T) {
	b := batchOf(t, &csr.Reader{Source: opened(t, small())})
	require.Equal(t, []int32{0}, b.Offsets)
	require.Equal(t, []int32{0}, b.ItemOffsets)
}

func TestABatchOfEmptyRowsHasNoItems(t *testing.T) {
	b := batchOf(t, &csr.Reader{Source: opened(t, small()), Scaling: true, Denoising: 0.5}, 1, 1)
	require.Equal(t, []int32{0, 0, 0}, b.Offsets)
	require.Equal(t, []float32{0, 0}, b.RowSum)
	require.Empty(t, b.Items)
}

func TestBothOrdersHoldTheSameEntries(t *testing.T) {
	for _, columns := range []int64{1, 2, 3, 2048, 2049, 40981, 1 << 22, 1<<22 + 1, math.MaxInt32} {
		m := opened(t, randomParts(uint64(columns), 200, columns))
		rng := rand.New(rand.NewPCG(5, 6))
		rows := make([]int64, 150)
		for i := range rows {
			rows[i] = rng.Int64N(m.Rows())
		}
		requireOrdersAgree(t, batchOf(t, &csr.Reader{Source: m, Scaling: true, Denoising: 0.3, Seed: 9}, rows...))
	}
}

func TestTheLargestItemIsFound(t *testing.T) {
	p := csr.Parts{Columns: math.MaxInt32, Offsets32: []int32{0, 2}, Indices32: []int32{math.MaxInt32 - 1, 0}}
	require.Equal(t, []int32{0, math.MaxInt32 - 1}, batchOf(t, &csr.Reader{Source: opened(t, p)}, 0).Items)
}

func TestScalingGivesRowsOfLengthOne(t *testing.T) {
	b := batchOf(t, &csr.Reader{Source: opened(t, single([]int32{1, 2}, []float32{3, -4})), Scaling: true}, 0)
	require.Equal(t, []float32{0.6, -0.8}, b.Values)
}

func TestScalingSumsDuplicatesFirst(t *testing.T) {
	b := batchOf(t, &csr.Reader{Source: opened(t, single([]int32{1, 2, 1}, []float32{1, 4, 2})), Scaling: true}, 0)
	require.Equal(t, []float32{0.6, 0.8}, b.Values)
}

func TestValuesThatScaleToZeroAreDropped(t *testing.T) {
	b := batchOf(t, &csr.Reader{Source: opened(t, single([]int32{1, 2}, []float32{1e-40, 1e30})), Scaling: true}, 0)
	require.Equal(t, []int32{2}, b.Indices)
}

func TestDenoisingDropsWhereTheStreamSaysSo(t *testing.T) {
	p := csr.Parts{Columns: 1000, Offsets32: []int32{0, 1000}, Indices32: make([]int32, 1000)}
	for i := range p.Indices32 {
		p.Indices32[i] = int32(i)
	}
	r := csr.Reader{Source: opened(t, p), Denoising: 0.25, Seed: 7, Stream: random.StreamDenoising | 2}
	var out kernels.SparseBatch
	require.NoError(t, r.Batch([]int64{0, 0}, 42, true, &out))
	var want []int32
	for u := range int64(2) {
		for column := range int64(1000) {
			if random.Uniform(7, random.StreamDenoising|2, 42, u, column) >= 0.25 {
				want = append(want, int32(column))
			}
		}
	}
	require.Equal(t, want, out.Indices)
}

func TestKeptValuesMakeUpForDroppedOnes(t *testing.T) {
	m := opened(t, small())
	r := csr.Reader{Source: m, Denoising: 0.5}
	for _, value := range batchOf(t, &r, 0, 0, 0, 0, 0, 0, 0, 0).Values {
		require.Contains(t, []float32{2, 4}, value)
	}
}

func TestScalingIsByTheWholeRow(t *testing.T) {
	m := opened(t, single([]int32{1, 2}, []float32{3, 4}))
	r := csr.Reader{Source: m, Scaling: true, Denoising: 0.5}
	for _, value := range batchOf(t, &r, 0, 0, 0, 0, 0, 0, 0, 0).Values {
		require.Contains(t, []float32{1.2, 1.6}, value)
	}
}

func TestNothingIsDroppedOutsideOfTraining(t *testing.T) {
	r := csr.Reader{Source: opened(t, small()), Denoising: 0.9}
	var out kernels.SparseBatch
	require.NoError(t, r.Batch([]int64{0, 2}, 1, false, &out))
	require.Equal(t, []float32{1, 2, 3, 4, -5}, out.Values)
}

func TestADenoisingThatIsNoProbabilityIsRefused(t *testing.T) {
	for _, p := range []float32{-0.1, 1, float32(math.NaN())} {
		r := csr.Reader{Source: opened(t, small()), Denoising: p}
		refusal(t, fault.InvalidArgument, r.Batch([]int64{0}, 1, true, new(kernels.SparseBatch)))
	}
}

func TestABatchWithARowThatIsNotThereIsRefused(t *testing.T) {
	r := csr.Reader{Source: opened(t, small())}
	refusal(t, fault.InvalidArgument, r.Batch([]int64{0, 3}, 1, true, new(kernels.SparseBatch)))
}

func TestABatchBeyondTheLimitIsInvalidData(t *testing.T) {
	r := csr.Reader{Source: opened(t, small()), Limit: 4}
	err := r.Batch([]int64{0, 2}, 1, true, new(kernels.SparseBatch))
	require.Contains(t, refusal(t, fault.InvalidData, err), "at most 4")
}

func TestAFailedBatchIsEmpty(t *testing.T) {
	p := small()
	r := csr.Reader{Source: opened(t, p)}
	out := batchOf(t, &r, 0, 2)
	p.Indices32[4] = 10
	refusal(t, fault.InvalidData, r.Batch([]int64{0, 2}, 1, true, out))
	require.Equal(t, []int32{0}, out.Offsets)
	require.Empty(t, out.Items)
}

func TestAReaderWorksAfterAFailure(t *testing.T) {
	r := csr.Reader{Source: opened(t, small())}
	out := new(kernels.SparseBatch)
	require.Error(t, r.Batch([]int64{9}, 1, true, out))
	require.NoError(t, r.Batch([]int64{0}, 1, true, out))
	require.Equal(t, []int32{2, 5}, out.Indices)
}

func TestBatchesAreMadeInTheSameMemory(t *testing.T) {
	m := opened(t, randomParts(1, 100, 5000))
	r := csr.Reader{Source: m, Scaling: true, Denoising: 0.5}
	rows, out := make([]int64, 100), new(kernels.SparseBatch)
	for i := range rows {
		rows[i] = int64(i)
	}
	step := int64(0)
	require.Zero(t, testing.AllocsPerRun(20, func() {
		step++
		if err := r.Batch(rows, step, true, out); err != nil {
			panic(err)
		}
	}))
}

func TestADenseBatchIsTransposedAsAnyOther(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, size := range [][2]int64{{1, 1}, {3, 17}, {40, 16}, {5, 35}, {400, 700}} {
		for _, zeros := range []float64{0, 0.1, 0.5, 0.9, 0.97} {
			rows, columns := size[0], size[1]
			cells := make([]float32, rows*columns)
			for i := range cells {
				if rng.Float64() >= zeros {
					cells[i] = float32(i + 1)
				}
			}
			batch := new(kernels.SparseBatch)
			r := csr.Reader{Source: full(t, cells, columns), Threads: func() int { return 3 }}
			require.NoError(t, r.Batch(upTo(rows), 1, true, batch))
			var want kernels.SparseBatch
			want.ItemOffsets = []int32{0}
			for item := range columns {
				for u := range rows {
					if x := cells[u*columns+item]; x != 0 {
						want.ItemRows, want.ItemValues = append(want.ItemRows, int32(u)), append(want.ItemValues, x)
					}
				}
				if n := int32(len(want.ItemRows)); n > want.ItemOffsets[len(want.Items)] {
					want.Items, want.ItemOffsets = append(want.Items, int32(item)), append(want.ItemOffsets, n)
				}
			}
			require.Equal(t, slices.Concat(want.Items, want.ItemOffsets, want.ItemRows),
				slices.Concat(batch.Items, batch.ItemOffsets, batch.ItemRows), "%v, %v", size, zeros)
			require.Equal(t, slices.Concat(want.ItemValues), slices.Concat(batch.ItemValues))
		}
	}
}
