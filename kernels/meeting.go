package kernels

import "sync"

// Meeting is where the goroutines of a group's devices wait for each other. One that waits sleeps.
type Meeting struct {
	ranks int

	mu      sync.Mutex // guards what follows
	changed *sync.Cond
	arrived int
	round   uint64
	aborted bool
}

// NewMeeting is a meeting of so many.
func NewMeeting(ranks int) *Meeting {
	m := &Meeting{ranks: ranks}
	m.changed = sync.NewCond(&m.mu)
	return m
}

// Meet returns when all have called it, or with ErrAborted.
func (m *Meeting) Meet() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.aborted {
		return ErrAborted
	}
	round := m.round
	if m.arrived++; m.arrived == m.ranks {
		m.arrived, m.round = 0, round+1
		m.changed.Broadcast()
	}
	for m.round == round && !m.aborted {
		m.changed.Wait()
	}
	if m.round == round {
		return ErrAborted
	}
	return nil
}

// Abort makes those who wait leave, and those who come.
func (m *Meeting) Abort() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.aborted = true
	m.changed.Broadcast()
}

// Reset ends that, when nobody is there.
func (m *Meeting) Reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.aborted, m.arrived = false, 0
}
