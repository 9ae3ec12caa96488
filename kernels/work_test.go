package kernels_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/kernels"
)

// A batch of 10 rows, whose input has 30 entries of 20 distinct items, and whose target has 50 of 40.
var batchSizes = kernels.Sizes{
	Rows: 10, Batches: []kernels.BatchSizes{{Entries: 30, Items: 20}, {Entries: 50, Items: 40}},
}

func TestTheWorkOfAnOperationFollowsFromItsShapes(t *testing.T) {
	const items, units, inputs = 1000, 7, 5
	some := &kernels.HostBuffer{}
	momentum := kernels.Optimizer{Kind: kernels.Momentum} // value and state, read and written: 16 bytes a weight
	wide := &kernels.Weights{Rows: items, Columns: units}
	dense := &kernels.Weights{Rows: units, Columns: inputs}
	bias := &kernels.Weights{Rows: items, Columns: 1}
	gradient := &kernels.Weights{Rows: items, Columns: units, Gradient: some}
	denseGradient := &kernels.Weights{Rows: units, Columns: inputs, Gradient: some}
	output := func(tied int, w *kernels.Weights, dh kernels.Buffer) *kernels.Output {
		return &kernels.Output{
			Items: items, Target: 1, TiedInput: tied, Optimizer: momentum,
			Sources: []kernels.OutputSource{{Weight: w, DH: dh}},
		}
	}
	withBias, softmax := output(-1, wide, some), output(-1, wide, some)
	withBias.Bias, softmax.Stats = bias, some
	for name, c := range map[string]struct {
		op                  kernels.Counted
		multiplyAdds, bytes float64
	}{
		"gather":       {&kernels.Gather{Weight: wide}, 30 * units, 8*30 + 4*units*(20+10)},
		"gather, adds": {&kernels.Gather{Weight: wide, Accumulate: true}, 30 * units, 8*30 + 4*units*(20+2*10)},
		"scatter":      {&kernels.Scatter{Weight: wide, Optimizer: momentum}, 30 * units, 8*30 + units*(4*10+16*20)},
		"scatter, tied": {
			&kernels.Scatter{Weight: wide, Optimizer: momentum, TiedGradient: some}, 30 * units,
			8*30 + units*(4*10+16*20+4*20),
		},
		"scatter, gradient": {&kernels.Scatter{Weight: gradient}, 30 * units, 8*30 + 4*units*(10+items)},
		"scatter, tied gradient": {
			&kernels.Scatter{Weight: gradient, TiedGradient: some}, 30 * units, 8*30 + 4*units*(10+20+20),
		},
		"dense":        {&kernels.Dense{Weight: dense}, 10 * units * inputs, 4 * (units*inputs + 10*inputs + 10*units)},
		"unit moments": {&kernels.UnitMoments{Units: units}, 0, 8 * 10 * units},
		"row moments":  {&kernels.RowMoments{Units: units}, 0, 4 * 10 * (units + 2)},
		"norm sums":    {&kernels.NormSums{Units: units}, 0, 8 * 10 * units},
		"activate":     {&kernels.Activate{Units: units}, 0, 8 * 10 * units},
		"backward": {
			&kernels.Backward{Units: units, Optimizer: momentum, Bias: bias}, 0, 12*10*units + 16*units,
		},
		"dense backward": {
			&kernels.DenseBackward{Weight: dense, DIn: some, Optimizer: momentum}, 2 * 10 * units * inputs,
			4*10*(units+2*inputs) + 16*units*inputs,
		},
		"dense backward of a first layer": {
			&kernels.DenseBackward{Weight: dense, Optimizer: momentum}, 10 * units * inputs,
			4*10*(units+inputs) + 16*units*inputs,
		},
		"dense backward, gradient": {
			&kernels.DenseBackward{Weight: denseGradient, DIn: some}, 2 * 10 * units * inputs,
			4*10*(units+2*inputs) + 8*units*inputs,
		},
		"update":           {&kernels.Update{Weight: gradient, Optimizer: momentum}, 0, (4 + 16) * items * units},
		"norms of columns": {&kernels.ColumnNorms{Weight: wide}, 0, 4 * items * units},
		"cap of rows":      {&kernels.CapWeight{Weight: wide}, 0, 8 * items * units},
		"cap of columns":   {&kernels.CapWeight{Weight: wide, Ranks: 3}, 0, 8*items*units + 4*3*units},
		"output statistics": {
			kernels.OutputStats{Output: withBias}, 10 * items * units, 4*units*(10+items) + 4*items + 8*10,
		},
		"output": {
			kernels.OutputStep{Output: output(-1, wide, some)}, 3 * 10 * items * units, 8*50 + units*(8*10+16*items),
		},
		"output, no gradient behind": {
			kernels.OutputStep{Output: output(-1, wide, nil)}, 2 * 10 * items * units, 8*50 + units*(4*10+16*items),
		},
		"output, bias": {
			kernels.OutputStep{Output: withBias}, 3 * 10 * items * units, 8*50 + units*(8*10+16*items) + 16*items,
		},
		"output, soft-max": {
			kernels.OutputStep{Output: softmax}, 3 * 10 * items * units, 8*50 + 8*10 + units*(8*10+16*items),
		},
		"output, tied": {
			kernels.OutputStep{Output: output(0, wide, some)}, 3 * 10 * items * units,
			8*50 + units*(8*10+16*(items-20)+8*20),
		},
		"output, gradient": {
			kernels.OutputStep{Output: output(-1, gradient, some)}, 3 * 10 * items * units, 8*50 + units*(8*10+8*items),
		},
		"targets of a margin": {
			&kernels.MarginalTargets{Output: withBias}, 50 * units, 16*50 + 12*10 + 4*units*(40+10) + 4*40,
		},
		"combine": {&kernels.CombineStats{Shards: 3}, 0, 8 * 10 * 4},
	} {
		work := c.op.Work(&batchSizes)
		require.Equal(t, c.multiplyAdds, work.MultiplyAdds, name)
		require.Equal(t, c.bytes, work.Bytes, name)
	}
}

func TestTheLongerOfArithmeticAndMemoryIsTheLeastTime(t *testing.T) {
	limits := kernels.Limits{Float32: 10, Products: 20, Read: 5, Update: 8}
	for _, c := range []struct {
		work       kernels.Work
		seconds    float64
		arithmetic bool
	}{
		{kernels.Work{MultiplyAdds: 40}, 4, true},
		{kernels.Work{MultiplyAdds: 40, Products: true}, 2, true},
		{kernels.Work{MultiplyAdds: 40, Bytes: 21}, 4.2, false},
		{kernels.Work{Bytes: 21, Updated: 16}, 3, false},
	} {
		seconds, arithmetic := limits.Least(&c.work)
		require.InDelta(t, c.seconds, seconds, 1e-12)
		require.Equal(t, c.arithmetic, arithmetic)
	}
}

func TestOnlyWeightsAreUpdatedInPlace(t *testing.T) {
	momentum := kernels.Optimizer{Kind: kernels.Momentum}
	scatter := &kernels.Scatter{Weight: &kernels.Weights{Rows: 1000, Columns: 7}, Optimizer: momentum}
	require.Equal(t, 16.0*7*20, scatter.Work(&batchSizes).Updated)
	scatter.Weight.Gradient = &kernels.HostBuffer{}
	require.Zero(t, scatter.Work(&batchSizes).Updated)
}
