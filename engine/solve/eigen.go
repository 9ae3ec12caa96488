package solve

import (
	"math"
	"slices"

	"dsstne/internal/fault"
	"dsstne/internal/parallel"
)

// eigen finds the largest eigenvalues of a symmetric matrix, descending, and their eigenvectors, as rows of vectors:
// as many as vectors has. It overwrites the matrix, and refuses numbers that are not finite. In float64; the bits do
// not depend on the number of threads.
//
// The matrix is made tridiagonal by Householder's reflections. The eigenvalues are those of the QL iteration, and the
// eigenvectors come from inverse iteration (Golub and Van Loan, "Matrix Computations", 8.3 and 8.4).
func eigen(threads int, matrix [][]float64, vectors [][]float64) (values []float64, err error) {
	d, e, scales, err := tridiagonal(threads, matrix)
	if err != nil {
		return nil, err
	}
	for i := range d {
		if sum := d[i] + e[i]; math.IsInf(sum, 0) || sum != sum {
			return nil, fault.New(fault.NotFinite, "the squares of the values are too large for float32: scale the data")
		}
	}
	values = tridiagonalValues(d, e)[:len(vectors)]
	inverse := newInverseIteration(d, e)
	for n, value := range values {
		inverse.vector(value, n, vectors)
	}
	const group = 8
	err = parallel.Do(threads, (len(vectors)+group-1)/group, func(part int) error {
		reflect(matrix, scales, vectors[part*group:min(len(vectors), (part+1)*group)])
		return nil
	})
	return values, err
}

// tridiagonal returns the diagonal, the numbers beside it, and the scales of the reflections, whose vectors it leaves
// behind the diagonal of the matrix. It updates the rest of the matrix by the last reflection while it multiplies it by
// the next one, so that it passes over it once a column.
func tridiagonal(threads int, a [][]float64) (d, e, scales []float64, err error) {
	m := len(a)
	d, e, scales = make([]float64, m), make([]float64, m), make([]float64, m)
	v, w, p := make([]float64, m), make([]float64, m), make([]float64, m)
	for j := range m {
		row := a[j]
		for c := j; c < m; c++ {
			row[c] -= float64(v[j]*w[c]) + float64(w[j]*v[c])
		}
		d[j] = row[j]
		if j == m-1 {
			break
		}
		next := row[j+1:]
		e[j], scales[j] = householder(next)
		const rows = 64
		before, beside := v[j+1:], w[j+1:]
		err := parallel.Do(min(threads, 1+(m-j)/(2*rows)), (m-j-1+rows-1)/rows, func(part int) error {
			for i := j + 1 + part*rows; i < min(m, j+1+(part+1)*rows); i++ {
				p[i] = scales[j] * updateAndMultiply(a[i][j+1:], before, beside, v[i], w[i], next)
			}
			return nil
		})
		if err != nil {
			return nil, nil, nil, err
		}
		half := scales[j] / 2 * dot(p[j+1:], next)
		for i, x := range next {
			v[j+1+i], w[j+1+i] = x, p[j+1+i]-half*x
		}
	}
	return d, e, scales, nil
}

// updateAndMultiply subtracts x w + y v from a row, and returns its product with a vector.
func updateAndMultiply(row, v, w []float64, x, y float64, by []float64) float64 {
	v, w, by = v[:len(row)], w[:len(row)], by[:len(row)]
	var sum [4]float64
	c := 0
	for ; c+4 <= len(row); c += 4 {
		r, v, w, by := row[c:c+4:c+4], v[c:c+4:c+4], w[c:c+4:c+4], by[c:c+4:c+4]
		r0, r1 := r[0]-x*w[0]-y*v[0], r[1]-x*w[1]-y*v[1]
		r2, r3 := r[2]-x*w[2]-y*v[2], r[3]-x*w[3]-y*v[3]
		r[0], r[1], r[2], r[3] = r0, r1, r2, r3
		sum[0] += r0 * by[0]
		sum[1] += r1 * by[1]
		sum[2] += r2 * by[2]
		sum[3] += r3 * by[3]
	}
	for ; c < len(row); c++ {
		row[c] -= x*w[c] + y*v[c]
		sum[0] += row[c] * by[c]
	}
	return (sum[0] + sum[2]) + (sum[1] + sum[3])
}

// householder replaces x by a vector v with v[0] = 1, so that x - scale v (v'x) is beta in the first place and else 0.
func householder(x []float64) (beta, scale float64) {
	rest := dot(x[1:], x[1:])
	if beta = x[0]; rest == 0 {
		x[0] = 1
		return beta, 0
	}
	beta = -math.Copysign(math.Sqrt(x[0]*x[0]+rest), x[0])
	scale = (beta - x[0]) / beta
	for i, divisor := 1, x[0]-beta; i < len(x); i++ {
		x[i] /= divisor
	}
	x[0] = 1
	return beta, scale
}

// reflect applies the reflections, last one first, to vectors.
func reflect(matrix [][]float64, scales []float64, vectors [][]float64) {
	for j := len(matrix) - 2; j >= 0; j-- {
		by := matrix[j][j+1:]
		for _, vector := range vectors {
			add(vector[j+1:], -scales[j]*dot(by, vector[j+1:]), by)
		}
	}
}

func dot(a, b []float64) float64 {
	b = b[:len(a)]
	var sum [4]float64
	i := 0
	for ; i+4 <= len(a); i += 4 {
		a, b := a[i:i+4:i+4], b[i:i+4:i+4]
		sum[0] += a[0] * b[0]
		sum[1] += a[1] * b[1]
		sum[2] += a[2] * b[2]
		sum[3] += a[3] * b[3]
	}
	for ; i < len(a); i++ {
		sum[0] += a[i] * b[i]
	}
	return (sum[0] + sum[2]) + (sum[1] + sum[3])
}

// add adds x b to a.
func add(a []float64, x float64, b []float64) {
	b = b[:len(a)]
	i := 0
	for ; i+4 <= len(a); i += 4 {
		a, b := a[i:i+4:i+4], b[i:i+4:i+4]
		a[0] += x * b[0]
		a[1] += x * b[1]
		a[2] += x * b[2]
		a[3] += x * b[3]
	}
	for ; i < len(a); i++ {
		a[i] += x * b[i]
	}
}

// tridiagonalValues are the eigenvalues, descending, by the QL iteration with implicit shifts.
func tridiagonalValues(diagonal, beside []float64) []float64 {
	d, e := slices.Clone(diagonal), slices.Clone(beside)
	e[len(e)-1] = 0
	for l := range d {
		for {
			m := l
			for ; m < len(d)-1; m++ {
				if math.Abs(e[m]) <= 0x1p-53*(math.Abs(d[m])+math.Abs(d[m+1])) {
					break
				}
			}
			if m == l {
				break
			}
			g := (d[l+1] - d[l]) / (2 * e[l])
			g = d[m] - d[l] + e[l]/(g+math.Copysign(math.Hypot(g, 1), g))
			s, c, p := 1.0, 1.0, 0.0
			for i := m - 1; i >= l; i-- {
				f, b := s*e[i], c*e[i]
				r := math.Sqrt(f*f + g*g)
				if e[i+1] = r; r == 0 {
					d[i+1] -= p
					e[m] = 0
					break
				}
				s, c = f/r, g/r
				g = d[i+1] - p
				r = (d[i]-g)*s + 2*c*b
				p = s * r
				d[i+1] = g + p
				g = c*r - b
				if i == l {
					d[l] -= p
					e[l], e[m] = g, 0
				}
			}
		}
	}
	slices.Sort(d)
	slices.Reverse(d)
	return d
}

// inverseIteration finds eigenvectors of a tridiagonal matrix, in descending order of their values.
type inverseIteration struct {
	d, e                        []float64
	size                        float64   // of the matrix
	diagonal, above, far, under []float64 // of the factors L and U, with rows exchanged
	exchanged                   []bool
	last                        float64 // shift
	near                        int     // the number of vectors before whose values are as good as equal
}

func newInverseIteration(d, e []float64) *inverseIteration {
	m := len(d)
	v := &inverseIteration{
		d: d, e: e, diagonal: make([]float64, m), above: make([]float64, m), far: make([]float64, m),
		under: make([]float64, m), exchanged: make([]bool, m), last: math.Inf(1),
	}
	for i := range d {
		v.size = max(v.size, math.Abs(d[i])+math.Abs(e[i]))
	}
	if v.size == 0 {
		v.size = 1
	}
	return v
}

// vector finds eigenvector n, and makes it orthogonal to those before whose eigenvalues are close.
func (v *inverseIteration) vector(value float64, n int, vectors [][]float64) {
	if v.near++; v.last-value > 1e-7*v.size {
		v.near = 0
	} else {
		value = min(value, v.last-4*0x1p-52*v.size) // another shift gives another vector
	}
	v.last = value
	v.factor(value)
	x, state := vectors[n], uint64(n)
	for i := range x { // any numbers that are not orthogonal to the vector
		state = state*6364136223846793005 + 1442695040888963407
		x[i] = float64(state>>40)/(1<<24) - 0.5
	}
	for range 4 {
		v.solve(x)
		for _, other := range vectors[n-v.near : n] {
			add(x, -dot(other, x), other)
		}
		largest := 0.0
		for _, y := range x {
			largest = max(largest, math.Abs(y))
		}
		scale(x, 1/largest)
		scale(x, 1/math.Sqrt(dot(x, x)))
	}
}

func scale(x []float64, by float64) {
	for i := range x {
		x[i] *= by
	}
}

// factor eliminates with the larger of two rows first.
func (v *inverseIteration) factor(value float64) {
	tiny, last := 0x1p-52*v.size, len(v.d)-1
	current, beside := v.d[0]-value, v.e[0]
	for i := range v.d {
		v.above[i], v.far[i] = beside, 0
		if i == last {
			v.diagonal[i] = current
		} else {
			under, diagonal, after := v.e[i], v.d[i+1]-value, v.e[i+1]
			if v.exchanged[i] = math.Abs(under) > math.Abs(current); v.exchanged[i] {
				v.under[i] = current / under
				v.diagonal[i], v.above[i], v.far[i] = under, diagonal, after
				current, beside = beside-v.under[i]*diagonal, -v.under[i]*after
			} else {
				if math.Abs(current) < tiny {
					current = math.Copysign(tiny, current)
				}
				v.under[i], v.diagonal[i] = under/current, current
				current, beside = diagonal-v.under[i]*beside, after
			}
		}
		if math.Abs(v.diagonal[i]) < tiny {
			v.diagonal[i] = math.Copysign(tiny, v.diagonal[i])
		}
	}
}

func (v *inverseIteration) solve(x []float64) {
	for i := range len(x) - 1 {
		if v.exchanged[i] {
			x[i], x[i+1] = x[i+1], x[i]-v.under[i]*x[i+1]
		} else {
			x[i+1] -= v.under[i] * x[i]
		}
	}
	next, after := 0.0, 0.0
	for i := len(x) - 1; i >= 0; i-- {
		x[i] = (x[i] - v.above[i]*next - v.far[i]*after) / v.diagonal[i]
		next, after = x[i], next
	}
}
