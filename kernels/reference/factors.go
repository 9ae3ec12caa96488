package reference

import (
	"cmp"
	"math"
	"slices"

	"dsstne/kernels"
)

func (device) LeastSquares(op *kernels.LeastSquares, s *kernels.Step) error {
	first, end, offsets, indices, values := op.Rows(s)
	n, factors := op.Unknowns(), op.Factors.Float32()
	for row := first; row < end; row++ {
		a, b := make([]float64, n*n), make([]float64, n)
		for k := range n {
			a[k*n+k] = float64(op.RidgeOf(offsets[row+1] - offsets[row]))
			if op.Squares != nil && k < op.Width {
				a[k*n+k] += float64(op.Unobserved) * float64(op.Squares.Float32()[k])
			}
		}
		for e := offsets[row]; e < offsets[row+1]; e++ {
			j := int64(indices[e])
			f := make([]float64, n)
			for k := range op.Width {
				f[k] = float64(factors[j*op.Width+k])
			}
			c, target := float64(op.Weight)*float64(values[e]), 1.0
			if op.Weight <= 0 {
				c, target = 1, float64(values[e])-float64(op.Center)
			}
			if op.Biased {
				f[op.Width] = 1
				target -= float64(op.Offsets.Float32()[j])
			}
			for k := range n {
				b[k] += c * target * f[k]
				for l := range n {
					a[k*n+l] += c * f[k] * f[l]
				}
			}
		}
		if offsets[row] < offsets[row+1] {
			solve(a, b)
		}
		out := rounded(b)
		if !allFinite(out) {
			return &kernels.NotFiniteError{Tensor: "a row's factors", What: "the solution", Row: row}
		}
		copy(rowOf(op.Out, row, op.Width), out)
		if op.Biased {
			op.Bias.Float32()[row] = out[op.Width]
		}
	}
	return nil
}

// solve replaces b by the solution of a x = b, with a positive definite matrix a.
func solve(a, b []float64) {
	n := len(b)
	for k := range n {
		for i := k + 1; i < n; i++ {
			factor := a[i*n+k] / a[k*n+k]
			for j := k; j < n; j++ {
				a[i*n+j] -= factor * a[k*n+j]
			}
			b[i] -= factor * b[k]
		}
	}
	for k := n - 1; k >= 0; k-- {
		for j := k + 1; j < n; j++ {
			b[k] -= a[k*n+j] * b[j]
		}
		b[k] /= a[k*n+k]
	}
}

// PrincipalAxes turns pairs of columns until all are at right angles (Jacobi's method, one-sided).
func (device) PrincipalAxes(op *kernels.PrincipalAxes, s *kernels.Step) error {
	if op.Idle(s) {
		return nil
	}
	columns := make([][]float64, op.Width)
	for k := range columns {
		columns[k] = make([]float64, op.Rows)
		for row := range op.Rows {
			columns[k][row] = float64(op.Factors.Float32()[row*op.Width+int64(k)])
		}
	}
	product := func(x, y []float64) (sum float64) {
		for i := range x {
			sum += x[i] * y[i]
		}
		return sum
	}
	for range 60 {
		turned := false
		for k, x := range columns {
			for _, y := range columns[:k] {
				xx, yy, xy := product(x, x), product(y, y), product(x, y)
				if !(math.Abs(xy) > 1e-15*math.Sqrt(xx*yy)) {
					continue
				}
				turned = true
				sine, cosine := math.Sincos(math.Atan2(2*xy, xx-yy) / 2)
				for i := range x {
					x[i], y[i] = cosine*x[i]+sine*y[i], cosine*y[i]-sine*x[i]
				}
			}
		}
		if !turned {
			break
		}
	}
	squares := make([]float64, op.Width)
	for k, x := range columns {
		squares[k] = product(x, x)
	}
	order := make([]int, op.Width)
	for k := range order {
		order[k] = k
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(squares[b], squares[a]) })
	for to, k := range order {
		if op.Squares.Float32()[to] = float32(squares[k]); !finite(squares[k]) {
			return &kernels.NotFiniteError{Tensor: "the squares of the factors", What: "the solution", Row: -1}
		}
		for row := range op.Rows {
			op.Factors.Float32()[row*op.Width+int64(to)] = float32(columns[k][row])
		}
	}
	return nil
}
