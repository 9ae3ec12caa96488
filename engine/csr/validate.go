package csr

import (
	"math"
	"sync"

	"dsstne/internal/fault"
)

// ValidateOptions chooses what is accepted.
type ValidateOptions struct {
	AllowNotFinite bool // NaN and infinite values are data
	Threads        int  // 0: as many as the process has processors
}

// Validate reads everything once and fails with fault.InvalidData at the first row, and in it the first entry in stored
// order, that is not valid, whatever the number of threads.
func (m *Matrix) Validate(o ValidateOptions) error {
	var mu sync.Mutex // guards all
	all := nothing()
	all.NonZeros, all.Bytes, all.HasValues = m.statistics.NonZeros, m.statistics.Bytes, m.statistics.HasValues
	all.AllowNotFinite = o.AllowNotFinite
	err := eachBlock(m.rows, all.NonZeros, o.Threads, func(first, end int64) error {
		found := nothing()
		err := catchFaults(func() error {
			return m.inMemory(first, end, func(part *Matrix, from, to int64) error {
				for row := from; row < to; row++ {
					if err := part.checkRow(row, o.AllowNotFinite, &found); err != nil {
						return err
					}
				}
				return nil
			})
		})
		mu.Lock()
		defer mu.Unlock()
		all.merge(found)
		return err
	})
	if err != nil {
		return err
	}
	m.statistics = all
	return nil
}

// nothing is the statistics of no rows, to merge others into.
func nothing() Statistics {
	return Statistics{Minimum: math.Inf(1), Maximum: math.Inf(-1), Canonical: true}
}

// merge makes s the statistics of its rows and o's.
func (s *Statistics) merge(o Statistics) {
	s.NonZeros, s.Bytes = s.NonZeros+o.NonZeros, s.Bytes+o.Bytes
	s.Longest = max(s.Longest, o.Longest)
	s.Minimum, s.Maximum = math.Min(s.Minimum, o.Minimum), math.Max(s.Maximum, o.Maximum)
	s.HasValues = s.HasValues || o.HasValues
	s.Canonical = s.Canonical && o.Canonical
	s.AllowNotFinite = s.AllowNotFinite || o.AllowNotFinite
}

// ofValues is s with extremes of 0 where there is no value.
func (s Statistics) ofValues() Statistics {
	if s.Minimum > s.Maximum {
		s.Minimum, s.Maximum = 0, 0
	}
	return s
}

// checkRow checks a row where it lies and adds what it finds to s.
func (m *Matrix) checkRow(row int64, allow bool, s *Statistics) error {
	begin, end, err := m.bounds(row)
	if err != nil || begin == end {
		return err
	}
	s.Longest = max(s.Longest, end-begin)
	var badIndex int
	var ascending bool
	if m.parts.Indices64 != nil {
		badIndex, ascending = checkIndices(m.parts.Indices64[begin:end], m.parts.Columns)
	} else {
		badIndex, ascending = checkIndices(m.parts.Indices32[begin:end], m.parts.Columns)
	}
	s.Canonical = s.Canonical && ascending
	badValue := -1
	switch {
	case m.parts.Others != nil:
		badValue = m.parts.Others.check(begin, end, allow, s)
	case m.parts.Values64 != nil:
		badValue = checkValues(m.parts.Values64[begin:end], allow, s)
	case m.parts.Values32 != nil:
		badValue = checkValues(m.parts.Values32[begin:end], allow, s)
	default:
		s.Minimum, s.Maximum = min(s.Minimum, 1), max(s.Maximum, 1)
	}
	if badIndex >= 0 && (badValue < 0 || badIndex <= badValue) {
		return m.indexError(row, begin+int64(badIndex))
	}
	if badValue >= 0 {
		return m.valueError(row, begin+int64(badValue))
	}
	return nil
}

// checkIndices finds the first index outside 0 .. columns-1, or -1, and whether the indices ascend strictly.
func checkIndices[I int32 | int64](indices []I, columns int64) (bad int, ascending bool) {
	if ascend(indices) && (len(indices) == 0 || int64(indices[len(indices)-1]) < columns) {
		return -1, true
	}
	for i, column := range indices {
		if uint64(column) >= uint64(columns) {
			return i, false
		}
	}
	return -1, false
}

// ascend reports whether the indices ascend strictly from 0 or more. It compares four a turn, because the loop itself
// would cost as much as the comparisons.
func ascend[I int32 | int64](indices []I) bool {
	previous := I(-1)
	for ; len(indices) >= 4; indices = indices[4:] {
		a, b, c, d := indices[0], indices[1], indices[2], indices[3]
		if a <= previous || b <= a || c <= b || d <= c {
			return false
		}
		previous = d
	}
	for _, column := range indices {
		if column <= previous {
			return false
		}
		previous = column
	}
	return true
}

// checkValues finds the first value that may not be stored, or -1, and widens the extremes of s by the others.
func checkValues[V float32 | float64](values []V, allow bool, s *Statistics) int {
	low, high := V(s.Minimum), V(s.Maximum)
	begin := 0
	if !math.IsInf(s.Minimum, -1) && !math.IsInf(s.Maximum, 1) { // what is within finite extremes may be stored
		begin = bounded(values, low, high)
	}
	for i, value := range values[begin:] {
		if !fits(float64(value), allow) {
			return begin + i
		}
		if value < low {
			low = value
		}
		if value > high {
			high = value
		}
	}
	s.Minimum, s.Maximum = float64(low)+0, float64(high)+0 // no negative zero
	return -1
}

// bounded is the number of values, from the first on, that are known to lie between low and high: nearly all in most
// rows. Four a turn, as in ascend.
func bounded[V float32 | float64](values []V, low, high V) int {
	rest := values
	for ; len(rest) >= 4; rest = rest[4:] {
		a, b, c, d := rest[0], rest[1], rest[2], rest[3]
		above := a >= low && b >= low && c >= low && d >= low
		if !above || !(a <= high && b <= high && c <= high && d <= high) {
			break
		}
	}
	return len(values) - len(rest)
}

// fits reports whether a value may be stored: finite, unless allowed otherwise, and not too large for float32.
func fits(value float64, allow bool) bool {
	if math.Abs(value) < largest {
		return true
	}
	return allow && (math.IsNaN(value) || math.IsInf(value, 0))
}

// largest is the smallest number that float32 rounds to infinity: its largest one plus half a unit in the last place.
const largest = 0x1.ffffffp127

// stored reads entry i for an error message.
func (m *Matrix) stored(i int64) (column int64, value float64) {
	switch {
	case m.parts.Indices64 != nil:
		column = m.parts.Indices64[i]
	case m.parts.Unsigned:
		column = int64(uint32(m.parts.Indices32[i]))
	default:
		column = int64(m.parts.Indices32[i])
	}
	switch {
	case m.parts.Others != nil:
		return column, m.parts.Others.at(i)
	case m.parts.Values64 != nil:
		return column, m.parts.Values64[i]
	case m.parts.Values32 != nil:
		return column, float64(m.parts.Values32[i])
	}
	return column, 1
}

func (m *Matrix) indexError(row, entry int64) error {
	column, _ := m.stored(entry)
	advice := "was it built with another item list?"
	if column < 0 {
		advice = "columns are counted from 0"
	}
	return fault.New(fault.InvalidData, "row %d holds column %d, but the matrix has %d columns (0..%d); %s",
		m.parts.firstRow+row, column, m.parts.Columns, m.parts.Columns-1, advice)
}

func (m *Matrix) valueError(row, entry int64) error {
	column, value := m.stored(entry)
	return valueError(m.parts.firstRow+row, column, value)
}

// valueError says why a value may not be stored.
func valueError(row, column int64, value float64) error {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return fault.New(fault.InvalidData, "row %d, column %d holds %v; values must be finite: "+
			"remove the entry, or replace its value (or allow such values with allow_not_finite)", row, column, value)
	}
	return fault.New(fault.InvalidData, "row %d, column %d holds %v, which is too large for float32 (%.2g); "+
		"scale the values down", row, column, value, math.MaxFloat32)
}
