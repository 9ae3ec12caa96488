package csr

import (
	"math"
	"math/bits"
	"slices"

	"dsstne/internal/parallel"
	"dsstne/kernels"
)

// Up to maxPasses digits of up to maxDigit bits cover an item, which has at most 31.
const (
	maxDigit  = 11
	maxPasses = 3
)

// transpose fills the item order of b from its row order by a radix sort of the entries, lowest digit first. It is
// stable, so the rows of an item ascend. Time and memory grow with the batch, not with the number of columns.
func (r *Reader) transpose(b *kernels.SparseBatch) error {
	n := len(b.Indices)
	b.ItemRows, b.ItemValues = resize(b.ItemRows, n), resize(b.ItemValues, n)
	switch rows := len(b.Offsets) - 1; {
	case n > 0 && int64(n) == int64(rows)*b.Columns:
		return r.transposeFull(b, rows)
	case n > 0 && int64(n) >= int64(rows)*b.Columns/8:
		return r.transposeDense(b, rows)
	}
	width := max(1, bits.Len64(uint64(b.Columns-1)))
	passes := (width + maxDigit - 1) / maxDigit
	digit := (width + passes - 1) / passes

	r.payload, r.keys[0], r.keys[1] = resize(r.payload, n), resize(r.keys[0], n), resize(r.keys[1], n)
	r.count(b.Indices, passes, digit)
	source, target := r.keys[0], r.keys[1]
	r.firstPass(b, source, digit)
	for pass := 1; pass < passes; pass++ {
		counter, shift := &r.counters[pass], 32+pass*digit
		for _, key := range source {
			d := key >> shift & (1<<digit - 1)
			target[counter[d]] = key
			counter[d]++
		}
		source, target = target, source
	}

	b.Items, b.ItemOffsets = resize(b.Items, n), resize(b.ItemOffsets, n+1)
	b.ItemOffsets[0] = 0
	items, previous := 0, uint32(math.MaxUint32)
	for i, key := range source {
		payload := r.payload[uint32(key)]
		b.ItemRows[i], b.ItemValues[i] = int32(payload>>32), math.Float32frombits(uint32(payload))
		item := uint32(key >> 32)
		if item != previous {
			items++
		}
		b.Items[items-1], b.ItemOffsets[items] = int32(item), int32(i+1)
		previous = item
	}
	b.Items, b.ItemOffsets = b.Items[:items], b.ItemOffsets[:items+1]
	return nil
}

// transposeFull does so if every row has an entry in every column: there is nothing to sort.
func (r *Reader) transposeFull(b *kernels.SparseBatch, rows int) error {
	const together = 16 // columns, so that a line of the cache is read once
	columns := int(b.Columns)
	b.Items, b.ItemOffsets = resize(b.Items, columns), resize(b.ItemOffsets, columns+1)
	b.ItemOffsets[0] = 0
	return parallel.Do(r.threads(len(b.Indices)), (columns+together-1)/together, func(block int) error {
		first := block * together
		n := min(together, columns-first)
		for u := range rows {
			at := first*rows + u
			for _, value := range b.Values[u*columns+first:][:n] {
				b.ItemValues[at], b.ItemRows[at] = value, int32(u)
				at += rows
			}
		}
		for item := first; item < first+n; item++ {
			b.Items[item], b.ItemOffsets[item+1] = int32(item), int32((item+1)*rows)
		}
		return nil
	})
}

// transposeDense does so where many rows have an entry in each column: it counts the entries of the columns, and goes
// through the rows once for each few columns, from where it was in each row.
func (r *Reader) transposeDense(b *kernels.SparseBatch, rows int) error {
	const together = 16 // columns, so that a line of the cache is read once
	columns := int(b.Columns)
	r.starts = resize(r.starts, columns+1)
	starts := r.starts
	clear(starts)
	for _, item := range b.Indices {
		starts[item+1]++
	}
	b.Items, b.ItemOffsets = resize(b.Items, columns)[:0], append(resize(b.ItemOffsets, columns+1)[:0], 0)
	for item := range columns {
		if starts[item+1] > 0 {
			b.Items = append(b.Items, int32(item))
			b.ItemOffsets = append(b.ItemOffsets, starts[item]+starts[item+1])
		}
		starts[item+1] += starts[item]
	}
	blocks := (columns + together - 1) / together
	parts := min(r.threads(len(b.Indices)), blocks)
	r.next = resize(r.next, parts*rows)
	return parallel.Do(parts, parts, func(part int) error {
		first, end := blocks*part/parts*together, min(blocks*(part+1)/parts*together, columns)
		next := r.next[part*rows:][:rows]
		for u := range next {
			skipped, _ := slices.BinarySearch(b.Indices[b.Offsets[u]:b.Offsets[u+1]], int32(first))
			next[u] = b.Offsets[u] + int32(skipped)
		}
		for ; first < end; first += together {
			var to [together]int32 // of the columns' next entries
			copy(to[:], starts[first:min(first+together, end)])
			for u, from := range next {
				row := b.Indices[from:b.Offsets[u+1]]
				values := b.Values[from:][:len(row)]
				for i, item := range row {
					column := uint(int(item) - first)
					if column >= together {
						row = row[:i]
						break
					}
					at := to[column]
					b.ItemRows[at], b.ItemValues[at] = int32(u), values[i]
					to[column]++
				}
				next[u] = from + int32(len(row))
			}
		}
		return nil
	})
}

// firstPass sorts by the lowest digit on the way from the row order to keys (item and position), and fills the payload.
func (r *Reader) firstPass(b *kernels.SparseBatch, keys []uint64, digit int) {
	counter, mask := &r.counters[0], uint32(1)<<digit-1
	for u := range len(b.Offsets) - 1 {
		first, end := b.Offsets[u], b.Offsets[u+1]
		values, payload := b.Values[first:end], r.payload[first:end]
		for i, item := range b.Indices[first:end] {
			payload[i] = uint64(u)<<32 | uint64(math.Float32bits(values[i]))
			d := uint32(item) & mask
			keys[counter[d]] = uint64(item)<<32 | uint64(int(first)+i)
			counter[d]++
		}
	}
}

// count sets the counters of each pass to the place of the first key with that digit.
func (r *Reader) count(items []int32, passes, digit int) {
	mask := uint32(1)<<digit - 1
	for pass := range passes {
		counter, shift := &r.counters[pass], pass*digit
		clear(counter[:mask+1])
		for _, item := range items {
			counter[uint32(item)>>shift&mask]++
		}
		sum := int32(0)
		for d, n := range counter[:mask+1] {
			counter[d] = sum
			sum += n
		}
	}
}

// resize gives s a length of n, with what it holds or with any content.
func resize[T any](s []T, n int) []T { return slices.Grow(s[:0], n)[:n] }
