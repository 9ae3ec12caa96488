package devices_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/engine/devices"
	"dsstne/internal/fault"
	"dsstne/kernels"
)

func init() {
	kernels.Register(kernels.Absent{Backend: "cuda", Reason: "there is no CUDA backend"})
}

func TestAnUnknownDeviceNamesTheNearest(t *testing.T) {
	for word, meant := range map[string]string{"cpuu": "cpu", "gpu": "cuda:0", "gpu:1": "cuda:1"} {
		_, err := devices.Placement{Devices: []string{word}}.Open(nil)
		require.ErrorContains(t, err, `did you mean "`+meant+`"?`)
	}
}

func TestADeviceThatIsNotThereSaysWhy(t *testing.T) {
	_, err := devices.Placement{Devices: []string{"cuda:0"}}.Open(nil)
	require.Equal(t, fault.DeviceUnavailable, fault.KindOf(err))
	require.ErrorContains(t, err, "no CUDA backend")
}

func TestADeviceIsNamedByAWholeWord(t *testing.T) {
	for _, name := range []string{"auto", "all", "cpu", "cpu:0", "cpu:1"} {
		opened, err := devices.Placement{Devices: []string{name}}.Open(nil)
		require.NoError(t, err, name)
		require.Len(t, opened.Ranks, 1, name)
		require.NoError(t, opened.Rest())
	}
	for name, kind := range map[string]fault.Kind{
		"": fault.InvalidArgument, "auto:7": fault.InvalidArgument, "all:x": fault.InvalidArgument,
		"cpu:":  fault.InvalidArgument,
		"cpu:x": fault.InvalidArgument, "cpu:-1": fault.InvalidArgument, "cuda:x": fault.InvalidArgument,
		"cuda:":  fault.InvalidArgument,
		"cpu:04": fault.InvalidArgument, "cpu:65": fault.InvalidArgument, "cpu:99999999999999999999": fault.InvalidArgument,
		"cuda": fault.DeviceUnavailable, "cuda:3": fault.DeviceUnavailable,
	} {
		_, err := devices.Placement{Devices: []string{name}}.Open(nil)
		require.Equal(t, kind, fault.KindOf(err), name)
	}
}

func TestVirtualDevicesShareTheThreadsAndHaveNames(t *testing.T) {
	opened, err := devices.Placement{Devices: []string{"cpu:4"}, Threads: 6}.Open(nil)
	require.NoError(t, err)
	var names []string
	var threads []int
	for _, r := range opened.Ranks {
		names, threads = append(names, r.Device.Info().Name), append(threads, r.Device.Info().Threads)
	}
	require.Equal(t, []string{"cpu[0/4]", "cpu[1/4]", "cpu[2/4]", "cpu[3/4]"}, names)
	require.Equal(t, []int{1, 2, 1, 2}, threads)
	require.NoError(t, opened.Rest())
	opened, err = devices.Placement{Devices: []string{"cpu:3"}, Threads: 1}.Open(nil)
	require.NoError(t, err)
	require.Equal(t, 1, opened.Ranks[0].Device.Info().Threads, "at least one each")
	require.NoError(t, opened.Rest())
}

func TestAListOfDevicesIsRefusedWithTheReason(t *testing.T) {
	for message, names := range map[string][]string{
		`"cpu" twice`: {"cpu", "cpu"},
		`a machine's CPU is one; "cpu:2" makes 2 virtual devices of it`: {"cpu:0", "cpu:1"},
		"some of cpu and some of cuda":                                  {"cpu", "cuda:0"},
		"no CUDA backend":                                               {"cuda:0", "cuda:1"},
		`"all", which stands alone`:                                     {"cpu", "all"},
		`did you mean "cuda:0"?`:                                        {"cuda:0", "cuda:O"},
		"at most 64 virtual devices, \"cpu:64\"":                        {"cpu:100000"},
	} {
		_, err := devices.Placement{Devices: names}.Open(nil)
		require.ErrorContains(t, err, message)
	}
	opened, err := devices.Placement{Devices: []string{"cpu:2"}}.Open(nil)
	require.NoError(t, err, "a list of one")
	require.Len(t, opened.Ranks, 2)
	require.NoError(t, opened.Rest())
}

// cpu is the CPU as it is described.
func cpu(t *testing.T) kernels.DeviceInfo {
	for _, d := range devices.List() {
		if d.Name == "cpu" {
			return d
		}
	}
	require.Fail(t, "no CPU is described")
	return kernels.DeviceInfo{}
}

func TestDefaultsThatAreNotGivenStay(t *testing.T) {
	automatic := cpu(t)
	defer func() { require.NoError(t, devices.Configure(0, "auto")) }()
	require.NoError(t, devices.Configure(3, ""))
	require.NoError(t, devices.Configure(-1, "portable"))
	require.Equal(t, []any{3, "portable"}, []any{cpu(t).Threads, cpu(t).Kind})
	require.Equal(t, []int{3, 5}, []int{devices.Threads(0), devices.Threads(5)})
	require.NoError(t, devices.Configure(0, ""))
	require.Equal(t, []any{automatic.Threads, "portable"}, []any{cpu(t).Threads, cpu(t).Kind})
	require.NoError(t, devices.Configure(-1, "auto"))
	require.Equal(t, automatic.Kind, cpu(t).Kind)
}

func TestARefusedDefaultChangesNothing(t *testing.T) {
	before := cpu(t)
	require.Error(t, devices.Configure(7, "avx3"))
	require.Equal(t, before.Threads, cpu(t).Threads)
}
