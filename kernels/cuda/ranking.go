//go:build !nocuda && linux && amd64

package cuda

import (
	"unsafe"

	"dsstne/engine/fault"
	"dsstne/kernels"
	"dsstne/kernels/cuda/driver"
)

const (
	rankTile  = 32   // kRankTile of src/rank.cu
	rankItems = 4096 // scores of a row that TopK has at a time
	rankRows  = 512  // rows that it ranks at a time
	// scoreRoom is how many scores Scores has at a time, unless one row has more.
	scoreRoom = 1 << 22
)

// rankSpace is the workspace of Scores and TopK, in elements of 4 bytes: first what has 8 bytes.
type rankSpace struct {
	rows, items                                                int64 // of a block of scores
	hiddenSquares, itemSquares, lists, allowed, scores, ranked int64 // where they begin
	total                                                      int64
}

func spaceOfRanking(s *kernels.Scorer, rows, items, k int64, allowed bool) rankSpace {
	r := rankSpace{rows: rows, items: items}
	take := func(n int64) int64 {
		at := r.total
		r.total += (n + 3) / 4 * 4
		return at
	}
	if s.Temperature != 0 {
		r.hiddenSquares, r.itemSquares = take(2*rows), take(2*items)
	}
	r.lists = take(2 * 2 * rows * k)
	if allowed {
		r.allowed = take(2 * ((s.Items + 63) / 64))
	}
	r.scores, r.ranked = take(rows*items), take(2*rows*k)
	return r
}

func spaceOfTopK(op *kernels.TopK, rows int64) rankSpace {
	return spaceOfRanking(&op.Scorer, min(rows, rankRows), min(op.Items, rankItems), op.K, op.Allowed != nil)
}

func spaceOfScores(op *kernels.Scores, rows int64) rankSpace {
	return spaceOfRanking(&op.Scorer, max(1, min(rows, scoreRoom/max(1, op.Items))), op.Items, 0, false)
}

// WorkspaceSize tells what the ops need, see kernels.Device.
func (d *device) WorkspaceSize(op any, rows int64) int64 {
	switch op := op.(type) {
	case *kernels.Output:
		return d.outputWorkspace(op, rows)
	case *kernels.Dense:
		return d.denseWorkspace(op.Weight, rows)
	case *kernels.DenseBackward:
		return d.denseWorkspace(op.Weight, rows)
	case *kernels.TopK:
		return spaceOfTopK(op, rows).total
	case *kernels.Scores:
		return spaceOfScores(op, rows).total
	case *kernels.Assemble:
		return spaceOfAssemble(&op.Places).total
	default:
		return 0
	}
}

type sourceArgs struct {
	h, weight driver.Address
	columns   int64
}

type scoresArgs struct {
	source                                [kernels.MaxSources]sourceArgs
	bias, hiddenSquares, itemSquares, out driver.Address
	rows, first, items, stride            int64
	sources                               int32
	temperature                           float32
}

// score computes the scores of rows row .. row + rows of the batch and items first .. first + items into the workspace.
func (d *device) score(s *kernels.Scorer, space rankSpace, workspace driver.Address, row, rows, first, items int64) error {
	place := func(element int64) driver.Address { return workspace + driver.Address(4*element) }
	a := scoresArgs{
		out: place(space.scores), rows: rows, first: first, items: items, stride: space.items, sources: int32(len(s.Sources)),
		temperature: s.Temperature,
	}
	if len(s.Sources) > kernels.MaxSources {
		return fault.New(fault.Unsupported, "an output has up to %d sources, this one has %d", kernels.MaxSources, len(s.Sources))
	}
	for n, source := range s.Sources {
		columns := source.Weight.Columns
		a.source[n] = sourceArgs{addressOf(source.H) + driver.Address(4*row*columns), addressOf(source.Weight.Value), columns}
	}
	if s.Bias != nil {
		a.bias = addressOf(s.Bias.Value)
	}
	if s.Temperature != 0 {
		a.hiddenSquares, a.itemSquares = place(space.hiddenSquares), place(space.itemSquares)
		x := a.source[0]
		if first == 0 {
			if err := d.squares(x.h, a.hiddenSquares, rows, x.columns); err != nil {
				return err
			}
		}
		if err := d.squares(x.weight+driver.Address(4*first*x.columns), a.itemSquares, items, x.columns); err != nil {
			return err
		}
	}
	return launch(d, "scores", driver.Dim{X: blocks(items, rankTile), Y: blocks(rows, rankTile)}, driver.Dim{X: 256}, &a)
}

func (d *device) squares(x, to driver.Address, rows, columns int64) error {
	type args struct {
		x, squares    driver.Address
		rows, columns int64
	}
	return launch(d, "squares", driver.Dim{X: blocks(rows, 32)}, driver.Dim{X: 256}, &args{x, to, rows, columns})
}

// Scores writes all scores, a block of rows after the other.
func (d *device) Scores(op *kernels.Scores, s *kernels.Step) error {
	return d.run("Scores", s, nil, func() error {
		space, workspace := spaceOfScores(op, s.Rows), addressOf(op.Workspace)
		scores := workspace + driver.Address(4*space.scores)
		for row := int64(0); row < s.Rows; row += space.rows {
			rows := min(space.rows, s.Rows-row)
			if err := d.score(&op.Scorer, space, workspace, row, rows, 0, op.Items); err != nil {
				return err
			}
			if op.Stride == op.Items {
				if err := d.toHost(unsafe.Pointer(&op.Out[row*op.Stride]), scores, 4*rows*op.Items); err != nil {
					return err
				}
				continue
			}
			for u := range rows {
				from := scores + driver.Address(4*u*op.Items)
				if err := d.toHost(unsafe.Pointer(&op.Out[(row+u)*op.Stride]), from, 4*op.Items); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// TopK ranks a block of rows after the other, each by going over all items once.
func (d *device) TopK(op *kernels.TopK, s *kernels.Step) error {
	var slots []int
	if op.Exclude >= 0 {
		slots = []int{op.Exclude}
	}
	if op.K == 0 || s.Rows == 0 {
		return nil
	}
	return d.run("TopK", s, slots, func() error {
		space, workspace := spaceOfTopK(op, s.Rows), addressOf(op.Workspace)
		allowed := driver.Address(0)
		if len(op.Allowed) > 0 {
			allowed = workspace + driver.Address(4*space.allowed)
			if err := d.stream.CopyToDeviceAsync(allowed, unsafe.Pointer(&op.Allowed[0]), 8*int64(len(op.Allowed))); err != nil {
				return err
			}
		}
		for row := int64(0); row < s.Rows; row += space.rows {
			if err := d.rank(op, space, workspace, allowed, row, min(space.rows, s.Rows-row)); err != nil {
				return err
			}
		}
		return nil
	})
}

// rank ranks a block of rows and copies their items and scores to the host.
func (d *device) rank(op *kernels.TopK, space rankSpace, workspace, allowed driver.Address, row, rows int64) error {
	type selectArgs struct {
		step, scores, allowed              driver.Address
		list                               [2]driver.Address
		rows, row, first, items, stride, k int64
		exclude                            int32
	}
	type rankedArgs struct {
		list, ids, scores driver.Address
		count             int64
	}
	place := func(element int64) driver.Address { return workspace + driver.Address(4*element) }
	lists := [2]driver.Address{place(space.lists), place(space.lists + 2*rows*op.K)}
	if err := d.stream.Fill32(lists[0], 0, 2*rows*op.K); err != nil {
		return err
	}
	for first := int64(0); first < op.Items; first += space.items {
		items := min(space.items, op.Items-first)
		if err := d.score(&op.Scorer, space, workspace, row, rows, first, items); err != nil {
			return err
		}
		err := launch(d, "select_best", driver.Dim{X: uint32(rows)}, driver.Dim{X: 256}, &selectArgs{
			d.step.at, place(space.scores), allowed, lists, rows, row, first, items, space.items, op.K, int32(op.Exclude),
		})
		if err != nil {
			return err
		}
	}
	count := rows * op.K
	ids, scores := place(space.ranked), place(space.ranked+count)
	a := &rankedArgs{lists[0], ids, scores, count}
	if err := launch(d, "ranked", driver.Dim{X: blocks(count, 256)}, driver.Dim{X: 256}, a); err != nil {
		return err
	}
	if err := d.toHost(unsafe.Pointer(&op.IDs[row*op.K]), ids, 4*count); err != nil {
		return err
	}
	return d.toHost(unsafe.Pointer(&op.Scores[row*op.K]), scores, 4*count)
}
