//go:build !nocuda && linux && amd64

package train_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"dsstne/engine/train"
	"dsstne/tests/fixture"
	"dsstne/tests/openers"
)

// The driver is found as a process begins, so the test runs again in one that finds the emulated one. What is copied is
// counted in tests/python/test_cuda_shared_data.py; this is for the race detector.
func TestTrainersOnACUDADeviceOpenRunAndCloseWithOneCopyOfTheData(t *testing.T) {
	if os.Getenv("DSSTNE_TEST_DRIVER") == "" {
		folder, err := filepath.Abs(emulator)
		require.NoError(t, err)
		if _, err := os.Stat(folder + "/libcuda.so.1"); err != nil {
			t.Skip("the emulated CUDA driver is not built: make emulator")
		}
		process := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
		process.Env = append(os.Environ(), "DSSTNE_TEST_DRIVER=emulator", "LD_LIBRARY_PATH="+folder)
		output, err := process.CombinedOutput()
		require.NoError(t, err, "%s", output)
		return
	}
	const trainers, turns, steps = 3, 3, 4
	data := fixture.Blocks(t, rows, items, 4, 6, 3)
	trained := func() (bits []uint32, err error) {
		m := fixture.Model(t, fixture.Autoencoder("softmax", ""), map[string]int64{"input": items, "output": items})
		var trainer *train.Trainer
		if trainer, err = openers.Trainer(m, []byte(`{"devices": "cuda:0", "batch_size": 16}`)); err != nil {
			return nil, err
		}
		for _, layer := range []string{"input", "output"} {
			if err = trainer.Bind(layer, data); err != nil {
				return nil, err
			}
		}
		if _, err = trainer.Run(steps, 0); err != nil {
			return nil, err
		}
		if err = trainer.Close(); err != nil {
			return nil, err
		}
		return weights(m), m.Close()
	}
	want, err := trained()
	require.NoError(t, err)
	var wait sync.WaitGroup
	for range trainers {
		wait.Go(func() {
			for range turns {
				got, err := trained()
				if !assert.NoError(t, err) {
					return
				}
				assert.Equal(t, want, got)
			}
		})
	}
	wait.Wait()
	require.NoError(t, data.Close())
}
