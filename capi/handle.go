package main

import (
	"slices"
	"sync"

	"dsstne/internal/fault"
)

// kind is what a handle stands for.
type kind uint8

const (
	datasetKind kind = iota + 1
	modelKind
	trainerKind
	predictorKind
	solverKind
)

func (k kind) String() string {
	return [...]string{"nothing", "dataset", "model", "trainer", "predictor", "solver"}[k]
}

// object is what a handle can stand for.
type object interface {
	kind() kind
	close() error
}

// use says how a call uses a handle.
type use int

const (
	watching use = iota // beside any other call, also on a poisoned handle: progress, describe, cancel
	sharing             // beside watching and sharing calls: a dataset or model that is read, or is an argument
	reading             // alone: a predictor computes in its one workspace
	changing            // alone, and a defect during the call poisons the handle
)

// A handle holds, from the top: kind (8 bits), generation of the slot (24 bits), slot (32 bits). Generations start at 1
// and a slot whose generations are used up is not used again, so no number ever stands for two things.
const (
	slotBits       = 32
	generationBits = 24
	lastGeneration = 1<<generationBits - 1
)

type slot struct {
	generation uint32
	object     object // nil: free
	alone      string // name of the reading, changing or closing call under way
	closing    bool
	sharers    int
	watchers   int
	poison     string // what made the object unusable
}

// handleTable is the table of all handles. Its lock is held for bookkeeping only, never during a call.
type handleTable struct {
	mu      sync.Mutex
	changed sync.Cond // a watcher left or a close ended
	slots   []slot
	free    []uint32
}

func newHandleTable() *handleTable {
	t := &handleTable{}
	t.changed.L = &t.mu
	return t
}

// handles is the one table of the process.
var handles = newHandleTable()

// add stores an object and returns its handle.
func (t *handleTable) add(o object) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	var number uint32
	if n := len(t.free); n > 0 {
		number, t.free = t.free[n-1], t.free[:n-1]
	} else {
		number = uint32(len(t.slots))
		t.slots = append(t.slots, slot{})
	}
	s := &t.slots[number]
	s.generation++
	s.object = o
	return uint64(o.kind())<<(slotBits+generationBits) | uint64(s.generation)<<slotBits | uint64(number)
}

// count returns how many open handles there are of each kind, by its plural.
func (t *handleTable) count() map[string]int {
	t.mu.Lock()
	defer t.mu.Unlock()
	counts := map[string]int{}
	for k := datasetKind; k <= solverKind; k++ {
		counts[k.String()+"s"] = 0
	}
	for _, s := range t.slots {
		if s.object != nil {
			counts[s.object.kind().String()+"s"]++
		}
	}
	return counts
}

// find returns the slot of a handle; the lock is held. name is the parameter the handle came in.
func (t *handleTable) find(handle uint64, name string, allowed ...kind) (*slot, error) {
	number := handle & (1<<slotBits - 1)
	generation := uint32(handle >> slotBits & lastGeneration)
	stored := kind(handle >> (slotBits + generationBits))
	if handle == 0 {
		return nil, fault.New(fault.InvalidHandle, "%s is 0, which is not a handle", name)
	}
	if number >= uint64(len(t.slots)) || generation == 0 || generation > t.slots[number].generation ||
		stored < datasetKind || stored > solverKind {
		return nil, fault.New(fault.InvalidHandle, "%s is %#x, which was never a handle", name, handle)
	}
	if !slices.Contains(allowed, stored) {
		return nil, fault.New(fault.InvalidHandle, "%s is the handle of a %v", name, stored)
	}
	s := &t.slots[number]
	if s.object == nil || generation != s.generation {
		return nil, fault.New(fault.InvalidHandle, "%s has been closed", name)
	}
	if s.object.kind() != stored {
		return nil, fault.New(fault.InvalidHandle, "%s is %#x, which was never a handle", name, handle)
	}
	return s, nil
}

// findOpen is find that waits for the end of a close under way, which may have been refused.
func (t *handleTable) findOpen(handle uint64, name string, allowed ...kind) (*slot, error) {
	s, err := t.find(handle, name, allowed...)
	for err == nil && s.closing {
		t.changed.Wait()
		s, err = t.find(handle, name, allowed...)
	}
	return s, err
}

// enter begins the use of a handle by a call; the returned number goes to leave.
func (t *handleTable) enter(handle uint64, name, call string, how use, allowed ...kind) (object, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s, err := t.findOpen(handle, name, allowed...)
	if err != nil {
		return nil, err
	}
	switch {
	case how == watching:
		s.watchers++
		return s.object, nil
	case s.alone != "":
		return nil, fault.New(fault.Busy, "%s: %s is still running on this %v", name, s.alone, s.object.kind())
	case s.poison != "":
		return nil, fault.New(fault.Internal, "%s cannot be used any more, only closed: %s", name, s.poison)
	case how == sharing:
		s.sharers++
		return s.object, nil
	case s.sharers > 0:
		return nil, fault.New(fault.Busy, "%s is in use by another call", name)
	}
	s.alone = call
	return s.object, nil
}

// leave ends what enter began. poison, if not empty, makes the handle unusable.
func (t *handleTable) leave(handle uint64, how use, poison string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := &t.slots[handle&(1<<slotBits-1)]
	switch how {
	case watching:
		s.watchers--
		t.changed.Broadcast()
	case sharing:
		s.sharers--
	default:
		s.alone = ""
	}
	if poison != "" {
		s.poison = poison
	}
}

// close closes the object and, unless it refuses, retires its handle.
func (t *handleTable) close(handle uint64, k kind, call string) error {
	o, err := t.enterClose(handle, k, call)
	if err != nil {
		return err
	}
	closed := false
	defer func() { t.leaveClose(handle, closed) }()
	err = o.close()
	closed = fault.KindOf(err) != fault.Busy // any other error comes from an object that has let go of everything
	return err
}

func (t *handleTable) enterClose(handle uint64, k kind, call string) (object, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s, err := t.findOpen(handle, k.String(), k)
	switch {
	case err != nil:
		return nil, err
	case s.alone != "":
		return nil, fault.New(fault.Busy, "%s cannot be closed: %s is still running", k, s.alone)
	case s.sharers > 0:
		return nil, fault.New(fault.Busy, "%s cannot be closed: another call uses it", k)
	}
	s.alone, s.closing = call, true
	number := handle & (1<<slotBits - 1)
	for t.slots[number].watchers > 0 {
		t.changed.Wait()
	}
	return t.slots[number].object, nil
}

// fill ends the call that makes the object of a handle; set stores what it made, beside no other call.
func (t *handleTable) fill(handle uint64, set func()) {
	t.mu.Lock()
	number := handle & (1<<slotBits - 1)
	t.slots[number].closing = true // no other call begins
	for t.slots[number].watchers > 0 {
		t.changed.Wait()
	}
	set()
	t.mu.Unlock()
	t.leaveClose(handle, false)
}

// abandon retires the handle of an object that was never made, whose call changes it.
func (t *handleTable) abandon(handle uint64) {
	t.mu.Lock()
	number := handle & (1<<slotBits - 1)
	t.slots[number].closing = true
	for t.slots[number].watchers > 0 {
		t.changed.Wait()
	}
	t.mu.Unlock()
	t.leaveClose(handle, true)
}

func (t *handleTable) leaveClose(handle uint64, closed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	number := uint32(handle & (1<<slotBits - 1))
	s := &t.slots[number]
	s.alone, s.closing = "", false
	if closed {
		*s = slot{generation: s.generation}
		if s.generation < lastGeneration {
			t.free = append(t.free, number)
		}
	}
	t.changed.Broadcast()
}

// with runs body with the object of a handle for the length of one call.
func with[T object, Handle ~uint64](c *call, handle Handle, how use, body func(T) error) error {
	var none T
	return withNamed(c, handle, none.kind().String(), how, body)
}

// withNamed is with for a handle that came in a parameter of another name than its kind.
func withNamed[T object, Handle ~uint64](c *call, handle Handle, name string, how use, body func(T) error) error {
	return entered(c, handle, name, how, new(bool), body)
}

// withUntil is with for a call that may go on when body has returned: it then sets goesOn, and calls handles.leave
// later.
func withUntil[T object, Handle ~uint64](c *call, handle Handle, how use, goesOn *bool, body func(T) error) error {
	var none T
	return entered(c, handle, none.kind().String(), how, goesOn, body)
}

func entered[T object, Handle ~uint64](
	c *call, handle Handle, name string, how use, goesOn *bool, body func(T) error,
) error {
	if c.err != nil {
		return c.err
	}
	var none T
	o, err := handles.enter(uint64(handle), name, c.name, how, none.kind())
	if err != nil {
		return err
	}
	poison := "a call on it panicked"
	defer func() {
		if how != changing {
			poison = ""
		}
		if !*goesOn {
			handles.leave(uint64(handle), how, poison)
		}
	}()
	enterCall()
	err = body(o.(T))
	poison = ""
	if fault.KindOf(err) == fault.Internal {
		poison = err.Error()
	}
	return err
}

// open makes an object and gives it a handle; run is here or hop.
func open[Handle ~uint64](c *call, out *Handle, run func(func() error) error, create func() (object, error)) error {
	notNull(c, out, "out")
	if c.err != nil {
		return c.err
	}
	return run(func() error {
		o, err := create()
		if err == nil {
			*out = Handle(handles.add(o))
		}
		return err
	})
}
