//go:build nocuda || !linux || !amd64

package main

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/engine/fault"
	"dsstne/engine/program"
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
		_, err := program.Placement{Devices: []string{name}}.Open()
		require.ErrorContains(t, err, reason, name)
		require.Equal(t, fault.DeviceUnavailable, fault.KindOf(err), name)
	}
	_, err := program.Placement{Devices: []string{"cuda:0", "cuda:1"}}.Open()
	require.ErrorContains(t, err, "no CUDA backend")
}

func TestABuildWithoutCUDAComputesOnTheCPUUnlessToldOtherwise(t *testing.T) {
	for _, devices := range [][]string{{"auto"}, {"all"}} {
		ranks, err := program.Placement{Devices: devices}.Open()
		require.NoError(t, err, devices)
		require.Len(t, ranks, 1, devices)
		require.Equal(t, "cpu", ranks[0].Device.Info().Name, devices)
		require.NoError(t, program.Close(ranks))
	}
}
