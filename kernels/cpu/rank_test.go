package cpu_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/kernels"
	"dsstne/kernels/cpu/c"
)

// share is how many exact scores a TopK computed, of all.
func share(level int, op *kernels.TopK, s *kernels.Step) float64 {
	return float64(scored(level, op, s)) / float64(s.Rows*op.Items)
}

func TestScreeningLeavesFewItemsToScoreExactly(t *testing.T) {
	for level := c.Portable; level <= c.Widest; level++ {
		if c.Select(level) == nil {
			continue
		}
		d, err := kernels.Lookup("cpu").Open(0, kernels.Options{Threads: 1, InstructionSet: c.Select(level).Name()})
		require.NoError(t, err)
		for _, units := range []int64{32, 100, 400} {
			for _, popular := range []bool{false, true} {
				op, step := topK(d, 40, units, 5000, 10, popular)
				require.Less(t, share(level, op, step), 0.05, "%s, %d units", c.Select(level).Name(), units)
				op.Temperature = 0.1
				require.Less(t, share(level, op, step), 0.05, "%s, %d units, cosine", c.Select(level).Name(), units)
			}
		}
		require.NoError(t, d.Close())
	}
}

// One unit of such size takes all the precision of 8 bits, and then float32 has to do.
func TestScreeningLeavesFewItemsWhereOneUnitOutweighsAllOthers(t *testing.T) {
	for level := c.Portable; level <= c.Widest; level++ {
		if c.Select(level) == nil {
			continue
		}
		d, err := kernels.Lookup("cpu").Open(0, kernels.Options{Threads: 1, InstructionSet: c.Select(level).Name()})
		require.NoError(t, err)
		op, step := topK(d, 40, 100, 5000, 10, false)
		for n, x := range [][]float32{op.Sources[0].H.Float32(), op.Sources[0].Weight.Value.Float32()} {
			for i := 0; i < len(x); i += 100 {
				x[i] = []float32{1e-4, 1e3}[n]
			}
		}
		require.Less(t, share(level, op, step), 0.1, c.Select(level).Name())
		require.NoError(t, d.Close())
	}
}

// The errors that rounding to 8 bits makes are at most what screening allows for, and here they are nearly that: each case fails
// if one of the three terms of the bound (rank_screen.h) is left out.
func TestScreeningKeepsTheBestItemWhereEveryRoundingIsAgainstIt(t *testing.T) {
	const items, best = 200, 150 // the best item is not in the first tile, so that there is a threshold
	for name, x := range map[string]struct {
		units                        int64
		row, rival, filler, favorite [3]float32 // the first two units and all others
	}{
		"the row's":    {64, [3]float32{127, 0, 0.49}, [3]float32{0.2, 0, 0}, [3]float32{}, [3]float32{0, 0, 1}},
		"the weight's": {64, [3]float32{0, 0, 1}, [3]float32{0, 0, 0.45}, [3]float32{}, [3]float32{127, 0, 0.49}},
		"both, which are multiplied": {
			100_002, [3]float32{127, 0, 0.51}, [3]float32{-30_000. / 127, 0, 0}, [3]float32{-500, 0, 0}, [3]float32{0, 127, -0.51},
		},
	} {
		for level := c.Portable; level <= c.Widest; level++ {
			if c.Select(level) == nil {
				continue
			}
			d, err := kernels.Lookup("cpu").Open(0, kernels.Options{Threads: 1, InstructionSet: c.Select(level).Name()})
			require.NoError(t, err)
			op, step := topK(d, 8, x.units, items, 1, false)
			op.Exclude = -1
			fill := func(to []float32, of [3]float32) {
				copy(to, of[:2])
				for k := 2; k < len(to); k++ {
					to[k] = of[2]
				}
			}
			h, w := op.Sources[0].H.Float32(), op.Sources[0].Weight.Value.Float32()
			for u := range int64(8) {
				fill(h[u*x.units:][:x.units], x.row)
			}
			for i := range int64(items) {
				fill(w[i*x.units:][:x.units], x.filler)
			}
			fill(w[:x.units], x.rival)
			fill(w[best*x.units:][:x.units], x.favorite)
			require.NoError(t, d.TopK(op, step))
			for _, id := range op.IDs.Int32() {
				require.Equal(t, int32(best), id, "%s, %s", c.Select(level).Name(), name)
			}
			require.NoError(t, d.Close())
		}
	}
}
