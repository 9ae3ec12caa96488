package train_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/engine/csr"
	"dsstne/engine/model"
	"dsstne/engine/network"
	"dsstne/engine/train"
	"dsstne/tests/fixture"
	"dsstne/tests/openers"
)

// networks are the ways a layer can face items: every loss, tied and cosine outputs, several inputs and outputs,
// depth, and items that no number of shards divides.
var networks = map[string]string{
	"softmax":         fixture.Autoencoder("softmax", ""),
	"sigmoid":         fixture.Autoencoder("sigmoid", ""),
	"scaled_marginal": fixture.Autoencoder("scaled_marginal", ""),
	"squared":         fixture.Autoencoder("squared", ""),
	"hinge":           fixture.Autoencoder("hinge", ""),
	"tied softmax":    fixture.Autoencoder("softmax", `, "shared": "hidden1.weight"`),
	"cosine":          fixture.Autoencoder("softmax", `, "temperature": 0.5`),
	"tied cosine":     fixture.Autoencoder("sigmoid", `, "shared": "hidden1.weight", "temperature": 0.5`),
	"without biases": strings.ReplaceAll(fixture.Autoencoder("softmax", `, "bias": false`), `"tanh"`,
		`"tanh", "bias": false`),
	"deep": deep,
	"sparse units": strings.Replace(deep, `"activation": "sigmoid"`,
		`"activation": "sigmoid", "sparsity": {"mean": 0.2, "weight": 0.5}`, 1),
	"normalised": normalised,
	"normalised by row": strings.Replace(strings.Replace(normalised, `"batch_norm": {"momentum": 0.3}`, `"layer_norm": true`, 1),
		`"size": 7,`, `"size": 7, "layer_norm": {"epsilon": 0.1},`, 1),
	"several in and out": several,
	"drawn units":        drawn,
	"several in and out, normalised": strings.Replace(strings.Replace(several, `"size": 8,`, `"size": 8, "batch_norm": true,`, 1),
		`"size": 6,`, `"size": 6, "batch_norm": {"epsilon": 0.1},`, 1),
	"linear":             linear,
	"wide and deep":      wide,
	"merged":             merged,
	"margins":            margins,
	"whole rows":         wholeRows,
	"capped outputs":     cappedOutputs,
	"capped tied output": fixture.Autoencoder("softmax", `, "shared": "hidden1.weight", "delta_norm": 1e-4`),
	"shared":             shared,
	"shared, of entries": sharedEntries,
}

// shared has weights with several users, as they are and transposed: an autoencoder whose decoder has the weights of its
// encoder.
const shared = `{"layers": [
	{"name": "input", "kind": "input", "size": "auto", "scaling": "l2", "denoising": 0.3},
	{"name": "also", "kind": "input", "size": "auto"},
	{"name": "h1", "kind": "hidden", "sources": ["input"], "size": 9, "activation": "tanh"},
	{"name": "h2", "kind": "hidden", "sources": ["also"], "size": 9, "activation": "sigmoid", "shared": "h1.weight"},
	{"name": "code", "kind": "hidden", "sources": ["h1", "h2"], "size": 6, "activation": "sigmoid", "dropout": 0.2},
	{"name": "d1", "kind": "hidden", "sources": ["code"], "size": 9, "batch_norm": true, "shared": "code.weight.h1"},
	{"name": "d2", "kind": "hidden", "sources": ["d1", "code"], "size": 9, "shared":
		[{"source": "code", "weight": "code.weight.h1"}]},
	{"name": "label", "kind": "output", "sources": ["d1"], "size": 3, "temperature": 0.5},
	{"name": "late", "kind": "output", "sources": ["d2"], "size": 3, "shared": "label.weight"},
	{"name": "output", "kind": "output", "sources": ["d2", "also"], "size": "auto", "shared":
		[{"source": "d2", "weight": "h1.weight"}]}],
	"loss": [{"layer": "output", "kind": "softmax"}, {"layer": "label", "kind": "sigmoid", "weight": 0.5},
		{"layer": "late", "kind": "squared"}]}`

// sharedEntries has outputs that share weights and touch the items of entries only.
var sharedEntries = strings.NewReplacer(
	`"kind": "squared"`, `"kind": "squared", "stored_only": true`, `"kind": "softmax"`, `"kind": "sigmoid", "negatives": 2`,
	`"sources": ["d2", "also"]`, `"sources": ["d2", "d1"]`,
).Replace(shared)

// wholeRows has layers that need whole rows of their sums or of their gradients, which the caps all shorten.
const wholeRows = `{"layers": [
	{"name": "input", "kind": "input", "size": "auto"},
	{"name": "side", "kind": "input", "size": 5},
	{"name": "h1", "kind": "hidden", "sources": ["input", "side"], "size": 9, "activation": "softmax", "delta_norm": 1e-4,
		"sparsity": {"mean": 0.2, "weight": 0.01}},
	{"name": "h2", "kind": "hidden", "size": 9, "skips": ["h1"], "activation": "softmax", "batch_norm": true},
	{"name": "h3", "kind": "hidden", "sources": ["input", "h2"], "size": 8, "activation": "gelu", "layer_norm": true,
		"dropout": 0.2, "delta_norm": 1e-4, "sparsity": {"mean": 0.1, "weight": 0.01}},
	{"name": "output", "kind": "output", "sources": ["h2", "h3"], "size": "auto"}],
	"loss": "softmax"}`

// cappedOutputs has outputs that cap the gradients of rows: with and without inputs and skips, with more items than
// devices and with fewer, beside one that does not.
const cappedOutputs = `{"layers": [
	{"name": "input", "kind": "input", "size": "auto", "scaling": "l2"},
	{"name": "side", "kind": "input", "size": 5},
	{"name": "h1", "kind": "hidden", "sources": ["input", "side"], "size": 8, "activation": "tanh"},
	{"name": "h2", "kind": "hidden", "sources": ["h1"], "size": 3, "activation": "tanh"},
	{"name": "output", "kind": "output", "sources": ["h1", "h2"], "size": "auto", "delta_norm": 1e-3},
	{"name": "label", "kind": "output", "sources": ["h1", "side"], "skips": ["h2"], "size": 3, "delta_norm": 0.1,
		"activation": "sigmoid"},
	{"name": "marginal", "kind": "output", "sources": ["h2"], "size": 3, "delta_norm": 0.1, "bias": false},
	{"name": "plain", "kind": "output", "sources": ["h2"], "size": 3}],
	"loss": [{"layer": "output", "kind": "softmax"}, {"layer": "label", "kind": "squared", "weight": 0.5},
		{"layer": "marginal", "kind": "softmax", "one_target": 0.35}, {"layer": "plain", "kind": "sigmoid"}]}`

// margins has soft-maxes of which only some targets count: of cosines, and of what an input adds to.
const margins = `{"layers": [
	{"name": "input", "kind": "input", "size": "auto", "scaling": "l2"},
	{"name": "side", "kind": "input", "size": 5},
	{"name": "h1", "kind": "hidden", "sources": ["input", "side"], "size": 8, "activation": "tanh"},
	{"name": "output", "kind": "output", "sources": ["h1"], "size": "auto", "temperature": 0.2},
	{"name": "label", "kind": "output", "sources": ["h1", "side"], "size": 3}],
	"loss": [{"layer": "output", "kind": "softmax", "one_target": 0.02, "one_scale": 2, "normalize_rows": true},
		{"layer": "label", "kind": "softmax", "one_target": 0.35, "weight": 0.5}]}`

// merged has layers that add and compute with values of others.
const merged = `{"layers": [
	{"name": "input", "kind": "input", "size": "auto", "scaling": "l2"},
	{"name": "side", "kind": "input", "size": 5},
	{"name": "h1", "kind": "hidden", "sources": ["input", "side"], "size": 8, "activation": "tanh"},
	{"name": "h2", "kind": "hidden", "size": 8, "skips": ["h1"], "activation": "sigmoid", "batch_norm": true},
	{"name": "h3", "kind": "hidden", "sources": ["side"], "size": 8, "skips": ["h2", "h1"], "activation": "gelu",
		"dropout": 0.2},
	{"name": "most", "kind": "merge", "function": "maximum", "sources": ["h1", "h3"]},
	{"name": "products", "kind": "merge", "function": "dot", "sources": ["most", "h1", "h2"]},
	{"name": "cosines", "kind": "merge", "function": "cosine", "sources": ["h3", "h1", "h2", "most"]},
	{"name": "scores", "kind": "hidden", "sources": ["products", "most"], "size": 123, "activation": "linear"},
	{"name": "output", "kind": "output", "sources": ["h2", "input", "cosines"], "skips": ["scores"], "size": "auto"},
	{"name": "label", "kind": "output", "sources": [], "skips": ["cosines"], "bias": false, "size": 3}],
	"loss": [{"layer": "output", "kind": "softmax"}, {"layer": "label", "kind": "squared", "weight": 0.5}]}`

// linear has an output that the input feeds.
const linear = `{"layers": [
	{"name": "input", "kind": "input", "size": "auto", "scaling": "l2", "denoising": 0.3},
	{"name": "output", "kind": "output", "size": "auto"}], "loss": "softmax"}`

// wide has outputs that hidden layers and inputs feed, and one that several inputs do.
var wide = strings.Replace(strings.Replace(several, `"sources": ["h1", "h2"]`, `"sources": ["side", "h1", "input"]`, 1),
	`"sources": ["h1"], "size": 3`, `"sources": ["input", "side"], "size": 3`, 1)

const deep = `{"layers": [
	{"name": "input", "kind": "input", "size": "auto", "scaling": "l2", "denoising": 0.3},
	{"name": "h1", "kind": "hidden", "size": 9, "activation": "sigmoid"},
	{"name": "h2", "kind": "hidden", "size": 20, "activation": "relu", "dropout": 0.2},
	{"name": "h3", "kind": "hidden", "size": 7, "activation": "tanh"},
	{"name": "output", "kind": "output", "size": "auto"}], "loss": "softmax"}`

// drawn has a variational layer of sparse and dense sources, activations whose layers keep their sums, and alpha dropout.
const drawn = `{"layers": [
	{"name": "input", "kind": "input", "size": "auto", "scaling": "l2"},
	{"name": "h1", "kind": "hidden", "size": 9, "activation": "gelu", "batch_norm": true},
	{"name": "z", "kind": "variational", "sources": ["h1", "input"], "size": 6,
		"kl": {"weight": 0.5, "schedule": {"kind": "constant", "warmup_steps": 3}}},
	{"name": "h2", "kind": "hidden", "size": 20, "activation": "silu", "dropout": 0.2, "layer_norm": true},
	{"name": "h3", "kind": "hidden", "size": 7, "activation": "selu", "alpha_dropout": 0.1},
	{"name": "output", "kind": "output", "size": "auto"}], "loss": "softmax"}`

// normalised has batch normalisation together with everything that is beside it in a layer.
var normalised = strings.NewReplacer(
	`"size": 9, "activation": "sigmoid"`,
	`"size": 9, "activation": "sigmoid", "batch_norm": {"epsilon": 0.01}, "sparsity": {"mean": 0.2, "weight": 0.5}`,
	`"size": 20,`, `"size": 20, "batch_norm": {"momentum": 0.3}, "bias": false,`,
).Replace(deep)

// several has layers with two sources, of which some are sparse and some dense, in both orders, and two outputs, one
// with two sources and one whose layer feeds a hidden one too.
const several = `{"layers": [
	{"name": "input", "kind": "input", "size": "auto", "scaling": "l2"},
	{"name": "side", "kind": "input", "size": 5},
	{"name": "h1", "kind": "hidden", "sources": ["input", "side"], "size": 8, "activation": "tanh"},
	{"name": "h2", "kind": "hidden", "sources": ["h1", "side"], "size": 6, "activation": "sigmoid", "dropout": 0.1},
	{"name": "output", "kind": "output", "sources": ["h1", "h2"], "size": "auto"},
	{"name": "label", "kind": "output", "sources": ["h1"], "size": 3}],
	"loss": [{"layer": "output", "kind": "softmax"}, {"layer": "label", "kind": "sigmoid", "weight": 0.5}]}`

// data are the matrices of a network's layers.
type data map[string]*csr.Matrix

const (
	manyItems = 123 // no number of shards divides it
	someRows  = 100
)

func dataOf(t testing.TB, n *network.Network) data {
	wide := fixture.Blocks(t, someRows, manyItems, 4, 6, 3)
	d := data{}
	for i := range n.Layers {
		switch l := &n.Layers[i]; {
		case !l.Reads() && !l.Scores():
		case l.Size == manyItems:
			d[l.Name] = wide
		default:
			d[l.Name] = fixture.Blocks(t, someRows, int(l.Size), 1, 1, uint64(i))
		}
	}
	return d
}

func modelOf(t testing.TB, definition string) *model.Model {
	return fixture.Model(t, definition, map[string]int64{"input": manyItems, "output": manyItems})
}

// training opens a trainer with all its data bound.
func training(t testing.TB, m *model.Model, options string) *train.Trainer {
	t.Helper()
	trainer, err := openers.Trainer(m, []byte(options))
	require.NoError(t, err)
	for name, matrix := range dataOf(t, m.Network()) {
		require.NoError(t, trainer.Bind(name, matrix))
	}
	t.Cleanup(func() { _ = trainer.Close() })
	return trainer
}

// after trains a fresh model and returns all its weights, and the progress.
func after(t testing.TB, definition, options string, steps uint64) ([]float32, train.Progress) {
	t.Helper()
	m := modelOf(t, definition)
	p := run(t, training(t, m, options), steps)
	done, err := m.TryRead() // after which weights that were on devices are in the model's memory
	require.NoError(t, err)
	defer done()
	return values(m), p
}

func values(m *model.Model) (all []float32) {
	for _, tensor := range m.Tensors() {
		all = append(all, tensor.Float32()...)
	}
	return all
}

var optimizers = map[string]string{
	"sgd":      `{"kind": "sgd", "learning_rate": 0.1}`,
	"momentum": `{"kind": "momentum", "learning_rate": 0.1, "weight_decay": 0.01}`,
	"nesterov": `{"kind": "nesterov", "learning_rate": 0.1}`,
	"rmsprop":  `{"kind": "rmsprop", "learning_rate": 0.1}`,
	"adam":     `{"kind": "adam", "learning_rate": 0.1, "weight_decay": 0.01}`,
	"adamw":    `{"kind": "adamw", "learning_rate": 0.1, "weight_decay": 0.01}`,
	"adagrad":  `{"kind": "adagrad", "learning_rate": 0.1}`,
	"adadelta": `{"kind": "adadelta", "learning_rate": 0.1, "l1": 0.01}`,
}

func options(devices, optimizer, precision string) string {
	return fmt.Sprintf(`{"devices": %q, "batch_size": 50, "threads": 3, "optimizer": %s, "precision": %q}`, devices,
		optimizer, precision)
}

// ways are how several devices train.
var ways = []string{"model", "data"}

// by is options with the way in which several devices train.
func by(way, options string) string {
	return strings.Replace(options, "{", fmt.Sprintf(`{"parallel": %q, `, way), 1)
}

// tried reports whether a test tries combination n of count for a pair, such as a network and an optimizer. With
// DSSTNE_TEST_WHOLE, which `make test-home` sets, it tries all of them. Otherwise it tries one, which changes from pair to pair.
func tried(n, count, first, second int) bool {
	return n == (3*first+5*second)%count || os.Getenv("DSSTNE_TEST_WHOLE") != ""
}

func TestOneStepOnSeveralDevicesIsThatOfOneButForTheOrderOfSums(t *testing.T) {
	type split struct{ precision, devices, way string }
	var splits []split
	for _, precision := range []string{"float32", "bfloat16"} {
		for _, devices := range []string{"cpu:2", "cpu:3", "cpu:4", "cpu:8"} {
			for _, way := range ways {
				splits = append(splits, split{precision, devices, way})
			}
		}
	}
	for i, name := range slices.Sorted(maps.Keys(networks)) {
		definition := networks[name]
		m := modelOf(t, definition)
		before := values(m)
		gradients, off := map[string][]float64{}, map[string]float64{}
		for _, precision := range []string{"float32", "bfloat16"} {
			plain, _ := after(t, definition, options("cpu", optimizers["sgd"], precision), 1)
			gradients[precision] = gradientsOf(before, plain)
			off[precision] = gradientError(gradients[precision], precision == "bfloat16")
		}
		for j, kind := range slices.Sorted(maps.Keys(optimizers)) {
			for n, s := range splits {
				if !tried(n, len(splits), i, j) {
					continue
				}
				one, _ := after(t, definition, options("cpu", optimizers[kind], s.precision), 1)
				many, _ := after(t, definition, by(s.way, options(s.devices, optimizers[kind], s.precision)), 1)
				for w := range one {
					bound := stepError(kind, gradients[s.precision][w], off[s.precision], float64(before[w]))
					require.InDelta(t, one[w], many[w], bound, "%s, %s, %+v: weight %d", name, kind, s, w)
				}
			}
		}
	}
}

func TestOneVirtualDeviceIsTheCPU(t *testing.T) {
	for name, definition := range networks {
		one, p := after(t, definition, options("cpu", optimizers["adam"], "float32"), 10)
		same, q := after(t, definition, options("cpu:1", optimizers["adam"], "float32"), 10)
		require.Equal(t, one, same, name)
		require.Equal(t, p.EpochLoss, q.EpochLoss)
	}
}

func TestTheLossAfterTenEpochsIsThatOfOneDevice(t *testing.T) {
	for i, name := range slices.Sorted(maps.Keys(networks)) {
		definition := networks[name]
		for kind, tolerance := range map[string]float64{"float32": 1e-4, "bfloat16": 5e-3} {
			const steps = 10 * someRows / 20
			set := `{"devices": %q, "batch_size": 20, "optimizer": {"kind": "adam", "learning_rate": 0.01, "weight_decay": ` +
				`0.0001}, "precision": %q}`
			_, one := after(t, definition, fmt.Sprintf(set, "cpu", kind), steps)
			for n, devices := range []string{"cpu:2", "cpu:3", "cpu:4", "cpu:8"} {
				for w, way := range ways {
					if !tried(2*n+w, 8, i, 0) {
						continue
					}
					_, many := after(t, definition, by(way, fmt.Sprintf(set, devices, kind)), steps)
					require.InEpsilon(t, one.EpochLoss, many.EpochLoss, tolerance, "%s, %s, %s, %s", name, kind, devices, way)
				}
			}
		}
	}
}

func TestSeveralDevicesGiveTheSameBitsForAnyNumberOfThreads(t *testing.T) {
	for name, definition := range networks {
		for _, way := range ways {
			var first []float32
			for _, threads := range []int{1, 2, 7, 16} {
				set := fmt.Sprintf(`{"devices": "cpu:3", "batch_size": 32, "threads": %d, "optimizer": {"kind": "adam", `+
					`"learning_rate": 0.01}}`, threads)
				now, _ := after(t, definition, by(way, set), 9)
				if first == nil {
					first = now
				}
				require.Equal(t, first, now, "%s, %s, %d threads", name, way, threads)
			}
		}
	}
}

func TestShardsWithoutItemsDoNoHarm(t *testing.T) {
	// 5 columns and 3 labels over 8 devices: most have none. Of 2 items over 64 devices 62 have none.
	tiny := strings.ReplaceAll(fixture.Autoencoder("softmax", ""), `"auto"`, "2")
	var losses []float64
	for n, devices := range []string{"cpu", "cpu:8", "cpu:64", "cpu:8"} { // the last one: devices without rows
		m := fixture.Model(t, tiny, nil)
		trainer, err := openers.Trainer(m, []byte(by([]string{"model", "model", "model", "data"}[n],
			fmt.Sprintf(`{"devices": %q, "batch_size": 4}`, devices))))
		require.NoError(t, err)
		matrix := fixture.Matrix(t, 2, [][]int32{{0}, {0, 1}, {1}, {}, {0}})
		require.NoError(t, trainer.Bind("input", matrix))
		require.NoError(t, trainer.Bind("output", matrix))
		losses = append(losses, run(t, trainer, 20).EpochLoss)
		require.NoError(t, trainer.Close())
	}
	require.InEpsilon(t, losses[0], losses[1], 1e-4)
	require.InEpsilon(t, losses[0], losses[2], 1e-4)
	require.InEpsilon(t, losses[0], losses[3], 1e-4)
}

func TestARunInPiecesOnSeveralDevicesEqualsOneRun(t *testing.T) {
	for _, way := range ways {
		set := by(way, options("cpu:3", optimizers["adam"], "float32"))
		whole, _ := after(t, deep, set, 12)
		m := modelOf(t, deep)
		trainer := training(t, m, set)
		for _, steps := range []uint64{1, 4, 7} {
			run(t, trainer, steps)
		}
		require.Equal(t, whole, values(m))
	}
}

func TestTheWayThatExchangesFewerNumbersIsChosen(t *testing.T) {
	plan := func(set string) string {
		text, err := training(t, modelOf(t, networks["softmax"]), set).Plan()
		require.NoError(t, err)
		var plan struct {
			Parallel   string
			Operations []string
		}
		require.NoError(t, json.Unmarshal(text, &plan))
		exchanged := strings.Contains(strings.Join(plan.Operations, " "), "AllReduce the gradients of all weights")
		require.Equal(t, plan.Parallel == "data", exchanged)
		return plan.Parallel
	}
	// 123 items and 16 units have 4,075 weights; sums of 100 rows on N devices have 100 (2 x 16 + N) numbers.
	require.Equal(t, "model", plan(`{"devices": "cpu:2", "batch_size": 100}`))
	require.Equal(t, "model", plan(`{"devices": "cpu:8", "batch_size": 100}`))
	require.Equal(t, "data", plan(`{"devices": "cpu:9", "batch_size": 100}`))
	require.Equal(t, "model", plan(`{"devices": "cpu:9", "batch_size": 99}`))
	require.Equal(t, "model", plan(`{"devices": "cpu:9", "batch_size": 100, "parallel": "model"}`))
	require.Equal(t, "data", plan(`{"devices": "cpu:2", "batch_size": 5, "parallel": "data"}`))
	require.Empty(t, plan(`{"devices": "cpu", "batch_size": 50, "parallel": "data"}`), "one device")
}

func TestWhatOthersChangeBetweenRunsReachesEveryDevice(t *testing.T) {
	m := modelOf(t, deep)
	trainer := training(t, m, options("cpu:4", optimizers["sgd"], "float32"))
	run(t, trainer, 2)
	other := training(t, m, options("cpu:2", optimizers["sgd"], "float32"))
	run(t, other, 2) // changes weights of which the first trainer has copies
	p := run(t, trainer, 1)

	fresh := modelOf(t, deep)
	one := training(t, fresh, options("cpu", optimizers["sgd"], "float32"))
	run(t, one, 2)
	two := training(t, fresh, options("cpu", optimizers["sgd"], "float32"))
	run(t, two, 2)
	q := run(t, one, 1)
	require.InEpsilon(t, q.Loss, p.Loss, 1e-5)
	require.InDeltaSlice(t, values(fresh), values(m), 1e-5)
}
