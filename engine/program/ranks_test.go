package program_test

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dsstne/engine/program"
	"dsstne/internal/fault"
	"dsstne/kernels"
	"dsstne/tests/fixture"
)

// faulty is a device, and its way to the others, whose n-th call goes wrong; n counts down.
type faulty struct {
	kernels.Device
	kernels.Communicator
	n       *int
	failure func() error
}

// before is called before every op and collective.
func (f faulty) before() error {
	if *f.n--; *f.n == 0 {
		return f.failure()
	}
	return nil
}

func (f faulty) Gather(op *kernels.Gather, s *kernels.Step) error {
	return errors.Join(f.before(), f.Device.Gather(op, s))
}

func (f faulty) Dense(op *kernels.Dense, s *kernels.Step) error {
	return errors.Join(f.before(), f.Device.Dense(op, s))
}

func (f faulty) Activate(op *kernels.Activate, s *kernels.Step) error {
	return errors.Join(f.before(), f.Device.Activate(op, s))
}

func (f faulty) OutputStats(op *kernels.Output, s *kernels.Step) error {
	return errors.Join(f.before(), f.Device.OutputStats(op, s))
}

func (f faulty) CombineStats(op *kernels.CombineStats, s *kernels.Step) error {
	return errors.Join(f.before(), f.Device.CombineStats(op, s))
}

func (f faulty) MarginalTargets(op *kernels.MarginalTargets, s *kernels.Step) error {
	return errors.Join(f.before(), f.Device.MarginalTargets(op, s))
}

func (f faulty) OutputStep(op *kernels.Output, s *kernels.Step) error {
	return errors.Join(f.before(), f.Device.OutputStep(op, s))
}

func (f faulty) UnitSums(op *kernels.UnitSums, s *kernels.Step) error {
	return errors.Join(f.before(), f.Device.UnitSums(op, s))
}

func (f faulty) Merge(op *kernels.Merge, s *kernels.Step) error {
	return errors.Join(f.before(), f.Device.Merge(op, s))
}

func (f faulty) MergeBackward(op *kernels.MergeBackward, s *kernels.Step) error {
	return errors.Join(f.before(), f.Device.MergeBackward(op, s))
}

func (f faulty) Skip(op *kernels.Skip, s *kernels.Step) error {
	return errors.Join(f.before(), f.Device.Skip(op, s))
}

func (f faulty) SoftmaxRows(op *kernels.SoftmaxRows, s *kernels.Step) error {
	return errors.Join(f.before(), f.Device.SoftmaxRows(op, s))
}

func (f faulty) SoftmaxRowsBackward(op *kernels.SoftmaxRowsBackward, s *kernels.Step) error {
	return errors.Join(f.before(), f.Device.SoftmaxRowsBackward(op, s))
}

func (f faulty) CapRows(op *kernels.CapRows, s *kernels.Step) error {
	return errors.Join(f.before(), f.Device.CapRows(op, s))
}

func (f faulty) CopyMatrix(op *kernels.CopyMatrix, s *kernels.Step) error {
	return errors.Join(f.before(), f.Device.CopyMatrix(op, s))
}

func (f faulty) Sample(op *kernels.Sample, s *kernels.Step) error {
	return errors.Join(f.before(), f.Device.Sample(op, s))
}

func (f faulty) SampleBackward(op *kernels.SampleBackward, s *kernels.Step) error {
	return errors.Join(f.before(), f.Device.SampleBackward(op, s))
}

func (f faulty) Sparsity(op *kernels.Sparsity, s *kernels.Step) error {
	return errors.Join(f.before(), f.Device.Sparsity(op, s))
}

func (f faulty) UnitMoments(op *kernels.UnitMoments, s *kernels.Step) error {
	return errors.Join(f.before(), f.Device.UnitMoments(op, s))
}

func (f faulty) RowMoments(op *kernels.RowMoments, s *kernels.Step) error {
	return errors.Join(f.before(), f.Device.RowMoments(op, s))
}

func (f faulty) CombineMoments(op *kernels.CombineMoments, s *kernels.Step) error {
	return errors.Join(f.before(), f.Device.CombineMoments(op, s))
}

func (f faulty) MoveMoments(op *kernels.MoveMoments, s *kernels.Step) error {
	return errors.Join(f.before(), f.Device.MoveMoments(op, s))
}

func (f faulty) NormSums(op *kernels.NormSums, s *kernels.Step) error {
	return errors.Join(f.before(), f.Device.NormSums(op, s))
}

func (f faulty) NormBackward(op *kernels.NormBackward, s *kernels.Step) error {
	return errors.Join(f.before(), f.Device.NormBackward(op, s))
}

func (f faulty) Backward(op *kernels.Backward, s *kernels.Step) error {
	return errors.Join(f.before(), f.Device.Backward(op, s))
}

func (f faulty) DenseBackward(op *kernels.DenseBackward, s *kernels.Step) error {
	return errors.Join(f.before(), f.Device.DenseBackward(op, s))
}

func (f faulty) Scatter(op *kernels.Scatter, s *kernels.Step) error {
	return errors.Join(f.before(), f.Device.Scatter(op, s))
}

func (f faulty) Replay(op *kernels.Replay, s *kernels.Step) error {
	return errors.Join(f.before(), f.Device.Replay(op, s))
}

func (f faulty) ColumnNorms(op *kernels.ColumnNorms, s *kernels.Step) error {
	return errors.Join(f.before(), f.Device.ColumnNorms(op, s))
}

func (f faulty) CapWeight(op *kernels.CapWeight, s *kernels.Step) error {
	return errors.Join(f.before(), f.Device.CapWeight(op, s))
}

func (f faulty) ClipNorm(op *kernels.ClipNorm, s *kernels.Step) error {
	return errors.Join(f.before(), f.Device.ClipNorm(op, s))
}

func (f faulty) Update(op *kernels.Update, s *kernels.Step) error {
	return errors.Join(f.before(), f.Device.Update(op, s))
}

func (f faulty) AllReduce(b kernels.Buffer, n int64) error {
	if err := f.before(); err != nil {
		return err
	}
	return f.Communicator.AllReduce(b, n)
}

func (f faulty) AllGather(part, all kernels.Buffer, n int64) error {
	if err := f.before(); err != nil {
		return err
	}
	return f.Communicator.AllGather(part, all, n)
}

func (f faulty) Broadcast(b kernels.Buffer, n int64, root int) error {
	if err := f.before(); err != nil {
		return err
	}
	return f.Communicator.Broadcast(b, n, root)
}

var errBroken = errors.New("the device is broken")

// failures are the ways in which a call goes wrong, with what must be told.
var failures = map[string]func() error{
	"an error": func() error { return errBroken },
	"a panic":  func() error { panic(errBroken.Error()) },
	"a number": func() error {
		return &kernels.NotFiniteError{Tensor: errBroken.Error(), What: "the gradient",
			Row: 3}
	},
	"a slow error": func() error { time.Sleep(2 * time.Millisecond); return errBroken },
}

func TestAFailureOfAnyOpOnAnyDeviceEndsTheStepOnAllAndTheNextOneWorks(t *testing.T) {
	const ranks = 3
	capped := regexp.MustCompile(`"kind": "hidden"`).ReplaceAllString(wide, `"kind": "hidden", "weight_norm": 0.5`)
	for what, failure := range failures {
		calls, definition := 0, wide
		if what == "an error" || what == "a number" {
			definition = capped
		}
		for rank := range 2 * ranks {
			way := program.Model
			if rank >= ranks {
				rank, way = rank-ranks, program.Data
			}
			for at := 1; ; at++ {
				momentum := program.Training{Optimizer: kernels.Optimizer{Kind: kernels.Momentum, Momentum: 0.9}}
				m, spec := networkOn(t, definition, fixture.Ranks(t, "cpu", ranks), way, momentum)
				countdown := at
				r := &spec.Ranks[rank]
				broken := faulty{r.Device, r.Communicator, &countdown, failure}
				r.Device, r.Communicator = broken, broken
				p, err := program.Build(spec)
				require.NoError(t, err)
				step := wideStep(t, p, m, 0.1)
				err = p.Begin(&step)
				if err == nil {
					err = p.Run(&step)
				}
				if countdown > 0 { // every call was made
					require.NoError(t, err)
					p.Free()
					calls += at - 1
					break
				}
				require.ErrorContains(t, err, errBroken.Error(), "%s, rank %d, call %d", what, rank, at)
				for _, tensor := range m.Tensors() {
					for _, w := range tensor.Float32() {
						require.False(t, math.IsNaN(float64(w)) || math.IsInf(float64(w), 0))
					}
				}
				require.NoError(t, p.Flush(&step))
				step.Number, step.Rates = 2, append(step.Rates, step.Rates[0])
				require.NoError(t, p.Begin(&step), "the devices can be used again")
				require.NoError(t, p.Run(&step))
				p.Free()
			}
		}
		require.Greater(t, calls, 60, "calls in which something went wrong")
	}
}

func TestMemoryThatIsRefusedToAnyDeviceLeavesNothingBehind(t *testing.T) {
	device := fixture.Device(t, "cpu")
	for at := 1; ; at++ {
		countdown, held := at, 0
		spec := specOf(t, device, wide, 30, 6, kernels.Adam)
		spec.Ranks = fixture.Ranks(t, "reference", 3)
		for rank := range spec.Ranks {
			spec.Ranks[rank].Device = fixture.Scarce{Device: spec.Ranks[rank].Device, Countdown: &countdown, Held: &held}
		}
		p, err := program.Build(spec)
		if err == nil {
			require.Greater(t, at, 100)
			p.Free()
			require.Zero(t, held)
			return
		}
		require.Equal(t, fault.OutOfMemory, fault.KindOf(err))
		require.Zero(t, held, "allocation %d", at)
	}
}

func TestNoGoroutineOutlivesATeam(t *testing.T) {
	ranks := fixture.Ranks(t, "reference", 5)
	before := runtime.NumGoroutine()
	for range 20 {
		team := program.NewTeam(ranks)
		_ = team.Together(func(rank int) error {
			if rank == 3 {
				return errBroken
			}
			return ranks[rank].Communicator.AllReduce(must(kernels.AllocHost(1)), 1)
		})
		team.Close()
	}
	for n := 0; n < 1e6 && runtime.NumGoroutine() > before; n++ {
		runtime.Gosched() // one that has done its work may not be quite gone
	}
	require.LessOrEqual(t, runtime.NumGoroutine(), before)
}

func TestTheCauseIsToldAndNotWhatFollowedFromIt(t *testing.T) {
	ranks := fixture.Ranks(t, "reference", 4)
	team := program.NewTeam(ranks)
	defer team.Close()
	for cause := range ranks {
		err := team.Together(func(rank int) error {
			if rank == cause {
				return fmt.Errorf("rank %d: %w", rank, errBroken)
			}
			return ranks[rank].Communicator.AllReduce(must(kernels.AllocHost(1)), 1)
		})
		require.EqualError(t, err, fmt.Sprintf("rank %d: %v", cause, errBroken))
	}
	// and when it was dealt with, collectives work again
	require.NoError(t, team.Together(func(rank int) error {
		b := must(kernels.AllocHost(3))
		copy(b.Float32(), []float32{1, float32(rank), 7})
		if err := ranks[rank].Communicator.AllReduce(b, 2); err != nil {
			return err
		}
		require.Equal(t, []float32{4, 6, 7}, b.Float32())
		return nil
	}))
}

func TestARowThatIsNotFiniteIsToldByItsPlaceInTheWholeTensor(t *testing.T) {
	const items, rows = 90, 6
	for _, ranks := range []int{1, 4} {
		m := fixture.Model(t, fixture.Autoencoder("softmax", ""), map[string]int64{"input": items, "output": items})
		device := fixture.Ranks(t, "cpu", ranks)[0].Device
		spec := specOf(t, device, fixture.Autoencoder("softmax", ""), items, rows, kernels.SGD)
		spec.Ranks = fixture.Ranks(t, "cpu", ranks)
		spec.Weights = func(name string) (kernels.Buffer, error) { return must(m.Tensor(name)).Buffer(), nil }
		must(m.Tensor("hidden1.weight")).Float32()[70*16] = 3e38 // decays below: 3e38 - 10 x 3e38
		spec.Training.Optimizer.WeightDecay = 1
		p := must(program.Build(spec))
		step := kernels.Step{
			Number: 1, Rows: 1, Training: true, Loss: make([]float64, 1), RatesFrom: 1,
			Rates: []kernels.Rates{{LearningRate: 10}},
		}
		batch := fixture.Batch(t, fixture.Matrix(t, items, [][]int32{{70}}))
		step.Sparse = []*kernels.SparseBatch{batch, batch}
		require.NoError(t, p.Begin(&step))
		var bad *kernels.NotFiniteError
		require.ErrorAs(t, p.Run(&step), &bad)
		require.Equal(t, "hidden1.weight", bad.Tensor)
		require.EqualValues(t, 70, bad.Row)
		p.Free()
	}
}
