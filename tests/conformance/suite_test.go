package conformance

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// opCases are the cases of every op that computes; ranking_test.go has those of Scores and TopK.
var opCases = []struct {
	op    string
	cases func() []opCase
}{
	{"Gather", func() []opCase { return forwardCases(false) }},
	{"Dense", func() []opCase { return forwardCases(true) }},
	{"OutputStats", func() []opCase { return outputCases(true) }},
	{"OutputStep", func() []opCase { return outputCases(false) }},
	{"Backward", backwardCases},
	{"DenseBackward", denseBackwardCases},
	{"Scatter", scatterCases},
	{"Replay", replayCases},
}

func TestEveryOpAgreesWithTheReference(t *testing.T) {
	forEveryBackend(t, func(t *testing.T, open opener) {
		for _, group := range opCases {
			t.Run(group.op, func(t *testing.T) {
				t.Parallel()
				d, reference := open(2), oracle(t)
				for _, c := range group.cases() {
					require.NoError(t, agree(c, d, reference))
				}
			})
		}
	})
}

func TestEveryOpGivesTheSameBitsWithAnyNumberOfThreads(t *testing.T) {
	forEveryBackend(t, func(t *testing.T, open opener) {
		for _, group := range opCases {
			t.Run(group.op, func(t *testing.T) {
				t.Parallel()
				for _, c := range group.cases() {
					require.NoError(t, sameBits(c, open))
				}
			})
		}
	})
}
