//go:build !nocuda && linux && amd64

package cuda

import (
	"errors"
	"os"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"dsstne/kernels"
)

// opened opens the first device.
func opened(t *testing.T) *device {
	t.Helper()
	if os.Getenv("DSSTNE_TEST_DRIVER") == "" {
		t.Skip("neither the emulator (make test-go builds it) nor a device that was asked for (DSSTNE_TEST_DRIVER=real)")
	}
	d, err := backend{}.Open(0, kernels.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d.(*device)
}

func TestAStepBringsOnlyTheRatesThatTheDeviceHasNot(t *testing.T) {
	d := opened(t)
	step := &kernels.Step{RatesFrom: 7}
	run := func() int {
		var fresh freshRates
		require.NoError(t, d.do("asking for rates", func() (err error) {
			fresh, err = d.step.rates.prepare(d, step)
			return err
		}))
		require.NoError(t, d.Run(kernels.Rank{Device: d}, &kernels.List{Rare: true}, step))
		return len(fresh.list)
	}
	// rates are what the device has.
	rates := func() []kernels.Rates {
		got := make([]kernels.Rates, len(step.Rates))
		require.NoError(t, d.do("reading rates", func() error {
			size := int64(len(got)) * int64(unsafe.Sizeof(got[0]))
			return errors.Join(d.stream.CopyToHostAsync(unsafe.Pointer(&got[0]), d.step.rates.at, size), d.wait())
		}))
		return got
	}
	add := func(rate float32) {
		step.Number = step.RatesFrom + int64(len(step.Rates))
		step.Rates = append(step.Rates, kernels.Rates{LearningRate: rate})
	}
	for n := range 2*leastRates + 100 { // the slice and the table move several times
		add(float32(n))
		require.Equal(t, 1, run())
	}
	require.Equal(t, step.Rates, rates())
	require.Equal(t, 0, run(), "nothing new")

	step.Rates, step.RatesFrom = step.Rates[:0], step.Number+1 // the next run, in the same memory
	add(-1)
	add(-2)
	require.Equal(t, 2, run())
	require.Equal(t, step.Rates, rates())
	step.Rates = []kernels.Rates{{LearningRate: -1}, {LearningRate: -3}, {LearningRate: -4}} // of another trainer
	require.Equal(t, 3, run())
	require.Equal(t, step.Rates, rates())
}
