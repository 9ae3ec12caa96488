package textfile

import (
	"hash/maphash"
	"math"

	"dsstne/internal/fault"
)

// labels numbers labels in the order in which they are added. Their text is in one piece, and a table of open
// addressing finds their numbers.
type labels struct {
	what  string      // "feature" or "sample"
	fixed bool        // no label is added any more
	text  list[byte]  // of all labels, one after the other
	ends  list[int64] // label n is text[ends[n]:ends[n+1]]
	slots list[slot]  // as many as a power of two
}

// slot is a place of a table: the hash of a label, and its number plus 1, with isLong if it is long; 0 is a free place.
type slot struct {
	low, high uint32
	number    uint32
}

// isLong marks the numbers of labels that may have the hash of another. Labels of up to shortLabel bytes have
// different hashes, so that their text need not be compared.
const (
	isLong     = 1 << 31
	shortLabel = 7
)

// Hashes are unpredictable, so that nobody can make a text whose labels all collide.
var (
	seed                  = maphash.MakeSeed()
	start, first, another = random(), random() | 1, random() | 1
)

func random() uint64 { return maphash.String(maphash.MakeSeed(), "") }

// hash is that of a label, and whether the label is long.
type hash struct {
	bits uint64
	mark uint32 // isLong or 0
}

func hashOf(label []byte) hash {
	if len(label) > shortLabel {
		return hash{maphash.Bytes(seed, label), isLong}
	}
	word := uint64(0)
	for i, c := range label {
		word |= uint64(c) << (8 * i)
	}
	return hash{hashWord(word, len(label)), 0}
}

// hashWord is the hash of a short label, whose bytes are those of the word, the first the lowest. It can be inverted.
func hashWord(word uint64, length int) uint64 {
	x := (word | uint64(length)<<56 ^ start) * first
	return (x ^ x>>32) * another
}

func newLabels(what string, b *budget) (*labels, error) {
	l := &labels{what: what, text: list[byte]{budget: b}, ends: list[int64]{budget: b}, slots: list[slot]{budget: b}}
	if err := l.ends.push(0); err != nil {
		return l, err
	}
	return l, l.slots.zeros(1 << 12)
}

func (l *labels) free() {
	l.text.free()
	l.ends.free()
	l.slots.free()
}

// count is the number of labels.
func (l *labels) count() int { return len(l.ends.items) - 1 }

// label is the text of label n.
func (l *labels) label(n int) []byte { return l.text.items[l.ends.items[n]:l.ends.items[n+1]] }

// absent is the number of a label that is not there and is not added.
const absent = -1

// number finds a label. If it is not there, it is added, unless the labels are fixed.
func (l *labels) number(label []byte, h hash) (n int32, added bool, err error) {
	mask := uint32(len(l.slots.items) - 1)
	at := uint32(h.bits>>32) & mask
	for ; l.slots.items[at].number != 0; at = (at + 1) & mask {
		s := l.slots.items[at]
		if !s.has(h) {
			continue
		}
		if n := s.index(); h.mark == 0 || string(l.label(n)) == string(label) {
			return int32(n), false, nil
		}
	}
	if l.fixed {
		return absent, false, nil
	}
	n = int32(l.count())
	if n == math.MaxInt32 {
		return 0, false, fault.New(fault.InvalidData, "there are more than %d %ss", math.MaxInt32, l.what)
	}
	if err := l.text.extend(label...); err != nil {
		return 0, false, err
	}
	if err := l.ends.push(int64(len(l.text.items))); err != nil {
		return 0, false, err
	}
	l.slots.items[at] = newSlot(h, uint32(n))
	if uint64(n) > uint64(mask)/4*3 {
		err = grow(&l.slots)
	}
	return n, true, err
}

func newSlot(h hash, n uint32) slot {
	return slot{uint32(h.bits), uint32(h.bits >> 32), (n + 1) | h.mark}
}

// has reports whether the slot is of a label with that hash.
func (s slot) has(h hash) bool {
	return s.high == uint32(h.bits>>32) && s.low == uint32(h.bits) && s.number&isLong == h.mark
}

// index is the number of the label.
func (s slot) index() int { return int(s.number&^isLong) - 1 }

// grow doubles a table.
func grow(slots *list[slot]) error {
	larger := list[slot]{budget: slots.budget}
	if err := larger.zeros(2 * len(slots.items)); err != nil {
		return err
	}
	mask := uint32(len(larger.items) - 1)
	for _, s := range slots.items {
		if s.number == 0 {
			continue
		}
		at := s.high & mask
		for larger.items[at].number != 0 {
			at = (at + 1) & mask
		}
		larger.items[at] = s
	}
	slots.free()
	*slots = larger
	return nil
}

// Index is a list of labels: label n is Text[Offsets[n]:Offsets[n+1]]. nil Offsets: there is none.
type Index struct {
	Offsets []int64
	Text    []byte
}

// add adds the labels of an index.
func (l *labels) add(index Index) error {
	if index.Offsets == nil {
		return nil
	}
	for n, end := range index.Offsets[1:] {
		begin := index.Offsets[n]
		if begin < 0 || end < begin || end > int64(len(index.Text)) {
			return fault.New(fault.InvalidArgument, "the offsets of the %s labels are not valid at label %d", l.what, n)
		}
		label := index.Text[begin:end]
		if problem := labelProblem(label); problem != "" {
			return fault.New(fault.InvalidArgument, "the label of %s %d %s", l.what, n, problem)
		}
		before, added, err := l.number(label, hashOf(label))
		if err != nil {
			return err
		}
		if !added {
			return fault.New(fault.InvalidArgument, "%s %d has the label %q, which %s %d has already", l.what, n, shown(label),
				l.what, before)
		}
	}
	return nil
}
