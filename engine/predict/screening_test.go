package predict_test

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/engine/predict"
	"dsstne/engine/program"
	"dsstne/kernels"
)

// oneByOne recommends to every row in a call of its own.
func oneByOne(t *testing.T, p *predict.Predictor, k int64) (ids []int32, values []float32) {
	t.Helper()
	for row := range int64(rows) {
		i, v := make([]int32, k), make([]float32, k)
		require.NoError(t, p.Recommend("", []int64{row}, nil, predict.Filter{}, k, i, v))
		ids, values = append(ids, i...), append(values, v...)
	}
	return ids, values
}

func TestRowsOneByOneGetTheRecommendationsOfAllAtOnceAlsoAfterTheWeightsHaveChanged(t *testing.T) {
	p, _ := opened(t, "", "")
	for range 2 {
		ids, values := recommend(t, p, nil, predict.Filter{}, 7)
		i, v := oneByOne(t, p, 7)
		require.Equal(t, ids, i)
		require.Equal(t, values, v)
		unlock, err := p.Model.TryWrite()
		require.NoError(t, err)
		w, err := p.Model.Tensor("output.weight")
		require.NoError(t, err)
		slices.Reverse(w.Buffer().Float32())
		unlock()
	}
}

// planned is what the plan has for low-precision weights.
func planned(t *testing.T, p *predict.Predictor) (bytes int64) {
	t.Helper()
	text, err := p.Plan("", 5)
	require.NoError(t, err)
	var plan program.Plan
	require.NoError(t, json.Unmarshal(text, &plan))
	for _, part := range plan.Parts {
		if part.Name == "low-precision weights" {
			bytes += part.Bytes
		}
	}
	return bytes
}

func TestThePlanCountsLowPrecisionWeightsIfTheyFit(t *testing.T) {
	p, _ := opened(t, "", "")
	device, ok := p.Ranks[0].Device.(kernels.Screener)
	scorer := kernels.Scorer{Items: items, Sources: []kernels.OutputSource{{Weight: &kernels.Weights{Columns: 16}}}}
	if !ok || device.ScreeningSize(&scorer, 1) == 0 {
		t.Skip("this CPU ranks without low-precision weights")
	}
	require.Equal(t, 4*device.ScreeningSize(&scorer, 1), planned(t, p))
	text, err := p.Plan("", 5)
	require.NoError(t, err)
	var plan program.Plan
	require.NoError(t, json.Unmarshal(text, &plan))
	for limit, want := range map[int64]int64{plan.Bytes: planned(t, p), plan.Bytes - 1: 0} {
		options, err := json.Marshal(map[string]int64{"memory_limit": limit})
		require.NoError(t, err)
		q, _ := opened(t, "", string(options))
		require.Equal(t, want, planned(t, q))
		oneByOne(t, q, 5) // works without them
	}
}

// unwell is a device that wants a copy of the weights, and cannot make it.
type unwell struct{ kernels.Threaded }

func (unwell) ScreeningSize(*kernels.Scorer, int64) int64   { return 16 }
func (unwell) Screen(*kernels.Scorer, kernels.Buffer) error { return errors.New("not today") }

func TestACopyThatCouldNotBeMadeIsNotUsed(t *testing.T) {
	p, _ := opened(t, "", "")
	device := p.Ranks[0].Device
	p.Ranks[0].Device = unwell{device.(kernels.Threaded)}
	defer func() { p.Ranks[0].Device = device }()
	refused := 0
	for range 6 {
		if err := p.Recommend("", []int64{0}, nil, predict.Filter{}, 2, make([]int32, 2), make([]float32, 2)); err != nil {
			require.ErrorContains(t, err, "not today")
			refused++
		}
	}
	require.Equal(t, 3, refused) // the first three rankings go without
}
