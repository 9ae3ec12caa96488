package train_test

import (
	"fmt"
	"math"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/engine/model"
)

// limited gives layers of some kinds a weight norm.
func limited(definition, kinds string, norm float64) string {
	return regexp.MustCompile(`"kind": "(`+kinds+`)"`).ReplaceAllString(definition,
		fmt.Sprintf(`"kind": "$1", "weight_norm": %g`, norm))
}

// vectorsOf calls do with the weights of each unit from each source, as places in the weights of a model.
func vectorsOf(t *testing.T, m *model.Model, do func(name string, places []int)) {
	t.Helper()
	list, err := m.Network().Tensors()
	require.NoError(t, err)
	first := 0
	for _, tensor := range list {
		rows, columns := int(tensor.Rows), int(tensor.Columns)
		at := func(vector, element int) int { return first + vector*columns + element }
		vectors, elements := rows, columns
		if tensor.Source >= 0 && m.Network().Layers[tensor.Source].Reads() {
			at = func(vector, element int) int { return first + element*columns + vector }
			vectors, elements = columns, rows
		}
		for vector := range vectors {
			var places []int
			for element := range elements {
				places = append(places, at(vector, element))
			}
			if tensor.Source >= 0 {
				do(tensor.Name, places)
			}
		}
		first += rows * columns
	}
}

func normOf(all []float32, places []int) float64 {
	squares := 0.0
	for _, place := range places {
		squares += float64(all[place]) * float64(all[place])
	}
	return math.Sqrt(squares)
}

// cappedNetworks are networks with what a cap works on: weights of inputs, of hidden layers and of outputs.
var cappedNetworks = map[string]struct {
	definition, kinds string
	norm              float64
}{
	"deep": {deep, "hidden|output", 0.8}, "several": {several, "hidden|output", 0.8}, "wide": {strings.Replace(several, `["h1", "h2"]`, `["side", "h1", "h2", "input"]`, 1), "hidden|output", 0.8},
	"linear": {linear, "output", 1}, "stored entries": {storedOnly, "hidden|output", 0.9},
	"tied": {networks["tied softmax"], "hidden", 1.3}, "tied cosine": {networks["tied cosine"], "hidden", 1.3},
	"cosine": {networks["cosine"], "hidden|output", 0.9}, "normalised": {normalised, "hidden|output", 0.8},
	"negatives": {strings.Replace(storedOnly, `"stored_only": true`, `"negatives": 3`, 1), "hidden|output", 0.9},
}

// cappedStep compares a step of a network with a weight norm to one without, whose vectors are then capped.
func cappedStep(t *testing.T, name string, one, set string) {
	t.Helper()
	c := cappedNetworks[name]
	want, _ := after(t, c.definition, one, 1)
	got, _ := after(t, limited(c.definition, c.kinds, c.norm), set, 1)
	long, short, weights := 0, 0, map[string]bool{}
	vectorsOf(t, modelOf(t, c.definition), func(weight string, places []int) {
		norm := normOf(want, places)
		if norm <= c.norm {
			short++
			return
		}
		long++
		weights[weight] = true
		for _, place := range places {
			want[place] = float32(float64(want[place]) * (c.norm / norm))
		}
	})
	require.NotZero(t, long, "of %d vectors", short)
	require.NotZero(t, short, "of %d vectors", long)
	t.Logf("%s: %d of %d vectors are too long, in %d weights", name, long, long+short, len(weights))
	for i := range want {
		require.InDelta(t, want[i], got[i], 2e-5, "%s: weight %d", set, i)
	}
}

func TestAStepWithAWeightNormIsOneWithoutWhoseVectorsAreCapped(t *testing.T) {
	for name := range cappedNetworks {
		t.Run(name, func(t *testing.T) {
			one := options("cpu", optimizers["sgd"], "float32")
			cappedStep(t, name, one, one)
			for _, way := range ways {
				for _, devices := range []string{"cpu:2", "cpu:4", "cpu:8"} {
					cappedStep(t, name, one, by(way, options(devices, optimizers["sgd"], "float32")))
				}
			}
		})
	}
}

func TestNoVectorIsLongerThanTheWeightNormAfterSomeSteps(t *testing.T) {
	definition := limited(several, "hidden|output", 0.5)
	for kind, optimizer := range optimizers {
		for _, devices := range []string{"cpu", "cpu:3"} {
			for _, way := range ways {
				all, _ := after(t, definition, by(way, options(devices, optimizer, "bfloat16")), 7)
				longest := 0.0
				vectorsOf(t, modelOf(t, definition), func(_ string, places []int) {
					longest = max(longest, normOf(all, places))
				})
				require.LessOrEqual(t, longest, 0.5*(1+1e-6), "%s on %s", kind, devices)
				require.Greater(t, longest, 0.45, "%s on %s", kind, devices) // L1 has none at the limit
			}
		}
	}
}

func TestAWeightNormGivesTheSameBitsForAnyNumberOfThreads(t *testing.T) {
	definition := limited(wide, "hidden|output", 0.5)
	for _, way := range ways {
		for _, devices := range []string{"cpu", "cpu:3"} {
			var first []float32
			for _, threads := range []int{1, 2, 7} {
				set := fmt.Sprintf(`{"devices": %q, "batch_size": 32, "threads": %d}`, devices, threads)
				now, _ := after(t, definition, by(way, set), 9)
				if first == nil {
					first = now
				}
				require.Equal(t, first, now, "%s, %s, %d threads", devices, way, threads)
			}
		}
	}
}

func TestALayerWithAWeightNormOfItsOwnLeavesOthersAlone(t *testing.T) {
	set := options("cpu", optimizers["sgd"], "float32")
	free, _ := after(t, deep, set, 1)
	got, _ := after(t, strings.Replace(deep, `"name": "h2",`, `"name": "h2", "weight_norm": 0.1,`, 1), set, 1)
	vectorsOf(t, modelOf(t, deep), func(name string, places []int) {
		if name == "h2.weight" {
			require.InEpsilon(t, 0.1, normOf(got, places), 1e-6)
			return
		}
		for _, place := range places {
			require.InDelta(t, free[place], got[place], 1e-6, name)
		}
	})
}

func TestLockedWeightsAreNotCapped(t *testing.T) {
	definition := limited(deep, "hidden|output", 0.01)
	m := modelOf(t, definition)
	before := values(m)
	set := strings.Replace(options("cpu", optimizers["adam"], "float32"), "{", `{"locked": ["h1", "h3.weight"], `, 1)
	trainer := training(t, m, set)
	plan := strings.Join(planOf(t, trainer).Operations, "\n")
	require.NotContains(t, plan, "of h1.weight")
	require.NotContains(t, plan, "of h3.weight")
	run(t, trainer, 2)
	now := values(m)
	vectorsOf(t, m, func(name string, places []int) {
		if name == "h1.weight" || name == "h3.weight" {
			require.Equal(t, before[places[0]], now[places[0]], name)
			require.Greater(t, normOf(now, places), 0.01)
			return
		}
		require.InEpsilon(t, 0.01, normOf(now, places), 1e-6, name)
	})
}

func TestAPlanHasTheOperationsOfAWeightNorm(t *testing.T) {
	definition := limited(deep, "hidden|output", 2)
	plan := planOf(t, training(t, modelOf(t, definition), by("model", options("cpu:2", optimizers["adam"], "float32"))))
	require.Equal(t, "model", plan.Parallel)
	list := strings.Join(plan.Operations, "\n")
	var places []int
	for _, op := range []string{
		"Update h1.weight[61, 9]", "ColumnNorms of h1.weight[61, 9]", "AllGather norms on all ranks of h1.weight",
		"CapWeight columns of h1.weight[61, 9], norm 2",
	} {
		require.Contains(t, list, op)
		places = append(places, strings.Index(list, op))
	}
	require.IsIncreasing(t, places)
	require.Contains(t, list, "CapWeight rows of h2.weight[20, 9], norm 2")
	require.Contains(t, list, "CapWeight rows of output.weight[61, 7], norm 2")
	norms := 0
	for _, part := range plan.Parts {
		if strings.HasPrefix(part.Name, "norms") {
			norms++
		}
	}
	require.Equal(t, 4, norms, "of its own and of both, on each rank")
	require.NotContains(t, strings.Join(planOf(t, training(t, modelOf(t, deep),
		options("cpu", optimizers["adam"], "float32"))).Operations, "\n"), "CapWeight")
}

func TestAWeightNormOfZeroIsNone(t *testing.T) {
	m := modelOf(t, limited(deep, "hidden|output", 0))
	require.Equal(t, modelOf(t, deep).Network().JSON(), m.Network().JSON())
}
