package csr

import (
	"math"
	"runtime"
	"sync"

	"dsstne/internal/fault"
)

// blockEntries is about how many entries a thread reads before it looks for more work.
const blockEntries = 1 << 16

// blockRows is how many rows are read at a time, so that a block has about blockEntries entries.
func blockRows(rows, nonZeros int64) int64 {
	return max(1, rows*blockEntries/(nonZeros+rows+1))
}

// eachBlock visits all rows, block by block, on up to threads goroutines (0: as many as the process has processors) and
// returns the error of the first block, in order, whose visit fails, whatever the number of threads. Each goroutine asks for a
// visitor of its own and for what to do at its end.
func eachBlock(rows, nonZeros int64, threads int, visitor func() (visit func(first, end int64) error, done func())) error {
	if threads <= 0 {
		threads = runtime.GOMAXPROCS(0)
	}
	block := blockRows(rows, nonZeros)
	s := &scan{rows: rows, block: block, blocks: (rows + block - 1) / block, failed: math.MaxInt64}
	work := func() {
		visit, done := visitor()
		defer done()
		s.work(visit)
	}
	workers := min(int64(threads), s.blocks)
	if workers == 1 { // another goroutine would only cost time
		work()
		return s.err
	}
	var wait sync.WaitGroup
	for range workers {
		wait.Go(work)
	}
	wait.Wait()
	return s.err
}

// scan is the state that the goroutines of one eachBlock share.
type scan struct {
	rows   int64
	block  int64 // rows per block
	blocks int64

	mu     sync.Mutex // guards what follows
	next   int64      // block to be handed out; blocks before it are done or being worked on
	failed int64      // lowest block that failed
	err    error      // its error
}

// take hands out the next block; there is none after a failure, as its error would come later in order.
func (s *scan) take() (int64, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next >= s.blocks || s.next > s.failed {
		return 0, false
	}
	s.next++
	return s.next - 1, true
}

func (s *scan) fail(block int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if block < s.failed {
		s.failed, s.err = block, err
	}
}

func (s *scan) work(visit func(first, end int64) error) {
	block := int64(0)
	defer func() {
		// A panic in a goroutine of its own would end the process, so it becomes the error of its block.
		if p := recover(); p != nil {
			s.fail(block, fault.New(fault.Internal, "reading a matrix panicked: %v", p))
		}
	}()
	for {
		var more bool
		if block, more = s.take(); !more {
			return
		}
		if err := visit(block*s.block, min((block+1)*s.block, s.rows)); err != nil {
			s.fail(block, err)
		}
	}
}
