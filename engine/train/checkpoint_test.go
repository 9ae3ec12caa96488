package train_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/engine/model"
	reading "dsstne/engine/options"
	"dsstne/engine/train"
	"dsstne/internal/fault"
	"dsstne/tests/fixture"
	"dsstne/tests/openers"
)

// saved is a checkpoint of a trainer.
func saved(t *testing.T, trainer *train.Trainer, background bool) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "checkpoint")
	require.NoError(t, trainer.Save(path, map[string]string{"who": "test"}, nil, background))
	return path
}

// resumed is a new trainer, of the model of a checkpoint, that goes on from there.
func resumed(t *testing.T, path, set string) (*train.Trainer, *model.Model) {
	t.Helper()
	m, err := model.Load(path, 1)
	require.NoError(t, err)
	t.Cleanup(func() { _ = m.Close() })
	trainer := training(t, m, set)
	_, err = trainer.Resume(path, reading.ReadTrainer)
	require.NoError(t, err)
	return trainer, m
}

func TestARunThatGoesOnFromACheckpointHasTheBitsOfOneThatNeverEnded(t *testing.T) {
	for i, name := range slices.Sorted(maps.Keys(networks)) {
		definition := networks[name]
		for j, kind := range slices.Sorted(maps.Keys(optimizers)) {
			for n, devices := range []string{"cpu", "cpu:3"} {
				if !tried(n, 2, i, j) {
					continue
				}
				set := options(devices, optimizers[kind], "float32")
				want, end := after(t, definition, set, 7)
				for _, background := range []bool{false, true} {
					m := modelOf(t, definition)
					first := training(t, m, set)
					run(t, first, 4)
					path := saved(t, first, background)
					run(t, first, 1) // while the file is being written
					require.NoError(t, first.Settle())
					trainer, m := resumed(t, path, strings.Replace(set, `"threads": 3`, `"threads": 1`, 1))
					require.EqualValues(t, 4, trainer.Progress().Step)
					progress := run(t, trainer, 3)
					require.Equal(t, want, values(m), "%s, %s, %s, background %v", name, kind, devices, background)
					require.Equal(t, end.Step, progress.Step)
					require.Equal(t, end.Examples, progress.Examples)
					require.InDelta(t, end.Loss, progress.Loss, 0)
					require.EqualValues(t, 7, m.Step())
				}
			}
		}
	}
}

func TestACheckpointGoesOnWithAnotherNumberOfDevices(t *testing.T) {
	for _, way := range []string{"model", "data"} {
		set := by(way, options("cpu:3", optimizers["adam"], "float32"))
		want, _ := after(t, deep, set, 6)
		first := training(t, modelOf(t, deep), set)
		run(t, first, 3)
		trainer, m := resumed(t, saved(t, first, false), options("cpu", optimizers["adam"], "float32"))
		run(t, trainer, 3)
		require.InDeltaSlice(t, want, values(m), 1e-5)
	}
}

func TestACheckpointBeforeTheFirstStepAndOfAResumedTrainer(t *testing.T) {
	set := options("cpu", optimizers["adam"], "float32")
	want, _ := after(t, deep, set, 4)
	fresh := training(t, modelOf(t, deep), set)
	path := saved(t, fresh, true)
	require.NoError(t, fresh.Close()) // which waits for the file
	trainer, _ := resumed(t, path, set)
	run(t, trainer, 2)
	again, _ := resumed(t, saved(t, trainer, false), set) // and saved before it has run
	trainer, m := resumed(t, saved(t, again, false), set)
	run(t, trainer, 2)
	require.Equal(t, want, values(m))
}

func TestACheckpointOfSomethingElseIsRefused(t *testing.T) {
	set := `{"batch_size": 30, "seed": 1, "threads": 1}`
	first, _ := opened(t, fixture.Autoencoder("softmax", ""), set)
	run(t, first, 2)
	path := saved(t, first, false)
	for want, given := range map[string][2]string{
		"batch_size: the checkpoint has 30, this trainer has 20": {"softmax", `{"batch_size": 20, "seed": 1}`},
		"seed: the checkpoint has 1, this trainer has 0":         {"softmax", `{"batch_size": 30}`},
		"shuffle: the checkpoint has true, this trainer has false": {
			"softmax", `{"batch_size": 30, "seed": 1, "shuffle": false}`,
		},
		"optimizer: the checkpoint has adam, this trainer has sgd": {
			"softmax", `{"batch_size": 30, "seed": 1, "optimizer": {"kind": "sgd"}}`,
		},
		"weight_decay: the checkpoint has 0, this trainer has 0.5": {
			"softmax", `{"batch_size": 30, "seed": 1, "optimizer": {"weight_decay": 0.5}}`,
		},
		"l1: the checkpoint has 0, this trainer has 0.5": {
			"softmax", `{"batch_size": 30, "seed": 1, "optimizer": {"l1": 0.5}}`,
		},
		"precision: the checkpoint has float32, this trainer has bfloat16": {
			"softmax", `{"batch_size": 30, "seed": 1, "precision": "bfloat16"}`,
		},
		`network.loss[0].kind: the checkpoint has "softmax", this trainer has "sigmoid"`: {"sigmoid", set},
	} {
		trainer, m := opened(t, fixture.Autoencoder(given[0], ""), given[1])
		before := weights(m)
		_, err := trainer.Resume(path, reading.ReadTrainer)
		require.ErrorContains(t, err, want)
		require.Equal(t, fault.InvalidArgument, fault.KindOf(err))
		require.Equal(t, before, weights(m))
		run(t, trainer, 1)
		_, err = trainer.Resume(path, reading.ReadTrainer)
		require.Equal(t, fault.InvalidState, fault.KindOf(err))
	}
	trainer, m := opened(t, fixture.Autoencoder("softmax", ""), set)
	model := filepath.Join(t.TempDir(), "model")
	require.NoError(t, m.Save(model, nil))
	_, err := trainer.Resume(model, reading.ReadTrainer)
	require.ErrorContains(t, err, "not a checkpoint")
}

func TestADamagedCheckpointLeavesTheTrainerAsItWas(t *testing.T) {
	set := `{"batch_size": 30, "threads": 1}`
	first, _ := opened(t, fixture.Autoencoder("softmax", ""), set)
	run(t, first, 2)
	path := saved(t, first, false)
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	for _, at := range []int{9, len(whole) / 2, len(whole) - 1} {
		bad := append([]byte(nil), whole...)
		bad[at] ^= 1
		require.NoError(t, os.WriteFile(path, bad, 0o600))
		trainer, m := opened(t, fixture.Autoencoder("softmax", ""), set)
		before := weights(m)
		_, err := trainer.Resume(path, reading.ReadTrainer)
		require.Equal(t, fault.CorruptFile, fault.KindOf(err), "%v", err)
		require.Equal(t, before, weights(m))
		run(t, trainer, 1)
	}
}

func TestAForkGoesOnLikeItsTrainerAndNeitherChangesTheOther(t *testing.T) {
	for name, definition := range networks {
		for _, devices := range []string{"cpu", "cpu:3"} {
			set := options(devices, optimizers["adam"], "float32")
			want, _ := after(t, definition, set, 7)
			o, err := reading.ReadTrainer([]byte(set))
			require.NoError(t, err)
			m := modelOf(t, definition)
			trainer := training(t, m, set)
			run(t, trainer, 3)
			for _, forkFirst := range []bool{true, false} {
				fork, err := trainer.Fork(o)
				require.NoError(t, err)
				if forkFirst { // the fork goes to the end, the trainer one step
					run(t, fork, 4)
					require.Equal(t, want, values(fork.Model), "%s, %s", name, devices)
					run(t, trainer, 1)
				} else {
					run(t, trainer, 3)
					run(t, fork, 3)
				}
				second := fork.Model
				require.NoError(t, fork.Close())
				require.NoError(t, second.Close())
			}
			require.Equal(t, want, values(m), "%s, %s: the trainer", name, devices)
		}
	}
	trainer := training(t, modelOf(t, deep), options("cpu", optimizers["adam"], "float32"))
	other, err := reading.ReadTrainer([]byte(`{"batch_size": 3}`))
	require.NoError(t, err)
	_, err = trainer.Fork(other)
	require.ErrorContains(t, err, "batch_size")
}

func TestAPlanHasTheMemoryOfCheckpointsOrSaysThatThereIsNone(t *testing.T) {
	definition := fixture.Autoencoder("softmax", "")
	trainer, m := opened(t, definition, `{"batch_size": 30}`)
	without := planOf(t, trainer).Bytes
	trainer, _ = opened(t, definition, `{"batch_size": 30, "checkpoints": true}`)
	plan := planOf(t, trainer)
	require.Equal(t, without+3*m.Bytes(), plan.Bytes) // adam has two states
	require.NotContains(t, strings.Join(plan.Operations, ""), "between two steps")
	run(t, trainer, 1)
	require.NoError(t, trainer.Save(filepath.Join(t.TempDir(), "checkpoint"), nil, nil, true))
	require.NoError(t, trainer.Settle())

	trainer, _ = opened(t, definition, fmt.Sprintf(`{"batch_size": 30, "checkpoints": true, "memory_limit": %d}`,
		without+1000))
	plan = planOf(t, trainer)
	require.Equal(t, without, plan.Bytes)
	require.Contains(t, plan.Operations[len(plan.Operations)-1], "between two steps: there is no memory")
	run(t, trainer, 1)
	saved(t, trainer, true)
}

func TestATrainerThatGoesOnFromAnotherWithTheSameRowsHasTheBitsOfOneThatNeverEnded(t *testing.T) {
	for _, name := range []string{"tied softmax", "deep", "several in and out"} {
		definition := networks[name]
		for kind, optimizer := range optimizers {
			set := options("cpu", optimizer, "float32")
			epoch := training(t, modelOf(t, definition), set).Progress().StepsPerEpoch
			want, end := after(t, definition, set, 2*epoch+1)
			for _, devices := range []string{"cpu", "cpu:3"} {
				m := modelOf(t, definition)
				first := training(t, m, set)
				before := run(t, first, epoch)
				// It keeps the state without data, on another device; the last one has other data until then.
				between, err := openers.Trainer(m, []byte(strings.Replace(set, `"cpu"`, fmt.Sprintf("%q", devices), 1)))
				require.NoError(t, err)
				require.NoError(t, between.Continue(first))
				require.NoError(t, first.Close())
				require.Equal(t, before.Step, between.Progress().Step)
				require.InDelta(t, before.EpochLoss, between.Progress().EpochLoss, 0)
				last := training(t, m, set)
				require.NoError(t, last.Continue(between))
				require.NoError(t, between.Close())
				run(t, last, 1)
				path := saved(t, last, false)
				progress := run(t, last, epoch)
				require.Equal(t, want, values(m), "%s, %s, by way of %s", name, kind, devices)
				require.Equal(t, end.Step, progress.Step)
				require.Equal(t, end.Epoch, progress.Epoch)
				require.Equal(t, end.Examples, progress.Examples)
				again, m := resumed(t, path, set)
				require.Equal(t, end.Epoch, run(t, again, epoch).Epoch)
				require.Equal(t, want, values(m), "%s, %s, from a checkpoint", name, kind)
			}
		}
	}
}

func TestOtherDataBeginWithAnEpochOfTheirOwnInAnotherOrder(t *testing.T) {
	m := modelOf(t, deep)
	first := training(t, m, `{"batch_size": 50}`)
	epoch := first.Progress().StepsPerEpoch
	run(t, first, epoch+1) // the second epoch has begun
	second := training(t, m, `{"batch_size": 30, "optimizer": {"learning_rate": 0.5}}`)
	require.NoError(t, second.Continue(first))
	begun := second.Progress()
	require.EqualValues(t, []uint64{epoch + 1, 2, 0}, []uint64{begun.Step, begun.Epoch, begun.Examples})
	progress := run(t, second, 1)
	require.EqualValues(t, []uint64{epoch + 2, 2, 30}, []uint64{progress.Step, progress.Epoch, progress.Examples})
	require.InDelta(t, 0.5, progress.LearningRate, 0)
}

func TestATrainerGoesOnOnlyFromOneOfItsKindAndBeforeItBegins(t *testing.T) {
	set := options("cpu", optimizers["adam"], "float32")
	from := training(t, modelOf(t, deep), set)
	run(t, from, 1)
	require.ErrorContains(t, training(t, modelOf(t, several), set).Continue(from), "of another network")
	other := training(t, modelOf(t, deep), options("cpu", optimizers["sgd"], "float32"))
	require.ErrorContains(t, other.Continue(from), "the optimizer is sgd, that of the other trainer adam")
	begun := training(t, modelOf(t, deep), set)
	run(t, begun, 1)
	require.Equal(t, fault.InvalidState, fault.KindOf(begun.Continue(from)))
	require.NoError(t, from.Close())
}
