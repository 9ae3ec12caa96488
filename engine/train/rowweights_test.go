package train_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	reading "dsstne/engine/options"
	"dsstne/engine/train"
	"dsstne/internal/fault"
)

// weigh gives all outputs of a trainer the same weights of rows.
func weigh(t *testing.T, trainer *train.Trainer, weights []float32) {
	t.Helper()
	for _, port := range trainer.Ports {
		if port.Scores {
			require.NoError(t, trainer.Weigh(port.Name, weights))
		}
	}
}

func weightsOf(of func(row int) float64) []float32 {
	weights := make([]float32, someRows)
	for row := range weights {
		weights[row] = float32(of(row))
	}
	return weights
}

// stepOf is what a step with weights of rows adds to the weights of a network.
func stepOf(t *testing.T, definition, set string, weights []float32) []float32 {
	t.Helper()
	m := modelOf(t, definition)
	before := values(m)
	trainer := training(t, m, set)
	if weights != nil {
		weigh(t, trainer, weights)
	}
	run(t, trainer, 1)
	changes := values(m)
	for i := range changes {
		changes[i] -= before[i]
	}
	return changes
}

// The gradient of a sum of weighted losses is linear in the weights, and weights of 1 change no bit.
func TestAStepIsLinearInTheWeightsOfRows(t *testing.T) {
	some := weightsOf(func(row int) float64 { return float64(row%4) / 4 })
	rest := weightsOf(func(row int) float64 { return 1 - float64(row%4)/4 })
	ones := weightsOf(func(int) float64 { return 1 })
	for title, definition := range map[string]string{
		"deep": deep, "several": several, "stored entries": storedOnly, "tied cosine": networks["tied cosine"],
	} {
		for _, set := range []string{
			options("cpu", optimizers["sgd"], "float32"),
			by("model", options("cpu:4", optimizers["sgd"], "float32")),
			by("data", options("cpu:4", optimizers["sgd"], "float32")),
		} {
			t.Run(title+" "+set, func(t *testing.T) {
				plain := stepOf(t, definition, set, nil)
				require.Equal(t, plain, stepOf(t, definition, set, ones))
				first, second := stepOf(t, definition, set, some), stepOf(t, definition, set, rest)
				require.NotEqual(t, plain, first)
				largest := 0.0
				for _, change := range plain {
					largest = max(largest, math.Abs(float64(change)))
				}
				for i := range plain {
					require.InDelta(t, plain[i], first[i]+second[i], 1e-5*largest+1e-6)
				}
			})
		}
	}
}

func TestWeightsOfRowsMultiplyTheReportedLoss(t *testing.T) {
	set := options("cpu", optimizers["sgd"], "float32")
	plain := run(t, training(t, modelOf(t, deep), set), 1)
	trainer := training(t, modelOf(t, deep), set)
	weigh(t, trainer, weightsOf(func(int) float64 { return 0.25 }))
	require.InEpsilon(t, plain.Loss/4, run(t, trainer, 1).Loss, 1e-6)
}

func TestWeightsOfRowsGoOnWithACheckpointAndAFork(t *testing.T) {
	set := options("cpu", optimizers["adam"], "float32")
	weights, others := weightsOf(func(row int) float64 { return float64(row % 3) }), weightsOf(func(int) float64 { return 2 })
	whole := modelOf(t, several)
	trainer := training(t, whole, set)
	weigh(t, trainer, weights)
	run(t, trainer, 2)
	path := saved(t, trainer, false)
	o, err := reading.ReadTrainer([]byte(set))
	require.NoError(t, err)
	fork, err := trainer.Fork(o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = fork.Close() })
	other, err := trainer.Fork(o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = other.Close() })
	weigh(t, other, others) // which leaves those of the trainer as they are
	run(t, trainer, 3)
	run(t, fork, 3)
	require.Equal(t, values(whole), values(fork.Model))

	loaded := modelOf(t, several)
	again := training(t, loaded, set)
	weigh(t, again, weights)
	_, err = again.Resume(path, reading.ReadTrainer)
	require.NoError(t, err)
	run(t, again, 3)
	require.Equal(t, values(whole), values(loaded))

	for _, wrong := range [][]float32{nil, others} {
		trainer := training(t, modelOf(t, several), set)
		if wrong != nil {
			weigh(t, trainer, wrong)
		}
		_, err := trainer.Resume(path, reading.ReadTrainer)
		require.ErrorContains(t, err, `the rows for layer "output", or their weights, are not those`)
	}
}

func TestWeightsOfRowsAreInThePlan(t *testing.T) {
	trainer := training(t, modelOf(t, several), options("cpu", optimizers["adam"], "float32"))
	require.NoError(t, trainer.Weigh("label", weightsOf(func(int) float64 { return 3 })))
	plan := planOf(t, trainer)
	sizes := map[string]int64{}
	for _, part := range plan.Parts {
		if part.Name == "weights of rows" {
			sizes[part.Of] = part.Bytes
		}
	}
	require.Equal(t, map[string]int64{"label": 4 * someRows}, sizes)
}

func TestWeighRefuses(t *testing.T) {
	set := options("cpu", optimizers["adam"], "float32")
	trainer := training(t, modelOf(t, deep), set)
	ones := weightsOf(func(int) float64 { return 1 })
	with := func(row int, weight float64) []float32 {
		return weightsOf(func(n int) float64 {
			if n == row {
				return weight
			}
			return 1
		})
	}
	for name, c := range map[string]struct {
		layer   string
		weights []float32
		kind    fault.Kind
		message string
	}{
		"unknown layer": {"outptu", ones, fault.NotFound, `did you mean "output"?`},
		"an input":      {"input", ones, fault.InvalidArgument, `layer "input" is not an output`},
		"hidden":        {"h1", ones, fault.InvalidArgument, `layer "h1" is not an output`},
		"too few":       {"output", ones[1:], fault.InvalidData, `layer "output": there are 99 weights for 100 rows`},
		"none":          {"output", nil, fault.InvalidData, `there are 0 weights for 100 rows`},
		"negative":      {"output", with(3, -1), fault.InvalidData, `the weight of row 3 is -1; weights are finite and`},
		"not a number":  {"output", with(0, math.NaN()), fault.InvalidData, `the weight of row 0 is NaN`},
		"infinite":      {"output", with(99, math.Inf(1)), fault.InvalidData, `the weight of row 99 is +Inf`},
		"zeros":         {"output", make([]float32, someRows), fault.InvalidData, `all weights are 0; there is nothing to learn`},
	} {
		t.Run(name, func(t *testing.T) {
			err := trainer.Weigh(c.layer, c.weights)
			require.ErrorContains(t, err, c.message)
			require.Equal(t, c.kind, fault.KindOf(err))
		})
	}
	run(t, trainer, 1)
	require.ErrorContains(t, trainer.Weigh("output", ones), "the trainer has begun")
}
