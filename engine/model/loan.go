package model

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
