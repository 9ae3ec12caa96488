//go:build nocuda || !linux || !amd64

package main

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/engine/devices"
	"dsstne/internal/fault"
	"dsstne/kernels"
)

const reason = "this build of dsstne has no CUDA backend; it computes on the CPU"

func TestABuildWithoutCUDASaysSoWhereDevicesAreListed(t *testing.T) {
	text, err := describeLibrary()
	require.NoError(t, err)
	var told struct {
		Backends []string             `json:"backends"`
		Devices  []kernels.DeviceInfo `json:"devices"`
	}
	require.NoError(t, json.Unmarshal(text, &told))
	require.Equal(t, []string{"cpu", "reference"}, told.Backends)
	require.Len(t, told.Devices, 2)
	require.Equal(t, "cpu", told.Devices[0].Name)
	require.Equal(t, kernels.DeviceInfo{Name: "cuda", Available: -1, Missing: reason}, told.Devices[1])
}

func TestABuildWithoutCUDASaysSoWhereADeviceIsAskedFor(t *testing.T) {
	for _, name := range []string{"cuda", "cuda:0", "cuda:7"} {
		_, err := devices.Placement{Devices: []string{name}}.Open(nil)
		require.ErrorContains(t, err, reason, name)
		require.Equal(t, fault.DeviceUnavailable, fault.KindOf(err), name)
	}
	_, err := devices.Placement{Devices: []string{"cuda:0", "cuda:1"}}.Open(nil)
	require.ErrorContains(t, err, "no CUDA backend")
}

func TestABuildWithoutCUDAComputesOnTheCPUUnlessToldOtherwise(t *testing.T) {
	for _, words := range [][]string{{"auto"}, {"all"}} {
		opened, err := devices.Placement{Devices: words}.Open(nil)
		require.NoError(t, err, words)
		require.Len(t, opened.Ranks, 1, words)
		require.Equal(t, "cpu", opened.Ranks[0].Device.Info().Name, words)
		require.NoError(t, opened.Rest())
	}
}
