package cpu_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/kernels"
	"dsstne/kernels/cpu/c"
	"dsstne/tests/batch"
)

func filled(d kernels.Device, n int64, scale float32) kernels.Buffer {
	b, err := d.Alloc(n)
	if err != nil {
		panic(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	values := b.Float32()
	for i := range values {
		values[i] = scale * (random.Float32() - 0.5)
	}
	return b
}

// topK is the input of a TopK: normal weights and rows, bias i the logarithm of an item's rank if popular.
func topK(d kernels.Device, rows, units, items, k int64, popular bool) (*kernels.TopK, *kernels.Step) {
	random := rand.New(rand.NewPCG(5, 6))
	normal := func(n int64) kernels.Buffer {
		b, err := d.Alloc(n)
		if err != nil {
			panic(err)
		}
		for i := range b.Float32() {
			b.Float32()[i] = float32(random.NormFloat64())
		}
		return b
	}
	op := &kernels.TopK{K: k, IDs: filled(d, rows*k, 0), Scores: filled(d, rows*k, 0)}
	op.Items = items
	h, w := normal(rows*units), &kernels.Weights{Rows: items, Columns: units, Value: normal(items * units)}
	op.Sources = []kernels.OutputSource{{H: h, Weight: w}}
	if popular {
		bias := normal(items)
		for i, rank := range random.Perm(int(items)) {
			bias.Float32()[i] = -float32(math.Log(float64(rank+1)) * math.Sqrt(float64(units)))
		}
		op.Bias = &kernels.Weights{Rows: items, Columns: 1, Value: bias}
	}
	op.Workspace = filled(d, d.WorkspaceSize(op, rows), 0)
	excluded := batch.Random(int(rows), int(items), int(min(144, items/2)), 4)
	return op, &kernels.Step{Number: 1, Rows: rows, Sparse: []*kernels.SparseBatch{excluded}}
}

// share is how many exact scores a TopK computed, of all.
func share(table *c.Table, op *kernels.TopK, s *kernels.Step) float64 {
	ops := c.NewOps(table, kernels.Float32, 1)
	defer ops.Close()
	scored, err := ops.CountedTopK(op, s)
	if err != nil {
		panic(err)
	}
	return float64(scored) / float64(s.Rows*op.Items)
}

func TestScreeningLeavesFewItemsToScoreExactly(t *testing.T) {
	for _, table := range c.Tables() {
		d, err := kernels.Lookup("cpu").Open(0, kernels.Options{Threads: 1, InstructionSet: table.Name()})
		require.NoError(t, err)
		for _, units := range []int64{32, 100, 400} {
			for _, popular := range []bool{false, true} {
				op, step := topK(d, 40, units, 5000, 10, popular)
				require.Less(t, share(table, op, step), 0.05, "%s, %d units", table.Name(), units)
				op.Temperature = 0.1
				require.Less(t, share(table, op, step), 0.05, "%s, %d units, cosine", table.Name(), units)
			}
		}
		require.NoError(t, d.Close())
	}
}

// One unit of such size takes all the precision of 8 bits, and then float32 has to do.
func TestScreeningLeavesFewItemsWhereOneUnitOutweighsAllOthers(t *testing.T) {
	for _, table := range c.Tables() {
		d, err := kernels.Lookup("cpu").Open(0, kernels.Options{Threads: 1, InstructionSet: table.Name()})
		require.NoError(t, err)
		op, step := topK(d, 40, 100, 5000, 10, false)
		for n, x := range [][]float32{op.Sources[0].H.Float32(), op.Sources[0].Weight.Value.Float32()} {
			for i := 0; i < len(x); i += 100 {
				x[i] = []float32{1e-4, 1e3}[n]
			}
		}
		require.Less(t, share(table, op, step), 0.1, table.Name())
		require.NoError(t, d.Close())
	}
}

// The errors that rounding to 8 bits makes are at most what screening allows for, and here they are nearly that: each
// case fails if one of the three terms of the bound (rank_screen.h) is left out.
func TestScreeningKeepsTheBestItemWhereEveryRoundingIsAgainstIt(t *testing.T) {
	const items, best = 200, 150 // the best item is not in the first tile, so that there is a threshold
	for name, x := range map[string]struct {
		units                        int64
		row, rival, filler, favorite [3]float32 // the first two units and all others
	}{
		"the row's":    {64, [3]float32{127, 0, 0.49}, [3]float32{0.2, 0, 0}, [3]float32{}, [3]float32{0, 0, 1}},
		"the weight's": {64, [3]float32{0, 0, 1}, [3]float32{0, 0, 0.45}, [3]float32{}, [3]float32{127, 0, 0.49}},
		"both, which are multiplied": {
			100_002, [3]float32{127, 0, 0.51}, [3]float32{-30_000. / 127, 0, 0}, [3]float32{-500, 0, 0},
			[3]float32{0, 127, -0.51},
		},
	} {
		for _, table := range c.Tables() {
			d, err := kernels.Lookup("cpu").Open(0, kernels.Options{Threads: 1, InstructionSet: table.Name()})
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
			device := d.(kernels.Screener)
			for _, screening := range []kernels.Buffer{nil, filled(d, device.ScreeningSize(&op.Scorer, step.Rows), 0)} {
				if screening != nil && screening.Len() > 0 {
					op.Screening = screening
					require.NoError(t, device.Screen(&op.Scorer, screening))
				}
				require.NoError(t, d.TopK(op, step))
				for _, id := range op.IDs.Int32() {
					require.Equal(t, int32(best), id, "%s, %s, screening %t", table.Name(), name, screening != nil)
				}
			}
			require.NoError(t, d.Close())
		}
	}
}
