package cpu_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/kernels"
	"dsstne/kernels/cpu"
)

// activated sends numbers through an activation: a gather that adds empty rows leaves them, and ends with the epilogue.
func activated(t *testing.T, set string, activation kernels.ActivationKind, z []float32) []float32 {
	t.Helper()
	d, err := kernels.Lookup("cpu").Open(0, kernels.Options{Threads: 2, InstructionSet: set})
	require.NoError(t, err)
	defer func() { require.NoError(t, d.Close()) }()
	out, err := d.Alloc(int64(len(z)))
	require.NoError(t, err)
	defer out.Free()
	copy(out.Float32(), z)
	weight, err := d.Alloc(int64(len(z)))
	require.NoError(t, err)
	defer weight.Free()
	err = d.Gather(&kernels.Gather{
		Weight: &kernels.Weights{Rows: 1, Columns: int64(len(z)), Value: weight}, Out: out, Accumulate: true,
		Epilogue: &kernels.Epilogue{Activation: kernels.Activation{Kind: activation, Alpha: 1}},
	}, &kernels.Step{Rows: 1, Sparse: []*kernels.SparseBatch{{Offsets: []int32{0, 0}}}})
	require.NoError(t, err)
	return append([]float32(nil), out.Float32()...)
}

// ulps is the distance of a float32 from the exact value in units of the last place of the exact value.
func ulps(got float32, exact float64) float64 {
	if float64(got) == exact {
		return 0
	}
	e := math.Abs(exact)
	next := float64(math.Nextafter32(float32(e), math.MaxFloat32))
	unit := math.Max(next-float64(float32(e)), math.SmallestNonzeroFloat32)
	return math.Abs(float64(got)-exact) / unit
}

// spread is every 1,009th float32 between two bounds, of both signs.
func spread(low, high float32) (list []float32) {
	for bits := math.Float32bits(low); bits <= math.Float32bits(high); bits += 1009 {
		x := math.Float32frombits(bits)
		list = append(list, x, -x)
	}
	return list
}

func worst(t *testing.T, set string, activation kernels.ActivationKind, exact func(float64) float64, z []float32) float64 {
	most := 0.0
	for i, got := range activated(t, set, activation, z) {
		most = math.Max(most, ulps(got, exact(float64(z[i]))))
	}
	return most
}

func TestActivationsAreExactToAFewUnitsInTheLastPlace(t *testing.T) {
	// Beyond 87 the sigmoid of a negative number leaves the normal float32 numbers and stays near their lower end.
	z := append(spread(1e-30, 87), 0)
	for _, set := range cpu.InstructionSets() {
		sigmoid := worst(t, set, kernels.Sigmoid, func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }, z)
		tanh := worst(t, set, kernels.Tanh, math.Tanh, z)
		elu := worst(t, set, kernels.ELU, func(x float64) float64 { return max(x, 0) + math.Expm1(min(x, 0)) }, z)
		selu := worst(t, set, kernels.SELU, func(x float64) float64 {
			return kernels.SELUScale * (max(x, 0) + kernels.SELUAlpha*math.Expm1(min(x, 0)))
		}, z)
		softplus := worst(t, set, kernels.Softplus, func(x float64) float64 {
			return max(x, 0) + math.Log1p(math.Exp(-math.Abs(x)))
		}, spread(1e-30, 86)) // half of a smaller value is no normal number
		softsign := worst(t, set, kernels.Softsign, func(x float64) float64 { return x / (1 + math.Abs(x)) }, z)
		gelu := worst(t, set, kernels.GELU, func(x float64) float64 { return x * math.Erfc(-x/math.Sqrt2) / 2 },
			spread(1e-30, 12.5)) // beyond that the value of a negative number is no normal number
		silu := worst(t, set, kernels.SiLU, func(x float64) float64 { return x / (1 + math.Exp(-x)) }, z)
		t.Logf("%s: sigmoid %.2f ULP, tanh %.2f ULP, ELU %.2f ULP, SELU %.2f ULP, soft-plus %.2f ULP, soft-sign %.2f ULP",
			set, sigmoid, tanh, elu, selu, softplus, softsign)
		t.Logf("%s: GELU %.2f ULP, SiLU %.2f ULP", set, gelu, silu)
		require.LessOrEqual(t, gelu, 8.0, set)
		require.LessOrEqual(t, silu, 4.0, set)
		require.LessOrEqual(t, sigmoid, 3.0, set)
		require.LessOrEqual(t, tanh, 3.0, set)
		require.LessOrEqual(t, elu, 5.0, set)
		require.LessOrEqual(t, selu, 5.0, set)
		require.LessOrEqual(t, softplus, 5.0, set)
		require.LessOrEqual(t, softsign, 3.0, set)
	}
}

func TestActivationsSaturateAndKeepNaN(t *testing.T) {
	for _, set := range cpu.InstructionSets() {
		inf := float32(math.Inf(1))
		sigmoid := activated(t, set, kernels.Sigmoid, []float32{inf, -inf, 200, -200})
		require.InDeltaSlice(t, []float32{1, 0, 1, 0}, sigmoid, 1e-38)
		require.Equal(t, []float32{1, -1, 1}, activated(t, set, kernels.Tanh, []float32{inf, -inf, 200}))
		require.Equal(t, []float32{inf, -1, 200, -1}, activated(t, set, kernels.ELU, []float32{inf, -inf, 200, -200}))
		require.Equal(t, []float32{inf, 0, 200}, activated(t, set, kernels.Softplus, []float32{inf, -inf, 200}))
		require.Equal(t, []float32{1, -1, 1, -1}, activated(t, set, kernels.Softsign, []float32{inf, -inf, 1e38, -1e38}))
		require.Equal(t, []float32{inf, -inf}, activated(t, set, kernels.LeakyReLU, []float32{inf, -inf}))
		require.Equal(t, []float32{inf, 0, 1e38, 0}, activated(t, set, kernels.GELU, []float32{inf, -inf, 1e38, -1e38}))
		silu := activated(t, set, kernels.SiLU, []float32{-inf, -1e38, inf, 1e38})
		require.InDeltaSlice(t, []float32{0, 0}, silu[:2], 1e-35)
		require.Equal(t, []float32{inf, 1e38}, silu[2:])
		for n, word := range kernels.ActivationWords {
			nan := activated(t, set, kernels.ActivationKind(n), []float32{float32(math.NaN())})[0]
			require.True(t, math.IsNaN(float64(nan)), word)
		}
	}
}
