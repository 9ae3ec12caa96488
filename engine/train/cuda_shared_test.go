//go:build !nocuda && linux && amd64

package train_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"dsstne/engine/train"
	"dsstne/tests/fixture"
	"dsstne/tests/openers"
)

// What is copied is counted in tests/python/test_cuda_shared_data.py; this is for the race detector.
func TestTrainersOnACUDADeviceOpenRunAndCloseWithOneCopyOfTheData(t *testing.T) {
	if !onEmulator(t) {
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
