package train_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/engine/model"
	"dsstne/engine/program"
	"dsstne/engine/train"
	"dsstne/internal/fault"
	"dsstne/tests/fixture"
)

// copyOf is a copy of a model that its test closes.
func copyOf(t *testing.T, m *model.Model) *model.Model {
	t.Helper()
	c, err := m.Copy()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// planOf is the plan of a run.
func planOf(t *testing.T, trainer *train.Trainer) (plan program.Plan) {
	t.Helper()
	text, err := trainer.Plan()
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &plan))
	return plan
}

// privateCopies are the parts of a plan for weights that a run copies before it begins.
func privateCopies(plan program.Plan) (parts []program.Part) {
	for _, part := range plan.Parts {
		if strings.HasPrefix(part.Of, "a private copy of ") {
			parts = append(parts, part)
		}
	}
	return parts
}

func TestACopyIsTrainedLikeTheModelAndLeavesItAlone(t *testing.T) {
	for name, definition := range networks {
		for _, set := range []string{
			options("cpu", optimizers["adam"], "float32"),
			by("model", options("cpu:3", optimizers["adam"], "float32")),
			by("data", options("cpu:3", optimizers["adam"], "float32")),
		} {
			want, _ := after(t, definition, set, 5)
			m := modelOf(t, definition)
			before := values(m)
			c := copyOf(t, m)
			run(t, training(t, c, set), 5)
			require.Equal(t, want, values(c), "%s, %s", name, set)
			require.Equal(t, before, values(m), "%s, %s", name, set)
			run(t, training(t, m, set), 5)
			require.Equal(t, want, values(m), "%s, %s: the original", name, set)
		}
	}
}

func TestACopyBetweenTheRunsOfATrainerStaysAndChangesNoBitOfTheTraining(t *testing.T) {
	for _, devices := range []string{"cpu", "cpu:3"} {
		set := options(devices, optimizers["adam"], "float32")
		want, _ := after(t, deep, set, 6)
		m := modelOf(t, deep)
		trainer := training(t, m, set)
		run(t, trainer, 3)
		halfway := copyOf(t, m)
		before := values(m)
		run(t, trainer, 3)
		require.Equal(t, want, values(m))
		require.Equal(t, before, values(halfway))
		require.EqualValues(t, 3, halfway.Step())
	}
}

func TestAPlanHasThePrivateCopiesThatARunWouldMake(t *testing.T) {
	trainer, m := opened(t, fixture.Autoencoder("softmax", ""), `{"batch_size": 30}`)
	alone := planOf(t, trainer)
	require.Empty(t, privateCopies(alone))
	copyOf(t, m)
	shared := planOf(t, trainer)
	parts := privateCopies(shared)
	require.Len(t, parts, 4)
	require.Equal(t, program.Part{
		Name: "weights", Of: "a private copy of hidden1.weight", Bytes: 4 * 16 * items, Device: "cpu",
	}, parts[0])
	require.Equal(t, alone.Bytes+m.Bytes(), shared.Bytes)
	run(t, trainer, 1)
	require.Empty(t, privateCopies(planOf(t, trainer)))
	copyOf(t, m)
	require.Len(t, privateCopies(planOf(t, trainer)), 4)
}

func TestPrivateCopiesBeyondTheLimitAreRefusedBeforeAnythingIsCopied(t *testing.T) {
	definition, set := fixture.Autoencoder("softmax", ""), `{"batch_size": 30, "memory_limit": %d}`
	trainer, _ := opened(t, definition, fmt.Sprintf(set, 0))
	limit := planOf(t, trainer).Bytes + 1000
	for _, begun := range []bool{false, true} {
		trainer, m := opened(t, definition, fmt.Sprintf(set, limit))
		if begun {
			run(t, trainer, 1)
		}
		c, err := m.Copy()
		require.NoError(t, err)
		before := weights(m)
		_, err = trainer.Run(1, 0)
		require.Equal(t, fault.OutOfMemory, fault.KindOf(err))
		require.ErrorContains(t, err, "memory_limit")
		require.ErrorContains(t, err, "shared with a copy of the model")
		require.Len(t, m.Shared(), 4)
		require.Equal(t, before, weights(c))
		require.NoError(t, c.Close())
		run(t, trainer, 1)
		require.NotEqual(t, before, weights(m))
	}
}

func TestAModelAndItsCopiesAreTrainedAtTheSameTime(t *testing.T) {
	set := options("cpu", optimizers["adam"], "float32")
	want, _ := after(t, deep, set, 12)
	m := modelOf(t, deep)
	models := []*model.Model{m, copyOf(t, m), copyOf(t, m)}
	var wait sync.WaitGroup
	for _, one := range models {
		trainer := training(t, one, set)
		wait.Go(func() {
			for range 4 {
				if _, err := trainer.Run(3, 0); err != nil {
					t.Error(err)
				}
				c, err := one.Copy() // so that the next run begins with shared weights again
				if err != nil {
					t.Error(err)
					return
				}
				defer c.Close()
			}
		})
	}
	wait.Wait()
	for n, one := range models {
		require.True(t, slices.Equal(want, values(one)), "model %d", n)
	}
}
