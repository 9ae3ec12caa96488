package reference

import (
	"cmp"
	"math"
	"slices"

	"dsstne/kernels"
)

func (device) SparseProduct(op *kernels.SparseProduct, _ *kernels.Step) error {
	m, in, out := &op.Matrix, op.In.Float32(), op.Out.Float32()
	for p := range op.Panels {
		from, to := in[p*m.Columns*op.Width:], out[p*m.Rows*op.Width:]
		for row := range m.Rows {
			sums := make([]float64, op.Width)
			stored(m, row, func(column int64, x float64) {
				for c := range sums {
					sums[c] += x * float64(from[column*op.Width+int64(c)])
				}
			})
			for c, sum := range sums {
				to[row*op.Width+int64(c)] = float32(sum)
			}
		}
	}
	return nil
}

// Solve eliminates: the matrix is symmetric and positive definite, so the order of the equations does not matter.
func (device) Solve(op *kernels.Solve, _ *kernels.Step) error {
	items, width := op.ByItem.Rows, op.Width
	matrix, x := make([][]float64, items), make([][]float64, items)
	for i := range matrix {
		matrix[i], x[i] = make([]float64, items), make([]float64, width)
		matrix[i][i] = float64(op.Ridge.Float32()[i])
		for c := range x[i] {
			x[i][c] = float64(op.B.Float32()[int64(i)*width+int64(c)])
		}
		stored(&op.ByItem, int64(i), func(u int64, a float64) {
			stored(&op.ByRow, u, func(j int64, b float64) { matrix[i][j] += a * b })
		})
	}
	for i := range matrix {
		for to := range matrix {
			if to == i {
				continue
			}
			factor := matrix[to][i] / matrix[i][i]
			for j := i; j < len(matrix); j++ {
				matrix[to][j] -= factor * matrix[i][j]
			}
			for c := range x[to] {
				x[to][c] -= factor * x[i][c]
			}
		}
	}
	for i := range x {
		for c := range x[i] {
			op.X.Float32()[int64(i)*width+int64(c)] = float32(x[i][c] / matrix[i][i])
		}
	}
	return nil
}

func (device) KeepLargest(op *kernels.KeepLargest, s *kernels.Step) error {
	panel, weights := op.Panel.Float32(), op.Weights.Float32()
	first, end := op.Columns(s)
	for column := first; column < end; column++ {
		entry := func(row int32) float32 { return panel[int64(row)*op.Width+column-first] }
		product := func(row int32) float32 { return entry(row) * weights[row] }
		var list []int32
		for row := range int32(op.Rows) {
			if x := product(row); int64(row) != column && x == x && x != 0 && x != float32(math.Inf(-1)) {
				list = append(list, row)
			}
		}
		slices.SortStableFunc(list, func(a, b int32) int { return cmp.Compare(product(b), product(a)) })
		list = list[:min(len(list), int(op.K))]
		slices.Sort(list)
		ids, values := op.IDs.Int32()[column*op.K:][:op.K], op.Values.Float32()[column*op.K:][:op.K]
		for n := range ids {
			ids[n], values[n] = -1, 0
			if n < len(list) {
				ids[n], values[n] = list[n], entry(list[n])
			}
		}
		op.Diagonal.Float32()[column] = entry(int32(column))
	}
	return nil
}

func (device) RowsToPanel(op *kernels.RowsToPanel, s *kernels.Step) error {
	panel, b := op.Panel.Float32()[:op.Items*op.Width], s.Sparse[op.Input]
	clear(panel)
	for u := op.First; u < min(s.Rows, op.First+op.Width); u++ {
		for e := b.Offsets[u]; e < b.Offsets[u+1]; e++ {
			i := int64(b.Indices[e])
			panel[i*op.Width+u-op.First] = op.Factors.Float32()[i] * b.Values[e]
		}
	}
	return nil
}

func (device) PanelToRows(op *kernels.PanelToRows, s *kernels.Step) error {
	panel, out, b := op.Panel.Float32(), op.Out.Float32(), s.Sparse[op.Input]
	for u := op.First; u < min(s.Rows, op.First+op.Width); u++ {
		for i := range op.Items {
			out[u*op.Items+i] = op.Factors.Float32()[i] * panel[i*op.Width+u-op.First]
			if b.Offsets[u] == b.Offsets[u+1] {
				out[u*op.Items+i] = op.IfEmpty.Float32()[i]
			}
		}
		for e := b.Offsets[u]; e < b.Offsets[u+1] && op.Own != nil; e++ {
			i := int64(b.Indices[e])
			out[u*op.Items+i] += float32(op.Own.Float32()[i] * b.Values[e])
		}
	}
	return nil
}
