//go:build !nocuda && linux && amd64

package cuda

import (
	"dsstne/kernels"
	"dsstne/kernels/cuda/driver"
)

// Constants of src/panel.cu.
const (
	panelThreads = 256
	solveItems   = 512
	mostWidth    = 64
	solveState   = 2*2*mostWidth + 2*mostWidth + 2 // floats of SolveState
)

// The phases of src/panel.cu.
const (
	solveStart int64 = iota
	solveProduct
	solveStep
	solveDirection
)

// sparseArgs is SparseMatrix.
type sparseArgs struct {
	offsets, indices, values driver.Address
	rows, columns            int64
}

func sparseOf(m *kernels.SparseMatrix) sparseArgs {
	return sparseArgs{addressOf(m.Offsets), addressOf(m.Indices), addressOf(m.Values), m.Rows, m.Columns}
}

// SparseProduct multiplies all panels in one launch.
func (d *device) SparseProduct(op *kernels.SparseProduct, s *kernels.Step) error {
	return d.run("SparseProduct", s, nil, func() {
		d.sparseProduct(&op.Matrix, addressOf(op.In), addressOf(op.Out), 0, op.Panels, op.Width)
	})
}

func (d *device) sparseProduct(m *kernels.SparseMatrix, in, out, done driver.Address, panels, width int64) {
	type args struct {
		matrix        sparseArgs
		in, out, done driver.Address
		width         int64
	}
	if m.Rows == 0 {
		return
	}
	grid := driver.Dim{X: blocks(m.Rows*width, panelThreads), Y: uint32(panels)}
	launch(d, "sparse_product", grid, panelThreads, &args{sparseOf(m), in, out, done, width})
}

// solveSpace is the workspace of a Solve.
type solveSpace struct {
	space
	direction, product, between, parts, state int64
}

func spaceOfSolve(op *kernels.Solve) (s solveSpace) {
	items := op.ByItem.Rows
	s.direction, s.product = s.take(items*op.Width), s.take(items*op.Width)
	s.between = s.take(op.ByRow.Rows * op.Width)
	s.parts, s.state = s.take(2*op.Width*int64(blocks(items, solveItems))), s.take(solveState)
	return s
}

// Solve launches all iterations; those after the last that is needed do nothing.
func (d *device) Solve(op *kernels.Solve, s *kernels.Step) error {
	type args struct {
		ridge, diagonal, residual, solution, direction, product, parts, state, report driver.Address
		tolerance                                                                     float64
		items, width, iterations, phase                                               int64
	}
	items := op.ByItem.Rows
	if items == 0 {
		return nil
	}
	return d.run("Solve", s, nil, func() {
		space := spaceOfSolve(op)
		place := func(n int64) driver.Address { return element(op.Workspace, n) }
		between, done := place(space.between), place(space.state+solveState-1)
		a := args{
			ridge: addressOf(op.Ridge), diagonal: addressOf(op.Diagonal), residual: addressOf(op.B),
			solution: addressOf(op.X), direction: place(space.direction), product: place(space.product),
			parts: place(space.parts), state: place(space.state), report: addressOf(op.Report), tolerance: op.Tolerance,
			items: items, width: op.Width, iterations: op.Iterations,
		}
		phase := func(phase int64) {
			b := a
			b.phase = phase
			launch(d, "solve_block", line(items, solveItems), panelThreads, &b)
			if phase != solveDirection {
				launch(d, "solve_sums", driver.Dim{X: 1}, mostWidth, &b)
			}
		}
		phase(solveStart)
		for range op.Iterations {
			d.sparseProduct(&op.ByRow, a.direction, between, done, 1, op.Width)
			d.sparseProduct(&op.ByItem, between, a.product, done, 1, op.Width)
			phase(solveProduct)
			phase(solveStep)
			phase(solveDirection)
		}
	})
}

// panelRowsArgs is PanelRowsArgs.
type panelRowsArgs struct {
	step, factors, own, ifEmpty, panel, out driver.Address
	items, width, first, slot               int64
}

// RowsToPanel clears the panel and writes the stored items.
func (d *device) RowsToPanel(op *kernels.RowsToPanel, s *kernels.Step) error {
	return d.run("RowsToPanel", s, slotsOf(op.Input), func() {
		d.fill(addressOf(op.Panel), 0, op.Items*op.Width)
		launch(d, "rows_to_panel", driver.Dim{X: uint32(op.Width)}, panelThreads, &panelRowsArgs{
			step: d.step.at, factors: addressOf(op.Factors), panel: addressOf(op.Panel), items: op.Items, width: op.Width,
			first: op.First, slot: int64(op.Input),
		})
	})
}

// PanelToRows writes whole rows, and then adds to their stored items.
func (d *device) PanelToRows(op *kernels.PanelToRows, s *kernels.Step) error {
	return d.run("PanelToRows", s, slotsOf(op.Input), func() {
		a := &panelRowsArgs{
			d.step.at, addressOf(op.Factors), addressOf(op.Own), addressOf(op.IfEmpty), addressOf(op.Panel),
			addressOf(op.Out), op.Items, op.Width, op.First, int64(op.Input),
		}
		launch(d, "panel_to_rows", line(op.Items, mostWidth), panelThreads, a)
		if op.Own != nil {
			launch(d, "add_own", driver.Dim{X: uint32(op.Width)}, panelThreads, a)
		}
	})
}

// RowsToBlocks has a block of threads for each row and panel.
func (d *device) RowsToBlocks(op *kernels.RowsToBlocks, s *kernels.Step) error {
	type args struct {
		step, factors, in, out driver.Address
		items, first, slot     int64
	}
	return d.run("RowsToBlocks", s, slotsOf(op.Input), func() {
		grid := driver.Dim{X: kernels.BlockWidth, Y: uint32(op.Ins)}
		launch(d, "rows_to_blocks", grid, kernels.BlockWidth, &args{
			d.step.at, addressOf(op.Factors), addressOf(op.In), addressOf(op.Out), op.Items, op.First, int64(op.Input),
		})
	})
}

// PanelProduct multiplies a copy of panels that it overwrites.
func (d *device) PanelProduct(op *kernels.PanelProduct, s *kernels.Step) error {
	type args struct {
		in, matrix, out      driver.Address
		rows, ins, outs, add int64
	}
	if op.Rows == 0 {
		return nil
	}
	return d.run("PanelProduct", s, nil, func() {
		in := addressOf(op.In)
		if op.InPlace {
			in = addressOf(op.Workspace)
			d.note(d.stream.Copy(in, addressOf(op.In), 4*spaceOfPanels(op)))
		}
		grid := driver.Dim{X: blocks(op.Rows, kernels.BlockWidth), Y: uint32(op.Outs)}
		launch(d, "panel_product", grid, panelThreads, &args{
			in, addressOf(op.Matrix), addressOf(op.Out), op.Rows, op.Ins, op.Outs, int64(flag(op.Add)),
		})
	})
}

// spaceOfPanels is the size of a copy of a product's panels, if it needs one.
func spaceOfPanels(op *kernels.PanelProduct) int64 {
	if !op.InPlace {
		return 0
	}
	return op.Ins * op.Rows * kernels.BlockWidth
}

// PanelScale has a thread for each number.
func (d *device) PanelScale(op *kernels.PanelScale, s *kernels.Step) error {
	type args struct {
		factors, in, out driver.Address
		count, width     int64
		factor           float32
		add              int32
	}
	if op.Rows == 0 {
		return nil
	}
	return d.run("PanelScale", s, nil, func() {
		launch(d, "panel_scale", line(op.Rows*op.Width, panelThreads), panelThreads, &args{
			addressOf(op.Factors), addressOf(op.In), addressOf(op.Out), op.Rows * op.Width, op.Width, op.Factor, flag(op.Add),
		})
	})
}
