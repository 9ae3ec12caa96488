package csr

import "fmt"

// outside is an entry that FirstOutside looks for.
type outside struct {
	row, column int64
	value       float64
}

func (o outside) Error() string {
	return fmt.Sprintf("row %d, column %d is %g", o.row, o.column, o.value)
}

// FirstOutside finds the first entry, by row and then column, that is not in low .. high, after duplicates are summed;
// NaN is outside of every range. It passes over rows that have become unreadable, and those after them in a block:
// reading them reports the error. It reads on all processors; which entry is the first does not depend on them.
func FirstOutside(s Source, low, high float64) (row, column int64, value float64, found bool) {
	statistics := s.Statistics()
	if statistics.within(low, high) {
		return 0, 0, 0, false
	}
	err := eachBlock(s.Rows(), statistics.NonZeros, 0, func(first, end int64) error {
		b := blocks.Get().(*block)
		defer blocks.Put(b)
		return b.outsideOf(s, first, end, low, high)
	})
	if err == nil {
		return 0, 0, 0, false
	}
	first, found := err.(outside)
	if !found {
		panic(err) // a panic of one of the goroutines
	}
	return first.row, first.column, first.value, true
}

// outsideOf returns the first entry of some rows that is not in low .. high as an error.
func (b *block) outsideOf(s Source, first, end int64, low, high float64) error {
	_ = b.read(s, first, end) // the rows before one that cannot be read are there all the same
	begin := 0
	for n, stop := range b.Ends {
		for i := begin; i < stop; i++ {
			if v := float64(b.Values[i]); !(v >= low && v <= high) {
				return outside{first + int64(n), int64(b.Indices[i]), v}
			}
		}
		begin = stop
	}
	return nil
}
