package predict_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/engine/csr"
	"dsstne/engine/predict"
	"dsstne/internal/fault"
	"dsstne/tests/fixture"
)

func TestTheLimitHoldsForWhatACallTakes(t *testing.T) {
	const rows, queries = 400, 1 << 14
	data := fixture.Blocks(t, rows, items, 4, 2, 3)
	p := on(t, data, `{"threads": 1, "batch_size": 16384, "memory_limit": 400000}`)
	other := fixture.Blocks(t, rows, items, 4, 120, 3) // 43,200 items to leave out, 8 bytes each
	ids, scores := make([]int32, rows*5), make([]float32, rows*5)
	recommend := func(exclude csr.Source) error {
		return p.Recommend("", nil, exclude, predict.Filter{}, 5, ids, scores)
	}
	evaluate := func(metric string) error {
		_, err := p.Evaluate("", data, nil, nil, predict.Filter{}, []string{metric}, nil)
		return err
	}
	require.NoError(t, recommend(nil))
	require.NoError(t, evaluate("recall@5"))
	for part, err := range map[string]error{
		"batch":           recommend(other),
		"recommendations": evaluate("recall@1000000"), // 400 x 130 of them, 8 bytes each
		"queries": p.Neighbors("", make([]int32, queries), predict.Filter{}, predict.NeighborOptions{IncludeSelf: true}, 5,
			make([]int32, 5*queries), make([]float32, 5*queries)), // 16 floats each
	} {
		require.Equal(t, fault.OutOfMemory, fault.KindOf(err), part)
		require.ErrorContains(t, err, part)
		require.ErrorContains(t, err, "nothing was allocated")
	}
	require.NoError(t, recommend(nil), "a refused call leaves nothing behind")
	require.NoError(t, other.Close())
}

func TestBoundDataCountsTowardsTheLimit(t *testing.T) {
	data := fixture.Blocks(t, 10_000, items, 4, 6, 3)
	p := on(t, data, `{"threads": 1, "memory_limit": 500000}`)
	err := p.Recommend("", []int64{0}, nil, predict.Filter{}, 1, make([]int32, 1), make([]float32, 1))
	require.Equal(t, fault.OutOfMemory, fault.KindOf(err))
	require.ErrorContains(t, err, "data 472 kB")
}
