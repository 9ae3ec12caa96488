package main

import (
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"dsstne/internal/fault"
)

// thing is an object of a handle in these tests.
type thing struct {
	of     kind
	refuse error
}

func (t *thing) kind() kind {
	if t == nil {
		return modelKind
	}
	return t.of
}
func (t *thing) close() error { return t.refuse }

func requireKind(t *testing.T, want fault.Kind, words string, err error) {
	t.Helper()
	require.Error(t, err)
	require.Equal(t, want, fault.KindOf(err), err.Error())
	require.Contains(t, err.Error(), words)
}

func TestAHandleOfAClosedObjectStaysInvalidWhenItsSlotIsUsedAgain(t *testing.T) {
	table := newHandleTable()
	first := table.add(&thing{of: modelKind})
	require.NoError(t, table.close(first, modelKind, "close"))
	second := table.add(&thing{of: modelKind})
	require.Equal(t, uint32(first), uint32(second), "the slot is used again")
	_, err := table.enter(first, "model", "call", reading, modelKind)
	requireKind(t, fault.InvalidHandle, "model has been closed", err)
}

func TestAHandleOfAnotherKindIsNamed(t *testing.T) {
	table := newHandleTable()
	_, err := table.enter(table.add(&thing{of: datasetKind}), "model", "call", reading, modelKind)
	requireKind(t, fault.InvalidHandle, "model is the handle of a dataset", err)
}

func TestNumbersThatWereNeverHandlesAreInvalid(t *testing.T) {
	table := newHandleTable()
	real := table.add(&thing{of: modelKind})
	for _, number := range []uint64{1, 1 << 32, ^uint64(0), real + 1, real + 1<<32, real ^ 7<<56} {
		_, err := table.enter(number, "model", "call", reading, modelKind, 7)
		requireKind(t, fault.InvalidHandle, "", err)
	}
	_, err := table.enter(0, "model", "call", reading, modelKind)
	requireKind(t, fault.InvalidHandle, "model is 0, which is not a handle", err)
}

func TestAHandleWithForgedKindIsInvalid(t *testing.T) {
	table := newHandleTable()
	forged := table.add(&thing{of: modelKind})&(1<<56-1) | uint64(trainerKind)<<56
	_, err := table.enter(forged, "trainer", "call", reading, trainerKind)
	requireKind(t, fault.InvalidHandle, "was never a handle", err)
}

func TestASlotWhoseGenerationsAreUsedUpIsNotUsedAgain(t *testing.T) {
	table := newHandleTable()
	table.slots = append(table.slots, slot{generation: lastGeneration - 1})
	table.free = []uint32{0}
	last := table.add(&thing{of: modelKind})
	require.Equal(t, uint32(0), uint32(last))
	require.NoError(t, table.close(last, modelKind, "close"))
	require.Equal(t, uint32(1), uint32(table.add(&thing{of: modelKind})))
}

func TestUsesOfOneHandleThatExcludeEachOther(t *testing.T) {
	cases := []struct {
		running, next use
		busy          bool
	}{
		{reading, reading, true}, {reading, changing, true}, {changing, reading, true}, {changing, sharing, true},
		{sharing, reading, true}, {sharing, sharing, false}, {sharing, watching, false}, {changing, watching, false},
		{watching, changing, false},
	}
	for _, c := range cases {
		table := newHandleTable()
		handle := table.add(&thing{of: modelKind})
		_, err := table.enter(handle, "model", "the first", c.running, modelKind)
		require.NoError(t, err)
		_, err = table.enter(handle, "model", "the second", c.next, modelKind)
		if c.busy {
			requireKind(t, fault.Busy, "model", err)
		} else {
			require.NoError(t, err)
			table.leave(handle, c.next, "")
		}
		table.leave(handle, c.running, "")
		_, err = table.enter(handle, "model", "the third", changing, modelKind)
		require.NoError(t, err, "after the first call has ended the handle is free again")
	}
}

func TestABusyObjectIsNotClosed(t *testing.T) {
	for _, how := range []use{reading, changing, sharing} {
		table := newHandleTable()
		handle := table.add(&thing{of: modelKind})
		_, err := table.enter(handle, "model", "dsstne_model_save", how, modelKind)
		require.NoError(t, err)
		requireKind(t, fault.Busy, "cannot be closed", table.close(handle, modelKind, "close"))
	}
}

func TestAnObjectThatRefusesToCloseKeepsItsHandle(t *testing.T) {
	table := newHandleTable()
	object := &thing{of: modelKind, refuse: fault.New(fault.Busy, "a trainer uses it")}
	handle := table.add(object)
	requireKind(t, fault.Busy, "a trainer uses it", table.close(handle, modelKind, "close"))
	object.refuse = nil
	require.NoError(t, table.close(handle, modelKind, "close"))
}

// slow is an object that says when its close begins, and refuses it when it is told to go on.
type slow struct{ begun, goOn chan bool }

func (*slow) kind() kind { return datasetKind }
func (s *slow) close() error {
	s.begun <- true
	<-s.goOn
	return fault.New(fault.Busy, "a trainer uses it")
}

func TestACloseThatIsRefusedDisturbsNoOtherCall(t *testing.T) {
	for _, how := range []use{watching, sharing, changing} {
		table, object := newHandleTable(), &slow{make(chan bool), make(chan bool)}
		handle := table.add(object)
		closed, used := make(chan error), make(chan error)
		go func() { closed <- table.close(handle, datasetKind, "close") }()
		<-object.begun
		go func() {
			_, err := table.enter(handle, "dataset", "call", how, datasetKind)
			used <- err
		}()
		select {
		case err := <-used:
			t.Fatalf("did not wait: %v", err)
		case <-time.After(time.Millisecond):
		}
		object.goOn <- true
		requireKind(t, fault.Busy, "a trainer uses it", <-closed)
		require.NoError(t, <-used)
	}
}

func TestACallDuringACloseThatSucceedsFindsItClosed(t *testing.T) {
	table := newHandleTable()
	handle := table.add(&thing{of: modelKind})
	_, err := table.enter(handle, "model", "progress", watching, modelKind)
	require.NoError(t, err)
	closed := make(chan error)
	for range 2 { // one of the two waits for the other
		go func() { closed <- table.close(handle, modelKind, "close") }()
	}
	table.leave(handle, watching, "")
	first, second := <-closed, <-closed
	if first != nil {
		first, second = second, first
	}
	require.NoError(t, first)
	requireKind(t, fault.InvalidHandle, "has been closed", second)
}

func TestOpenHandlesAreCountedByKind(t *testing.T) {
	table := newHandleTable()
	model := table.add(&thing{of: modelKind})
	table.add(&thing{of: datasetKind})
	table.add(&thing{of: datasetKind})
	require.Equal(t, map[string]int{"datasets": 2, "models": 1, "trainers": 0, "predictors": 0, "solvers": 0}, table.count())
	require.NoError(t, table.close(model, modelKind, "close"))
	require.Equal(t, map[string]int{"datasets": 2, "models": 0, "trainers": 0, "predictors": 0, "solvers": 0}, table.count())
}

func TestACloseWaitsForWatchers(t *testing.T) {
	table := newHandleTable()
	handle := table.add(&thing{of: trainerKind})
	_, err := table.enter(handle, "trainer", "progress", watching, trainerKind)
	require.NoError(t, err)
	closed := make(chan error)
	go func() { closed <- table.close(handle, trainerKind, "close") }()
	select {
	case <-closed:
		t.Fatal("closed under a watcher")
	default:
	}
	table.leave(handle, watching, "")
	require.NoError(t, <-closed)
}

func TestAPanicInAChangingCallPoisonsTheHandleAndNoOther(t *testing.T) {
	handle, other := handles.add(&thing{of: modelKind}), handles.add(&thing{of: modelKind})
	require.Panics(t, func() {
		_ = with(&call{name: "call"}, handle, changing, func(*thing) error { panic("a defect") })
	})
	nothing := func(*thing) error { return nil }
	requireKind(t, fault.Internal, "only closed", with(&call{name: "call"}, handle, reading, nothing))
	require.NoError(t, with(&call{name: "call"}, handle, watching, nothing))
	require.NoError(t, with(&call{name: "call"}, other, reading, nothing))
	require.NoError(t, handles.close(handle, modelKind, "close"))
}

func TestAPanicInAReadingCallLeavesTheHandleUsable(t *testing.T) {
	handle := handles.add(&thing{of: modelKind})
	require.Panics(t, func() {
		_ = with(&call{name: "call"}, handle, reading, func(*thing) error { panic("a defect") })
	})
	require.NoError(t, with(&call{name: "call"}, handle, changing, func(*thing) error { return nil }))
}

func TestAnInternalErrorOfAChangingCallPoisonsTheHandle(t *testing.T) {
	handle := handles.add(&thing{of: modelKind})
	failing := func(*thing) error { return hop(func() error { panic("a defect") }) }
	requireKind(t, fault.Internal, "a defect", with(&call{name: "call"}, handle, changing, failing))
	requireKind(t, fault.Internal, "a defect", with(&call{name: "call"}, handle, changing, failing))
}

func TestManyThreadsOpenUseAndCloseWithoutHarm(t *testing.T) {
	table := newHandleTable()
	var wait sync.WaitGroup
	for range 8 {
		wait.Add(1)
		go func() {
			defer wait.Done()
			for range 1000 {
				handle := table.add(&thing{of: modelKind})
				if _, err := table.enter(handle, "model", "call", changing, modelKind); err == nil {
					table.leave(handle, changing, "")
				}
				if err := table.close(handle, modelKind, "close"); err != nil {
					t.Error(err)
				}
			}
		}()
	}
	wait.Wait()
	require.LessOrEqual(t, len(table.slots), 8)
}

func TestADefectNamesTheLineThatPanicked(t *testing.T) {
	err := hop(func() error {
		var none []int
		return fault.New(fault.Busy, "%d", none[3])
	})
	requireKind(t, fault.Internal, "index out of range", err)
	require.Contains(t, err.Error(), "capi/handle_test.go:")
}

func TestTextIsTruncatedBetweenCharacters(t *testing.T) {
	text := strings.Repeat("é", 10)
	for n := range 25 {
		short := truncated(text, n)
		require.True(t, utf8.ValidString(short))
		require.LessOrEqual(t, len(short), n)
		require.GreaterOrEqual(t, len(short), min(n, len(text))-1)
	}
}

func TestEveryKindOfErrorHasAStatusOfItsOwn(t *testing.T) {
	require.Len(t, statuses, int(fault.Internal)+1)
	for kind, status := range statuses {
		require.EqualValues(t, kind, status)
	}
}
