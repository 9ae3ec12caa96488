package cpu_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/kernels"
	"dsstne/kernels/cpu"
)

func TestAWorkspaceForABatchServesSmallerBatchesToo(t *testing.T) {
	for _, set := range cpu.InstructionSets() {
		for _, threads := range []int{1, 2, 8} {
			d, err := kernels.Lookup("cpu").Open(0, kernels.Options{Threads: threads, InstructionSet: set})
			require.NoError(t, err)
			for _, units := range []int64{1, 16, 64, 100, 128, 256, 1024} {
				for _, items := range []int64{1, 300, 1682, 3706, 40981} {
					w := &kernels.Weights{Rows: items, Columns: units}
					op := &kernels.Output{Items: items, Sources: []kernels.OutputSource{{Weight: w}}}
					for _, planned := range []int64{1, 200, 512, 1024, 2000} {
						size := d.WorkspaceSize(op, planned)
						for rows := int64(1); rows < planned; rows += 31 {
							require.LessOrEqual(t, d.WorkspaceSize(op, rows), size, "%s, %d threads, %d of %d rows, %d units, %d items",
								set, threads, rows, planned, units, items)
						}
					}
				}
			}
			require.NoError(t, d.Close())
		}
	}
}
