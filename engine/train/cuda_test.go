//go:build !nocuda && linux && amd64

package train_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	_ "dsstne/kernels/cuda"
)

// emulator is the driver of tests/cudaemu, which `make test-go` builds.
const emulator = "../../build/cudaemu"

// The driver and NCCL are found as a process begins. So the test runs again in processes that find the emulated ones:
// with the stand-in for NCCL, without it, and with devices that do not reach each other.
func TestOneStepOnSeveralCUDADevicesIsThatOfTheCPUButForTheOrderOfSums(t *testing.T) {
	if os.Getenv("DSSTNE_TEST_DRIVER") != "" {
		oneStepOnCUDA(t)
		return
	}
	folder := emulatorFolder(t)
	alone := t.TempDir()
	require.NoError(t, os.Symlink(folder+"/libcuda.so.1", alone+"/libcuda.so.1"))
	test := t.Name()
	for name, settings := range map[string][]string{
		"NCCL":                      {"LD_LIBRARY_PATH=" + folder},
		"peer copies":               {"LD_LIBRARY_PATH=" + alone},
		"copies by way of the host": {"LD_LIBRARY_PATH=" + alone, "DSSTNE_CUDAEMU_PEERS=0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			process := exec.Command(os.Args[0], "-test.run=^"+test+"$")
			process.Env = append(append(os.Environ(), "DSSTNE_TEST_DRIVER=emulator"), settings...)
			output, err := process.CombinedOutput()
			require.NoError(t, err, "%s", output)
		})
	}
}

func oneStepOnCUDA(t *testing.T) {
	on := func(devices, optimizer string) string {
		return fmt.Sprintf(`{"devices": %s, "batch_size": 50, "optimizer": %s}`, devices, optimizer)
	}
	lists := []string{`["cuda:0", "cuda:1"]`, `["cuda:2", "cuda:0", "cuda:1"]`, `"all"`}
	for n, name := range slices.Sorted(maps.Keys(networks)) {
		t.Run(name, func(t *testing.T) { // whose trainers are closed at its end
			definition, number := networks[name], n*2*len(ways)
			m := modelOf(t, definition)
			before := values(m)
			plain, _ := after(t, definition, on(`"cpu"`, optimizers["sgd"]), 1)
			gradients := gradientsOf(before, plain)
			off := gradientError(gradients, false)
			for k, kind := range []string{"sgd", "adam"} {
				for w, way := range ways {
					if !tried(2*k+w, 4, n, 0) {
						continue
					}
					one, _ := after(t, definition, on(`"cpu"`, optimizers[kind]), 1)
					devices := lists[number%len(lists)] // each network with some, each list with many
					number++
					many, _ := after(t, definition, by(way, on(devices, optimizers[kind])), 1)
					for i := range one {
						bound := stepError(kind, gradients[i], off, float64(before[i]))
						require.InDelta(t, one[i], many[i], bound, "%s, %s, %s: weight %d", kind, devices, way, i)
					}
				}
			}
		})
	}
}

// emulatorFolder is where the emulated driver is; it skips the test if there is none.
func emulatorFolder(t *testing.T) string {
	folder, err := filepath.Abs(emulator)
	require.NoError(t, err)
	if _, err := os.Stat(folder + "/libcuda.so.1"); err != nil {
		t.Skip("the emulated CUDA driver is not built: make emulator")
	}
	return folder
}

// onEmulator reports whether this process has the emulated driver. If not, it runs the test again in one that has: the
// driver is found as a process begins.
func onEmulator(t *testing.T) bool {
	if os.Getenv("DSSTNE_TEST_DRIVER") != "" {
		return true
	}
	folder := emulatorFolder(t)
	process := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	process.Env = append(os.Environ(), "DSSTNE_TEST_DRIVER=emulator", "LD_LIBRARY_PATH="+folder)
	output, err := process.CombinedOutput()
	require.NoError(t, err, "%s", output)
	return false
}

func TestAStepWithAWeightNormOnCUDADevicesIsThatOfTheCPU(t *testing.T) {
	if !onEmulator(t) {
		return
	}
	on := func(devices string) string {
		return fmt.Sprintf(`{"devices": %s, "batch_size": 50, "optimizer": %s}`, devices, optimizers["sgd"])
	}
	for name := range cappedNetworks {
		t.Run(name, func(t *testing.T) { // whose trainers are closed at its end
			cappedStep(t, name, on(`"cpu"`), on(`"cuda:0"`))
			for _, way := range ways {
				cappedStep(t, name, on(`"cpu"`), by(way, on(`["cuda:2", "cuda:0", "cuda:1"]`)))
			}
		})
	}
}
