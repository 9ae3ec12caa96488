package reference

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/internal/fault"
	"dsstne/internal/random"
	"dsstne/kernels"
)

func buffer(t *testing.T, values ...float32) kernels.Buffer {
	b, err := kernels.AllocHost(int64(len(values)))
	require.NoError(t, err)
	t.Cleanup(b.Free)
	copy(b.Float32(), values)
	return b
}

// oneStep is a step of one row with the given learning rate and one entry in slot 0.
func oneStep(rate float32, columns int64, item int32, value float32) *kernels.Step {
	return &kernels.Step{
		Number: 1, Rows: 1, Training: true, Loss: make([]float64, 1), RatesFrom: 1,
		Rates: []kernels.Rates{{LearningRate: rate, Scale1: 1, Scale2: 1}},
		Sparse: []*kernels.SparseBatch{{
			Columns: columns, Offsets: []int32{0, 1}, Indices: []int32{item}, Values: []float32{value}, RowSum: []float32{value},
			Items: []int32{item}, ItemOffsets: []int32{0, 1}, ItemRows: []int32{0}, ItemValues: []float32{value},
		}},
	}
}

func TestTheBackendRegistersItself(t *testing.T) {
	require.NotNil(t, kernels.Lookup("reference"))
}

func TestASecondDeviceIsUnavailable(t *testing.T) {
	_, err := backend{}.Open(1, kernels.Options{})
	require.Equal(t, fault.DeviceUnavailable, fault.KindOf(err))
}

func TestLossesHaveTheirTextbookValues(t *testing.T) {
	ln2 := math.Log(2)
	marginal := kernels.Loss{Kind: kernels.ScaledMarginal, OneScale: 2, ZeroScale: 3, OneTarget: 0.9, ZeroTarget: 0.1}
	cases := []struct {
		what              string
		loss              kernels.Loss
		z, t, n, lse      float64
		wantLoss, wantDel float64
	}{
		{"sigmoid at 0", kernels.Loss{Kind: kernels.SigmoidCrossEntropy}, 0, 1, 1, 0, ln2, -0.5},
		{"sigmoid far off", kernels.Loss{Kind: kernels.SigmoidCrossEntropy}, 1000, 0, 1, 0, 1000, 1},
		{"marginal zero target", marginal, 0, 0, 0, 0, 3 * ln2, 1.5},
		{"marginal one target", marginal, 0, 1, 1, 0, 2 * ln2, -1},
		{"marginal value scales", marginal, 0, 0.5, 1, 0, ln2, -0.5},
		{"marginal zero reached", marginal, -5, 0, 0, 0, 0, 0},
		{"marginal one reached", marginal, 5, 1, 1, 0, 0, 0},
		{"soft-max", kernels.Loss{Kind: kernels.Softmax}, 0, 2, 3, ln2, 2 * ln2, -0.5},
		{"soft-max with normalised rows", kernels.Loss{Kind: kernels.Softmax, NormalizeRows: true}, 0, 2, 4, ln2, ln2 / 2, 0},
		{"soft-max without targets", kernels.Loss{Kind: kernels.Softmax, NormalizeRows: true}, 0, 0, 0, ln2, 0, 0},
		{"squared", kernels.Loss{Kind: kernels.Squared}, 3, 1, 1, 0, 2, 2},
		{"hinge", kernels.Loss{Kind: kernels.Hinge}, 0.25, 1, 1, 0, 0.75, -1},
		{"hinge of a fraction", kernels.Loss{Kind: kernels.Hinge}, 0.5, 0.5, 1, 0, 0.75, -0.5},
		{"hinge of a negative target", kernels.Loss{Kind: kernels.Hinge}, 0.5, -0.5, 1, 0, 1.25, 0.5},
		{"hinge of an absent item", kernels.Loss{Kind: kernels.Hinge}, 0.5, 0, 0, 0, 1.5, 1},
		{"hinge at its kink", kernels.Loss{Kind: kernels.Hinge}, 1, 1, 1, 0, 0, 0},
		{"hinge beyond its margin", kernels.Loss{Kind: kernels.Hinge}, -3, 0, 0, 0, 0, 0},
	}
	for _, c := range cases {
		loss, delta := losses[c.loss.Kind](&c.loss, c.z, c.t, c.n, c.lse)
		require.InDelta(t, c.wantLoss, loss, 1e-12, c.what)
		require.InDelta(t, c.wantDel, delta, 1e-12, c.what)
	}
}

// w = 1, gradient 0.5, learning rate 0.1, state(s) 0.2 and 0.04, no decay; worked out by hand.
func TestOptimizersFollowTheirPublishedRules(t *testing.T) {
	cases := []struct {
		kind    kernels.OptimizerKind
		w, a, b float64
	}{
		{kernels.SGD, 0.95, 0.2, 0.04},
		{kernels.Momentum, 1.13, 0.13, 0.04},
		{kernels.Nesterov, 1 + 0.9*0.13 - 0.05, 0.13, 0.04},
		{kernels.RMSProp, 1 - 0.05/math.Sqrt(0.2*0.99+0.01*0.25), 0.2*0.99 + 0.01*0.25, 0.04},
		{kernels.Adam, 1 - 0.1*(0.18+0.05)/math.Sqrt(0.0396+0.0025), 0.23, 0.0421},
		{kernels.AdamW, 1 - 0.1*(0.18+0.05)/math.Sqrt(0.0396+0.0025), 0.23, 0.0421},
		{kernels.AdaGrad, 1 - 0.05/math.Sqrt(0.45), 0.45, 0.04},
		{kernels.AdaDelta, 1 - 0.1*0.2*0.5/math.Sqrt(0.2005), 0.2005, 0.99*0.04 + 0.01*0.04*0.25/0.2005},
	}
	for _, c := range cases {
		n := numbers{momentum: 0.9, beta1: 0.9, beta2: 0.99, rate: 0.1, scale1: 1, scale2: 1}
		w, a, b := rules[c.kind](n, 1, 0.2, 0.04, 0.5)
		require.InDelta(t, c.w, w, 1e-12, "kind %d", c.kind)
		require.InDelta(t, c.a, a, 1e-12, "kind %d", c.kind)
		require.InDelta(t, c.b, b, 1e-12, "kind %d", c.kind)
	}
}

func TestWeightDecayIsAddedToTheGradient(t *testing.T) {
	w, _, _ := rules[kernels.SGD](numbers{rate: 0.1, decay: 0.5}, 2, 0, 0, 1)
	require.InDelta(t, 1.8, w, 1e-12)
}

func TestAdamWDecaysApartFromTheGradient(t *testing.T) {
	n := numbers{rate: 0.1, decay: 0.5, scale1: 1, scale2: 1, epsilon: 1}
	w, a, b := rules[kernels.AdamW](n, 2, 0, 0, 0)
	require.Equal(t, []float64{1.9, 0, 0}, []float64{w, a, b})
}

func TestDecayLeavesATensorAloneThatIsExempt(t *testing.T) {
	n := numbersOf(&kernels.Weights{NoDecay: true}, kernels.Optimizer{WeightDecay: 1}, kernels.Rates{})
	require.Zero(t, n.decay)
}

func TestL1MovesAWeightTowardsZeroAndNotBeyond(t *testing.T) {
	for _, kind := range []kernels.OptimizerKind{kernels.SGD, kernels.AdaDelta} {
		w := &kernels.Weights{Rows: 1, Columns: 6, Value: buffer(t, 3, -3, 0.25, -0.25, 0.5, 0)}
		o, state := kernels.Optimizer{Kind: kind, L1: 5, Epsilon: 1}, [2]kernels.Buffer{}
		for s := range o.States() {
			state[s] = buffer(t, make([]float32, 6)...)
		}
		w.State, w.Gradient = state, buffer(t, make([]float32, 6)...)
		require.NoError(t, device{}.Update(&kernels.Update{Weight: w, Optimizer: o}, oneStep(0.1, 1, 0, 1)))
		require.Equal(t, []float32{2.5, -2.5, 0, 0, 0, 0}, w.Value.Float32())
	}
}

func TestL1FollowsTheRuleOfTheOptimizer(t *testing.T) {
	w := &kernels.Weights{Rows: 1, Columns: 2, Value: buffer(t, 1, 1), Gradient: buffer(t, 2, 2.25)}
	op := &kernels.Update{Weight: w, Optimizer: kernels.Optimizer{L1: 0.25}}
	require.NoError(t, device{}.Update(op, oneStep(0.5, 1, 0, 1)))
	require.Equal(t, []float32{0, 0}, w.Value.Float32()) // 1 - 0.5 * 2 = 0, and 1 - 0.5 * 2.25 = -0.125, of size 0.5 * 0.25
	w.Value.Float32()[0], w.Value.Float32()[1] = 1, 3
	require.NoError(t, device{}.Update(op, oneStep(0.5, 1, 0, 1)))
	require.Equal(t, []float32{0, 1.75}, w.Value.Float32())
}

func TestL1LeavesATensorAloneThatIsExempt(t *testing.T) {
	n := numbersOf(&kernels.Weights{NoDecay: true}, kernels.Optimizer{L1: 1}, kernels.Rates{LearningRate: 1})
	require.Equal(t, 0.5, n.shrunk(0.5))
}

func TestL1HidesNoNumberThatIsNotFinite(t *testing.T) {
	for _, l1 := range []float64{0, 1, math.Inf(1)} {
		n := numbers{rate: 1, l1: l1}
		require.True(t, math.IsNaN(n.shrunk(math.NaN())))
		for _, w := range []float64{math.Inf(1), math.Inf(-1)} {
			shrunk := n.shrunk(w)
			require.True(t, math.IsInf(shrunk, 0) || math.IsNaN(shrunk))
		}
	}
}

func TestARowWithoutStatesThatL1MovesIsReplayed(t *testing.T) {
	w := &kernels.Weights{Rows: 3, Columns: 1, Value: buffer(t, 3, -1, 0.25), Last: buffer(t, 0, 0, 0)}
	w.Last.Int32()[1] = 1
	op := &kernels.Replay{Input: -1, Weight: w, Optimizer: kernels.Optimizer{L1: 0.5}}
	rate := kernels.Rates{LearningRate: 1}
	require.NoError(t, device{}.Replay(op, &kernels.Step{Number: 2, RatesFrom: 1, Rates: []kernels.Rates{rate, rate}}))
	require.Equal(t, []float32{2, -0.5, 0}, w.Value.Float32())
}

func TestAWrittenGradientHasNoDecayAndLeavesTheWeightAlone(t *testing.T) {
	w := &kernels.Weights{Rows: 2, Columns: 1, Value: buffer(t, 3, 4), Gradient: buffer(t, 9, 9)}
	op := &kernels.Scatter{DZ: buffer(t, 0.5), Weight: w, Optimizer: kernels.Optimizer{WeightDecay: 1}}
	require.NoError(t, device{}.Scatter(op, oneStep(0.1, 2, 1, 2)))
	require.Equal(t, []float32{3, 4, 0, 1}, append(append([]float32{}, w.Value.Float32()...), w.Gradient.Float32()...))
}

func TestScatterRemembersTheStepOfARow(t *testing.T) {
	w := &kernels.Weights{Rows: 2, Columns: 1, Value: buffer(t, 3, 4), Last: buffer(t, 0, 0)}
	require.NoError(t, device{}.Scatter(&kernels.Scatter{DZ: buffer(t, 1), Weight: w}, oneStep(0.1, 2, 1, 1)))
	require.Equal(t, []int32{0, 1}, w.Last.Int32())
}

func TestARowThatNothingMovesIsOnlyMarkedByAReplay(t *testing.T) {
	w := &kernels.Weights{Rows: 2, Columns: 1, Value: buffer(t, 3, 4), Last: buffer(t, 0, 0)}
	w.State[0] = buffer(t, 0, 0)
	step := &kernels.Step{Number: 1000, RatesFrom: 1000} // no rates of older steps: a skip must not look for them
	op := &kernels.Replay{Input: -1, Weight: w, Optimizer: kernels.Optimizer{Kind: kernels.Momentum, Momentum: 0.9}}
	require.NoError(t, device{}.Replay(op, step))
	require.Equal(t, []int32{1000, 1000}, w.Last.Int32())
}

func TestTheLowerItemWinsATie(t *testing.T) {
	w := &kernels.Weights{Rows: 3, Columns: 1, Value: buffer(t, 1, 2, 2)}
	op := &kernels.TopK{K: 2, Exclude: -1, IDs: buffer(t, 0, 0), Scores: buffer(t, 0, 0)}
	op.Items, op.Sources = 3, []kernels.OutputSource{{H: buffer(t, 1), Weight: w}}
	require.NoError(t, device{}.TopK(op, &kernels.Step{Rows: 1}))
	require.Equal(t, []int32{1, 2}, op.IDs.Int32())
}

func TestDropoutZeroesAndRescalesUnits(t *testing.T) {
	const units = 64
	w := &kernels.Weights{Rows: 1, Columns: units, Value: buffer(t, make([]float32, units)...)}
	op := &kernels.Gather{Weight: w, Out: buffer(t, make([]float32, units)...), Epilogue: &kernels.Epilogue{Dropout: 0.5}}
	for k := range units {
		w.Value.Float32()[k] = 1
	}
	require.NoError(t, device{}.Gather(op, oneStep(0.1, 1, 0, 1)))
	require.Subset(t, []float32{0, 2}, op.Out.Float32())
}

func TestAlphaDropoutKeepsMean0AndVariance1(t *testing.T) {
	const units = 1 << 17
	z := make([]float32, units)
	random.Noise(z, 3, random.StreamNoise, 1, 0)
	for _, p := range []float32{0, 0.1, 0.5} {
		op := &kernels.Activate{In: buffer(t, z...), Out: buffer(t, make([]float32, units)...), Units: units}
		op.Epilogue = kernels.Epilogue{Activation: kernels.Activation{Kind: kernels.SELU}, Dropout: p, Alpha: true}
		require.NoError(t, device{}.Activate(op, oneStep(0.1, 1, 0, 1)))
		mean, square := 0.0, 0.0
		for _, h := range op.Out.Float32() {
			mean += float64(h) / units
			square += float64(h) * float64(h) / units
		}
		require.InDelta(t, 0, mean, 0.02, p)
		require.InDelta(t, 1, square, 0.03, p)
	}
}

func TestActivationsPassNaNOn(t *testing.T) {
	for kind, of := range activations {
		require.True(t, math.IsNaN(of(0.5).value(math.NaN())), kind)
	}
}

func TestExponentialUnitsHaveTheirTextbookValues(t *testing.T) {
	elu, selu := activations[kernels.ELU](1), activations[kernels.SELU](1)
	require.InDeltaSlice(t, []float64{2, 0, math.Exp(-1) - 1, -1},
		[]float64{elu.value(2), elu.value(0), elu.value(-1), elu.value(math.Inf(-1))}, 1e-12)
	require.InDeltaSlice(t, []float64{1.0507009873554805, 0, -1.1113307378125625, -1.7580993408473766},
		[]float64{selu.value(1), selu.value(0), selu.value(-1), selu.value(math.Inf(-1))}, 1e-12)
}

func TestOtherActivationsHaveTheirTextbookValues(t *testing.T) {
	of := func(kind kernels.ActivationKind, alpha, z float64) float64 { return activations[kind](alpha).value(z) }
	require.InDelta(t, -0.5*(1-math.Exp(-2)), of(kernels.ELU, 0.5, -2), 1e-15)
	require.InDeltaSlice(t, []float64{3, -0.03}, []float64{of(kernels.LeakyReLU, 0.01, 3), of(kernels.LeakyReLU, 0.01, -3)}, 0)
	require.InDeltaSlice(t, []float64{math.Ln2, 800, 0}, []float64{of(kernels.Softplus, 0, 0), of(kernels.Softplus, 0, 800),
		of(kernels.Softplus, 0, -800)}, 1e-15)
	require.Equal(t, []float64{0.75, -0.5, 1}, []float64{of(kernels.Softsign, 0, 3), of(kernels.Softsign, 0, -1),
		of(kernels.Softsign, 0, math.Inf(1))})
	infinity := math.Inf(1)
	require.InDelta(t, 0.8413447460685429, of(kernels.GELU, 0, 1), 1e-15)
	require.InDelta(t, 0.7310585786300049, of(kernels.SiLU, 0, 1), 1e-15)
	for _, kind := range []kernels.ActivationKind{kernels.GELU, kernels.SiLU} {
		require.Equal(t, []float64{0, 0, infinity}, []float64{of(kind, 0, 0), of(kind, 0, -infinity), of(kind, 0, infinity)})
	}
}

func TestTheSlopeOfAnActivationIsItsDerivative(t *testing.T) {
	for kind, of := range activations {
		a := of(0.3)
		for _, z := range []float64{-3, -0.1, 0.1, 3} {
			at := a.value(z)
			if kind.SlopeNeedsSum() {
				at = z
			}
			require.InDelta(t, (a.value(z+1e-6)-a.value(z-1e-6))/2e-6, a.slope(at), 1e-8, kind)
		}
	}
}
