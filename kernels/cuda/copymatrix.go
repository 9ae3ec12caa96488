//go:build !nocuda && linux && amd64

package cuda

import (
	"dsstne/kernels"
	"dsstne/kernels/cuda/driver"
)

// copyTile and copyRows are kCopyTile and kCopyRows of src/copymatrix.cu.
const copyTile, copyRows = 32, 8

// CopyMatrix copies or adds a matrix.
func (d *device) CopyMatrix(op *kernels.CopyMatrix, s *kernels.Step) error {
	type args struct {
		step, in, out                  driver.Address
		rows, columns                  int64
		transposed, accumulate, launch int32
	}
	return d.run("CopyMatrix", s, nil, func() {
		tiles := int64(blocks(op.Rows, copyTile)) * int64(blocks(op.Columns, copyTile))
		launch(d, "copy_matrix", line(tiles, 1), copyTile*copyRows, &args{
			d.step.at, addressOf(op.In), addressOf(op.Out), op.Rows, op.Columns, flag(op.Transposed), flag(op.Accumulate),
			d.next(site{}),
		})
	})
}
