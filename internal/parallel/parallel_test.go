package parallel

import (
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/internal/fault"
)

func TestAPanicInAPartIsAnError(t *testing.T) {
	err := Do(2, 3, func(part int) error { panic("no luck") })
	require.Equal(t, fault.Internal, fault.KindOf(err))
	require.ErrorContains(t, err, "no luck")
}

func TestTheLowestPartThatFailsIsReported(t *testing.T) {
	for range 200 {
		err := Do(4, 64, func(part int) error {
			if part >= 5 {
				return fault.New(fault.IO, "part %d", part)
			}
			return nil
		})
		require.EqualError(t, err, "part 5")
	}
}
