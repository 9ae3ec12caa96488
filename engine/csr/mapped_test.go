package csr_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"dsstne/engine/csr"
	"dsstne/internal/fault"
	"dsstne/kernels"
)

// mappedParts is a matrix of a thousand rows of one entry, whose arrays are a file; shorten cuts the file off.
func mappedParts(t *testing.T) (p csr.Parts, shorten func()) {
	t.Helper()
	const rows = 1000
	file, err := os.Create(filepath.Join(t.TempDir(), "data"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, file.Close()) })
	require.NoError(t, file.Truncate(4*(2*rows+1)))
	memory, err := syscall.Mmap(int(file.Fd()), 0, 4*(2*rows+1), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, syscall.Munmap(memory)) })
	numbers := unsafe.Slice((*int32)(unsafe.Pointer(&memory[0])), 2*rows+1)
	p = csr.Parts{Columns: 7, Offsets32: numbers[:rows+1], Indices32: numbers[rows+1:]}
	for row := range rows {
		p.Offsets32[row+1], p.Indices32[row] = int32(row+1), int32(row%7)
	}
	return p, func() { require.NoError(t, file.Truncate(0)) }
}

func TestAMappedFileThatWasShortenedIsInvalidData(t *testing.T) {
	p, shorten := mappedParts(t)
	m := opened(t, p)
	require.EqualValues(t, 1, m.RowLength(999))
	data, err := csr.DeviceData(m, 0, 7, false)
	require.NoError(t, err)
	shorten()

	batch := new(kernels.SparseBatch)
	r := csr.Reader{Source: m}
	for name, err := range map[string]error{
		"a batch":         r.Batch([]int64{1, 2}, 1, true, batch),
		"validation":      m.Validate(csr.ValidateOptions{Threads: 2}),
		"a device's":      data.Blocks(func(kernels.DataBlock) error { return nil }),
		"rows":            m.Read([]int64{0}, new(csr.Entries)),
		"opening":         func() error { _, err := csr.New(p); return err }(),
		"a device's part": func() error { _, err := csr.DeviceData(m, 0, 3, false); return err }(),
	} {
		require.Contains(t, refusal(t, fault.InvalidData, err), "it was shortened while it was in use", name)
	}
	require.Equal(t, []int32{0}, batch.Offsets)
	require.EqualValues(t, 1, m.RowLength(999), "not 0, so that somebody reads the row")
	require.LessOrEqual(t, csr.MaxBatchEntries(m, 10), int64(10))
	_, _, _, found := csr.FirstOutside(m, 2, 3)
	require.False(t, found)
}

func TestAMappedIndexThatWasShortenedIsInvalidData(t *testing.T) {
	p, shorten := mappedParts(t)
	m := opened(t, csr.Parts{Columns: 1, Offsets32: []int32{0, 1, 2, 3, 4, 5, 6, 7}, Indices32: make([]int32, 7)})
	list := p.Indices32 // of numbers from 0 to 6
	x, err := csr.NewIndexed(m, list, 1)
	require.NoError(t, err)
	data, err := csr.DeviceData(x, 0, 1, false)
	require.NoError(t, err)
	shorten()

	r := csr.Reader{Source: x}
	for name, err := range map[string]error{
		"a batch":    r.Batch([]int64{1, 2}, 1, true, new(kernels.SparseBatch)),
		"a device's": data.Index(func([]int64) error { return nil }),
		"rows":       x.Read([]int64{0}, new(csr.Entries)),
		"opening":    func() error { _, err := csr.NewIndexed(m, list, 2); return err }(),
	} {
		require.Contains(t, refusal(t, fault.InvalidData, err), "it was shortened while it was in use", name)
	}
	require.EqualValues(t, 1, x.RowLength(999))
	require.LessOrEqual(t, csr.MaxBatchEntries(x, 10), int64(10))
	require.NoError(t, x.Close())
	require.NoError(t, m.Close(), "what could not be opened does not use it")
}

func TestOtherPanicsAreNotTakenForFaultsOfAFile(t *testing.T) {
	p, _ := mappedParts(t)
	m := opened(t, p)
	require.Panics(t, func() { _ = m.Read([]int64{0}, nil) })
}
