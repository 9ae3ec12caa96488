package csr

import (
	"bytes"
	"math"
	"sync/atomic"

	"dsstne/internal/fault"
	"dsstne/internal/parallel"
)

// Attested is a matrix of which a record says what would take reading all rows to find. Each group of rows is compared
// with the record once, when one of its rows is read for the first time.
type Attested struct {
	*Blocks
	record  Record
	checked []atomic.Uint32 // a bit for each group
}

// Record describes the rows of a matrix, which are canonical. No row has a stored zero or a value that is not finite.
type Record struct {
	Name             string // of the data in errors
	Minimum, Maximum float64
	Lengths          []Lengths // of all rows, the longest first
	Digests          []byte    // of the groups, one after the other
}

// Lengths says that Rows rows have Length stored entries each.
type Lengths struct{ Length, Rows int64 }

// recorded is a source with a record. Types that embed an Attested are such sources, too.
type recorded interface {
	digest() string
	longestRows(rows int64) int64
}

// Attest makes a matrix that need not be validated; it is nil if the record is not of these rows, as far as their
// numbers show.
func Attest(b *Blocks, r Record) *Attested {
	rows, entries, groups := b.Rows(), b.statistics.NonZeros, Groups(b.Rows())
	longest := int64(math.MaxInt64)
	for _, l := range r.Lengths { // what is left of rows and entries never falls below 0, so nothing overflows
		if l.Length < 0 || l.Length >= longest || l.Rows < 1 || l.Rows > rows || l.Length > entries/l.Rows {
			return nil
		}
		longest, rows, entries = l.Length, rows-l.Rows, entries-l.Rows*l.Length
	}
	if rows != 0 || entries != 0 || int64(len(r.Digests)) != GroupBytes*groups {
		return nil
	}
	return &Attested{Blocks: b, record: r, checked: make([]atomic.Uint32, (groups+31)/32)}
}

// Statistics are those of the record.
func (a *Attested) Statistics() Statistics {
	s := Statistics{
		NonZeros: a.statistics.NonZeros, Bytes: a.statistics.Bytes, Minimum: a.record.Minimum, Maximum: a.record.Maximum,
		HasValues: a.Layout().ValueBits != 0, Canonical: true,
	}
	if len(a.record.Lengths) > 0 {
		s.Longest = a.record.Lengths[0].Length
	}
	return s
}

// Read appends rows to dst, see Source. It first checks the groups that have not been checked yet, on all processors;
// if one is damaged, dst stays as it is.
func (a *Attested) Read(rows []int64, dst *Entries) error {
	var unchecked []int64
	for _, row := range rows {
		group := row / GroupRows
		if last := len(unchecked) - 1; !a.isChecked(group) && (last < 0 || unchecked[last] != group) {
			unchecked = append(unchecked, group)
		}
	}
	if len(unchecked) > 0 {
		err := parallel.Do(0, len(unchecked), func(n int) error { return a.check(unchecked[n]) })
		if err != nil {
			return fault.Wrap(err, "%s", a.record.Name)
		}
	}
	return a.Blocks.Read(rows, dst)
}

func (a *Attested) isChecked(group int64) bool { return a.checked[group/32].Load()>>(group%32)&1 != 0 }

// check compares a group with the record.
func (a *Attested) check(group int64) error {
	if a.isChecked(group) {
		return nil // by another reader, or because rows of a group need not follow one another
	}
	b := blocks.Get().(*block)
	defer blocks.Put(b)
	first := group * GroupRows
	end := min(first+GroupRows, a.Rows())
	if err := b.read(a.Blocks, first, end); err != nil {
		return err
	}
	same := bytes.Equal(b.Digest(), a.record.Digests[group*GroupBytes:][:GroupBytes])
	begin := 0
	for _, stop := range b.Ends { // a record that does not fit is no harm to memory that was planned with it
		same = same && int64(stop-begin) <= a.record.Lengths[0].Length
		begin = stop
	}
	for _, value := range b.Values {
		same = same && float64(value) >= a.record.Minimum && float64(value) <= a.record.Maximum
	}
	if !same {
		return fault.New(fault.CorruptFile, "rows %d to %d are not those that were saved: the file is damaged, or it was "+
			"changed; save the dataset again", first, end-1)
	}
	a.checked[group/32].Or(1 << (group % 32))
	return nil
}

func (a *Attested) digest() string { return DigestOf(a.Rows(), a.Columns(), a.record.Digests) }

// longestRows is the number of entries of the longest rows together.
func (a *Attested) longestRows(rows int64) (entries int64) {
	for _, l := range a.record.Lengths {
		n := min(rows, l.Rows)
		entries, rows = entries+n*l.Length, rows-n
	}
	return entries
}
