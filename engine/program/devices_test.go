package program_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/engine/fault"
	"dsstne/engine/program"
	"dsstne/kernels"
)

func TestAnUnknownDeviceNamesTheNearest(t *testing.T) {
	_, err := program.Placement{Devices: []string{"cpuu"}}.Open()
	require.ErrorContains(t, err, `did you mean "cpu"?`)
}

func TestADeviceThatIsNotThereSaysWhy(t *testing.T) {
	_, err := program.Placement{Devices: []string{"cuda:0"}}.Open()
	require.Equal(t, fault.DeviceUnavailable, fault.KindOf(err))
	require.ErrorContains(t, err, "no CUDA backend")
}

func TestADeviceIsNamedByAWholeWord(t *testing.T) {
	for _, name := range []string{"auto", "all", "cpu", "cpu:0", "cpu:1"} {
		ranks, err := program.Placement{Devices: []string{name}}.Open()
		require.NoError(t, err, name)
		require.Len(t, ranks, 1, name)
		require.NoError(t, program.Close(ranks))
	}
	for name, kind := range map[string]fault.Kind{
		"": fault.InvalidArgument, "auto:7": fault.InvalidArgument, "all:x": fault.InvalidArgument, "cpu:": fault.InvalidArgument,
		"cpu:x": fault.InvalidArgument, "cpu:-1": fault.InvalidArgument, "cuda:x": fault.InvalidArgument, "cuda:": fault.InvalidArgument,
		"cpu:04": fault.InvalidArgument, "cpu:65": fault.InvalidArgument, "cpu:99999999999999999999": fault.InvalidArgument, "cuda": fault.DeviceUnavailable, "cuda:3": fault.DeviceUnavailable,
	} {
		_, err := program.Placement{Devices: []string{name}}.Open()
		require.Equal(t, kind, fault.KindOf(err), name)
	}
}

func TestVirtualDevicesShareTheThreadsAndHaveNames(t *testing.T) {
	ranks, err := program.Placement{Devices: []string{"cpu:4"}, Threads: 6}.Open()
	require.NoError(t, err)
	var names []string
	var threads []int
	for _, r := range ranks {
		names, threads = append(names, r.Device.Info().Name), append(threads, r.Device.Info().Threads)
	}
	require.Equal(t, []string{"cpu[0/4]", "cpu[1/4]", "cpu[2/4]", "cpu[3/4]"}, names)
	require.Equal(t, []int{1, 2, 1, 2}, threads)
	require.NoError(t, program.Close(ranks))
	ranks, err = program.Placement{Devices: []string{"cpu:3"}, Threads: 1}.Open()
	require.NoError(t, err)
	require.Equal(t, 1, ranks[0].Device.Info().Threads, "at least one each")
	require.NoError(t, program.Close(ranks))
}

func TestAListOfDevicesIsRefusedWithTheReason(t *testing.T) {
	for message, names := range map[string][]string{
		`"cpu" twice`: {"cpu", "cpu"},
		`a machine's CPU is one; "cpu:2" makes 2 virtual devices of it`: {"cpu:0", "cpu:1"},
		"some CUDA and some CPU":                 {"cpu", "cuda:0"},
		"no CUDA backend":                        {"cuda:0", "cuda:1"},
		`"all", which stands alone`:              {"cpu", "all"},
		`did you mean "cuda:0"?`:                 {"cuda:0", "cuda:O"},
		"at most 64 virtual devices, \"cpu:64\"": {"cpu:100000"},
	} {
		_, err := program.Placement{Devices: names}.Open()
		require.ErrorContains(t, err, message)
	}
	ranks, err := program.Placement{Devices: []string{"cpu:2"}}.Open()
	require.NoError(t, err, "a list of one")
	require.Len(t, ranks, 2)
	require.NoError(t, program.Close(ranks))
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
