package program_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/engine/program"
	"dsstne/internal/fault"
	"dsstne/kernels"
	"dsstne/tests/fixture"
)

// scripted is a device that is some steps behind: what it answers to Settle, call after call.
type scripted struct {
	kernels.Device
	answers *[]answer
}

type answer struct {
	steps []int64
	err   error
}

func (s scripted) Settle(int) (results []kernels.Result, err error) {
	if len(*s.answers) == 0 {
		return nil, nil
	}
	next := (*s.answers)[0]
	*s.answers = (*s.answers)[1:]
	for _, n := range next.steps {
		results = append(results, kernels.Result{Number: n, Rows: 6, Loss: []float64{1, float64(n)}})
	}
	return results, next.err
}

func TestTheFirstStepThatFailedOnAnyRankIsToldAfterThoseBeforeIt(t *testing.T) {
	bad := &kernels.NotFiniteError{Tensor: "one", What: "the gradient", Row: -1}
	other := &kernels.NotFiniteError{Tensor: "two", What: "the gradient", Row: -1}
	lost := fault.New(fault.DeviceFailed, "lost")
	for what, c := range map[string]struct {
		ranks [3][]answer
		steps []int64
		err   error
	}{
		"nothing": {[3][]answer{{{[]int64{1, 2}, nil}}, {{[]int64{1, 2}, nil}}, {{[]int64{1, 2}, nil}}}, []int64{1, 2}, nil},
		"one rank, heard in the same step": {
			[3][]answer{{{[]int64{1}, kernels.ErrAborted}}, {{[]int64{1}, bad}}, {{[]int64{1}, kernels.ErrAborted}}},
			[]int64{1}, bad,
		},
		"one rank, heard in the next step, which others tell of when they are asked again": {
			[3][]answer{{{[]int64{1, 2}, nil}, {nil, kernels.ErrAborted}}, {{[]int64{1}, bad}}, {{[]int64{1, 2},
				kernels.ErrAborted}}},
			[]int64{1}, bad,
		},
		"two ranks in different steps": {
			[3][]answer{{{[]int64{1, 2}, other}}, {{[]int64{1}, bad}}, {{[]int64{1, 2}, nil}, {nil, kernels.ErrAborted}}},
			[]int64{1}, bad,
		},
		"two ranks in the same step": {
			[3][]answer{{{nil, kernels.ErrAborted}}, {{nil, other}}, {{nil, bad}}}, nil, other,
		},
		"a device": {
			[3][]answer{{{[]int64{1, 2}, nil}, {[]int64{3}, kernels.ErrAborted}}, {{[]int64{1}, lost}}, {{nil, nil},
				{[]int64{1, 2}, nil}}},
			[]int64{1}, lost,
		},
	} {
		ranks := fixture.Ranks(t, "reference", 3)
		for rank := range ranks {
			ranks[rank].Device = scripted{ranks[rank].Device, &c.ranks[rank]}
		}
		_, spec := wideOn(t, ranks, program.Model, program.Training{})
		p := must(program.Build(spec))
		results, err := p.Settle(kernels.MostUnderWay)
		require.Equal(t, c.err, err, what)
		var steps []int64
		for _, r := range results {
			steps = append(steps, r.Number)
			require.Equal(t, []float64{3, float64(3 * r.Number)}, r.Loss, "the ranks' losses are added up")
		}
		require.Equal(t, c.steps, steps, what)
		p.Free()
	}
}
