package cpu

import (
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/kernels"
)

func TestLimitsAreMeasuredInEveryInstructionSetAndPrecision(t *testing.T) {
	for _, set := range InstructionSets() {
		for _, precision := range []kernels.Precision{kernels.Float32, kernels.BFloat16} {
			d, err := backend{}.Open(0, kernels.Options{Threads: 2, InstructionSet: set, Precision: precision})
			require.NoError(t, err)
			limits, err := d.(kernels.Limited).Limits(1)
			require.NoError(t, err)
			t.Logf("%s, %v: %.3g and %.3g multiply-adds/s, %.3g and %.3g bytes/s", set, precision, limits.Float32,
				limits.Products, limits.Read, limits.Update)
			// At most 10 GHz with 4 vectors of 32 bfloat16 on 2 workers; a loop that the compiler has left out would take no time.
			for _, rate := range []float64{limits.Float32, limits.Products} {
				require.Positive(t, rate)
				require.Less(t, rate, 2*10e9*4*32.0)
			}
			for _, rate := range []float64{limits.Read, limits.Update} {
				require.Positive(t, rate)
				require.Less(t, rate, 1e13)
			}
			require.Equal(t, precision == kernels.Float32, limits.Products == limits.Float32)
			require.NoError(t, d.Close())
		}
	}
}
