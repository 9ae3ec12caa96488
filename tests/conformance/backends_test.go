package conformance

import (
	"testing"

	"github.com/stretchr/testify/require"

	_ "dsstne/kernels/cpu"
	_ "dsstne/kernels/reference"

	"dsstne/kernels"
)

// opener opens a device with a number of threads.
type opener func(threads int) kernels.Device

func openerOf(t testing.TB, b kernels.Backend) opener {
	t.Helper()
	devices := b.Devices()
	if len(devices) == 0 {
		t.Skipf("%s has no devices", b.Name())
	}
	if devices[0].Missing != "" {
		t.Skipf("%s: %s", b.Name(), devices[0].Missing)
	}
	return func(threads int) kernels.Device {
		d, err := b.Open(0, kernels.Options{Threads: threads})
		require.NoError(t, err)
		t.Cleanup(func() { _ = d.Close() })
		return d
	}
}

// oracle opens the reference.
func oracle(t testing.TB) kernels.Device { return openerOf(t, kernels.Lookup("reference"))(1) }

// forEveryBackend runs a test on each registered backend, the reference too: compared with itself it shows that a case
// runs, and in tests without a comparison it is a backend like all others.
func forEveryBackend(t *testing.T, test func(t *testing.T, open opener)) {
	for _, b := range kernels.Registered() {
		t.Run(b.Name(), func(t *testing.T) { test(t, openerOf(t, b)) })
	}
}
