package train_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/engine/model"
	reading "dsstne/engine/options"
	"dsstne/internal/fault"
	"dsstne/tests/fixture"
)

// locking adds names of what is locked to options.
func locking(set string, names ...string) string {
	quoted := strings.ReplaceAll(fmt.Sprintf("%q", names), `" "`, `", "`)
	return strings.Replace(set, "{", `{"locked": `+quoted+`, `, 1)
}

// locks are what is locked in a network, and the tensors that this stands for.
var locks = map[string]struct {
	definition     string
	names, tensors []string
}{
	"the lowest layer": {deep, []string{"h1"}, []string{"h1.weight", "h1.bias"}},
	"a layer between":  {deep, []string{"h2"}, []string{"h2.weight", "h2.bias"}},
	"an output":        {deep, []string{"output"}, []string{"output.weight", "output.bias"}},
	"all but a bias of the output": {deep, []string{"h1", "h2", "h3", "output.weight"},
		[]string{"h1.weight", "h1.bias", "h2.weight", "h2.bias", "h3.weight", "h3.bias", "output.weight"}},
	"all but the lowest weight": {deep, []string{"h1.bias", "h2", "h3", "output"},
		[]string{"h1.bias", "h2.weight", "h2.bias", "h3.weight", "h3.bias", "output.weight", "output.bias"}},
	"some of several sources": {several, []string{"h1.weight.side", "h2.weight.h1", "output.weight.h2", "label"},
		[]string{"h1.weight.side", "h2.weight.h1", "output.weight.h2", "label.weight", "label.bias"}},
	"what another output learns from": {several, []string{"h1", "label", "output.weight.h1"},
		[]string{"h1.weight.input", "h1.weight.side", "h1.bias", "label.weight", "label.bias", "output.weight.h1"}},
	"outputs that keep their gradients, with all before them": {cappedOutputs, []string{"h1", "h2", "output", "label"},
		[]string{"h1.weight.input", "h1.weight.side", "h1.bias", "h2.weight", "h2.bias", "output.weight.h1",
			"output.weight.h2", "output.bias", "label.weight.h1", "label.weight.side", "label.bias"}},
	"a tied weight":               {networks["tied softmax"], []string{"hidden1.weight"}, []string{"hidden1.weight"}},
	"a tied output":               {networks["tied cosine"], []string{"output"}, []string{"hidden1.weight", "output.bias"}},
	"an output of stored entries": {storedOnly, []string{"output.weight"}, []string{"output.weight"}},
	"what feeds an output of stored entries": {storedOnly, []string{"hidden1", "output.bias"},
		[]string{"hidden1.weight", "hidden1.bias", "output.bias"}},
}

var storedOnly = strings.Replace(fixture.Autoencoder("squared", ""), `"loss": "squared"`,
	`"loss": {"kind": "squared", "stored_only": true}`, 1)

// tensorsOf are the numbers of a model by tensor.
func tensorsOf(t *testing.T, m *model.Model) map[string][]float32 {
	t.Helper()
	done, err := m.TryRead()
	require.NoError(t, err)
	defer done()
	all := map[string][]float32{}
	for _, tensor := range m.Tensors() {
		all[tensor.Name] = slices.Clone(tensor.Float32())
	}
	return all
}

// From the same weights, the gradient with respect to a weight does not depend on what is locked.
func TestLockedWeightsKeepTheirBitsAndTheOthersMakeTheSameStep(t *testing.T) {
	for title, c := range locks {
		for _, optimizer := range []string{"sgd", "adam"} {
			for _, set := range []string{
				options("cpu", optimizers[optimizer], "float32"),
				options("cpu", optimizers[optimizer], "bfloat16"),
				by("model", options("cpu:4", optimizers[optimizer], "float32")),
				by("data", options("cpu:4", optimizers[optimizer], "float32")),
			} {
				t.Run(title+" "+set, func(t *testing.T) {
					free, m := modelOf(t, c.definition), modelOf(t, c.definition)
					before := tensorsOf(t, m)
					run(t, training(t, free, set), 1)
					trainer := training(t, m, locking(set, c.names...))
					run(t, trainer, 1)
					all, some := tensorsOf(t, free), tensorsOf(t, m)
					run(t, trainer, 3)
					later := tensorsOf(t, m)
					for name := range before {
						if slices.Contains(c.tensors, name) {
							require.Equal(t, before[name], later[name], name)
							continue
						}
						require.Equal(t, all[name], some[name], name)
						require.NotEqual(t, some[name], later[name], name)
					}
				})
			}
		}
	}
}

func TestAPlanHasNoStateGradientOrUpdateOfWhatIsLocked(t *testing.T) {
	words := func(operations []string) (list []string) {
		for _, text := range operations {
			list = append(list, strings.Join(strings.Fields(text)[:2], " "))
		}
		return list
	}
	set := options("cpu", optimizers["adam"], "float32")
	plan := planOf(t, training(t, modelOf(t, deep), locking(set, "h1", "h2.bias", "h3.weight")))
	require.Equal(t, []string{
		"Gather h1", "Dense h2", "Dense h3", "OutputStats output[123]", "OutputStep output[123]", "Backward h3,",
		"DenseBackward h3.weight[7,", "Backward h2,", "DenseBackward h2.weight[20,",
	}, words(plan.Operations))
	require.Contains(t, plan.Operations, "DenseBackward h3.weight[7, 20] (locked)")
	var states, gradients []string
	for _, part := range plan.Parts {
		switch part.Name {
		case "optimizer state":
			states = append(states, part.Of)
		case "activation gradients":
			gradients = append(gradients, part.Of)
		}
	}
	require.Equal(t, []string{
		"h2.weight", "h2.weight", "h3.bias", "h3.bias", "output.bias", "output.bias", "output.weight", "output.weight",
	}, slices.Sorted(slices.Values(states)))
	require.Equal(t, []string{"h2", "h3"}, gradients)

	plan = planOf(t, training(t, modelOf(t, deep), locking(set, "h1", "h2", "h3")))
	require.Equal(t, []string{
		"Gather h1", "Dense h2", "Dense h3", "OutputStats output[123]", "OutputStep output[123]",
	}, words(plan.Operations))

	plan = planOf(t, training(t, modelOf(t, deep), locking(by("data", options("cpu:2", optimizers["adam"], "float32")),
		"h1", "h2", "h3", "output.weight")))
	updates := slices.DeleteFunc(plan.Operations, func(text string) bool { return !strings.Contains(text, ": Update ") })
	require.Equal(t, []string{"cpu[0/2]: Update output.bias[123, 1]", "cpu[1/2]: Update output.bias[123, 1]"}, updates)
}

func TestATrainerThatGoesOnLocksTheSameWeights(t *testing.T) {
	set := options("cpu", optimizers["adam"], "float32")
	locked, other := locking(set, "h1", "h2.bias"), locking(set, "h1")
	want, _ := after(t, deep, locked, 5)
	from := training(t, modelOf(t, deep), locked)
	run(t, from, 3)
	path := saved(t, from, false)
	for _, same := range []string{locked, locking(set, "h2.bias", "h1.bias", "h1.weight")} {
		trainer, m := resumed(t, path, same)
		run(t, trainer, 2)
		require.Equal(t, want, values(m))
	}

	_, err := training(t, modelOf(t, deep), other).Resume(path, reading.ReadTrainer)
	require.ErrorContains(t, err, `locked: the checkpoint has ["h1" "h2.bias"], this trainer has ["h1"]`)
	require.Equal(t, fault.InvalidArgument, fault.KindOf(err))
	err = training(t, modelOf(t, deep), other).Continue(from)
	require.EqualError(t, err, `locked is ["h1"], that of the other trainer ["h1" "h2.bias"]; the optimizer has no state `+
		`for locked weights`)
	o, err := reading.ReadTrainer([]byte(other))
	require.NoError(t, err)
	_, err = from.Fork(o)
	require.ErrorContains(t, err, "locked")
	require.NoError(t, training(t, modelOf(t, deep), locked).Continue(from))
}

func TestLockedWeightsStaySharedWithACopyOfTheModel(t *testing.T) {
	m := modelOf(t, deep)
	c := copyOf(t, m)
	set := locking(options("cpu", optimizers["adam"], "float32"), "h1", "output.weight")
	trainer := training(t, c, set)
	parts := privateCopies(planOf(t, trainer))
	require.Len(t, parts, len(m.Tensors())-3)
	run(t, trainer, 2)
	var shared []string
	for _, tensor := range c.Shared() {
		shared = append(shared, tensor.Name)
	}
	require.Equal(t, []string{"h1.weight", "h1.bias", "output.weight"}, shared)
	path := filepath.Join(t.TempDir(), "model")
	require.NoError(t, c.Save(path, nil), "a shared weight is saved like others")
}
