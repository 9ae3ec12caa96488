package model

import (
	"sync"

	"dsstne/internal/fault"
)

// access counts who uses a model. It never blocks: what cannot be granted now is refused.
type access struct {
	mu      sync.Mutex
	uses    int // trainers and predictors that hold on to the memory
	readers int
	writer  bool
	closed  bool
	changes int64
	// loan: the newest weights lie elsewhere; fetching serves one fetch after the other.
	loan     *loan
	fetching sync.Mutex
	// closing, if not nil, is called after the memory was given back.
	closing func()
}

// Changes counts how often somebody had the right to change weights: whoever keeps a copy of them compares it.
func (m *Model) Changes() int64 {
	m.access.mu.Lock()
	defer m.access.mu.Unlock()
	return m.access.changes
}

// Use announces a trainer or predictor that holds on to the model's memory until it calls Unuse.
func (m *Model) Use() {
	m.access.mu.Lock()
	defer m.access.mu.Unlock()
	m.access.uses++
}

// Unuse takes back one Use.
func (m *Model) Unuse() {
	m.access.mu.Lock()
	defer m.access.mu.Unlock()
	if m.access.uses == 0 {
		panic("model: Unuse without Use")
	}
	m.access.uses--
}

// TryWrite gives the right to change weights to one caller, until it calls unlock (again: no effect). It is fault.Busy
// while anybody reads or writes. It brings the newest weights to the model's memory.
func (m *Model) TryWrite() (unlock func(), err error) { return m.TryWriteAs(nil) }

// TryWriteAs is TryWrite of an owner to whom the weights may be lent; they stay there then.
func (m *Model) TryWriteAs(owner any) (unlock func(), err error) {
	a := &m.access
	unlock, err = a.enter(true, func() { a.writer, a.changes = false, a.changes+1 })
	if err != nil {
		return nil, err
	}
	if err := m.fetch(owner); err != nil {
		// Nothing was changed, so this does not count: the owner must not take the model's old weights for newer ones.
		a.mu.Lock()
		defer a.mu.Unlock()
		a.writer = false
		return nil, err
	}
	return unlock, nil
}

// TryRead gives the right to read weights to any number of callers, until each calls its unlock (again: no effect). It
// is fault.Busy while somebody writes. It brings the newest weights to the model's memory.
func (m *Model) TryRead() (unlock func(), err error) {
	if unlock, err = m.access.enter(false, func() { m.access.readers-- }); err != nil {
		return nil, err
	}
	if err := m.fetch(nil); err != nil {
		unlock()
		return nil, err
	}
	return unlock, nil
}

// enter counts a writer or a reader, unless others are in the way; leave, called once by unlock, takes it back.
func (a *access) enter(writes bool, leave func()) (unlock func(), err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.closed:
		return nil, fault.New(fault.InvalidState, "the model is closed")
	case a.writer:
		return nil, fault.New(fault.Busy, "the model is being trained or changed by another call; wait for it or cancel it")
	case !writes:
		a.readers++
	case a.readers > 0:
		return nil, fault.New(fault.Busy, "the model is being read by %d other call(s), such as a prediction or a save; "+
			"wait for them or cancel them", a.readers)
	}
	a.writer = writes
	return sync.OnceFunc(func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		leave()
	}), nil
}

// Close frees the memory, once. It is fault.Busy while a trainer or predictor uses the model or a call works on it.
func (m *Model) Close() error {
	closed, err := m.close()
	if closed && m.access.closing != nil {
		m.access.closing()
	}
	return err
}

// AtClose sets the function that is called when the model is closed. The caller has called Use.
func (m *Model) AtClose(tell func()) {
	m.access.mu.Lock()
	defer m.access.mu.Unlock()
	m.access.closing = tell
}

// close gives the memory back, if it was not before.
func (m *Model) close() (closed bool, err error) {
	a := &m.access
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.closed:
		return false, nil
	case a.writer || a.readers > 0:
		return false, fault.New(fault.Busy, "the model is being read or changed by another call; wait for it or cancel it")
	case a.uses > 0:
		return false, fault.New(fault.Busy,
			"the model is used by %d open trainer(s) or predictor(s); close them first", a.uses)
	}
	a.closed = true
	m.free()
	return true, nil
}

// loan says who has the newest weights, and how they are brought to the model's memory.
type loan struct {
	owner any
	fetch func() error
}

// Lend records that the newest weights lie in the memory of an owner's devices. Before anybody else reads or changes
// the model, fetch brings them back, on the reader's goroutine; its error is the reader's. The caller holds TryWrite.
func (m *Model) Lend(owner any, fetch func() error) {
	m.access.mu.Lock()
	defer m.access.mu.Unlock()
	m.access.loan = &loan{owner, fetch}
}

// Return ends an owner's loan, if there is one, with a last fetch, whose failure is returned. After that the owner is
// not called any more.
func (m *Model) Return(owner any) error {
	return m.access.endLoan(true, func(l *loan) bool { return l.owner == owner })
}

// fetch brings the newest weights back if they are elsewhere, but not from the caller itself.
func (m *Model) fetch(caller any) error {
	return m.access.endLoan(false, func(l *loan) bool { return l.owner != caller })
}

// endLoan ends the loan, if there is one that it concerns, with a fetch. After a failure only anyway ends it. It waits
// for another fetch that is under way, which only copies the weights.
func (a *access) endLoan(anyway bool, concerns func(*loan) bool) error {
	a.fetching.Lock()
	defer a.fetching.Unlock()
	a.mu.Lock()
	l := a.loan
	a.mu.Unlock()
	if l == nil || !concerns(l) {
		return nil
	}
	err := l.fetch()
	if err == nil || anyway {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.loan = nil
	}
	return err
}
