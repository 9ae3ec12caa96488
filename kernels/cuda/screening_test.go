//go:build !nocuda && linux && amd64

package cuda

import (
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/kernels"
)

func TestWithLongListsFewerRowsAreRankedAtATime(t *testing.T) {
	d := &device{}
	d.hardware.Multiprocessors = 132
	sources := []kernels.OutputSource{{Weight: &kernels.Weights{Columns: 64}}}
	for k, rows := range map[int64]int64{10: 512, 1000: 512, 100_000: 10} {
		op := &kernels.TopK{Scorer: kernels.Scorer{Items: 1 << 20, Sources: sources}, K: k}
		space := d.spaceOfTopK(op, 600)
		require.Equal(t, rows, space.rows, "k = %d", k)
		require.Less(t, 4*space.total, int64(1<<28), "k = %d", k)
	}
}

func TestEveryTileIsInOnePartOfOneWave(t *testing.T) {
	for _, items := range []int64{1024, 5000, 100_000} {
		for _, k := range []int64{1, 10, 100} {
			seen := map[int64]bool{}
			for _, part := range partsOf(wavesOf(items, k), 7) {
				require.LessOrEqual(t, part.count, int64(7))
				for place := range part.count {
					tile := (part.begin + place) * part.stride % part.tiles
					require.False(t, seen[tile], "items %d, k %d, tile %d", items, k, tile)
					seen[tile] = true
				}
			}
			require.Len(t, seen, int((items+screenItems-1)/screenItems))
		}
	}
}
