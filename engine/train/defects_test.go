package train_test

import (
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dsstne/engine/csr"
	"dsstne/engine/model"
	"dsstne/engine/predict"
	"dsstne/internal/fault"
	"dsstne/tests/fixture"
	"dsstne/tests/openers"
)

// What DSSTNE did wrong on several GPUs, each as a claim of what must hold here.

// compared trains on one device and on several, and returns the weights of both.
func compared(t *testing.T, definition, devices, rest string, matrices data, steps uint64) (one, many []float32) {
	t.Helper()
	for _, where := range []string{"cpu", devices} {
		m := modelOf(t, definition)
		trainer, err := openers.Trainer(m, []byte(`{"devices": "`+where+`"`+rest+`}`))
		require.NoError(t, err)
		for name, matrix := range matrices {
			require.NoError(t, trainer.Bind(name, matrix))
		}
		run(t, trainer, steps)
		require.NoError(t, trainer.Close())
		one, many = many, values(m)
	}
	return one, many
}

func tensor(t *testing.T, m *model.Model, name string) []float32 {
	found, err := m.Tensor(name)
	require.NoError(t, err)
	return found.Float32()
}

func TestWeightsOfANarrowInputLearnOnSeveralDevices(t *testing.T) {
	// An input that is narrower than the layer it feeds: such weights never got gradients.
	narrow := strings.Replace(fixture.Autoencoder("softmax", ""), `"size": 16`, `"size": 300`, 1)
	narrow = strings.Replace(narrow, `"name": "input", "kind": "input", "size": "auto"`,
		`"name": "input", "kind": "input", "size": 10`, 1)
	m := fixture.Model(t, narrow, map[string]int64{"output": manyItems})
	before := slices.Clone(tensor(t, m, "hidden1.weight"))
	trainer, err := openers.Trainer(m, []byte(`{"devices": "cpu:4", "optimizer": {"kind": "sgd", "learning_rate": 0.1}}`))
	require.NoError(t, err)
	require.NoError(t, trainer.Bind("input", fixture.Blocks(t, someRows, 10, 1, 3, 1)))
	require.NoError(t, trainer.Bind("output", fixture.Blocks(t, someRows, manyItems, 4, 6, 3)))
	run(t, trainer, 3)
	for i, w := range tensor(t, m, "hidden1.weight") {
		require.NotEqual(t, before[i], w, "weight %d", i)
	}
	require.NoError(t, trainer.Close())
}

func TestASecondSparseSourceIsAddedOnSeveralDevices(t *testing.T) {
	// The second source overwrote the first.
	two := `{"layers": [{"name": "input", "kind": "input", "size": "auto"}, {"name": "other", "kind": "input",
		"size": 123},
		{"name": "hidden1", "kind": "hidden", "sources": ["input", "other"], "size": 16, "activation": "tanh"},
		{"name": "output", "kind": "output", "size": "auto"}], "loss": "softmax"}`
	first, second := fixture.Blocks(t, someRows, manyItems, 4, 6, 3), fixture.Blocks(t, someRows, manyItems, 4, 6, 5)
	one, many := compared(t, two, "cpu:3", `, "optimizer": {"kind": "sgd", "learning_rate": 0.1}`,
		data{"input": first, "other": second, "output": first}, 2)
	require.InDeltaSlice(t, one, many, 1e-6)
}

func TestRowsWithoutEntriesInAShardAddNothingStale(t *testing.T) {
	// The sums of rows whose entries are all in other shards were those of an earlier batch. Here each row is in one
	// shard, and the rows of one batch are in another shard than those of the next.
	lists := make([][]int32, someRows)
	for u := range lists {
		block := int32(u/10%4) * 31
		lists[u] = []int32{block + int32(u%7), block + 10 + int32(u%5)}
		if u%10 == 9 {
			lists[u] = nil
		}
	}
	matrix := fixture.Matrix(t, manyItems, lists)
	one, many := compared(t, fixture.Autoencoder("sigmoid", ""), "cpu:4",
		`, "shuffle": false, "batch_size": 10, "optimizer": {"kind": "sgd", "learning_rate": 0.1}`,
		data{"input": matrix, "output": matrix}, 20)
	require.InDeltaSlice(t, one, many, 1e-5)
}

func TestSoftMaxIsOverTheItemsOfAllDevices(t *testing.T) {
	// Each device normalised its own items. With weights of 0 the loss of a target is ln(items).
	zero := strings.Replace(fixture.Autoencoder("softmax", ""), `"size": "auto"}]`, `"size": "auto",
		"initializer": {"kind": "constant", "scale": 0}}]`, 1)
	matrix := fixture.Matrix(t, manyItems, [][]int32{{3}, {50}, {122}})
	m := modelOf(t, zero)
	trainer, err := openers.Trainer(m, []byte(`{"devices": "cpu:8"}`))
	require.NoError(t, err)
	require.NoError(t, trainer.Bind("input", matrix))
	require.NoError(t, trainer.Bind("output", matrix))
	require.InEpsilon(t, math.Log(manyItems), run(t, trainer, 1).Loss, 1e-6)
	require.NoError(t, trainer.Close())
}

func TestOptimizersHaveTheSameNumbersOnAllDevices(t *testing.T) {
	// The decay was not sent to the others. Rows that no batch touches only decay and shrink: the same bits wherever they are.
	matrix := fixture.Matrix(t, manyItems, [][]int32{{3, 5}})
	for _, optimizer := range []string{"sgd", "momentum", "rmsprop", "adam", "adamw", "adagrad", "adadelta"} {
		one, many := compared(t, fixture.Autoencoder("softmax", ""), "cpu:4",
			`, "optimizer": {"kind": "`+optimizer+`", "learning_rate": 0.1, "weight_decay": 0.3, "l1": 0.01}`, data{"input": matrix,
				"output": matrix}, 7)
		for row := 10; row < manyItems; row++ {
			require.Equal(t, one[16*row:16*(row+1)], many[16*row:16*(row+1)], "%s, row %d of the input's weight", optimizer, row)
		}
	}
}

func TestTiedWeightsGetBothGradientsOnSeveralDevices(t *testing.T) {
	matrix := fixture.Blocks(t, someRows, manyItems, 4, 6, 3)
	one, many := compared(t, fixture.Autoencoder("softmax", `, "shared": "hidden1.weight"`), "cpu:3",
		`, "optimizer": {"kind": "sgd", "learning_rate": 0.1}`, data{"input": matrix, "output": matrix}, 3)
	require.InDeltaSlice(t, one, many, 1e-5)
}

func TestTensorsAreWholeWhoeverTrainsThem(t *testing.T) {
	// Reading and writing weights and biases did nothing, and files told the width of one device's part.
	m := modelOf(t, fixture.Autoencoder("softmax", ""))
	trainer := training(t, m, options("cpu:4", optimizers["adam"], "float32"))
	run(t, trainer, 3)
	for _, found := range m.Tensors() {
		bytes := make([]byte, 4*found.Elements())
		require.NoError(t, m.GetTensor(found.Name, bytes))
		require.NoError(t, m.SetTensor(found.Name, make([]byte, len(bytes))))
		require.Zero(t, slices.Max(found.Float32()))
		require.NoError(t, m.SetTensor(found.Name, bytes))
	}
	run(t, trainer, 1)
	path := filepath.Join(t.TempDir(), "m.dsstne")
	require.NoError(t, m.Save(path, nil))
	loaded, err := model.Load(path, 1)
	require.NoError(t, err)
	require.Equal(t, values(m), values(loaded))
	for i, found := range m.Tensors() {
		require.Equal(t, found.Shape, loaded.Tensors()[i].Shape)
	}
	for _, devices := range []string{"cpu", "cpu:2", "cpu:8"} { // and goes on with any number of devices
		run(t, training(t, loaded, options(devices, optimizers["adam"], "float32")), 1)
	}
}

func TestDenoisingLeavesBiasesAloneOnAnyNumberOfDevices(t *testing.T) {
	// The bias was scaled on one device and not on several.
	biased := strings.Replace(fixture.Autoencoder("softmax", ""), `"dropout": 0.1`, `"initializer": {"bias": 1.5}`, 1)
	matrix := fixture.Blocks(t, someRows, manyItems, 4, 6, 3)
	one, many := compared(t, biased, "cpu:4", `, "optimizer": {"kind": "sgd", "learning_rate": 0.1}`,
		data{"input": matrix, "output": matrix}, 3)
	require.InDeltaSlice(t, one, many, 1e-6)
}

func TestADivergingRunOnSeveralDevicesKeepsFiniteWeightsAndCanGoOn(t *testing.T) {
	for _, definition := range []string{fixture.Autoencoder("squared", ""), deep, fixture.Autoencoder("squared",
		`, "shared": "hidden1.weight"`)} {
		m := modelOf(t, definition)
		trainer := training(t, m, `{"devices": "cpu:4", "batch_size": 50, "optimizer": {"kind": "sgd", "learning_rate": `+
			`1e9, "weight_decay": 1}}`)
		for range 3 {
			_, err := trainer.Run(1000, 0)
			require.Equal(t, fault.NotFinite, fault.KindOf(err))
			require.ErrorContains(t, err, "training stopped at step")
			for _, w := range values(m) {
				require.False(t, math.IsNaN(float64(w)) || math.IsInf(float64(w), 0))
			}
		}
	}
}

func TestCancelEndsARunOnSeveralDevicesBetweenSteps(t *testing.T) {
	m := modelOf(t, deep)
	trainer := training(t, m, options("cpu:4", optimizers["adam"], "float32"))
	ended := make(chan error, 1)
	go func() {
		_, err := trainer.Run(1<<40, 0)
		ended <- err
	}()
	for trainer.Progress().Step == 0 {
		time.Sleep(time.Millisecond)
	}
	trainer.Cancel()
	require.Equal(t, fault.Cancelled, fault.KindOf(<-ended))
	steps := trainer.Progress().Step
	same, _ := after(t, deep, options("cpu:4", optimizers["adam"], "float32"), steps)
	require.Equal(t, same, values(m), "the model is that of %d whole steps", steps)
	run(t, trainer, 1)
}

func TestDataThatAreChangedUnderOurFeetEndARunOnSeveralDevices(t *testing.T) {
	indices, offsets := make([]int32, 40), []int32{0}
	for u := range 20 {
		indices[2*u], indices[2*u+1] = int32(u), int32(u+50)
		offsets = append(offsets, int32(2*u+2))
	}
	matrix, err := csr.New(csr.Parts{Columns: manyItems, Offsets32: offsets, Indices32: indices})
	require.NoError(t, err)
	require.NoError(t, matrix.Validate(csr.ValidateOptions{Threads: 1}))
	m := modelOf(t, fixture.Autoencoder("softmax", ""))
	trainer, err := openers.Trainer(m, []byte(`{"devices": "cpu:4", "batch_size": 20}`))
	require.NoError(t, err)
	require.NoError(t, trainer.Bind("input", matrix))
	require.NoError(t, trainer.Bind("output", matrix))
	run(t, trainer, 2)
	indices[7] = 1 << 20
	_, err = trainer.Run(1, 0)
	require.Equal(t, fault.InvalidData, fault.KindOf(err))
	indices[7] = 3
	run(t, trainer, 2)
	require.NoError(t, trainer.Close())
}

func TestAModelTrainedOnSeveralDevicesPredictsAlikeOnOne(t *testing.T) {
	m := modelOf(t, fixture.Autoencoder("softmax", ""))
	matrix := dataOf(t, m.Network())["input"]
	run(t, training(t, m, options("cpu:3", optimizers["adam"], "float32")), 10)
	var first []int32
	for _, devices := range []string{"cpu", "cpu:5"} {
		p, err := openers.Predictor(m, []byte(`{"devices": "`+devices+`"}`))
		require.NoError(t, err)
		require.NoError(t, p.Bind("input", matrix))
		ids := make([]int32, 10*someRows)
		require.NoError(t, p.Recommend("", nil, matrix, predict.Filter{}, 10, ids, make([]float32, len(ids))))
		if first == nil {
			first = ids
		}
		require.Equal(t, first, ids)
		require.NoError(t, p.Close())
	}
}
