package solve

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// symmetric makes Q diag(values) Q' with a random orthogonal Q.
func symmetric(values []float64) [][]float64 {
	n, random := len(values), rand.New(rand.NewPCG(1, 2))
	a := make([][]float64, n)
	for i := range a {
		a[i] = make([]float64, n)
		a[i][i] = values[i]
	}
	for range 3 { // reflections
		v := make([]float64, n)
		for i := range v {
			v[i] = random.NormFloat64()
		}
		scale(v, math.Sqrt(2/dot(v, v)))
		for range 2 { // of the rows, then of the columns
			for _, row := range a {
				add(row, -dot(row, v), v)
			}
			for i := range n {
				for j := range i {
					a[i][j], a[j][i] = a[j][i], a[i][j]
				}
			}
		}
	}
	return a
}

func matrixOf(rows, columns int) [][]float64 {
	a := make([][]float64, rows)
	for i := range a {
		a[i] = make([]float64, columns)
	}
	return a
}

func TestEigenvectorsBelongToTheirValuesAndAreOrthonormal(t *testing.T) {
	spread := make([]float64, 200)
	for i := range spread {
		spread[i] = math.Exp(-float64(i) / 10)
	}
	clusters := make([]float64, 130)
	for i := range clusters {
		clusters[i] = float64(i/40) + 1e-12*float64(i)
	}
	for name, values := range map[string][]float64{
		"one": {3}, "two": {1, 2}, "spread": spread, "clusters": clusters, "equal": slices.Repeat([]float64{2}, 50),
		"zero": make([]float64, 20), "some zero": append(make([]float64, 100), 1, 2, 2, 5), "negative": {-1, -3, 4, 0},
	} {
		t.Run(name, func(t *testing.T) {
			a, whole := symmetric(values), symmetric(values)
			k := (len(values) + 1) / 2
			vectors := matrixOf(k, len(values))
			found, err := eigen(2, a, vectors)
			require.NoError(t, err)
			slices.Sort(values)
			slices.Reverse(values)
			size := max(math.Abs(values[0]), math.Abs(values[len(values)-1]), 1)
			for i, x := range vectors {
				require.InDelta(t, values[i], found[i], 1e-12*size)
				for j, y := range vectors[:i+1] {
					want := 0.0
					if i == j {
						want = 1
					}
					require.InDelta(t, want, dot(x, y), 1e-7, "%d %d", i, j)
				}
				for r, row := range whole {
					require.InDelta(t, found[i]*x[r], dot(row, x), 1e-11*size)
				}
			}
		})
	}
}

func TestEigenvectorsHaveTheSameBitsForAnyNumberOfThreads(t *testing.T) {
	values := make([]float64, 300)
	for i := range values {
		values[i] = math.Sqrt(float64(i))
	}
	first, second := matrixOf(40, 300), matrixOf(40, 300)
	_, err := eigen(1, symmetric(values), first)
	require.NoError(t, err)
	_, err = eigen(4, symmetric(values), second)
	require.NoError(t, err)
	require.Equal(t, first, second)
}

func BenchmarkEigen(b *testing.B) {
	values := make([]float64, 1152)
	for i := range values {
		values[i] = math.Exp(-float64(i) / 200)
	}
	source := symmetric(values)
	a, vectors := matrixOf(1152, 1152), matrixOf(512, 1152)
	for b.Loop() {
		for i := range a {
			copy(a[i], source[i])
		}
		_, _ = eigen(2, a, vectors)
	}
}
