package devices

import (
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/internal/fault"
	"dsstne/kernels"
	_ "dsstne/kernels/cpu"
)

// spoiled is a device of which one op is a little off.
type spoiled struct {
	kernels.Device
	op     string
	factor float32
}

func (s *spoiled) spoil(op string, x []float32) {
	for i := range x {
		if op == s.op {
			x[i] *= s.factor
		}
	}
}

func (s *spoiled) Gather(op *kernels.Gather, step *kernels.Step) error {
	err := s.Device.Gather(op, step)
	s.spoil("Gather", op.Out.Float32())
	return err
}

func (s *spoiled) Scatter(op *kernels.Scatter, step *kernels.Step) error {
	s.spoil("Scatter", op.DZ.Float32())
	return s.Device.Scatter(op, step)
}

func (s *spoiled) OutputStep(op *kernels.Output, step *kernels.Step) error {
	err := s.Device.OutputStep(op, step)
	s.spoil("OutputStep", op.Bias.Value.Float32())
	return err
}

func (s *spoiled) Scores(op *kernels.Scores, step *kernels.Step) error {
	err := s.Device.Scores(op, step)
	s.spoil("Scores", op.Out[:1])
	return err
}

func TestATrialFindsDevicesThatComputeSomethingElse(t *testing.T) {
	for _, precision := range []kernels.Precision{kernels.Float32, kernels.BFloat16} {
		for _, ranks := range []int{1, 3} {
			for _, op := range []string{"", "Gather", "Scatter", "OutputStep", "Scores"} {
				list := make([]kernels.Rank, ranks)
				group := kernels.NewHostGroup(ranks)
				for rank := range list {
					d, err := kernels.Lookup("cpu").Open(rank, kernels.Options{Threads: 1, Of: ranks, Precision: precision})
					require.NoError(t, err)
					list[rank] = kernels.Rank{Device: d, Communicator: group[rank]}
				}
				defer func() { require.NoError(t, closeAll(list)) }()
				last := list[ranks-1].Device
				list[ranks-1].Device = &spoiled{Device: last, op: op, factor: 1.2}
				differs, err := compared(list, precision)
				require.NoError(t, err)
				if op == "" {
					require.Empty(t, differs, "%d ranks, %s", ranks, precision)
					continue
				}
				require.Contains(t, differs, "on the CPU", "%d ranks, %s, %s", ranks, precision, op)
			}
		}
	}
}

func TestDevicesThatComputeSomethingElseAreNotTriedAgain(t *testing.T) {
	d, err := kernels.Lookup("cpu").Open(0, kernels.Options{Threads: 1})
	require.NoError(t, err)
	defer func() { require.NoError(t, d.Close()) }()
	device := &spoiled{Device: d, op: "Gather", factor: 1.2}
	for range 2 {
		err := tried([]kernels.Rank{{Device: device}}, kernels.Float32)
		require.Equal(t, fault.DeviceUnavailable, fault.KindOf(err))
		require.ErrorContains(t, err, `devices="cpu" computes without it`)
		device.op = ""
	}
}
