package csr_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/engine/csr"
	"dsstne/internal/fault"
)

// sparse is a random matrix with duplicates and zeros.
func sparse(t *testing.T, seed uint64, rows, columns int64) *csr.Matrix {
	rng := rand.New(rand.NewPCG(seed, 4))
	p := csr.Parts{Columns: columns, Offsets64: []int64{0}, Indices32: []int32{}, Values32: []float32{}}
	for range rows {
		for range rng.IntN(9) {
			p.Indices32 = append(p.Indices32, int32(rng.Int64N(columns)))
			p.Values32 = append(p.Values32, float32(rng.IntN(7))-3+rng.Float32())
		}
		p.Offsets64 = append(p.Offsets64, int64(len(p.Indices32)))
	}
	return opened(t, p)
}

// dense is the rows in float64, as readers see them.
func dense(t *testing.T, s csr.Source) [][]float64 {
	t.Helper()
	var e csr.Entries
	require.NoError(t, s.Read(upTo(s.Rows()), &e))
	rows, begin := make([][]float64, s.Rows()), 0
	for row, end := range e.Ends {
		rows[row] = make([]float64, s.Columns())
		for n := begin; n < end; n++ {
			rows[row][e.Indices[n]] = float64(e.Values[n])
		}
		begin = end
	}
	return rows
}

func TestAProductIsTheSumInFloat64Rounded(t *testing.T) {
	x, f := sparse(t, 1, 70, 20), sparse(t, 2, 20, 30)
	p, err := csr.NewProduct(x, f, 3)
	require.NoError(t, err)
	left, right, got := dense(t, x), dense(t, f), dense(t, p)
	entries := int64(0)
	for u, row := range got {
		length := int64(0)
		for c, value := range row {
			total := 0.0
			for j, weight := range left[u] {
				total += weight * right[j][c]
			}
			require.Equal(t, float64(float32(total)), value)
			if value != 0 {
				length++
			}
		}
		require.Equal(t, length, p.RowLength(int64(u)))
		entries += length
	}
	require.Equal(t, []int64{70, 30, entries}, []int64{p.Rows(), p.Columns(), p.Statistics().NonZeros})
}

func TestTheStatisticsOfAProductAreThoseOfItsRows(t *testing.T) {
	p, err := csr.NewProduct(sparse(t, 1, 70, 20), sparse(t, 2, 20, 30), 0)
	require.NoError(t, err)
	var e csr.Entries
	require.NoError(t, p.Read(upTo(70), &e))
	stored := csr.Parts{Columns: 30, Offsets64: []int64{0}, Indices32: e.Indices, Values32: e.Values}
	for _, end := range e.Ends {
		stored.Offsets64 = append(stored.Offsets64, int64(end))
	}
	m := opened(t, stored)
	got, want := p.Statistics(), m.Statistics()
	got.Bytes = want.Bytes
	require.Equal(t, want, got)
	for _, rows := range []int64{1, 7, 70} {
		require.Equal(t, csr.MaxBatchEntries(m, rows), csr.MaxBatchEntries(p, rows))
	}
	first, err := csr.Digest(m, 1)
	require.NoError(t, err)
	second, err := csr.Digest(p, 1)
	require.NoError(t, err)
	require.Equal(t, first, second)
}

func TestAProductKeepsItsMatricesOpen(t *testing.T) {
	x, f := sparse(t, 1, 7, 20), sparse(t, 2, 20, 3)
	p, err := csr.NewProduct(x, f, 1)
	require.NoError(t, err)
	require.Equal(t, fault.Busy, fault.KindOf(x.Close()))
	require.Equal(t, fault.Busy, fault.KindOf(f.Close()))
	require.NoError(t, p.Close())
	require.NoError(t, x.Close())
	require.NoError(t, f.Close())
}

func TestMatricesThatDoNotFitHaveNoProduct(t *testing.T) {
	x, f := sparse(t, 1, 7, 20), sparse(t, 2, 19, 3)
	_, err := csr.NewProduct(x, f, 1)
	require.Contains(t, refusal(t, fault.InvalidArgument, err), "has 20 columns, but the second has 19 rows")
	require.NoError(t, x.Close())
}

func TestAProductThatIsNotFiniteNamesItsPlace(t *testing.T) {
	large := []float32{1, 1e30}
	x := opened(t, csr.Parts{Columns: 2, Offsets64: []int64{0, 0, 2}, Indices32: []int32{0, 1}, Values32: large})
	f := opened(t, csr.Parts{Columns: 4, Offsets64: []int64{0, 0, 1}, Indices32: []int32{3}, Values32: large[1:]})
	_, err := csr.NewProduct(x, f, 1)
	require.Contains(t, refusal(t, fault.InvalidData, err), "row 1: column 3 of the product is 1e+60")
	require.NoError(t, x.Close())
}

func TestAProductWhoseMatricesGrowIsInvalidData(t *testing.T) {
	parts := csr.Parts{Columns: 2, Offsets64: []int64{0, 2}, Indices32: []int32{0, 0}, Values32: []float32{1, 1}}
	f := opened(t, csr.Parts{Columns: 4, Offsets64: []int64{0, 1, 2}, Indices32: []int32{3, 2}, Values32: []float32{1, 1}})
	p, err := csr.NewProduct(opened(t, parts), f, 1)
	require.NoError(t, err)
	parts.Indices32[1] = 1
	var e csr.Entries
	err = p.Read([]int64{0}, &e)
	require.Contains(t, refusal(t, fault.InvalidData, err), "row 0 of the product grew")
	require.Empty(t, e.Indices)
}
