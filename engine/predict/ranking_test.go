package predict

import (
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/engine/program"
	"dsstne/internal/fault"
	"dsstne/kernels"
	_ "dsstne/kernels/cpu"
	_ "dsstne/kernels/reference"
	"dsstne/tests/fixture"
)

// rankingOf ranks 50 items of an autoencoder's output, with a filter and metrics.
func rankingOf(t *testing.T, ranks []kernels.Rank) (*ranking, program.Spec) {
	m := fixture.Model(t, fixture.Autoencoder("softmax", ""), map[string]int64{"input": 50, "output": 50})
	bind := func(f *program.Feed) { f.Entries = func(rows int64) int64 { return 20 * rows } }
	forward, err := program.Build(program.Spec{
		Computation: m.Network().Computation(bind), Ranks: ranks, Rows: 16,
		Weights: func(name string) (kernels.Buffer, error) {
			tensor, err := m.Tensor(name)
			return tensor.Buffer(), err
		},
	})
	require.NoError(t, err)
	t.Cleanup(forward.Free)
	r := &ranking{
		items: 50, scorer: func(b *program.Builder) kernels.Scorer { return b.Shard(len(m.Network().Layers) - 1).Scorer },
		k: 20, perRow: true,
		allowed: func(_, count int64) []uint64 { return make([]uint64, (count+63)/64) },
		metrics: []kernels.Metric{{Kind: kernels.MetricNDCG, K: 20}, {Kind: kernels.MetricCoverage, K: 5}},
	}
	return r, program.Spec{Ranks: ranks, Rows: 16, Follows: forward}
}

func TestARankingTakesWhatItsPlanSays(t *testing.T) {
	for _, count := range []int{1, 3} {
		ranks := fixture.Ranks(t, "cpu", count)
		devices := make([]*fixture.Counting, count)
		for rank := range ranks {
			devices[rank] = ranks[rank].Device.(*fixture.Counting)
			ranks[rank].Device = devices[rank]
		}
		ranking, spec := rankingOf(t, ranks)
		taken := func(limit int64) (bytes int64, err error) {
			for _, d := range devices {
				d.Bytes = 0
			}
			spec.Limit = limit
			r, err := ranking.program(spec)
			for _, d := range devices {
				bytes += d.Bytes
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
		ranks := fixture.Ranks(t, "reference", 3)
		for rank := range ranks {
			ranks[rank].Device = fixture.Scarce{Device: ranks[rank].Device, Countdown: &far, Held: &held}
		}
		ranking, spec := rankingOf(t, ranks)
		before := held
		far = at
		r, err := ranking.program(spec)
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
