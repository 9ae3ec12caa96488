package train_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dsstne/engine/csr"
	"dsstne/engine/model"
	"dsstne/engine/train"
	"dsstne/internal/fault"
	_ "dsstne/kernels/cpu"
	"dsstne/tests/fixture"
	"dsstne/tests/openers"
)

const (
	items = 120
	rows  = 100
)

// opened is a trainer on block-structured data, input and target alike.
func opened(t testing.TB, definition, options string) (*train.Trainer, *model.Model) {
	t.Helper()
	m := fixture.Model(t, definition, map[string]int64{"input": items, "output": items})
	trainer, err := openers.Trainer(m, []byte(options))
	require.NoError(t, err)
	data := fixture.Blocks(t, rows, items, 4, 6, 3)
	require.NoError(t, trainer.Bind("input", data))
	require.NoError(t, trainer.Bind("output", data))
	t.Cleanup(func() {
		require.NoError(t, trainer.Close())
		require.NoError(t, m.Close())
		require.NoError(t, data.Close())
	})
	return trainer, m
}

// weights are the bits of all tensors.
func weights(m *model.Model) (bits []uint32) {
	for _, tensor := range m.Tensors() {
		for _, w := range tensor.Float32() {
			bits = append(bits, math.Float32bits(w))
		}
	}
	return bits
}

func run(t testing.TB, trainer *train.Trainer, steps uint64) train.Progress {
	t.Helper()
	p, err := trainer.Run(steps, 0)
	require.NoError(t, err)
	return p
}

func TestTrainingGivesTheSameBitsForAnyNumberOfThreads(t *testing.T) {
	for _, extra := range []string{"", `, "shared": "hidden1.weight"`, `, "temperature": 0.2`} {
		for _, optimizer := range []string{"sgd", "adam"} {
			var first []uint32
			for _, threads := range []int{1, 2, 3, 7} {
				trainer, m := opened(t, fixture.Autoencoder("softmax", extra), fmt.Sprintf(
					`{"threads": %d, "batch_size": 32, "optimizer": {"kind": %q, "learning_rate": 0.01, "weight_decay": 0.001}}`,
					threads, optimizer))
				run(t, trainer, 9)
				if first == nil {
					first = weights(m)
				}
				require.Equal(t, first, weights(m), "%s, %s, %d threads", extra, optimizer, threads)
			}
		}
	}
}

func TestARunInPiecesEqualsOneRun(t *testing.T) {
	options := `{"batch_size": 16, "optimizer": {"kind": "adam", "learning_rate": 0.01, "weight_decay": 0.001}}`
	whole, a := opened(t, fixture.Autoencoder("sigmoid", ""), options)
	run(t, whole, 20)
	pieces, b := opened(t, fixture.Autoencoder("sigmoid", ""), options)
	for _, steps := range []uint64{1, 7, 12} {
		run(t, pieces, steps)
	}
	require.Equal(t, weights(a), weights(b))
}

func TestEveryLossFalls(t *testing.T) {
	for _, loss := range []string{"softmax", "sigmoid", "scaled_marginal", "squared", "hinge"} {
		trainer, _ := opened(t, fixture.Autoencoder(loss, ""), `{"batch_size": 20, "optimizer": {"learning_rate": 0.02}}`)
		first := run(t, trainer, 5).EpochLoss
		last := run(t, trainer, 95).EpochLoss
		require.Less(t, last, 0.8*first, loss)
	}
}

func TestProgressCountsStepsExamplesAndEpochs(t *testing.T) {
	trainer, m := opened(t, fixture.Autoencoder("softmax", ""), `{"batch_size": 30}`)
	p := trainer.Progress()
	require.True(t, math.IsNaN(p.Loss) && math.IsNaN(p.EpochLoss))
	p = run(t, trainer, 6)
	require.EqualValues(t, 6, p.Step)
	require.EqualValues(t, 4, p.StepsPerEpoch)
	require.EqualValues(t, 1, p.Epoch)
	require.EqualValues(t, 60, p.Examples)
	require.EqualValues(t, 6, m.Step())
	require.False(t, p.Running)
	require.Greater(t, p.ExamplesPerSecond, 0.0)
}

func TestCancelEndsARunAndKeepsTheModelUsable(t *testing.T) {
	trainer, m := opened(t, fixture.Autoencoder("softmax", ""), `{"batch_size": 8}`)
	ended := make(chan error, 1)
	go func() {
		_, err := trainer.Run(1<<40, 0)
		ended <- err
	}()
	for trainer.Progress().Step == 0 {
		time.Sleep(time.Millisecond)
	}
	_, err := openers.Trainer(m, nil)
	require.NoError(t, err) // a second trainer may be opened meanwhile
	m.Unuse()
	trainer.Cancel()
	err = <-ended
	require.Equal(t, fault.Cancelled, fault.KindOf(err))
	require.Equal(t, uint64(m.Step()), trainer.Progress().Step)
	run(t, trainer, 1)
}

func TestARunEndsWhenItsTimeIsOver(t *testing.T) {
	trainer, _ := opened(t, fixture.Autoencoder("softmax", ""), `{"batch_size": 8}`)
	p, err := trainer.Run(0, 0.05)
	require.NoError(t, err)
	require.Greater(t, p.Step, uint64(0))
	require.GreaterOrEqual(t, p.Seconds, 0.05)
}

func TestARunWithoutALimitIsRefused(t *testing.T) {
	trainer, _ := opened(t, fixture.Autoencoder("softmax", ""), "")
	_, err := trainer.Run(0, 0)
	require.ErrorContains(t, err, "needs a limit")
	for _, seconds := range []float64{math.Inf(1), math.NaN(), -1} {
		_, err = trainer.Run(1, seconds)
		require.Equal(t, fault.InvalidArgument, fault.KindOf(err))
		require.ErrorContains(t, err, "max_seconds is")
	}
}

func TestADivergingRunNamesTensorStepAndRemedyAndKeepsFiniteWeights(t *testing.T) {
	trainer, m := opened(t, fixture.Autoencoder("squared", ""),
		`{"batch_size": 50, "optimizer": {"kind": "sgd", "learning_rate": 1e9}}`)
	_, err := trainer.Run(1000, 0)
	require.Equal(t, fault.NotFinite, fault.KindOf(err))
	require.ErrorContains(t, err, "training stopped at step")
	require.ErrorContains(t, err, "The likely cause: the learning_rate is 1e+09")
	require.Regexp(t, `of (hidden1|output)|the output layer`, err.Error())
	for _, bits := range weights(m) {
		w := float64(math.Float32frombits(bits))
		require.False(t, math.IsNaN(w) || math.IsInf(w, 0))
	}
}

func TestARunAfterADivergedOneFindsNoRowBehind(t *testing.T) {
	// Decay of 1 at a rate of 10 multiplies a row that no batch touches by -9 in each step.
	m := fixture.Model(t, fixture.Autoencoder("softmax", ""), map[string]int64{"input": items, "output": items})
	trainer, err := openers.Trainer(m, []byte(`{"batch_size": 1, "optimizer": {"kind": "sgd", "learning_rate": 10, `+
		`"weight_decay": 1}}`))
	require.NoError(t, err)
	data := fixture.Matrix(t, items, [][]int32{{3, 4}, {5, 6}})
	require.NoError(t, trainer.Bind("input", data))
	require.NoError(t, trainer.Bind("output", data))
	for range 3 {
		_, err = trainer.Run(60, 0)
		require.Equal(t, fault.NotFinite, fault.KindOf(err))
	}
	for _, bits := range weights(m) {
		w := float64(math.Float32frombits(bits))
		require.False(t, math.IsNaN(w) || math.IsInf(w, 0))
	}
}

func TestTwoTrainersAddToTheStepsOfTheirModel(t *testing.T) {
	a, m := opened(t, fixture.Autoencoder("softmax", ""), "")
	b, err := openers.Trainer(m, nil)
	require.NoError(t, err)
	data := fixture.Blocks(t, rows, items, 4, 6, 3)
	require.NoError(t, b.Bind("input", data))
	require.NoError(t, b.Bind("output", data))
	run(t, a, 5)
	run(t, b, 2)
	require.EqualValues(t, 7, m.Step())
	require.NoError(t, b.Close())
}

func TestALastBatchThatIsSmallerNeedsNoMoreThanWasPlanned(t *testing.T) {
	// With these sizes the last batch of 431 rows is cut into larger tiles than the others.
	definition := `{"layers": [{"name": "input", "kind": "input", "size": "auto"}, {"name": "hidden1", "kind":
		"hidden", "size": 256},
		{"name": "output", "kind": "output", "size": "auto"}]}`
	m := fixture.Model(t, definition, map[string]int64{"input": 1682, "output": 1682})
	trainer, err := openers.Trainer(m, []byte(`{"threads": 8}`))
	require.NoError(t, err)
	data := fixture.Blocks(t, 943, 1682, 2, 5, 1)
	require.NoError(t, trainer.Bind("input", data))
	require.NoError(t, trainer.Bind("output", data))
	run(t, trainer, 4)
	require.NoError(t, trainer.Close())
}

func TestWhileARunHasTheModelAnotherIsBusy(t *testing.T) {
	trainer, m := opened(t, fixture.Autoencoder("softmax", ""), "")
	unlock, err := m.TryWrite()
	require.NoError(t, err)
	defer unlock()
	_, err = trainer.Run(1, 0)
	require.Equal(t, fault.Busy, fault.KindOf(err))
}

func TestBindRefuses(t *testing.T) {
	m := fixture.Model(t, fixture.Autoencoder("sigmoid", ""), map[string]int64{"input": items, "output": items})
	trainer, err := openers.Trainer(m, nil)
	require.NoError(t, err)
	require.NoError(t, trainer.Bind("input", fixture.Blocks(t, rows, items, 4, 6, 1)))
	data := fixture.Valued(t, rows, items, 3, 1)
	for _, c := range []struct {
		layer, message string
		data           *csr.Matrix
	}{
		{"outptu", `did you mean "output"?`, data},
		{"hidden1", "is hidden", data},
		{"input", "has a dataset already", data},
		{"output", "the dataset has 60 columns, layer \"output\" has 120 units", fixture.Blocks(t, rows, 60, 2, 6, 1)},
		{"output", "has 50 rows, the ones bound before have 100", fixture.Blocks(t, 50, items, 4, 6, 1)},
		{"output", "rows of the dataset for layer \"output\" are empty", fixture.Matrix(t, items, make([][]int32, rows))},
		{"output", "row 0, column 5: the target is 2; this loss needs targets from 0 to 1",
			fixture.Matrix(t, items, append([][]int32{{5, 5}}, make([][]int32, rows-1)...))},
	} {
		require.ErrorContains(t, trainer.Bind(c.layer, c.data), c.message)
	}
	_, err = trainer.Run(1, 0)
	require.ErrorContains(t, err, `no dataset is bound to layer "output"`)
}

func TestABoundDatasetIsBusyUntilTheTrainerIsClosed(t *testing.T) {
	m := fixture.Model(t, fixture.Autoencoder("softmax", ""), map[string]int64{"input": items, "output": items})
	trainer, err := openers.Trainer(m, nil)
	require.NoError(t, err)
	data := fixture.Blocks(t, rows, items, 4, 6, 1)
	require.NoError(t, trainer.Bind("input", data))
	require.Equal(t, fault.Busy, fault.KindOf(data.Close()))
	require.NoError(t, trainer.Close())
	require.NoError(t, data.Close())
}

func TestThePlanIsJSONWithPartsAndOperations(t *testing.T) {
	trainer, _ := opened(t, fixture.Autoencoder("softmax", ""), "")
	text, err := trainer.Plan()
	require.NoError(t, err)
	var plan struct {
		Parts      []map[string]any
		Bytes      int64
		Operations []string
	}
	require.NoError(t, json.Unmarshal(text, &plan))
	require.NotEmpty(t, plan.Parts)
	require.NotEmpty(t, plan.Operations)
	require.Positive(t, plan.Bytes)
}

func TestOptionsAreRefusedWithTheNearestWord(t *testing.T) {
	m := fixture.Model(t, fixture.Autoencoder("softmax", ""), map[string]int64{"input": items, "output": items})
	for options, message := range map[string]string{
		`{"optimiser": {}}`:                               `did you mean "optimizer"?`,
		`{"optimizer": {"kind": "adm"}}`:                  `did you mean "adam"?`,
		`{"optimizer": {"learning_rate": 0}}`:             "optimizer.learning_rate is 0",
		`{"optimizer": {"learning_rate": -1}}`:            "optimizer.learning_rate is -1",
		`{"optimizer": {"kind": "sgd", "momentum": 0.5}}`: `optimizer.momentum has no meaning for the optimizer "sgd"`,
		`{"batch_size": 0}`:                               "batch_size is 0",
		`{"schedule": {"kind": "linear"}}`:                "schedule.steps is missing",
		`{"precision": "tensorfloat32"}`:                  "only CUDA devices have",
		`{"devices": ["cpu", "cpu"]}`:                     "names 2 devices",
		`{"schedule": {"kind": "constant", "steps": 5}}`:  `has no meaning for the schedule "constant"`,
	} {
		_, err := openers.Trainer(m, []byte(options))
		require.ErrorContains(t, err, message)
		require.Equal(t, fault.InvalidArgument, fault.KindOf(err), options)
	}
}

func TestAScheduledWeightOfALossIsThatWeightAtItsStep(t *testing.T) {
	loss := func(text string) string {
		return strings.Replace(fixture.Autoencoder("softmax", ""), `"loss": "softmax"`, `"loss": `+text, 1)
	}
	half, _ := after(t, loss(`{"weight": 0.5}`), options("cpu", optimizers["sgd"], "float32"), 1)
	for _, devices := range []string{"cpu", "cpu:1"} {
		warm, _ := after(t, loss(`{"schedule": {"warmup_steps": 2}}`), options(devices, optimizers["sgd"], "float32"), 1)
		require.Equal(t, half, warm, "the first of two steps of warm-up")
	}
	whole, _ := after(t, loss(`{}`), options("cpu", optimizers["sgd"], "float32"), 1)
	require.NotEqual(t, whole, half)
}
