package csr

import (
	"sync"

	"dsstne/internal/fault"
)

// lease counts the users of borrowed memory, and gives the memory back to its owner once nobody uses it.
type lease struct {
	mu      sync.Mutex // guards what follows
	users   int
	closed  bool
	release func() // may be nil
}

// Use counts a user, who keeps the data from being closed until Unuse; it fails when they are closed.
func (l *lease) Use() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return fault.New(fault.InvalidState, "the dataset is closed")
	}
	l.users++
	return nil
}

// Unuse ends one successful Use.
func (l *lease) Unuse() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.users == 0 {
		panic("csr: Unuse without Use")
	}
	l.users--
}

// Close gives the memory back to its owner, once. It is fault.Busy while the data are in use. Closed data must not be
// read.
func (l *lease) Close() error {
	l.mu.Lock()
	if l.users > 0 {
		l.mu.Unlock()
		return fault.New(fault.Busy, "the dataset is in use by open trainers, predictors or datasets made of it; "+
			"close them first")
	}
	release := l.release
	l.closed, l.release = true, nil
	l.mu.Unlock()
	// Outside the lock, because it runs code of the memory's owner.
	if release != nil {
		release()
	}
	return nil
}
