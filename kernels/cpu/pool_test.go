package cpu

import (
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/engine/fault"
	"dsstne/kernels"
)

func TestADeviceMayBeClosedAtOnce(t *testing.T) {
	for range 10_000 {
		d, err := backend{}.Open(0, kernels.Options{Threads: 3})
		require.NoError(t, err)
		require.NoError(t, d.Close())
	}
}

func TestAPanicOfAWorkerIsAnErrorAndThePoolGoesOn(t *testing.T) {
	p := newPool(4)
	defer p.close()
	for bad := range 4 {
		err := p.run(func(worker int) {
			if worker == bad {
				panic("boom")
			}
		})
		require.Equal(t, fault.Internal, fault.KindOf(err))
		require.ErrorContains(t, err, "boom")
		require.NoError(t, p.run(func(int) {}))
	}
}
