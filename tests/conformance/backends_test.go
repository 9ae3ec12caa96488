package conformance

import (
	"testing"

	"github.com/stretchr/testify/require"

	_ "dsstne/kernels/cpu"
	_ "dsstne/kernels/reference"

	"dsstne/internal/fault"
	"dsstne/kernels"
)

// opener opens a device with a number of threads.
type opener func(threads int) kernels.Device

func openerOf(t testing.TB, b kernels.Backend, instructionSet string, p kernels.Precision) opener {
	return func(threads int) kernels.Device {
		d, err := b.Open(0, kernels.Options{Threads: threads, InstructionSet: instructionSet, Precision: p})
		require.NoError(t, err)
		t.Cleanup(func() { _ = d.Close() })
		return d
	}
}

// reusing opens a device once for each number of threads, for tests that run one op after another.
func (open opener) reusing() opener {
	devices := map[int]kernels.Device{}
	return func(threads int) kernels.Device {
		if devices[threads] == nil {
			devices[threads] = open(threads)
		}
		return devices[threads]
	}
}

// oracle opens the reference.
func oracle(t testing.TB) kernels.Device {
	return openerOf(t, kernels.Lookup("reference"), "", kernels.Float32)(1)
}

// instructionSets of backends that have several; the others ignore or refuse them.
var instructionSets = []string{"auto", "avx512bf16", "avx512vnni", "avx512", "avx2", "portable"}

// forEveryBackend runs a test on each registered backend, with each instruction set that makes another kind of device of
// it. The reference is among them: compared with itself it shows that a case runs, and in tests without a comparison it is
// a backend like all others.
func forEveryBackend(t *testing.T, test func(t *testing.T, open opener)) {
	forEveryBackendAt(t, kernels.Float32, test)
}

// forEveryBackendAt does so at a precision, which some of them emulate and others refuse.
func forEveryBackendAt(t *testing.T, p kernels.Precision, test func(t *testing.T, open opener)) {
	for _, b := range kernels.Registered() {
		if devices := b.Devices(); len(devices) == 0 || devices[0].Missing != "" {
			t.Run(b.Name(), func(t *testing.T) { t.Skipf("%s cannot be used here: %+v", b.Name(), devices) })
			continue
		}
		kinds := map[string]bool{}
		for _, set := range instructionSets {
			d, err := b.Open(0, kernels.Options{Threads: 1, InstructionSet: set, Precision: p})
			if err != nil && (set != "auto" || p == kernels.TensorFloat32 && fault.KindOf(err) == fault.InvalidArgument) {
				continue // not on this machine
			}
			require.NoError(t, err)
			kind := d.Info().Kind
			require.NoError(t, d.Close())
			if !kinds[kind] {
				kinds[kind] = true
				t.Run(b.Name()+" "+kind, func(t *testing.T) { test(t, openerOf(t, b, set, p)) })
			}
		}
	}
}
