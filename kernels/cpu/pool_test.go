package cpu

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dsstne/kernels"
)

func TestADeviceMayBeClosedAtOnce(t *testing.T) {
	for range 10_000 {
		d, err := backend{}.Open(0, kernels.Options{Threads: 3})
		require.NoError(t, err)
		require.NoError(t, d.Close())
	}
}

// sums is an op of one phase on a device, long enough for several threads: it adds rows of ones, and its result is how many.
func sums(t *testing.T, d kernels.Device, rows int64) {
	t.Helper()
	columns := (1<<17)/(2*rows) + 1 // the caller does less than 1 << 17 products alone
	batch := &kernels.SparseBatch{Columns: 1, Offsets: []int32{0}}
	for range rows {
		batch.Indices, batch.Values = append(batch.Indices, 0), append(batch.Values, 1)
		batch.Offsets = append(batch.Offsets, int32(len(batch.Indices)))
	}
	w, err := d.Alloc(columns)
	require.NoError(t, err)
	defer w.Free()
	out, err := d.Alloc(rows * columns)
	require.NoError(t, err)
	defer out.Free()
	for i := range w.Float32() {
		w.Float32()[i] = 1
	}
	op := &kernels.Gather{Weight: &kernels.Weights{Rows: 1, Columns: columns, Value: w}, Out: out, Accumulate: true}
	step := &kernels.Step{Rows: rows, Sparse: []*kernels.SparseBatch{batch}}
	const times = 100
	for range times {
		require.NoError(t, d.Gather(op, step))
	}
	for _, x := range out.Float32() {
		if x != times {
			require.Equal(t, float32(times), x)
		}
	}
}

func TestAPoolWorksWithFewerAndMoreWorkersThanProcessors(t *testing.T) {
	for _, threads := range []int{1, 2, 3, 64} {
		d, err := backend{}.Open(0, kernels.Options{Threads: threads})
		require.NoError(t, err)
		sums(t, d, 1000)
		require.NoError(t, d.Close())
	}
}

func TestPhasesThatAreOverBeforeAThreadIsAwakeGoOn(t *testing.T) {
	d, err := backend{}.Open(0, kernels.Options{Threads: 8})
	require.NoError(t, err)
	for range 500 {
		sums(t, d, 100)
	}
	require.NoError(t, d.Close())
}

// waitForGoroutines returns when there are at most the given number.
func waitForGoroutines(t *testing.T, most int) {
	t.Helper()
	for start := time.Now(); runtime.NumGoroutine() > most; time.Sleep(time.Millisecond) {
		require.Less(t, time.Since(start), time.Minute, "%d goroutines, there should be %d", runtime.NumGoroutine(), most)
	}
}

func TestWorkersLeaveAPoolThatIsIdleAndComeBack(t *testing.T) {
	d, err := backend{}.Open(0, kernels.Options{Threads: 4})
	require.NoError(t, err)
	before := runtime.NumGoroutine()
	for range 3 {
		sums(t, d, 100)
		waitForGoroutines(t, before)
	}
	require.NoError(t, d.Close())
}

func TestNoWorkerOutlivesItsPool(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 100 {
		d, err := backend{}.Open(0, kernels.Options{Threads: 8})
		require.NoError(t, err)
		sums(t, d, 10)
		require.NoError(t, d.Close())
	}
	waitForGoroutines(t, before)
}

func TestWorkersLeaveWhenTheirThreadIsTakenAndComeBack(t *testing.T) {
	opened, err := backend{}.Open(0, kernels.Options{Threads: 4})
	require.NoError(t, err)
	d := opened.(kernels.Threaded)
	before := runtime.NumGoroutine()
	for _, threads := range []int{4, 1, 3, 2, 4} {
		d.UseThreads(threads)
		require.Equal(t, threads, d.ThreadsInUse())
		for start := time.Now(); runtime.NumGoroutine() > before+threads-1; { // they are never idle here
			sums(t, d, 100)
			require.Less(t, time.Since(start), time.Minute)
		}
	}
	require.NoError(t, d.Close())
	waitForGoroutines(t, before)
}

func TestTheNumberOfThreadsMayChangeAtAnyTime(t *testing.T) {
	opened, err := backend{}.Open(0, kernels.Options{Threads: 5})
	require.NoError(t, err)
	d := opened.(kernels.Threaded)
	done, changed := make(chan bool), make(chan bool)
	go func() {
		defer close(changed)
		for n := 0; ; n++ {
			select {
			case <-done:
				return
			default:
				d.UseThreads(1 + n%7)
			}
		}
	}()
	for range 20 {
		sums(t, d, 1000)
	}
	close(done)
	<-changed
	require.NoError(t, d.Close())
}
