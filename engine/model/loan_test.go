package model_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/internal/fault"
	"dsstne/tests/fixture"
)

// lender counts how often it was asked for the weights, and refuses when it is told to.
type lender struct {
	asked  int
	refuse error
}

func (l *lender) fetch() error {
	l.asked++
	return l.refuse
}

func TestWeightsThatAreLentComeBackBeforeTheyAreReadOrChanged(t *testing.T) {
	m := fixture.Model(t, fixture.Autoencoder("sigmoid", ""), map[string]int64{"input": 4, "output": 4})
	bias, l := make([]byte, 16), &lender{}
	uses := []func() error{
		func() error { return m.GetTensor("output.bias", bias) },
		func() error { return m.SetTensor("output.bias", bias) },
		func() error { return m.Save(t.TempDir()+"/m.dsstne", nil) },
	}
	for n, use := range uses {
		m.Lend(l, l.fetch)
		require.NoError(t, use())
		require.Equal(t, n+1, l.asked)
		require.NoError(t, use())
		require.Equal(t, n+1, l.asked, "once they are back they are there")
	}
}

func TestWhoHasTheWeightsIsNotAskedForThem(t *testing.T) {
	m := fixture.Model(t, fixture.Autoencoder("sigmoid", ""), map[string]int64{"input": 4, "output": 4})
	l, other := &lender{}, &lender{}
	m.Lend(l, l.fetch)
	unlock, err := m.TryWriteAs(l)
	require.NoError(t, err)
	require.Zero(t, l.asked)
	unlock()
	unlock, err = m.TryWriteAs(other)
	require.NoError(t, err)
	require.Equal(t, 1, l.asked)
	m.Lend(other, other.fetch)
	unlock()
	require.NoError(t, m.Return(l))
	require.Zero(t, other.asked)
	require.NoError(t, m.Return(other))
	require.Equal(t, 1, other.asked)
	require.NoError(t, m.GetTensor("output.bias", make([]byte, 16)))
	require.Equal(t, 1, other.asked)
}

func TestWeightsThatCannotComeBackStayLentUntilTheyAreReturned(t *testing.T) {
	m := fixture.Model(t, fixture.Autoencoder("sigmoid", ""), map[string]int64{"input": 4, "output": 4})
	lost := errors.New("lost")
	l := &lender{refuse: lost}
	m.Lend(l, l.fetch)
	changes := m.Changes()
	for range 2 {
		require.ErrorIs(t, m.GetTensor("output.bias", make([]byte, 16)), lost)
		require.ErrorIs(t, m.SetTensor("output.bias", make([]byte, 16)), lost)
	}
	require.Equal(t, 4, l.asked)
	require.Equal(t, changes, m.Changes(), "who was refused has changed nothing")
	_, err := m.TryWrite()
	require.NotEqual(t, fault.Busy, fault.KindOf(err), "whoever could not read does not hold the model")
	require.ErrorIs(t, m.Return(l), lost)
	require.NoError(t, m.GetTensor("output.bias", make([]byte, 16)), "what was stored last")
}
