package csr

import (
	"sync"

	"dsstne/internal/parallel"
)

// blockEntries is about how many entries a thread reads before it looks for more work.
const blockEntries = 1 << 16

// blockRows is how many rows are read at a time, so that a block has about blockEntries entries.
func blockRows(rows, nonZeros int64) int64 {
	return max(1, rows*blockEntries/(nonZeros+rows+1))
}

// eachBlock visits all rows, block by block, on up to threads goroutines (0: as many as the process has processors) and
// returns the error of the first block, in order, whose visit fails, whatever the number of threads.
func eachBlock(rows, nonZeros int64, threads int, visit func(first, end int64) error) error {
	size := blockRows(rows, nonZeros)
	return parallel.Do(threads, int((rows+size-1)/size), func(n int) error {
		first := int64(n) * size
		return visit(first, min(first+size, rows))
	})
}

// blocks are for the visits of eachBlock that read rows.
var blocks = sync.Pool{New: func() any { return new(block) }}
