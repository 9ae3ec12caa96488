package kernels

import "sync"

// Meeting is where the goroutines of a group's devices wait for each other, asleep.
type Meeting struct {
	ranks int

	mu      sync.Mutex // guards what follows
	changed *sync.Cond
	arrived int
	round   uint64
	aborted bool
}

// NewMeeting makes a meeting of the given number of goroutines.
func NewMeeting(ranks int) *Meeting {
	m := &Meeting{ranks: ranks}
	m.changed = sync.NewCond(&m.mu)
	return m
}

// Meet returns nil when all have called it, or ErrAborted.
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

// Abort makes Meet return ErrAborted, for those that wait and those that come later.
func (m *Meeting) Abort() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.aborted = true
	m.changed.Broadcast()
}

// Reset ends an Abort. Nobody may be in Meet.
func (m *Meeting) Reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.aborted, m.arrived = false, 0
}
