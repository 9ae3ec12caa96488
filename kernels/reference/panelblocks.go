package reference

import "dsstne/kernels"

const blockWidth = kernels.BlockWidth

func (device) PanelGram(op *kernels.PanelGram, _ *kernels.Step) error {
	a, b, out := op.A.Float32(), op.B.Float32(), kernels.View[float64](op.Out)
	for at := range out[:op.As*op.Bs*blockWidth*blockWidth] {
		row, column, block := int64(at)/blockWidth%blockWidth, int64(at)%blockWidth, int64(at)/blockWidth/blockWidth
		left, right := a[block/op.Bs*op.Rows*blockWidth:], b[block%op.Bs*op.Rows*blockWidth:]
		out[at] = 0
		for r := range op.Rows {
			out[at] += float64(left[r*blockWidth+row]) * float64(right[r*blockWidth+column])
		}
	}
	return nil
}

func (device) PanelProduct(op *kernels.PanelProduct, _ *kernels.Step) error {
	in, matrix, out := op.In.Float32(), op.Matrix.Float32(), op.Out.Float32()
	sums := make([]float64, op.Outs*blockWidth)
	for r := range op.Rows {
		for column := range sums {
			j, c := int64(column)/blockWidth, int64(column)%blockWidth
			if sums[column] = 0; op.Add {
				sums[column] = float64(out[(j*op.Rows+r)*blockWidth+c])
			}
			for row := range op.Ins * blockWidth {
				i, p := row/blockWidth, row%blockWidth
				x := matrix[((i*op.Outs+j)*blockWidth+p)*blockWidth+c]
				sums[column] += float64(in[(i*op.Rows+r)*blockWidth+p]) * float64(x)
			}
		}
		for column, sum := range sums {
			j, c := int64(column)/blockWidth, int64(column)%blockWidth
			out[(j*op.Rows+r)*blockWidth+c] = float32(sum)
		}
	}
	return nil
}

func (device) RowsToBlocks(op *kernels.RowsToBlocks, s *kernels.Step) error {
	in, out, factors, b := op.In.Float32(), op.Out.Float32(), op.Factors.Float32(), s.Sparse[op.Input]
	for i := range op.Ins {
		for c := range int64(blockWidth) {
			sums := make([]float64, blockWidth)
			for u := op.First + c; u < min(s.Rows, op.First+c+1); u++ {
				for e := b.Offsets[u]; e < b.Offsets[u+1]; e++ {
					j := int64(b.Indices[e])
					for k := range sums {
						sums[k] += float64(factors[j]) * float64(b.Values[e]) * float64(in[(i*op.Items+j)*blockWidth+int64(k)])
					}
				}
			}
			for k, sum := range sums {
				out[(i*blockWidth+int64(k))*blockWidth+c] = float32(sum)
			}
		}
	}
	return nil
}

func (device) PanelScale(op *kernels.PanelScale, _ *kernels.Step) error {
	in, out := op.In.Float32(), op.Out.Float32()
	for at := range op.Rows * op.Width {
		x := float64(op.Factor) * float64(in[at])
		if op.Factors != nil {
			x *= float64(op.Factors.Float32()[at/op.Width])
		}
		if op.Add {
			x += float64(out[at])
		}
		out[at] = float32(x)
	}
	return nil
}
