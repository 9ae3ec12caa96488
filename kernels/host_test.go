package kernels_test

import (
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
