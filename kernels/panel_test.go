package kernels

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// noted is an operation that notes the steps that it sees.
type noted struct{ steps *[]int64 }

func (o noted) Do(_ Rank, s *Step) error {
	*o.steps = append(*o.steps, s.Number)
	return nil
}
func (o noted) String() string { return "noted" }

func TestAnOperationOfSomeStepsCountsThemFromOne(t *testing.T) {
	var steps []int64
	op := &During{After: 2, Until: 4, Op: noted{&steps}}
	for number := range int64(6) {
		s := Step{Number: number + 1}
		require.NoError(t, op.Do(Rank{}, &s))
		require.Equal(t, number+1, s.Number)
	}
	require.Equal(t, []int64{1, 2}, steps)
	require.Equal(t, "in steps 3 to 4: noted", op.String())
}
