package kernels_test

import (
	"sync"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"dsstne/kernels"
)

func TestLargeBuffersBeginAtDifferentPlacesOfTheirPages(t *testing.T) {
	const n = 1 << 20
	places := map[uintptr]bool{}
	for range 16 {
		b, err := kernels.AllocHost(n)
		require.NoError(t, err)
		defer b.Free()
		values := b.Float32()
		require.Len(t, values, n)
		values[0], values[n-1] = 1, 2
		place := uintptr(unsafe.Pointer(&values[0])) % 4096
		require.Zero(t, place%64, "a vector of the widest kind would straddle cache lines")
		require.False(t, places[place], "two of them begin %d bytes after a page's beginning", place)
		places[place] = true
	}
}

func TestAFreedBufferIsEmpty(t *testing.T) {
	for _, n := range []int64{0, 1, 1 << 20} {
		b, err := kernels.AllocHost(n)
		require.NoError(t, err)
		b.Free()
		b.Free()
		require.Zero(t, b.Len())
		require.Empty(t, b.Float32())
	}
}

func TestMemoryThatIsUsedAgainIsZero(t *testing.T) {
	for _, n := range []int64{1, 1000, 1 << 14, 1<<14 + 1} { // the last has more bytes than a block that is kept
		for range 20 {
			b := numbered(t, n)
			b.Float32()[n-1] = 7
			b.Free()
		}
		again, err := kernels.AllocHost(n)
		require.NoError(t, err)
		require.Equal(t, make([]float32, n), again.Float32())
		again.Free()
	}
}

// numbered is a buffer of 0, 1, 2 and so on.
func numbered(t *testing.T, n int64) *kernels.HostBuffer {
	b, err := kernels.AllocHost(n)
	require.NoError(t, err)
	for i := range b.Float32() {
		b.Float32()[i] = float32(i)
	}
	return b
}

func TestASharedBufferKeepsItsNumbersUntilTheLastIsFreed(t *testing.T) {
	first := numbered(t, 1000)
	second := first.Share()
	third := second.Share()
	require.Same(t, &first.Float32()[0], &third.Float32()[0])
	first.Free()
	first.Free() // a second call must not count for another buffer
	require.True(t, third.IsShared())
	second.Free()
	require.False(t, third.IsShared())
	require.EqualValues(t, 999, third.Float32()[999])
	third.Free()
	require.Empty(t, third.Float32())
}

func TestWhoOwnsItsMemoryWritesForNobodyElse(t *testing.T) {
	for _, n := range []int64{1, 1000, 1 << 20} { // the last one in huge pages
		one := numbered(t, n)
		other, alone := one.Share(), numbered(t, n)
		view := other.Slice(n-1, 1)
		require.NoError(t, other.Own())
		require.False(t, one.IsShared() || other.IsShared())
		view.Float32()[0] = -1
		require.EqualValues(t, -1, other.Float32()[n-1], "a view by Slice is of the buffer's own memory")
		require.Equal(t, alone.Float32(), one.Float32())
		require.Equal(t, alone.Float32()[:n-1], other.Float32()[:n-1])
		for _, b := range []*kernels.HostBuffer{one, other, alone} {
			place := &b.Float32()[0]
			require.NoError(t, b.Own())
			require.Same(t, place, &b.Float32()[0], "there is nobody to copy for")
			b.Free()
		}
	}
}

func TestOfBuffersThatOwnAtTheSameTimeOneKeepsTheMemory(t *testing.T) {
	for range 50 {
		list := []*kernels.HostBuffer{numbered(t, 5000)}
		place := &list[0].Float32()[0]
		for range 3 {
			list = append(list, list[0].Share())
		}
		var wait sync.WaitGroup
		for n, b := range list {
			wait.Go(func() {
				if err := b.Own(); err != nil {
					t.Error(err)
				}
				b.Float32()[0] = float32(n)
			})
		}
		wait.Wait()
		kept := 0
		for n, b := range list {
			require.EqualValues(t, n, b.Float32()[0])
			require.EqualValues(t, 4999, b.Float32()[4999])
			if &b.Float32()[0] == place {
				kept++
			}
			b.Free()
		}
		require.Equal(t, 1, kept)
	}
}

func TestAResizedBufferKeepsItsFirstElementsAndTheOthersAre0(t *testing.T) {
	b, err := kernels.AllocHost(0)
	require.NoError(t, err)
	before := kernels.ReadMemory(kernels.DeviceInfo{}).Allocated
	kept := int64(0)
	for _, n := range []int64{5, 16384, 9, 16385, 1 << 20, 40000, 16384, 1 << 19, 1<<19 + 1, 30001, 70000, 0, 3} {
		require.NoError(t, b.Resize(n))
		require.Equal(t, n, b.Len())
		values := b.Int32()
		require.Len(t, values, int(n))
		kept = min(kept, n)
		for i, value := range values {
			want := int32(0)
			if int64(i) < kept {
				want = int32(i + 1)
			}
			require.Equal(t, want, value, "element %d of %d", i, n)
			values[i] = int32(i + 1)
		}
		kept = n
	}
	require.Error(t, b.Resize(-1))
	require.Error(t, b.Resize(1<<60))
	require.Equal(t, []int32{1, 2, 3}, b.Int32(), "a failure leaves it as it was")
	b.Free()
	require.Equal(t, before, kernels.ReadMemory(kernels.DeviceInfo{}).Allocated)
}
