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
