package model

// loan says who has the newest weights, and how they are brought to the model's memory.
type loan struct {
	owner any
	fetch func() error
}

// Lend says that the newest weights lie in the memory of an owner's devices. Before anybody else reads or changes the
// model, fetch brings them back, on the reader's goroutine; if that fails, so does the reading. The caller has the
// right to change weights.
func (m *Model) Lend(owner any, fetch func() error) {
	m.access.mu.Lock()
	defer m.access.mu.Unlock()
	m.access.loan = &loan{owner, fetch}
}

// Return ends an owner's loan, if there is one, with a last fetch, whose failure is returned. After that the owner is
// not called any more.
func (m *Model) Return(owner any) error {
	a := &m.access
	a.fetching.Lock()
	defer a.fetching.Unlock()
	a.mu.Lock()
	l := a.loan
	a.mu.Unlock()
	if l == nil || l.owner != owner {
		return nil
	}
	err := l.fetch()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.loan = nil
	return err
}

// fetch brings the newest weights back if they are elsewhere, but not from the caller itself. It waits for another
// fetch that is under way, which is a copy of the weights and no more.
func (m *Model) fetch(caller any) error {
	a := &m.access
	a.fetching.Lock()
	defer a.fetching.Unlock()
	a.mu.Lock()
	l := a.loan
	a.mu.Unlock()
	if l == nil || l.owner == caller {
		return nil
	}
	if err := l.fetch(); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.loan = nil
	return nil
}
