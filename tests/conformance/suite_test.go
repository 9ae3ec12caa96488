package conformance

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// group is an op with its cases.
type group struct {
	op    string
	cases func() []opCase
}

// opCases are the cases of every op that computes; ranking_test.go has those of Scores and TopK.
var opCases = []group{
	{"Fill", remembering(fillCases)},
	{"Gather", remembering(func() []opCase { return forwardCases(false) })},
	{"Dense", remembering(func() []opCase { return forwardCases(true) })},
	{"OutputStats", remembering(func() []opCase { return outputCases(true) })},
	{"OutputStep", remembering(func() []opCase { return outputCases(false) })},
	{"Backward", remembering(backwardCases)},
	{"DenseBackward", remembering(denseBackwardCases)},
	{"Scatter", remembering(scatterCases)},
	{"Replay", remembering(replayCases)},
}

// remembered is a case whose bounds, which take longer than the op, are computed once for all backends.
type remembered struct {
	opCase
	once func() map[string][]float64
}

func (r remembered) bounds() map[string][]float64 { return r.once() }

// remembering makes a list of cases once.
func remembering(cases func() []opCase) func() []opCase {
	return sync.OnceValue(func() (list []opCase) {
		for _, c := range cases() {
			list = append(list, remembered{c, sync.OnceValue(c.bounds)})
		}
		return list
	})
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
