package arrowfile

import (
	"encoding/binary"
	"math"
	"unicode/utf8"

	"dsstne/internal/fault"
)

// Names are those of items or rows: name n is Text[Offsets[n]:Offsets[n+1]]. nil Offsets: there are none.
type Names struct {
	Offsets []int64
	Text    []byte
}

// check checks names that are to be saved.
func (n Names) check(what string, wanted int64) error {
	if n.Offsets == nil {
		return nil
	}
	if int64(len(n.Offsets)) != wanted+1 {
		return fault.New(fault.InvalidArgument, "there are %d %s names, but the dataset has %d %ss", len(n.Offsets)-1, what,
			wanted, what)
	}
	if n.Offsets[0] != 0 || n.Offsets[wanted] != int64(len(n.Text)) {
		return fault.New(fault.InvalidArgument, "the offsets of the %s names must run from 0 to %d", what, len(n.Text))
	}
	for i, end := range n.Offsets[1:] {
		begin := n.Offsets[i]
		switch {
		case end < begin || end > int64(len(n.Text)):
			return fault.New(fault.InvalidArgument, "the offsets of the %s names decrease at name %d", what, i)
		case end-begin > mostName:
			return fault.New(fault.InvalidArgument, "the name of %s %d has %d bytes, more than %d", what, i, end-begin, mostName)
		case !utf8.Valid(n.Text[begin:end]):
			return fault.New(fault.InvalidArgument, "the name of %s %d is not valid UTF-8", what, i)
		}
	}
	return nil
}

// mostName is the size of the longest name.
const mostName = 1 << 20

// part is the names first .. end-1 as Arrow has them: their offsets of 32 bits, and their text.
func (n Names) part(first, end int64) (offsets, text []byte, err error) {
	base := n.Offsets[first]
	if n.Offsets[end]-base > math.MaxInt32 {
		return nil, nil, fault.New(fault.InvalidArgument, "the names have %d bytes together, more than %d",
			n.Offsets[end]-base, math.MaxInt32)
	}
	for _, offset := range n.Offsets[first : end+1] {
		offsets = binary.LittleEndian.AppendUint32(offsets, uint32(offset-base))
	}
	return offsets, n.Text[base:n.Offsets[end]], nil
}

// textArray is where an array of names is in the file.
type textArray struct {
	first, size   int64 // of the arrays of its batch
	length        int64
	offsets, text buffer
}

// readNames copies names: their offsets, counted from the one that base already has, and their text behind it.
func (r *reader) readNames(at textArray, long bool, offsets, text []byte, base int64) (end int64, err error) {
	width := int64(4)
	if long {
		width = 8
	}
	inside := func(b buffer, least int64) bool {
		return b.offset >= 0 && b.size >= least && b.offset <= at.size-b.size
	}
	if at.length < 0 || at.length >= int64(len(offsets))/8 || !inside(at.offsets, (at.length+1)*width) ||
		!inside(at.text, 0) {
		return 0, damaged("its names are not where they should be")
	}
	stored := make([]byte, (at.length+1)*width)
	if err := r.data.Read(stored, at.first+at.offsets.offset); err != nil {
		return 0, err
	}
	offsetAt := func(n int64) int64 {
		if long {
			return int64(binary.LittleEndian.Uint64(stored[8*n:]))
		}
		return int64(int32(binary.LittleEndian.Uint32(stored[4*n:])))
	}
	first := offsetAt(0)
	previous := first
	for n := range at.length {
		binary.LittleEndian.PutUint64(offsets[8*n:], uint64(base+previous-first))
		next := offsetAt(n + 1)
		if next < previous {
			return 0, damaged("the offsets of its names decrease")
		}
		previous = next
	}
	if first < 0 || previous > at.text.size || previous-first > int64(len(text))-base {
		return 0, damaged("its names are longer than its record says")
	}
	end = base + previous - first
	return end, r.data.Read(text[base:end], at.first+at.text.offset+first)
}
