package csr_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/engine/csr"
	"dsstne/internal/fault"
	"dsstne/kernels"
)

// gathered copies some rows of a matrix, as they are stored, into arrays of their own.
func gathered(p csr.Parts, rows []int64) csr.Parts {
	copied := csr.Parts{Columns: p.Columns, Offsets64: []int64{0}, Indices32: []int32{}}
	if p.Values32 != nil {
		copied.Values32 = []float32{}
	}
	for _, row := range rows {
		first, end := p.Offsets64[row], p.Offsets64[row+1]
		copied.Indices32 = append(copied.Indices32, p.Indices32[first:end]...)
		if p.Values32 != nil {
			copied.Values32 = append(copied.Values32, p.Values32[first:end]...)
		}
		copied.Offsets64 = append(copied.Offsets64, int64(len(copied.Indices32)))
	}
	return copied
}

// upTo is the rows 0 .. n-1.
func upTo(n int64) []int64 {
	rows := make([]int64, n)
	for i := range rows {
		rows[i] = int64(i)
	}
	return rows
}

// pieces cuts a matrix at some rows; there may be pieces without rows.
func pieces(p csr.Parts, cuts []int64) []csr.Parts {
	all, first := []csr.Parts{}, int64(0)
	for _, cut := range append(cuts, int64(len(p.Offsets64)-1)) {
		all, first = append(all, gathered(p, upTo(cut)[first:])), cut
	}
	return all
}

// joined is a validated matrix of pieces.
func joined(t testing.TB, all []csr.Parts, release func()) *csr.Blocks {
	t.Helper()
	b, err := csr.NewBlocks(all, release)
	require.NoError(t, err)
	require.NoError(t, b.Validate(csr.ValidateOptions{}))
	return b
}

// forEverySource compares what is computed from each kind of source with the same from a matrix that holds the same
// rows.
func forEverySource(t *testing.T, same func(t *testing.T, s csr.Source, m *csr.Matrix)) {
	rng := rand.New(rand.NewPCG(31, 7))
	for seed := range uint64(40) {
		p := randomParts(seed, 1+rng.IntN(60), 1+rng.Int64N(3000))
		if rng.IntN(4) == 0 {
			p.Values32 = nil
		}
		m := opened(t, p)
		rows := m.Rows()
		first := rng.Int64N(rows + 1)
		end := first + rng.Int64N(rows-first+1)
		list := make([]int64, rng.IntN(100))
		for i := range list {
			list[i] = rng.Int64N(rows)
		}
		cuts := make([]int64, rng.IntN(5))
		for i := range cuts {
			cuts[i] = rng.Int64N(rows + 1)
		}
		slices.Sort(cuts)
		blocks := joined(t, pieces(p, cuts), nil)
		t.Run("matrix", func(t *testing.T) { same(t, m, opened(t, gathered(p, upTo(rows)))) })
		t.Run("blocks", func(t *testing.T) { same(t, blocks, m) })
		for _, base := range []csr.Source{m, blocks} {
			sliced, err := csr.Slice(base, first, end)
			require.NoError(t, err)
			t.Run("slice", func(t *testing.T) { same(t, sliced, opened(t, gathered(p, upTo(end)[first:]))) })
			selected, err := csr.Select(base, list)
			require.NoError(t, err)
			t.Run("selection", func(t *testing.T) { same(t, selected, opened(t, gathered(p, list))) })
			unsigned := make([]uint32, len(list))
			for i, row := range list {
				unsigned[i] = uint32(row)
			}
			indexed, err := csr.NewIndexed(base, unsigned, 2)
			require.NoError(t, err)
			t.Run("index", func(t *testing.T) { same(t, indexed, opened(t, gathered(p, list))) })
			half := int64(len(list) / 2)
			nested, err := csr.Slice(selected, half, int64(len(list)))
			require.NoError(t, err)
			t.Run("slice of a selection", func(t *testing.T) { same(t, nested, opened(t, gathered(p, list[half:]))) })
		}
	}
}

func TestEverySourceTellsWhatItsRowsAre(t *testing.T) {
	forEverySource(t, func(t *testing.T, s csr.Source, m *csr.Matrix) {
		require.Equal(t, []int64{m.Rows(), m.Columns(), m.Statistics().NonZeros},
			[]int64{s.Rows(), s.Columns(), s.Statistics().NonZeros})
		for row := range m.Rows() {
			require.Equal(t, m.RowLength(row), s.RowLength(row))
		}
		got, want := s.Statistics(), m.Statistics()
		if want.NonZeros > 0 { // else there is no value to bound
			require.LessOrEqual(t, got.Minimum, want.Minimum)
			require.GreaterOrEqual(t, got.Maximum, want.Maximum)
		}
		require.GreaterOrEqual(t, got.Longest, want.Longest)
		require.Equal(t, want.HasValues, got.HasValues)
		require.False(t, got.Canonical && !want.Canonical)
		require.Positive(t, got.Bytes)
	})
}

func TestRowsOfEverySourceAreCopiedInCanonicalForm(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 2))
	forEverySource(t, func(t *testing.T, s csr.Source, m *csr.Matrix) {
		rows := make([]int64, rng.IntN(3000)) // more than are read at a time
		if m.Rows() == 0 {
			rows = rows[:0]
		}
		for n := range rows {
			rows[n] = rng.Int64N(m.Rows())
		}
		var want csr.Entries
		require.NoError(t, m.Read(rows, &want))
		offsets := make([]int64, len(rows)+1)
		require.NoError(t, csr.BoundRows(s, rows, offsets))
		room := offsets[len(rows)]
		require.GreaterOrEqual(t, room, int64(len(want.Indices)))
		indices, values := make([]int32, room), make([]float32, room)
		require.NoError(t, csr.CopyRows(s, rows, offsets, indices, values))
		require.Zero(t, offsets[0])
		for n, end := range want.Ends {
			require.EqualValues(t, end, offsets[n+1])
		}
		entries := len(want.Indices)
		require.True(t, slices.Equal(want.Indices, indices[:entries]))
		require.True(t, slices.Equal(want.Values, values[:entries]))
		if entries > 0 {
			err := csr.CopyRows(s, rows, offsets, indices[:entries-1], values)
			require.ErrorContains(t, err, "more entries than the arrays have room for")
		}
		require.Equal(t, fault.InvalidArgument, fault.KindOf(csr.CopyRows(s, []int64{m.Rows()}, offsets, indices, values)))
	})
}

func TestBlocksHaveTheStatisticsOfTheWhole(t *testing.T) {
	p := randomParts(9, 50, 300)
	want := opened(t, p).Statistics()
	got := joined(t, pieces(p, []int64{0, 0, 10, 31}), nil).Statistics()
	require.Greater(t, got.Bytes, want.Bytes) // each piece has a last offset
	got.Bytes = want.Bytes
	require.Equal(t, want, got)
}

func TestPiecesWithoutEntriesDoNotWidenTheBounds(t *testing.T) {
	empty := csr.Parts{Columns: 9, Offsets32: []int32{0, 0}, Indices32: []int32{}, Values32: []float32{}}
	full := csr.Parts{Columns: 9, Offsets32: []int32{0, 1}, Indices32: []int32{3}, Values32: []float32{7}}
	s := joined(t, []csr.Parts{empty, full, empty}, nil).Statistics()
	require.Equal(t, []float64{7, 7}, []float64{s.Minimum, s.Maximum})
}

func TestEverySourceGivesTheSameBatches(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	forEverySource(t, func(t *testing.T, s csr.Source, m *csr.Matrix) {
		if m.Rows() == 0 {
			return
		}
		rows := make([]int64, 40)
		for i := range rows {
			rows[i] = rng.Int64N(m.Rows())
		}
		asked := slices.Clone(rows)
		for _, r := range []csr.Reader{
			{}, {RowsOnly: true}, {Scaling: true}, {Denoising: 0.4, Seed: 5}, {Scaling: true, Denoising: 0.4, Limit: 40 * 30},
		} {
			reference := r
			r.Source, reference.Source = s, m
			require.Equal(t, batchOf(t, &reference, rows...), batchOf(t, &r, rows...))
			require.Equal(t, asked, rows, "the caller's row numbers are left alone")
		}
	})
}

func TestEverySourceHasTheSameLargestBatch(t *testing.T) {
	forEverySource(t, func(t *testing.T, s csr.Source, m *csr.Matrix) {
		for rows := range m.Rows() + 2 {
			require.Equal(t, csr.MaxBatchEntries(m, rows), csr.MaxBatchEntries(s, rows))
		}
	})
}

func TestEverySourceFindsTheSameValueOutside(t *testing.T) {
	type place struct {
		row, column int64
		value       float64
		found       bool
	}
	forEverySource(t, func(t *testing.T, s csr.Source, m *csr.Matrix) {
		for _, limits := range [][2]float64{{-2, 4}, {0, 3}, {1, 1}, {-2, 9}} {
			var want, got place
			want.row, want.column, want.value, want.found = csr.FirstOutside(m, limits[0], limits[1])
			got.row, got.column, got.value, got.found = csr.FirstOutside(s, limits[0], limits[1])
			require.Equal(t, want, got)
		}
	})
}

// deviceRows is everything that a device gets, in one block; values that are left out are ones.
func deviceRows(t *testing.T, s csr.Source, first, end int64, scaled bool) kernels.DataBlock {
	t.Helper()
	data, err := csr.DeviceData(s, first, end, scaled)
	require.NoError(t, err)
	var all kernels.DataBlock
	require.NoError(t, data.Blocks(func(b kernels.DataBlock) error {
		all.Lengths, all.Indices = append(all.Lengths, b.Lengths...), append(all.Indices, b.Indices...)
		all.Values, all.Sums = append(all.Values, b.Values...), append(all.Sums, b.Sums...)
		all.Norms, all.ScaledSums = append(all.Norms, b.Norms...), append(all.ScaledSums, b.ScaledSums...)
		if !data.Values {
			require.Empty(t, b.Values)
			all.Values = append(all.Values, slices.Repeat([]float32{1}, len(b.Indices))...)
		}
		return nil
	}))
	require.LessOrEqual(t, int64(len(all.Indices)), data.Entries)
	require.Len(t, all.Lengths, int(data.Rows))
	require.Equal(t, s.Rows(), data.Listed)
	if data.Index == nil {
		require.Equal(t, data.Rows, data.Listed)
		return all
	}
	var list []int64
	require.NoError(t, data.Index(func(rows []int64) error {
		list = append(list, rows...)
		return nil
	}))
	require.Len(t, list, int(data.Listed))
	return chosenRows(all, list, scaled)
}

// chosenRows are some rows of a block.
func chosenRows(all kernels.DataBlock, list []int64, scaled bool) (b kernels.DataBlock) {
	ends := []int32{0}
	for _, length := range all.Lengths {
		ends = append(ends, ends[len(ends)-1]+length)
	}
	for _, row := range list {
		begin, end := ends[row], ends[row+1]
		b.Lengths, b.Sums = append(b.Lengths, end-begin), append(b.Sums, all.Sums[row])
		b.Indices, b.Values = append(b.Indices, all.Indices[begin:end]...), append(b.Values, all.Values[begin:end]...)
		if scaled {
			b.Norms, b.ScaledSums = append(b.Norms, all.Norms[row]), append(b.ScaledSums, all.ScaledSums[row])
		}
	}
	return b
}

func TestEverySourceGivesDevicesTheSameRows(t *testing.T) {
	forEverySource(t, func(t *testing.T, s csr.Source, m *csr.Matrix) {
		columns := m.Columns()
		for _, shard := range [][2]int64{{0, columns}, {columns / 3, columns * 2 / 3}} {
			for _, scaled := range []bool{false, true} {
				require.Equal(t, deviceRows(t, m, shard[0], shard[1], scaled), deviceRows(t, s, shard[0], shard[1], scaled))
			}
		}
	})
}

func TestDevicesGetALargeMatrixInBlocksWithEveryRowOnce(t *testing.T) {
	p := csr.Parts{Columns: 50, Offsets32: []int32{0}}
	rng := rand.New(rand.NewPCG(4, 4))
	for range 50_000 {
		for column := range int32(50) {
			if rng.IntN(2) == 0 {
				p.Indices32 = append(p.Indices32, column)
			}
		}
		p.Offsets32 = append(p.Offsets32, int32(len(p.Indices32)))
	}
	data, err := csr.DeviceData(opened(t, p), 0, 50, false)
	require.NoError(t, err)
	blocks, got := 0, csr.Parts{Columns: 50, Offsets32: []int32{0}}
	require.NoError(t, data.Blocks(func(b kernels.DataBlock) error {
		blocks++
		for _, length := range b.Lengths {
			got.Offsets32 = append(got.Offsets32, got.Offsets32[len(got.Offsets32)-1]+length)
		}
		got.Indices32 = append(got.Indices32, b.Indices...)
		return nil
	}))
	require.Greater(t, blocks, 1)
	require.Equal(t, p, got)
}

func TestRowsThatAreNotThereCannotBeChosen(t *testing.T) {
	m := opened(t, small())
	for _, bounds := range [][2]int64{{-1, 2}, {2, 1}, {0, 4}} {
		_, err := csr.Slice(m, bounds[0], bounds[1])
		require.Contains(t, refusal(t, fault.InvalidArgument, err), "the matrix has 3 rows")
	}
	for _, row := range []int64{-1, 3} {
		_, err := csr.Select(m, []int64{0, row})
		require.Contains(t, refusal(t, fault.InvalidArgument, err), "index[1] is ")
	}
}

func TestABatchBeyondASliceIsRefusedThoughTheMatrixHasTheRow(t *testing.T) {
	s, err := csr.Slice(opened(t, small()), 0, 2)
	require.NoError(t, err)
	r := csr.Reader{Source: s}
	refusal(t, fault.InvalidArgument, r.Batch([]int64{2}, 1, true, new(kernels.SparseBatch)))
}

func TestAUserOfChosenRowsKeepsTheMatrixOpen(t *testing.T) {
	m := opened(t, small())
	sliced, err := csr.Slice(m, 0, 2)
	require.NoError(t, err)
	chosen, err := csr.Select(sliced, []int64{1})
	require.NoError(t, err)
	require.NoError(t, chosen.Use())
	refusal(t, fault.Busy, m.Close())
	chosen.Unuse()
	require.NoError(t, m.Close())
	refusal(t, fault.InvalidState, chosen.Use())
}

func TestErrorsNameRowsByTheirNumbersInTheMatrix(t *testing.T) {
	p := small()
	blocks := joined(t, []csr.Parts{p, p, p}, nil)
	sliced, err := csr.Slice(blocks, 4, 9)
	require.NoError(t, err)
	p.Indices32[4] = 10 // in the last row of each piece
	e := new(csr.Entries)
	require.Contains(t, refusal(t, fault.InvalidData, sliced.Read([]int64{0, 1, 3}, e)), "row 5 holds column 10")
	require.Len(t, e.Ends, 1)
	require.Contains(t, refusal(t, fault.InvalidData, blocks.Validate(csr.ValidateOptions{})), "row 2 holds column 10")
	p.Indices32[4], p.Offsets32[1] = 9, 6
	require.Contains(t, refusal(t, fault.InvalidData, blocks.Read([]int64{7}, e)), "row 7 begins at entry 6")
	p.Offsets32[1] = 2
	p.Values32[0] = float32(math.Inf(1))
	require.Contains(t, refusal(t, fault.InvalidData, blocks.Read([]int64{6}, e)), "row 6, column 2 holds +Inf")
}

func TestBlocksAreReleasedOnce(t *testing.T) {
	released := 0
	b := joined(t, []csr.Parts{small(), small()}, func() { released++ })
	require.NoError(t, b.Use())
	refusal(t, fault.Busy, b.Close())
	b.Unuse()
	require.NoError(t, b.Close())
	require.NoError(t, b.Close())
	require.Equal(t, 1, released)
}

func TestARefusedPieceReleasesNothing(t *testing.T) {
	bad, released := small(), 0
	bad.Offsets32[3] = 6
	_, err := csr.NewBlocks([]csr.Parts{small(), bad}, func() { released++ })
	refusal(t, fault.InvalidData, err)
	require.Zero(t, released)
}

func TestUnsignedColumnsAreNamedAsTheyAre(t *testing.T) {
	p := csr.Parts{Columns: 5, Offsets32: []int32{0, 1}, Indices32: []int32{-1}, Unsigned: true}
	m, err := csr.New(p)
	require.NoError(t, err)
	require.Contains(t, refusal(t, fault.InvalidData, m.Validate(csr.ValidateOptions{})), "column 4294967295, but")
	p.Indices32[0] = 4
	require.NoError(t, m.Validate(csr.ValidateOptions{}))
}
