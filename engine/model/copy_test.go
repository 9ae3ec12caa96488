package model

import (
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/internal/fault"
)

// copied is a copy of a model that its test closes.
func copied(t testing.TB, m *Model) *Model {
	c, err := m.Copy()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// contents are the bytes of all tensors, which stay when the model goes.
func contents(m *Model) (all [][]byte) {
	for _, t := range m.Tensors() {
		all = append(all, slices.Clone(t.Bytes()))
	}
	return all
}

// sharedNames are the weights that Own would copy.
func sharedNames(m *Model) (names []string) {
	for _, t := range m.Shared() {
		names = append(names, t.Name)
	}
	return names
}

func TestACopyIsTheModelInTheSameMemory(t *testing.T) {
	m := namedSmall(t)
	c := copied(t, m)
	require.Equal(t, m.Step(), c.Step())
	require.Equal(t, m.Attributes(), c.Attributes())
	require.Equal(t, fileOf(t, m), fileOf(t, c))
	for i, tensor := range m.Tensors() {
		require.Same(t, &tensor.Bytes()[0], &c.Tensors()[i].Bytes()[0], tensor.Name)
	}
	require.Equal(t, []string{"hidden1.weight", "hidden1.bias", "output.weight", "output.bias"}, sharedNames(c))
}

func TestStepAndAttributesOfACopyAreItsOwn(t *testing.T) {
	m := namedSmall(t)
	c := copied(t, m)
	c.SetStep(18)
	require.NoError(t, c.Save(t.TempDir()+"/m", map[string]string{"other": "text"}))
	require.EqualValues(t, 17, m.Step())
	require.Contains(t, m.Attributes(), "note")
}

func TestASetTensorIsTheOnlyOneThatIsCopied(t *testing.T) {
	for name, change := range map[string]func(m, c *Model) (changed, other *Model){
		"the copy":     func(m, c *Model) (*Model, *Model) { return c, m },
		"the original": func(m, c *Model) (*Model, *Model) { return m, c },
	} {
		m := create(t, smallDefinition, 1)
		changed, other := change(m, copied(t, m))
		before := contents(other)
		require.NoError(t, changed.SetTensor("hidden1.bias", floatBytes(1, 2, 3)), name)
		require.Equal(t, floatBytes(1, 2, 3), tensorBytes(t, changed, "hidden1.bias"), name)
		require.Equal(t, before, contents(other), name)
		for _, either := range []*Model{changed, other} {
			require.Equal(t, []string{"hidden1.weight", "output.weight", "output.bias"}, sharedNames(either), name)
		}
	}
}

func TestARefusedTensorIsNotCopied(t *testing.T) {
	m := create(t, smallDefinition, 1)
	c := copied(t, m)
	require.Error(t, c.SetTensor("hidden1.bias", floatBytes(1)))
	require.Contains(t, sharedNames(c), "hidden1.bias")
}

func TestNamesThatACopyGetsAreNotTheOriginals(t *testing.T) {
	m := namedSmall(t)
	c := copied(t, m)
	require.NoError(t, c.SetTensor("items.bytes", []byte("x")))
	cuts := make([]int64, 41)
	cuts[40] = 1
	require.NoError(t, c.SetTensor("items.offsets", offsetBytes(cuts...)))
	require.Equal(t, "x", string(tensorBytes(t, c, "items.bytes")))
	require.Equal(t, itemText(), string(tensorBytes(t, m, "items.bytes")))
}

func TestBytesThatWaitForTheirOffsetsAreNotCopied(t *testing.T) {
	m := create(t, smallDefinition, 1)
	require.NoError(t, m.SetTensor("items.bytes", nil))
	requireFault(t, copied(t, m).SetTensor("items.offsets", make([]byte, 8*41)), fault.InvalidState)
}

func TestAModelThatOwnsItsWeightsHasTheSameBuffers(t *testing.T) {
	m := namedSmall(t)
	c := copied(t, m)
	before := contents(m)
	bias, err := c.Tensor("hidden1.bias")
	require.NoError(t, err)
	part := bias.Buffer().Slice(1, 2)
	require.NoError(t, c.Own(nil))
	require.Empty(t, sharedNames(c))
	require.Empty(t, sharedNames(m))
	require.Equal(t, before, contents(c))
	part.Float32()[0] = 5
	require.EqualValues(t, 5, bias.Float32()[1])
	require.Equal(t, before, contents(m))
}

func TestCopiesOfCopiesAreClosedInAnyOrder(t *testing.T) {
	orders := [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}
	for _, order := range orders {
		first := namedSmall(t)
		second := copied(t, first)
		models := []*Model{first, second, copied(t, second)}
		want := contents(first)
		for n, i := range order {
			require.NoError(t, models[i].Close())
			require.Nil(t, models[i].Tensors()[0].Bytes())
			for _, left := range order[n+1:] {
				require.Equal(t, want, contents(models[left]))
				require.Equal(t, n < 1, len(models[left].Shared()) > 0, "the last one has the memory for itself")
			}
		}
	}
}

func TestACopyHasTheNewestWeightsAlsoIfTheyWereLent(t *testing.T) {
	m := create(t, smallDefinition, 1)
	fetched := 0
	m.Lend(m, func() error {
		fetched++
		m.tensors[1].Float32()[0] = 42
		return nil
	})
	c := copied(t, m)
	require.Equal(t, 1, fetched)
	bias, err := c.Tensor("hidden1.bias")
	require.NoError(t, err)
	require.EqualValues(t, 42, bias.Float32()[0])
}

func TestNeitherATrainedNorAClosedModelIsCopied(t *testing.T) {
	m := create(t, smallDefinition, 1)
	unlock, err := m.TryWrite()
	require.NoError(t, err)
	_, err = m.Copy()
	requireFault(t, err, fault.Busy, "being trained")
	unlock()
	require.NoError(t, m.Close())
	_, err = m.Copy()
	requireFault(t, err, fault.InvalidState, "closed")
}

func TestACopyIsNoChangeOfEither(t *testing.T) {
	m := create(t, smallDefinition, 1)
	require.NoError(t, m.SetTensor("hidden1.bias", floatBytes(1, 2, 3)))
	changes := m.Changes()
	c := copied(t, m)
	require.NoError(t, c.SetTensor("hidden1.bias", floatBytes(1, 2, 4)))
	require.Equal(t, changes, m.Changes())
	require.EqualValues(t, 1, c.Changes())
}

func TestModelsThatShareMemoryAreChangedAndCopiedAtTheSameTime(t *testing.T) {
	first := create(t, wideDefinition, 1)
	models := []*Model{first, copied(t, first), copied(t, first), copied(t, first)}
	want := contents(first)
	var wait sync.WaitGroup
	for n, m := range models {
		wait.Go(func() {
			value := floatBytes(float32(n), 1, 2, 3, 4)
			if err := m.SetTensor("hidden1.bias", value); err != nil {
				t.Error(err)
			}
			for range 20 {
				c, err := m.Copy()
				if err != nil {
					t.Error(err)
					return
				}
				if err := c.SetTensor("output.bias", make([]byte, 8000)); err != nil {
					t.Error(err)
				}
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			}
			if err := m.Own(nil); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	for n, m := range models {
		want[1] = floatBytes(float32(n), 1, 2, 3, 4)
		require.Equal(t, want, contents(m))
		require.Empty(t, sharedNames(m))
	}
}
