package conformance

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/kernels"
)

// Products of bfloat16 are held to three things. The bounds of all cases with two roundings of factors added show that
// nothing else is less precise. They are wide: a number that is left out of a sum of a hundred may stay inside. So numbers
// that bfloat16 has must give the bits of float32; and numbers that it has not show which way they are rounded, and that
// they are.
//
// Finite differences say nothing here: between two neighbours of bfloat16 the loss does not move with a weight.

// casesAt are the cases of the ops that a precision concerns.
func casesAt(p kernels.Precision) []group {
	return []group{
		{"Dense", remembering(func() []opCase { return forwardCases(true, p) })},
		{"OutputStats", remembering(func() []opCase { return outputCases(true, p) })},
		{"OutputStep", remembering(func() []opCase { return outputCases(false, p) })},
		{"DenseBackward", remembering(func() []opCase { return denseBackwardCases(p) })},
	}
}

// groupsAt are the groups that tests at a precision share, with what the reference made of them.
var groupsAt = map[kernels.Precision][]group{
	kernels.Float32: opCases, kernels.BFloat16: casesAt(kernels.BFloat16), kernels.TensorFloat32: casesAt(kernels.TensorFloat32),
}

// casesOf are the cases of some ops at a precision.
func casesOf(p kernels.Precision, ops ...string) (list []opCase) {
	for _, op := range ops {
		at := slices.IndexFunc(groupsAt[p], func(g group) bool { return g.op == op })
		list = append(list, groupsAt[p][at].cases()...)
	}
	return list
}

func TestEveryOpAgreesWithTheReferenceInBFloat16(t *testing.T) {
	t.Parallel()
	groupsAgree(t, kernels.BFloat16, groupsAt[kernels.BFloat16])
}

func TestEveryOpGivesTheSameBitsWithAnyNumberOfThreadsInBFloat16(t *testing.T) {
	t.Parallel()
	groupsGiveTheSameBits(t, kernels.BFloat16, groupsAt[kernels.BFloat16])
}

// TF32 only CUDA devices have. What is said above of bfloat16 holds for it too.
func TestEveryOpAgreesWithTheReferenceInTensorFloat32(t *testing.T) {
	t.Parallel()
	groupsAgree(t, kernels.TensorFloat32, groupsAt[kernels.TensorFloat32])
}

func TestANumberThatIsNotFiniteStopsTheOpInBFloat16(t *testing.T) {
	t.Parallel()
	forEveryBackendAt(t, kernels.BFloat16, func(t *testing.T, open opener) {
		open = open.reusing()
		for _, threads := range threadsOf(open) {
			for _, c := range some(open(threads), everyPlanted(), 0) {
				require.NoError(t, stops(c, open(threads)))
			}
		}
	})
}

// beyond is a float32 that is nearer to infinity than to any bfloat16.
const beyond = float32(3.3999e38)

func TestAFactorThatIsRoundedToInfinityStopsTheOp(t *testing.T) {
	var list []planted
	for _, loss := range losses {
		c := plainOutput(loss, 0)
		c.sources[0].h[17*plantedUnits+11] = 1e-10
		c.sources[0].weight.value[57*plantedUnits+11] = beyond
		list = append(list, planted{fmt.Sprintf("weight, loss %d", loss.Kind), c})
		c = plainOutput(loss, 0)
		c.sources[0].h[17*plantedUnits+11] = beyond
		scaleBy(c.sources[0].weight.value, 1e-10)
		list = append(list, planted{fmt.Sprintf("hidden value, loss %d", loss.Kind), c})
	}
	for _, o := range everyOptimizer() {
		s := newSampler(23)
		c := &denseBackwardCase{step: s.step(o, plantedRows), optimizer: o, weight: s.weight("w", plantedItems, plantedUnits, 1, o)}
		c.dz, c.in = s.normal(plantedRows*plantedItems, 1e-10), s.normal(plantedRows*plantedUnits, 1)
		c.in[17*plantedUnits+11] = beyond
		list = append(list, planted{fmt.Sprintf("input, %+v", o), c})
		d := *c
		d.dz, d.in = s.normal(plantedRows*plantedItems, 1), s.normal(plantedRows*plantedUnits, 1e-10)
		d.dz[17*plantedItems+57] = beyond
		list = append(list, planted{fmt.Sprintf("gradient, %+v", o), &d})
	}
	forEveryNarrowDevice(t, func(t *testing.T, narrow, _ opener) {
		narrow = narrow.reusing()
		for _, threads := range threadsOf(narrow) {
			for _, c := range list {
				require.NoError(t, stops(c, narrow(threads)))
			}
		}
	})
}

// forEveryNarrowDevice runs a test on each device that rounds factors: not on the reference. wide opens the same device at
// float32.
func forEveryNarrowDevice(t *testing.T, test func(t *testing.T, narrow, wide opener)) {
	forEveryDeviceThatRounds(t, kernels.BFloat16, test)
}

func forEveryDeviceThatRounds(t *testing.T, p kernels.Precision, test func(t *testing.T, narrow, wide opener)) {
	for _, b := range kernels.Registered() {
		if b.Name() == "reference" {
			continue
		}
		for _, set := range instructionSets {
			if d, err := b.Open(0, kernels.Options{Threads: 1, InstructionSet: set, Precision: p}); err == nil {
				require.NoError(t, d.Close())
				t.Run(b.Name()+" "+set, func(t *testing.T) {
					test(t, openerOf(t, b, set, p), openerOf(t, b, set, kernels.Float32))
				})
			}
		}
	}
}

// roundedTo16 is a number as products see it.
func roundedTo16(x float32) float32 {
	bits := math.Float32bits(x)
	switch {
	case x != x:
		return x
	case bits&0x7f800000 == 0:
		return math.Float32frombits(bits & 0x80000000)
	}
	return math.Float32frombits((bits + 0x7fff + bits>>16&1) &^ 0xffff)
}

// fineNumbers lie between the bfloat16 numbers: halfway, and beside the halves, from both even and odd neighbours; from the
// smallest normal ones to the largest that a gradient may be.
func fineNumbers() (list []float32) {
	for _, high := range []uint32{0x3f80, 0x3f81, 0x3fff, 0x0080, 0x7e7e, 0x4049} {
		for _, low := range []uint32{0, 1, 0x7fff, 0x8000, 0x8001, 0xffff} {
			x := math.Float32frombits(high<<16 | low)
			list = append(list, x, -x)
		}
	}
	return append(list, 0, 1e-39, -1e-39, math.Float32frombits(0x007fffff))
}

func TestFactorsAreRoundedToTheNearestBFloat16(t *testing.T) {
	t.Parallel()
	require.Equal(t, []float32{1, 1, 1.015625, 0, float32(math.Inf(1))}, []float32{roundedTo16(1), roundedTo16(1 + 1.0/256),
		roundedTo16(1 + 3.0/256), roundedTo16(1e-39), roundedTo16(beyond)})
	fine := fineNumbers()
	n := int64(len(fine))
	want := make([]float32, n)
	for i, x := range fine {
		want[i] = roundedTo16(x)
	}
	one := []float32{1}
	matrix := func(rows, columns int64, x []float32) *weight {
		return &weight{name: "w", rows: rows, columns: columns, value: x, written: true}
	}
	s := newSampler(24)
	squared := kernels.Loss{Kind: kernels.Squared, Weight: 1}
	empty := s.batch(1, n, "empty", false)
	softmax := func(x float32) *outputCase {
		return &outputCase{onlyStats: true, step: s.step(kernels.Optimizer{}, 1, nil, s.batch(1, 1, "full", false)), items: 1,
			loss: kernels.Loss{Kind: kernels.Softmax, Weight: 1}, sources: []hiddenSource{{h: one, weight: matrix(1, 1, []float32{x})}}}
	}
	// dz is the bias where the hidden values are zero and there are no targets; dw = dz h of the second unit, dh = dz w.
	bias := &weight{name: "bias", rows: n, columns: 1, value: append([]float32{}, fine...), written: true}
	for i, x := range fine {
		if math.Abs(float64(x)) > 1e10 { // its squared loss is infinite
			bias.value[i] = 0
		}
	}
	second := make([]float32, 2*n)
	for i := range n {
		second[2*i] = 1
	}
	delta := &outputCase{step: s.step(kernels.Optimizer{}, 1, nil, empty), items: n, loss: squared, bias: bias,
		sources: []hiddenSource{{h: []float32{0, 1}, dh: make([]float32, 2), weight: matrix(n, 2, second)}}}
	delta.step.TermFactors = nil
	forEveryNarrowDevice(t, func(t *testing.T, narrow, _ opener) {
		d := narrow(1)
		get := func(c opCase, name string, n int) []float64 {
			r, err := c.run(d)
			require.NoError(t, err)
			for _, f := range r {
				if f.name == name {
					return f.data[:n]
				}
			}
			require.Fail(t, "no output", name)
			return nil
		}
		same := func(what string, want []float32, got []float64) {
			for i := range want {
				require.Equal(t, float64(want[i]), got[i]+0, "%s: %g (%08x)", what, fine[i], math.Float32bits(fine[i]))
			}
		}
		step := s.step(kernels.Optimizer{}, n)
		same("input of Dense", want, get(&forwardCase{step: step, in: fine, weight: matrix(1, 1, one), out: make([]float32, n)},
			"out", len(fine)))
		single := s.step(kernels.Optimizer{}, 1)
		for _, bits := range []uint32{0x7f800001, 0x7fffffff, 0xffffffff} {
			x := []float32{math.Float32frombits(bits)}
			out := get(&forwardCase{step: single, in: x, weight: matrix(1, 1, one), out: make([]float32, 1)}, "out", 1)
			require.True(t, math.IsNaN(out[0]), "NaN %08x became %g", bits, out[0])
		}
		same("weight of Dense", want, get(&forwardCase{step: single, in: one, weight: matrix(n, 1, fine), out: make([]float32, n)},
			"out", len(fine)))
		same("dz of DenseBackward, in dW", want, get(&denseBackwardCase{step: single, dz: fine, in: one,
			weight: matrix(n, 1, make([]float32, n))}, "w.gradient", len(fine)))
		same("dz of DenseBackward, in dIn", want, get(&denseBackwardCase{step: step, dz: fine, in: make([]float32, n),
			din: make([]float32, n), weight: matrix(1, 1, one)}, "din", len(fine)))
		same("in of DenseBackward", want, get(&denseBackwardCase{step: single, dz: one, in: fine,
			weight: matrix(1, n, make([]float32, n))}, "w.gradient", len(fine)))
		same("weight of DenseBackward", want, get(&denseBackwardCase{step: single, dz: one, in: make([]float32, n),
			din: make([]float32, n), weight: matrix(1, n, fine)}, "din", len(fine)))
		for i, x := range fine {
			require.Equal(t, float64(want[i]), get(softmax(x), "stats", 1)[0]+0, "weight of OutputStats: %g", x)
		}
		gradient := get(delta, "w.gradient", 2*len(fine))
		for i, x := range bias.value {
			require.Equal(t, float64(roundedTo16(x)), gradient[2*i+1]+0, "dz of OutputStep: %g", x)
		}
	})
}
