package csr

import (
	"math"
	"slices"

	"dsstne/internal/fault"
	"dsstne/kernels"
)

// WithNegatives is how many entries a batch of rows has at most, if it has stored ones, each with negatives.
func WithNegatives(stored, negatives, rows, columns int64) int64 {
	if all := rows * columns; stored > all/(1+negatives) {
		return max(stored, all) // a batch that repeats rows has more than all
	}
	return stored * (1 + negatives)
}

// draw adds negatives to the rows of a batch: Negatives for each entry, or as many as there are. They are columns
// without an entry: those whose ranks among these columns are those that random.Subset draws for the row's place in the
// batch.
func (r *Reader) draw(step int64, out *kernels.SparseBatch) error {
	rows, total := len(out.Offsets)-1, int64(0)
	negatives := func(stored int64) int64 { return min(stored*r.Negatives, out.Columns-stored) }
	for u := range rows {
		stored := int64(out.Offsets[u+1] - out.Offsets[u])
		total += stored + negatives(stored)
	}
	if total > math.MaxInt32 {
		return fault.New(fault.InvalidArgument, "a batch of %d rows holds %d entries with their negatives, more than %d; "+
			"choose a smaller batch size or fewer negatives", rows, total, math.MaxInt32)
	}
	// Last row first, and in each the last entry first: then entries only move towards the end.
	stop := len(out.Indices)
	out.Indices, out.Values = growTo(out.Indices, int(total)), growTo(out.Values, int(total))
	at := int(total)
	for u := rows - 1; u >= 0; u-- {
		begin := int(out.Offsets[u])
		stored := int64(stop - begin)
		ranks := r.ranks.Draw(r.Seed, r.Stream, step, int64(u), out.Columns-stored, negatives(stored))
		out.Offsets[u+1] = int32(at)
		at = mergeBehind(out, begin, stop, at, ranks)
		stop = begin
	}
	return nil
}

// mergeBehind moves entries begin .. stop - 1 of a row up to at, with a zero for each of some columns. These are given
// by their ranks among the columns without an entry. It returns where the row begins.
func mergeBehind(out *kernels.SparseBatch, begin, stop, at int, ranks []int32) int {
	for n := len(ranks) - 1; ; {
		// A column's rank is its number less the entries before it.
		for stop > begin && (n < 0 || out.Indices[stop-1]-int32(stop-1-begin) > ranks[n]) {
			stop--
			at--
			out.Indices[at], out.Values[at] = out.Indices[stop], out.Values[stop]
		}
		if n < 0 {
			return at
		}
		at--
		out.Indices[at], out.Values[at] = ranks[n]+int32(stop-begin), 0
		n--
	}
}

// growTo gives s a length of n, with what it holds.
func growTo[T any](s []T, n int) []T { return slices.Grow(s, n-len(s))[:n] }
