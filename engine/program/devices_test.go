package program_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/engine/fault"
	"dsstne/engine/program"
	"dsstne/kernels"
)

func TestAnUnknownDeviceNamesTheNearest(t *testing.T) {
	_, err := program.Placement{Device: "cpuu"}.Open()
	require.ErrorContains(t, err, `did you mean "cpu"?`)
}

func TestADeviceThatIsNotThereSaysWhy(t *testing.T) {
	_, err := program.Placement{Device: "cuda:0"}.Open()
	require.Equal(t, fault.DeviceUnavailable, fault.KindOf(err))
	require.ErrorContains(t, err, "no CUDA backend")
}

func TestADeviceIsNamedByAWholeWord(t *testing.T) {
	for _, name := range []string{"auto", "all", "cpu", "cpu:0"} {
		d, err := program.Placement{Device: name}.Open()
		require.NoError(t, err, name)
		require.NoError(t, d.Close())
	}
	for name, kind := range map[string]fault.Kind{
		"": fault.InvalidArgument, "auto:7": fault.InvalidArgument, "all:x": fault.InvalidArgument, "cpu:": fault.InvalidArgument,
		"cpu:x": fault.InvalidArgument, "cpu:-1": fault.InvalidArgument, "cuda:x": fault.InvalidArgument, "cuda:": fault.InvalidArgument,
		"cpu:1": fault.Unsupported, "cpu:2": fault.Unsupported, "cuda": fault.DeviceUnavailable, "cuda:3": fault.DeviceUnavailable,
	} {
		_, err := program.Placement{Device: name}.Open()
		require.Equal(t, kind, fault.KindOf(err), name)
	}
}

// cpu is the CPU as it is described.
func cpu(t *testing.T) kernels.DeviceInfo {
	for _, d := range program.Devices() {
		if d.Name == "cpu" {
			return d
		}
	}
	require.Fail(t, "no CPU is described")
	return kernels.DeviceInfo{}
}

func TestDefaultsThatAreNotGivenStay(t *testing.T) {
	automatic := cpu(t)
	defer func() { require.NoError(t, program.Configure(0, "auto")) }()
	require.NoError(t, program.Configure(3, ""))
	require.NoError(t, program.Configure(-1, "portable"))
	require.Equal(t, []any{3, "portable"}, []any{cpu(t).Threads, cpu(t).Kind})
	require.Equal(t, []int{3, 5}, []int{program.Threads(0), program.Threads(5)})
	require.NoError(t, program.Configure(0, ""))
	require.Equal(t, []any{automatic.Threads, "portable"}, []any{cpu(t).Threads, cpu(t).Kind})
	require.NoError(t, program.Configure(-1, "auto"))
	require.Equal(t, automatic.Kind, cpu(t).Kind)
}

func TestARefusedDefaultChangesNothing(t *testing.T) {
	before := cpu(t)
	require.Error(t, program.Configure(7, "avx3"))
	require.Equal(t, before.Threads, cpu(t).Threads)
}
