package modelfile

import (
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/internal/fault"
)

func TestAPanicInAPartIsAnError(t *testing.T) {
	err := inParallel(2, 3, func(part int) error { panic("no luck") })
	requireFault(t, err, fault.Internal, "no luck")
}

func TestTheLowestPartThatFailsIsReported(t *testing.T) {
	for range 200 {
		err := inParallel(4, 64, func(part int) error {
			if part >= 5 {
				return fault.New(fault.IO, "part %d", part)
			}
			return nil
		})
		require.EqualError(t, err, "part 5")
	}
}
