package train_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dsstne/engine/train"
	"dsstne/internal/fault"
	"dsstne/tests/fixture"
)

// profiled is the JSON of a profile.
type profiled struct {
	Steps        int
	Milliseconds float64
	Operations   []struct {
		Device, Operation   string
		Milliseconds, Share float64
		MultiplyAdds        *float64 `json:"multiply_adds"`
		Bytes               *float64
		GFLOPs              *float64 `json:"gflop_per_second"`
		GigabytesPerSecond  *float64 `json:"gigabytes_per_second"`
		Limit               *string
		LimitShare          *float64 `json:"limit_share"`
	}
	Outside  struct{ Batch, Waiting, Settling float64 }
	EndOfRun float64 `json:"end_of_run"`
	Limits   []struct {
		Device, Precision string
		GFLOPs            float64 `json:"gflop_per_second"`
		Float32GFLOPs     float64 `json:"float32_gflop_per_second"`
		Read              float64 `json:"read_gigabytes_per_second"`
		Update            float64 `json:"update_gigabytes_per_second"`
	}
}

func profileOf(t *testing.T, trainer *train.Trainer, steps uint64) (p profiled) {
	t.Helper()
	text, err := trainer.Profile(steps)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &p))
	return p
}

func TestAProfiledRunGivesTheBitsOfARun(t *testing.T) {
	for name, definition := range networks {
		for _, devices := range []string{"cpu", "cpu:3"} {
			for _, way := range ways {
				set := by(way, options(devices, optimizers["adam"], "float32"))
				expected, _ := after(t, definition, set, 7)
				m := modelOf(t, definition)
				trainer := training(t, m, set)
				run(t, trainer, 2)
				require.Equal(t, 3, profileOf(t, trainer, 3).Steps)
				run(t, trainer, 2)
				require.Equal(t, expected, values(m), "%s, %s, %s", name, devices, way)
			}
		}
	}
}

func TestAProfileHasTheOperationsOfThePlanAndTheirTimesAddUp(t *testing.T) {
	for name, definition := range networks {
		for _, devices := range []string{"cpu", "cpu:3"} {
			for _, way := range ways {
				trainer := training(t, modelOf(t, definition), by(way, options(devices, optimizers["adam"], "float32")))
				text, err := trainer.Plan()
				require.NoError(t, err)
				var plan struct{ Operations []string }
				require.NoError(t, json.Unmarshal(text, &plan))
				var expected []string
				for _, operation := range plan.Operations {
					about := strings.Contains(operation, " of a run: ") || strings.Contains(operation, " of the batch of ") ||
						strings.Contains(operation, " of the rows of ")
					if !about {
						expected = append(expected, operation)
					}
				}
				p := profileOf(t, trainer, 4)
				var found []string
				first := 0.0
				for _, o := range p.Operations {
					text := o.Operation
					if devices != "cpu" {
						text = o.Device + ": " + text
					}
					found = append(found, text)
					require.GreaterOrEqual(t, o.Milliseconds, 0.0)
					require.InDelta(t, o.Milliseconds/p.Milliseconds, o.Share, 1e-9)
					if o.Device == p.Operations[0].Device {
						first += o.Milliseconds
					}
				}
				require.Equal(t, expected, found, "%s, %s, %s", name, devices, way)
				require.Positive(t, first)
				require.Positive(t, p.Outside.Batch)
				require.Positive(t, p.Outside.Settling)
				require.Positive(t, p.Outside.Waiting, "a step takes longer than its operations")
				require.InDelta(t, p.Milliseconds, first+p.Outside.Batch+p.Outside.Waiting+p.Outside.Settling, 1e-9)
			}
		}
	}
}

// In an epoch over blocks of 100 rows, 90 have 6 entries each, so a step of 50 has 270.
func TestAProfileCountsWorkByTheFormulas(t *testing.T) {
	const units, batch, entries = 16, 50, 270
	definition := strings.Replace(fixture.Autoencoder("softmax", ""), `, "denoising": 0.3`, "", 1)
	trainer := training(t, modelOf(t, definition), options("cpu", optimizers["adam"], "float32"))
	p := profileOf(t, trainer, 2)
	expected := map[string]float64{
		"Gather": entries * units, "Scatter": entries * units, "Backward": 0,
		"OutputStats": batch * manyItems * units, "OutputStep": 3 * batch * manyItems * units,
	}
	counted := 0
	for _, o := range p.Operations {
		kind := strings.Fields(o.Operation)[0]
		if kind == "Replay" {
			require.Nil(t, o.MultiplyAdds)
			require.Nil(t, o.LimitShare)
			continue
		}
		counted++
		require.InDelta(t, expected[kind], *o.MultiplyAdds, 1e-6, "%s", o.Operation)
		seconds := o.Milliseconds / 1e3
		require.InEpsilon(t, 1e-9**o.Bytes/seconds, *o.GigabytesPerSecond, 1e-9)
		limit := p.Limits[0]
		if arithmetic := 2e-9 * *o.MultiplyAdds / limit.GFLOPs / seconds; *o.Limit == "arithmetic" {
			require.InEpsilon(t, arithmetic, *o.LimitShare, 1e-9)
		} else {
			require.GreaterOrEqual(t, *o.LimitShare, arithmetic)
		}
		fewest, most := min(limit.Read, limit.Update), max(limit.Read, limit.Update)
		memory := 1e-9 * *o.Bytes / seconds
		require.GreaterOrEqual(t, *o.LimitShare, 0.999*memory/most)
		require.True(t, *o.Limit == "arithmetic" || *o.LimitShare <= 1.001*memory/fewest)
		require.InDelta(t, 2e-9**o.MultiplyAdds/seconds, *o.GFLOPs, 1e-9**o.GFLOPs)
	}
	require.Equal(t, len(expected), counted)
	again := profileOf(t, training(t, modelOf(t, definition), options("cpu", optimizers["adam"], "float32")), 1)
	require.Equal(t, p.Limits, again.Limits, "they are measured once")
}

func TestALastProfileCanBeReadAgain(t *testing.T) {
	trainer := training(t, modelOf(t, networks["softmax"]), options("cpu", optimizers["sgd"], "float32"))
	_, err := trainer.Profile(0)
	require.Equal(t, fault.InvalidState, fault.KindOf(err))
	text, err := trainer.Profile(2)
	require.NoError(t, err)
	again, err := trainer.Profile(0)
	require.NoError(t, err)
	require.Equal(t, text, again)
	require.EqualValues(t, 2, trainer.Progress().Step, "reading does not train")
}

func TestAProfileThatFailsLeavesATrainerThatRuns(t *testing.T) {
	for _, devices := range []string{"cpu", "cpu:2"} {
		trainer := training(t, modelOf(t, networks["squared"]), `{"batch_size": 20, "devices": "`+devices+`", `+
			`"optimizer": {"kind": "sgd", "learning_rate": 1e30}}`)
		_, err := trainer.Profile(100)
		require.Equal(t, fault.NotFinite, fault.KindOf(err))
		_, err = trainer.Profile(0)
		require.Equal(t, fault.InvalidState, fault.KindOf(err), "nothing was profiled")
		_, err = trainer.Run(1, 0)
		require.Contains(t, []fault.Kind{fault.OK, fault.NotFinite}, fault.KindOf(err))
	}
}

func TestACancelledProfileLeavesTheWeightsOfItsSteps(t *testing.T) {
	definition, set := networks["deep"], options("cpu:2", optimizers["adam"], "float32")
	m := modelOf(t, definition)
	trainer := training(t, m, set)
	done := make(chan error)
	go func() {
		_, err := trainer.Profile(1 << 40)
		done <- err
	}()
	var err error
	for err == nil {
		trainer.Cancel() // again, since the first may come before the run begins
		select {
		case err = <-done:
		case <-time.After(time.Millisecond):
		}
	}
	require.Equal(t, fault.Cancelled, fault.KindOf(err))
	require.Equal(t, 1, profileOf(t, trainer, 1).Steps)
	expected, _ := after(t, definition, set, trainer.Progress().Step)
	require.Equal(t, expected, values(m))
}
