package train_test

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/engine/csr"
	"dsstne/internal/fault"
	"dsstne/tests/fixture"
	"dsstne/tests/openers"
)

// oneNormed has one layer with batch normalisation.
var oneNormed = strings.NewReplacer(
	`"activation": "tanh"`, `"activation": "tanh", "batch_norm": {"momentum": 0.25}`,
	`"scaling": "l2", "denoising": 0.3`, `"scaling": "none"`,
).Replace(fixture.Autoencoder("sigmoid", ""))

func TestRunningMomentsMoveTowardsThoseOfTheBatch(t *testing.T) {
	for _, devices := range []string{"cpu", "cpu:3"} {
		for _, way := range ways {
			m := modelOf(t, oneNormed)
			before := tensorsOf(t, m)
			set := strings.Replace(by(way, options(devices, optimizers["sgd"], "float32")), `"batch_size": 50`,
				`"batch_size": 100`, 1)
			run(t, training(t, m, set), 1)
			after := tensorsOf(t, m)
			x, w := dataOf(t, m.Network())["input"], before["hidden1.weight"]
			units, row := len(w)/manyItems, csr.Entries{}
			for k := range units {
				var z [someRows]float64
				mean, variance := 0.0, 0.0
				for u := range someRows {
					row.Reset()
					require.NoError(t, x.Read([]int64{int64(u)}, &row))
					for i, item := range row.Indices {
						z[u] += float64(row.Values[i]) * float64(w[int(item)*units+k])
					}
					mean += z[u] / someRows
				}
				for _, z := range z {
					variance += (z - mean) * (z - mean) / someRows
				}
				require.InDelta(t, 0.25*mean, after["hidden1.running_mean"][k], 1e-6)
				require.InDelta(t, 0.75+0.25*variance, after["hidden1.running_variance"][k], 1e-6)
			}
		}
	}
}

func TestALockedLayerKeepsItsRunningMoments(t *testing.T) {
	for _, names := range [][]string{{"h1"}, {"h1.running_mean"}, {"h1.running_variance", "h1.scale"}} {
		for _, devices := range []string{"cpu", "cpu:2"} {
			m := modelOf(t, normalised)
			run(t, training(t, m, options(devices, optimizers["adam"], "float32")), 3)
			before := tensorsOf(t, m)
			run(t, training(t, m, locking(options(devices, optimizers["adam"], "float32"), names...)), 3)
			after := tensorsOf(t, m)
			for _, name := range []string{"h1.running_mean", "h1.running_variance"} {
				require.Equal(t, before[name], after[name], names)
			}
			for _, name := range []string{"h2.running_mean", "h2.running_variance", "h2.scale", "h3.weight"} {
				require.NotEqual(t, before[name], after[name], names)
			}
			for _, name := range []string{"h1.weight", "h1.bias"} {
				require.Equal(t, names[0] == "h1", equal(before[name], after[name]), "%q: %s", names, name)
			}
		}
	}
	// Running moments alone are nothing to train.
	_, err := openers.Trainer(modelOf(t, oneNormed), []byte(locking(options("cpu", optimizers["sgd"], "float32"),
		"hidden1.weight", "hidden1.bias", "hidden1.scale", "output")))
	require.Equal(t, fault.InvalidArgument, fault.KindOf(err))
}

func equal(a, b []float32) bool {
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// A batch of one row has the variance 0, so that its sums are all means.
func TestABatchOfOneRowIsItsMean(t *testing.T) {
	m := modelOf(t, oneNormed)
	before := tensorsOf(t, m)
	set := strings.Replace(options("cpu", optimizers["sgd"], "float32"), `"batch_size": 50`, `"batch_size": 1`, 1)
	p := run(t, training(t, m, set), 1)
	require.False(t, math.IsNaN(p.Loss))
	after := tensorsOf(t, m)
	require.Equal(t, before["hidden1.weight"], after["hidden1.weight"]) // nothing depends on it
	require.Equal(t, before["hidden1.scale"], after["hidden1.scale"])
	for _, v := range after["hidden1.running_variance"] {
		require.Equal(t, float32(0.75), v)
	}
}

func TestSumsBeyondFloat32AreAnError(t *testing.T) {
	for _, devices := range []string{"cpu", "cpu:2"} {
		for _, way := range ways {
			m := modelOf(t, oneNormed)
			tensor, err := m.Tensor("hidden1.weight")
			require.NoError(t, err)
			for i := range tensor.Float32() {
				tensor.Float32()[i] *= 1e25
			}
			_, err = training(t, m, by(way, options(devices, optimizers["sgd"], "float32"))).Run(2, 0)
			require.Equal(t, fault.NotFinite, fault.KindOf(err))
			require.ErrorContains(t, err, "the variance over the batch of hidden1")
			for name, values := range tensorsOf(t, m) {
				for _, x := range values {
					require.False(t, math.IsNaN(float64(x)) || math.IsInf(float64(x), 0), name)
				}
			}
		}
	}
}

func TestThePlanHasThePassesOfANormalisation(t *testing.T) {
	plan := planOf(t, training(t, modelOf(t, oneNormed), by("data", options("cpu:2", optimizers["adam"], "float32"))))
	at := 0
	for _, operation := range []string{
		"UnitMoments hidden1", "AllGather moments of all ranks of hidden1", "CombineMoments hidden1 of 2",
		"Activate hidden1, normalised, epsilon 1e-05, tanh", "NormSums hidden1",
		"AllGather sums of gradients of all ranks of hidden1", "NormBackward hidden1", "MoveMoments hidden1, momentum 0.25",
	} {
		for at < len(plan.Operations) && !strings.Contains(plan.Operations[at], operation) {
			at++
		}
		require.Less(t, at, len(plan.Operations), operation)
	}
}
