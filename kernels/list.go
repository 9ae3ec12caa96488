package kernels

import "slices"

// List is operations that a device does one after the other, step after step.
type List struct {
	Sections []Section
	// Entries are, by slot, the most stored entries that a batch of the list's steps can have, where that is known.
	Entries []int64
	// Rare: the list runs too seldom for a device to prepare anything for it.
	Rare bool
	// Prepared is what a device keeps for the list.
	Prepared interface{ Free() }
	// Clock, if not nil, is marked before the first operation and after each one.
	Clock Clock
}

// Section is operations whose buffers have room for batches of Rows rows. Sizes of tiles, and with them bits, follow
// from that number: what one section computes does not depend on the sections behind it.
type Section struct {
	Rows int64
	Ops  []Op
}

// Rows is the most rows that a section has room for.
func (l *List) Rows() (rows int64) {
	for _, s := range l.Sections {
		rows = max(rows, s.Rows)
	}
	return rows
}

// Early is an operation that reads nothing that other operations write, but for those that are early, too. A device may
// do it while the steps before are under way.
type Early interface {
	Op
	Early()
}

// HasEarly reports whether there are early operations.
func (l *List) HasEarly() bool {
	return slices.ContainsFunc(l.Sections, func(s Section) bool { return slices.ContainsFunc(s.Ops, isEarly) })
}

func isEarly(op Op) bool {
	_, is := op.(Early)
	return is
}

// Do does the operations.
func (l *List) Do(rank Rank, step *Step) error {
	return l.do(rank, step, func(Op) bool { return true })
}

// DoEarly does those that are early, DoLate the others.
func (l *List) DoEarly(rank Rank, step *Step) error { return l.do(rank, step, isEarly) }
func (l *List) DoLate(rank Rank, step *Step) error {
	return l.do(rank, step, func(op Op) bool { return !isEarly(op) })
}

func (l *List) do(rank Rank, step *Step, chosen func(Op) bool) error {
	if err := l.mark(); err != nil {
		return err
	}
	for _, section := range l.Sections {
		step.MaxRows = section.Rows
		for _, op := range section.Ops {
			if !chosen(op) {
				continue
			}
			if err := op.Do(rank, step); err != nil {
				return err
			}
			if err := l.mark(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *List) mark() error {
	if l.Clock == nil {
		return nil
	}
	return l.Clock.Mark()
}

// Free gives back what the device keeps for the list.
func (l *List) Free() {
	if l.Prepared != nil {
		l.Prepared.Free()
		l.Prepared = nil
	}
}
