package conformance

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/internal/fault"
	"dsstne/kernels"
)

// every lists the kinds that have the given words.
func every[K kernels.Kind](words []string) []K {
	list := make([]K, len(words))
	for n := range list {
		list[n] = K(n)
	}
	return list
}

// withAlpha gives kinds that have an Alpha one that is neither 0 nor 1.
func withAlpha(kinds []kernels.ActivationKind) (list []kernels.Activation) {
	for _, kind := range kinds {
		a := kernels.Activation{Kind: kind, Alpha: 0.25}
		if !a.HasAlpha() {
			a.Alpha = 0
		}
		list = append(list, a)
	}
	return list
}

var (
	activations    = withAlpha(every[kernels.ActivationKind](kernels.ActivationWords))
	optimizerKinds = every[kernels.OptimizerKind](kernels.OptimizerWords)
	fillKinds      = every[kernels.FillKind](kernels.FillWords)
	metricKinds    = every[kernels.MetricKind](kernels.MetricWords)
)

// The other tables are made from the lists; losses have numbers of their own.
func TestTheCasesHaveEveryLoss(t *testing.T) {
	var missing []string
	for n, word := range kernels.LossWords {
		found := false
		for _, loss := range losses {
			found = found || loss.Kind == kernels.LossKind(n)
		}
		if !found {
			missing = append(missing, word)
		}
	}
	require.Empty(t, missing)
	for _, act := range activations {
		found := false
		for _, loss := range losses {
			found = found || loss.Activation.Kind == act.Kind
		}
		require.True(t, found, "no output has the activation %v", act)
	}
}

// unhandled ends a switch of a test that has to know every kind.
func unhandled[K kernels.Kind](kind K) string {
	return fmt.Sprintf("this test does not know %T %s", kind, kind)
}

// unknownKind is a case whose op names a kind that does not exist, the given number.
type unknownKind struct {
	name string
	c    opCase
	kind string
}

// unknownKinds has, for each op, each of its kinds with the number n.
func unknownKinds(n int32) (list []unknownKind) {
	s, sgd, strange := newSampler(71), kernels.Optimizer{}, kernels.Optimizer{Kind: kernels.OptimizerKind(n)}
	const rows, items, units = 5, 13, 7
	add := func(name, kind string, c opCase) { list = append(list, unknownKind{name, c, kind}) }
	matrix := func(name string, rows, columns int64) *weight { return s.weight(name, rows, columns, 1, sgd) }
	batch := func() *kernels.SparseBatch { return s.batch(rows, items, "full", false) }
	step := s.step(sgd, rows, batch(), batch())
	epilogue := &kernels.Epilogue{Activation: kernels.Activation{Kind: kernels.ActivationKind(n)}}

	add("Fill", "fill", &fillCase{op: kernels.Fill{Kind: kernels.FillKind(n), Scale: 1, Rows: rows, Columns: units}})
	add("Gather", "activation", &forwardCase{
		step: step, weight: matrix("w", items, units), out: make([]float32, rows*units), epilogue: epilogue,
	})
	add("Dense", "activation", &forwardCase{
		step: step, in: s.normal(rows*items, 1), weight: matrix("w", units, items), out: make([]float32, rows*units),
		epilogue: epilogue,
	})
	add("Activate", "activation", &activateCase{
		step: step, out: s.normal(rows*units, 1), units: units, epilogue: *epilogue,
	})
	backward := func(e *kernels.Epilogue, o kernels.Optimizer) opCase {
		return &backwardCase{
			step: step, units: units, h: s.normal(rows*units, 1), dh: s.normal(rows*units, 1), epilogue: e, optimizer: o,
			bias: matrix("bias", units, 1),
		}
	}
	add("Backward", "activation", backward(epilogue, sgd))
	add("Backward", "optimizer", backward(&kernels.Epilogue{}, strange))
	add("DenseBackward", "optimizer", &denseBackwardCase{
		step: step, dz: s.normal(rows*units, 1), in: s.normal(rows*items, 1), weight: matrix("w", units, items),
		optimizer: strange,
	})
	add("Scatter", "optimizer", &scatterCase{
		step: step, dz: s.normal(rows*units, 1), weight: matrix("w", items, units), optimizer: strange,
	})
	replay := &replayCase{step: step, input: -1, weight: matrix("w", items, units), optimizer: strange}
	replay.weight.last = make([]int32, items)
	add("Replay", "optimizer", replay)
	add("Update", "optimizer", &updateCase{
		step: step, gradient: s.normal(items*units, 1), weight: matrix("w", items, units), optimizer: strange,
	})
	list = append(list, unknownOutputs(n)...)
	entries := &entriesCase{*plainOutput(losses[0], 0)}
	entries.loss.Kind = kernels.LossKind(n)
	add("OutputEntries", "loss", entries)
	add("RankingMetrics", "metric", &metricsCase{
		op: kernels.RankingMetrics{
			Metrics: []kernels.Metric{{Kind: kernels.MetricRecall, K: 3}, {Kind: kernels.MetricKind(n), K: 3}},
			Items:   items, K: 3, Target: 1,
		},
		rows: rows, batches: []*kernels.SparseBatch{batch()}, ids: [][]int32{make([]int32, rows*3)},
		totals: make([]uint64, 100),
	})
	return list
}

func unknownOutputs(n int32) []unknownKind {
	loss, optimizer := plainOutput(losses[0], 0), plainOutput(losses[0], 0)
	loss.loss.Kind, optimizer.optimizer.Kind = kernels.LossKind(n), kernels.OptimizerKind(n)
	return []unknownKind{{"OutputStep", loss, "loss"}, {"OutputStep", optimizer, "optimizer"}}
}

// refuses reports whether an op with an unknown kind ends with an error that names it.
func refuses(c unknownKind, n int32, d kernels.Device) error {
	_, err := c.c.run(d)
	want := fmt.Sprintf("%s number %d", c.kind, n)
	if fault.KindOf(err) != fault.Internal || !strings.Contains(err.Error(), want) {
		return fmt.Errorf("%s with the %s: error %v", c.name, want, err)
	}
	return nil
}

func TestAnOpWithAKindThatIsNotInTheListIsRefused(t *testing.T) {
	t.Parallel()
	beyond := int32(max(len(activations), len(kernels.LossWords), len(optimizerKinds), len(fillKinds), len(metricKinds)))
	numbers := []int32{-1, beyond}
	forEveryBackend(t, func(t *testing.T, open opener) {
		d := open(2)
		for _, n := range numbers {
			for _, c := range unknownKinds(n) {
				require.NoError(t, refuses(c, n, d))
				require.NoError(t, agree(plainOutput(losses[0], 0), d, oracle(t)), "after %s", c.name) // it works on
			}
		}
	})
	forEveryForm(t, func(t *testing.T, _ kernels.Precision, open opener) {
		for _, c := range unknownOutputs(beyond) {
			require.NoError(t, refuses(c, beyond, open(1)))
		}
	})
}

func TestAKindThatABackendTakesForAnotherIsCaught(t *testing.T) {
	require.Error(t, refuses(unknownOutputs(-1)[0], -1, deaf{oracle(t)}))
}

func TestAPrecisionThatIsNotInTheListIsRefused(t *testing.T) {
	for _, b := range kernels.Registered() {
		if devices := b.Devices(); len(devices) == 0 || devices[0].Missing != "" {
			continue
		}
		for _, p := range []kernels.Precision{kernels.AutoPrecision - 1, kernels.Precision(len(kernels.PrecisionWords))} {
			_, err := b.Open(0, kernels.Options{Precision: p})
			require.Equal(t, fault.Internal, fault.KindOf(err), b.Name())
		}
	}
}
