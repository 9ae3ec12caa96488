package kernels

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// named is an operation that notes that it was done; earlyNamed may be done before the others.
type named struct {
	name string
	done *[]string
}

func (o named) Do(Rank, *Step) error { *o.done = append(*o.done, o.name); return nil }
func (o named) String() string       { return o.name }

type earlyNamed struct{ named }

func (earlyNamed) Early() {}

func TestEarlyOperationsAndTheOthersAreTheWholeList(t *testing.T) {
	var done []string
	late := func(name string) Op { return named{name, &done} }
	early := func(name string) Op { return earlyNamed{named{name, &done}} }
	list := List{Sections: []Section{{Rows: 1, Ops: []Op{early("a"), late("b")}}, {Rows: 2, Ops: []Op{late("c"), early("d")}}}}
	for _, c := range []struct {
		do   func(Rank, *Step) error
		want []string
	}{
		{list.Do, []string{"a", "b", "c", "d"}}, {list.DoEarly, []string{"a", "d"}}, {list.DoLate, []string{"b", "c"}},
	} {
		done = nil
		require.NoError(t, c.do(Rank{}, &Step{}))
		require.Equal(t, c.want, done)
	}
	require.True(t, list.HasEarly())
	require.False(t, (&List{Sections: []Section{{Ops: []Op{late("b")}}}}).HasEarly())
}
