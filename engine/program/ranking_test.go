package program_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/engine/fault"
	"dsstne/engine/program"
	"dsstne/kernels"
	"dsstne/tests/fixture"
)

// rankingOf ranks 50 items of an autoencoder's output, with a filter and metrics.
func rankingOf(t *testing.T, ranks []program.Rank) program.RankingSpec {
	spec := specOf(t, ranks[0].Device, fixture.Autoencoder("softmax", ""), 50, 16, kernels.SGD)
	spec.Training, spec.Ranks = nil, ranks
	forward, err := program.Build(spec)
	require.NoError(t, err)
	t.Cleanup(forward.Free)
	output := len(spec.Network.Layers) - 1
	return program.RankingSpec{
		Ranks: ranks, Forward: forward, Shards: forward.Shards(output), Rows: 16, K: 20, PerRow: true,
		Allowed: func(_, count int64) []uint64 { return make([]uint64, (count+63)/64) },
		Metrics: []kernels.Metric{{Kind: kernels.MetricNDCG, K: 20}, {Kind: kernels.MetricCoverage, K: 5}},
	}
}

func TestARankingTakesWhatItsPlanSays(t *testing.T) {
	for _, count := range []int{1, 3} {
		ranks := ranksOf(t, "cpu", count)
		devices := make([]*counting, count)
		for rank := range ranks {
			devices[rank] = &counting{Device: ranks[rank].Device}
			ranks[rank].Device = devices[rank]
		}
		spec := rankingOf(t, ranks)
		taken := func(limit int64) (bytes int64, err error) {
			for _, d := range devices {
				d.bytes = 0
			}
			spec.Limit = limit
			r, err := program.NewRanking(spec)
			for _, d := range devices {
				bytes += d.bytes
			}
			if err == nil {
				r.Free()
			}
			return bytes, err
		}
		needed, err := taken(0)
		require.NoError(t, err)
		bytes, err := taken(needed)
		require.NoError(t, err)
		require.Equal(t, needed, bytes)
		bytes, err = taken(needed - 1)
		require.Equal(t, fault.OutOfMemory, fault.KindOf(err))
		require.ErrorContains(t, err, "nothing was allocated")
		require.Zero(t, bytes)
	}
}

func TestMemoryThatIsRefusedToARankingLeavesNothingBehind(t *testing.T) {
	for at := 1; ; at++ {
		far, held := 1<<30, 0
		ranks := ranksOf(t, "reference", 3)
		for rank := range ranks {
			ranks[rank].Device = scarce{ranks[rank].Device, &far, &held}
		}
		spec := rankingOf(t, ranks)
		before := held
		far = at
		r, err := program.NewRanking(spec)
		if err == nil {
			require.Greater(t, at, 10)
			r.Free()
			require.Equal(t, before, held)
			return
		}
		require.Equal(t, fault.OutOfMemory, fault.KindOf(err))
		require.Equal(t, before, held, "allocation %d", at)
	}
}
