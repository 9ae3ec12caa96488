package csr_test

import (
	"math"
	"math/rand/v2"
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

// full is a validated dense matrix of cells.
func full[T csr.Number](t *testing.T, cells []T, columns int64) *csr.Dense {
	t.Helper()
	d, err := csr.NewDense(cells, columns, nil)
	require.NoError(t, err)
	require.NoError(t, d.Validate(csr.ValidateOptions{}))
	return d
}

// stored is a validated sparse matrix of the cells that are not zero.
func stored[T csr.Number](t *testing.T, cells []T, columns int64) *csr.Matrix {
	t.Helper()
	p := csr.Parts{Columns: columns, Offsets64: []int64{0}, Indices32: []int32{}, Values64: []float64{}}
	for i, cell := range cells {
		if cell != 0 {
			p.Indices32, p.Values64 = append(p.Indices32, int32(int64(i)%columns)), append(p.Values64, float64(cell))
		}
		if int64(i+1)%columns == 0 {
			p.Offsets64 = append(p.Offsets64, int64(len(p.Indices32)))
		}
	}
	return opened(t, p)
}

func checkDense[T csr.Number](t *testing.T, rows, columns int64, draw func(*rand.Rand) T) {
	rng := rand.New(rand.NewPCG(uint64(rows), uint64(columns)))
	cells := make([]T, rows*columns)
	for i := range cells {
		if rng.IntN(3) > 0 {
			cells[i] = draw(rng)
		}
	}
	got, want := full(t, cells, columns), stored(t, cells, columns)
	require.Equal(t, []int64{rows, columns}, []int64{got.Rows(), got.Columns()})
	statistics := got.Statistics()
	require.EqualValues(t, uintptr(len(cells))*unsafe.Sizeof(T(0)), statistics.Bytes)
	statistics.Bytes = want.Statistics().Bytes
	require.Equal(t, want.Statistics(), statistics)
	for _, n := range []int64{1, 2, rows} {
		require.Equal(t, csr.MaxBatchEntries(want, n), csr.MaxBatchEntries(got, n))
	}
	order := append(upTo(rows), 0, rows-1, 0)
	for _, reader := range []csr.Reader{{}, {Scaling: true, Denoising: 0.4, Seed: 3}, {Zeros: true, Negatives: 2, Seed: 1}} {
		batches := [2]*kernels.SparseBatch{new(kernels.SparseBatch), new(kernels.SparseBatch)}
		for i, source := range []csr.Source{got, want} {
			r := reader
			r.Source = source
			require.NoError(t, r.Batch(order, 5, true, batches[i]))
		}
		require.Equal(t, batches[1], batches[0])
	}
	digest, err := csr.Digest(got, 2)
	require.NoError(t, err)
	same, err := csr.Digest(want, 1)
	require.NoError(t, err)
	require.Equal(t, same, digest)
}

func TestADenseMatrixIsReadAsTheSparseOneOfItsCells(t *testing.T) {
	for _, size := range [][2]int64{{1, 1}, {1, 9}, {7, 1}, {40, 33}} {
		integer := func(rng *rand.Rand) int { return rng.IntN(math.MaxInt) - math.MaxInt/2 }
		checkDense(t, size[0], size[1], func(rng *rand.Rand) float32 { return float32(rng.NormFloat64()) })
		checkDense(t, size[0], size[1], func(rng *rand.Rand) float64 { return rng.NormFloat64() })
		checkDense(t, size[0], size[1], func(rng *rand.Rand) int8 { return int8(integer(rng)) })
		checkDense(t, size[0], size[1], func(rng *rand.Rand) uint16 { return uint16(integer(rng)) })
		checkDense(t, size[0], size[1], func(rng *rand.Rand) int64 { return int64(integer(rng)) })
		checkDense(t, size[0], size[1], func(rng *rand.Rand) uint64 { return uint64(integer(rng)) << 1 })
		checkDense(t, size[0], size[1], func(*rand.Rand) uint8 { return 1 })
	}
}

func TestSmallValuesOfADenseMatrixAreThoseOfASparseOne(t *testing.T) {
	negative := math.Copysign(0, -1)
	checkDense(t, 4, 6, func(rng *rand.Rand) float64 { return []float64{1e-60, negative, -1e-44, 3e38}[rng.IntN(4)] })
}

func TestADenseMatrixWithoutRowsOrEntries(t *testing.T) {
	empty, zero := full(t, []float32{}, 3), full(t, make([]int32, 6), 3)
	require.Zero(t, empty.Rows())
	require.Equal(t, csr.Statistics{Bytes: 24, HasValues: true, Canonical: true}, zero.Statistics())
	for _, columns := range []int64{-1, 0, math.MaxInt32 + 1} {
		_, err := csr.NewDense([]float32{}, columns, nil)
		require.Contains(t, refusal(t, fault.InvalidArgument, err), "columns")
	}
	_, err := csr.NewDense(make([]float32, 7), 3, nil)
	require.Contains(t, refusal(t, fault.InvalidData, err), "7 cells are no rows of 3 columns")
}

func TestTheFirstBadCellIsNamed(t *testing.T) {
	cells := make([]float64, 300*400)
	cells[77*400+5], cells[77*400+3], cells[200*400] = math.NaN(), 1e39, math.Inf(1)
	d, err := csr.NewDense(cells, 400, nil)
	require.NoError(t, err)
	for _, threads := range []int{1, 3} {
		err = d.Validate(csr.ValidateOptions{Threads: threads})
		require.Contains(t, refusal(t, fault.InvalidData, err), "row 77, column 3 holds 1e+39, which is too large")
	}
	cells[77*400+3] = 0
	err = d.Validate(csr.ValidateOptions{})
	require.Contains(t, refusal(t, fault.InvalidData, err), "row 77, column 5 holds NaN; values must be finite")
	require.NoError(t, d.Validate(csr.ValidateOptions{AllowNotFinite: true}))
	require.EqualValues(t, 2, d.Statistics().NonZeros)
	require.NoError(t, d.Read([]int64{77, 200}, new(csr.Entries)))
}

func TestADenseMatrixThatWasChangedIsInvalidData(t *testing.T) {
	cells := []float32{1, 0, 2, 0, 0, 3}
	d := full(t, cells, 3)
	e := new(csr.Entries)
	require.NoError(t, d.Read([]int64{1}, e))
	cells[1] = 4
	require.Contains(t, refusal(t, fault.InvalidData, d.Read([]int64{0}, e)), "row 0 grew while it was read")
	cells[1], cells[2] = float32(math.Inf(1)), 0
	require.Contains(t, refusal(t, fault.InvalidData, d.Read([]int64{0}, e)), "row 0, column 1 holds +Inf")
	require.Equal(t, []int32{2}, e.Indices)
	require.Contains(t, refusal(t, fault.InvalidArgument, d.Read([]int64{2}, e)), "the matrix has 2 rows")
}

func TestAMappedDenseMatrixThatWasShortenedIsInvalidData(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "data"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, file.Close()) })
	require.NoError(t, file.Truncate(1<<16))
	memory, err := syscall.Mmap(int(file.Fd()), 0, 1<<16, syscall.PROT_READ, syscall.MAP_SHARED)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, syscall.Munmap(memory)) })
	d := full(t, memory, 64)
	require.NoError(t, file.Truncate(0))
	for _, err := range []error{d.Read([]int64{3}, new(csr.Entries)), d.Validate(csr.ValidateOptions{})} {
		require.Contains(t, refusal(t, fault.InvalidData, err), "it was shortened while it was in use")
	}
}

func TestADenseMatrixIsReleasedOnceNobodyUsesIt(t *testing.T) {
	released := 0
	d, err := csr.NewDense([]float32{1}, 1, func() { released++ })
	require.NoError(t, err)
	require.NoError(t, d.Use())
	require.Contains(t, refusal(t, fault.Busy, d.Close()), "in use")
	d.Unuse()
	require.NoError(t, d.Close())
	require.NoError(t, d.Close())
	require.Equal(t, 1, released)
}

// growing is a matrix whose rows are longer each time that one asks.
type growing struct{ *csr.Matrix }

var asked int64

func (g growing) RowLength(row int64) int64 {
	asked++
	return g.Matrix.RowLength(row) + asked
}

// Large batches are made on several threads. Some rows are full, so that a batch of them is turned without sorting.
func TestALargeBatchIsTheSameOnAnyNumberOfThreads(t *testing.T) {
	const rows, columns = 460, 600
	rng := rand.New(rand.NewPCG(1, 2))
	cells := make([]float64, rows*columns)
	for i := range cells {
		switch {
		case i < rows/2*columns:
			cells[i] = 0.5 + rng.Float64()
		case rng.IntN(3) > 0:
			cells[i] = []float64{1e-60, 0.5 + rng.Float64()}[rng.IntN(2)] // float32 rounds the first to zero
		}
	}
	every, fullRows := upTo(rows), append(upTo(rows/2), upTo(rows/2)...)
	for _, source := range []csr.Source{full(t, cells, columns), stored(t, cells, columns)} {
		for n, of := range []csr.Reader{{}, {Scaling: true, Denoising: 0.4, Seed: 3}, {Zeros: true}, {RowsOnly: true}} {
			for _, order := range [][]int64{every, fullRows} {
				reader := of
				reader.Source = source
				want := batchOf(t, &reader, order...)
				for _, threads := range []int{2, 3, 7} {
					reader.Threads = func() int { return threads }
					require.Equal(t, want, batchOf(t, &reader, order...), "%d threads, reader %d", threads, n)
				}
			}
		}
	}
	reader := csr.Reader{Source: full(t, cells, columns), Threads: func() int { return 3 }}
	sparse := stored(t, cells, columns)
	require.ErrorContains(t, (&csr.Reader{Source: growing{sparse}, Threads: reader.Threads}).Batch(every, 1, true,
		new(kernels.SparseBatch)), "rows grew while they were read: the matrix must not be changed while it is in use")
	cells[300*columns] = math.NaN()
	err := reader.Batch(every, 1, true, new(kernels.SparseBatch))
	require.Contains(t, refusal(t, fault.InvalidData, err), "row 300")
}

func TestADenseMatrixOfScaledIntegersIsTheSparseOneOfItsValues(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 2))
	cells, values := make([]uint8, 40*33), make([]float64, 40*33)
	for i := range cells {
		cells[i] = uint8(rng.IntN(5) * 64 % 256) // also 128, whose value is 0
		values[i] = float64(cells[i])/256 - 0.5
	}
	d, err := csr.NewDense(cells, 33, nil)
	require.NoError(t, err)
	require.NoError(t, d.Scale(1.0/256, -0.5))
	require.NoError(t, d.Validate(csr.ValidateOptions{}))
	want := stored(t, values, 33)
	a, b := want.Statistics(), d.Statistics()
	require.EqualValues(t, len(cells), b.Bytes)
	a.Bytes, b.Bytes = 0, 0
	require.Equal(t, a, b)
	var x, y csr.Entries
	require.NoError(t, want.Read(upTo(40), &x))
	require.NoError(t, d.Read(upTo(40), &y))
	require.Equal(t, x.Indices, y.Indices)
	require.Equal(t, x.Values, y.Values)
	require.Equal(t, x.Ends, y.Ends)
	one, err := csr.Digest(want, 1)
	require.NoError(t, err)
	other, err := csr.Digest(d, 1)
	require.NoError(t, err)
	require.Equal(t, one, other)
}
