//go:build !nocuda && linux && amd64

package cuda

import (
	"runtime"
	"unsafe"

	"dsstne/internal/fault"
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
	rows, items                               int64 // of a block of scores
	hiddenSquares, itemSquares, lists, scores int64 // where they begin
	hiddenNorm, limit, count, candidates      int64 // for screening
	total                                     int64
}

func (r *rankSpace) take(n int64) int64 {
	at := r.total
	r.total += (n + 3) / 4 * 4
	return at
}

func spaceOfRanking(s *kernels.Scorer, rows, items, k int64) rankSpace {
	r := rankSpace{rows: rows, items: items}
	if s.Temperature != 0 {
		r.hiddenSquares, r.itemSquares = r.take(2*rows), r.take(2*items)
	}
	r.lists = r.take(2 * 2 * rows * k)
	r.scores = r.take(rows * items)
	return r
}

func spaceOfTopK(op *kernels.TopK, rows int64) rankSpace {
	if screens(op) {
		return spaceOfScreening(op, min(rows, rankRows))
	}
	return spaceOfRanking(&op.Scorer, min(rows, rankRows), min(op.Items, rankItems), op.K)
}

func spaceOfScores(op *kernels.Scores, rows int64) rankSpace {
	return spaceOfRanking(&op.Scorer, max(1, min(rows, scoreRoom/max(1, op.Items), mostY*rankTile)), op.Items, 0)
}

// WorkspaceSize tells what the ops need, see kernels.Device. cuBLASLt is asked in the device's context, to which its handle belongs.
func (d *device) WorkspaceSize(op any, rows int64) (size int64) {
	_ = d.do("planning", func() error {
		size = d.workspaceSize(op, rows)
		return nil
	})
	return size
}

func (d *device) workspaceSize(op any, rows int64) int64 {
	switch op := op.(type) {
	case *kernels.Output:
		return d.formOf(op, rows).workspace
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
	step                                  driver.Address
	source                                [kernels.MaxSources]sourceArgs
	bias, hiddenSquares, itemSquares, out driver.Address
	rows, row, first, items, stride       int64
	sources                               int32
	temperature                           float32
}

type sparseScoresArgs struct {
	step, offsets, indices, values, bias, out              driver.Address
	rows, row, first, items, stride, columns, column, slot int64
}

// sparseTile is kSparseTile of src/rank.cu.
const sparseTile = 1024

// scoreSparse is score for a scorer with a sparse source.
func (d *device) scoreSparse(s *kernels.Scorer, space rankSpace, workspace driver.Address,
	row, rows, first, items int64) error {
	x := s.Sparse
	a := sparseScoresArgs{
		step: d.step.at, values: addressOf(x.Values), out: space.placed(workspace)(space.scores), rows: rows, row: row,
		first: first, items: items, stride: space.items, columns: x.Columns, column: x.First + first, slot: int64(x.Input),
	}
	if x.Offsets != nil {
		a.offsets, a.indices = addressOf(x.Offsets), addressOf(x.Indices)
	}
	if s.Bias != nil {
		a.bias = addressOf(s.Bias.Value)
	}
	grid := driver.Dim{X: uint32(rows), Y: min(blocks(items, sparseTile), mostY)}
	return launch(d, "sparse_scores", grid, driver.Dim{X: 256}, &a)
}

// slotsOf are the batches that a scorer reads.
func slotsOf(s *kernels.Scorer) []int {
	if s.Sparse == nil {
		return nil
	}
	return []int{s.Sparse.Input}
}

// sourcesOf are the sources of a scorer, from a row of the batch on.
func sourcesOf(s *kernels.Scorer, row int64) (list [kernels.MaxSources]sourceArgs, err error) {
	if len(s.Sources) > kernels.MaxSources {
		return list, fault.New(fault.Unsupported, "an output has up to %d sources, this one has %d", kernels.MaxSources, len(s.Sources))
	}
	for n, source := range s.Sources {
		columns := source.Weight.Columns
		list[n] = sourceArgs{addressOf(source.H) + driver.Address(4*row*columns), addressOf(source.Weight.Value), columns}
	}
	return list, nil
}

// placed tells where an element of the workspace lies on the device.
func (rankSpace) placed(workspace driver.Address) func(element int64) driver.Address {
	return func(element int64) driver.Address { return workspace + driver.Address(4*element) }
}

// score computes the scores of rows row .. row + rows of the batch, if it has them, and items first .. first + items into the workspace.
func (d *device) score(s *kernels.Scorer, space rankSpace, workspace driver.Address, row, rows, first, items int64) error {
	if s.Sparse != nil {
		return d.scoreSparse(s, space, workspace, row, rows, first, items)
	}
	place := space.placed(workspace)
	a := scoresArgs{
		step: d.step.at, out: place(space.scores), rows: rows, row: row, first: first, items: items, stride: space.items, sources: int32(len(s.Sources)),
		temperature: s.Temperature,
	}
	var err error
	if a.source, err = sourcesOf(s, row); err != nil {
		return err
	}
	if s.Bias != nil {
		a.bias = addressOf(s.Bias.Value)
	}
	if s.Temperature != 0 {
		a.hiddenSquares, a.itemSquares = place(space.hiddenSquares), place(space.itemSquares)
		x := a.source[0]
		if first == 0 {
			if err := d.squares(d.step.at, x.h, a.hiddenSquares, rows, row, x.columns); err != nil {
				return err
			}
		}
		if err := d.squares(0, x.weight+driver.Address(4*first*x.columns), a.itemSquares, items, 0, x.columns); err != nil {
			return err
		}
	}
	return launch(d, "scores", driver.Dim{X: blocks(items, rankTile), Y: blocks(rows, rankTile)}, driver.Dim{X: 256}, &a)
}

// squares takes the squares of the norms of so many rows; of a step's, from one of them on, if there is one.
func (d *device) squares(step, x, to driver.Address, rows, row, columns int64) error {
	type args struct {
		step, x, squares   driver.Address
		rows, row, columns int64
	}
	return launch(d, "squares", driver.Dim{X: blocks(rows, 32)}, driver.Dim{X: 256}, &args{step, x, to, rows, row, columns})
}

// Scores writes all scores, a block of rows after the other.
func (d *device) Scores(op *kernels.Scores, s *kernels.Step) error {
	return d.run("Scores", s, slotsOf(&op.Scorer), func() error {
		defer runtime.KeepAlive(op.Out)
		space, workspace := spaceOfScores(op, s.Rows), addressOf(op.Workspace)
		scores := workspace + driver.Address(4*space.scores)
		for row := int64(0); row < s.Rows; row += space.rows {
			rows := min(space.rows, s.Rows-row)
			if err := d.score(&op.Scorer, space, workspace, row, rows, 0, op.Items); err != nil {
				return err
			}
			to := unsafe.Pointer(&op.Out[row*op.Stride])
			if err := d.stream.CopyRowsToHostAsync(to, 4*op.Stride, scores, 4*op.Items, rows); err != nil {
				return err
			}
			if err := d.wait(); err != nil {
				return err
			}
		}
		return nil
	})
}

// TopK ranks a block of rows after the other, each by going over all items once.
func (d *device) TopK(op *kernels.TopK, s *kernels.Step) error {
	slots := slotsOf(&op.Scorer)
	if op.Exclude >= 0 {
		slots = append(slots, op.Exclude)
	}
	if op.K == 0 {
		return nil
	}
	return d.run("TopK", s, slots, func() error {
		space, most := spaceOfTopK(op, s.Most()), s.Most()
		for row := int64(0); row < most; row += space.rows {
			if err := d.rank(op, space, row, min(space.rows, most-row)); err != nil {
				return err
			}
		}
		return nil
	})
}

// rank ranks a block of rows, as far as the batch has them.
func (d *device) rank(op *kernels.TopK, space rankSpace, row, rows int64) error {
	type rankedArgs struct {
		step, list, ids, scores driver.Address
		rows, row, k, first     int64
	}
	place := space.placed(addressOf(op.Workspace))
	lists := [2]driver.Address{place(space.lists), place(space.lists + 2*rows*op.K)}
	if err := d.stream.Fill32(lists[0], 0, 2*rows*op.K); err != nil {
		return err
	}
	best := d.bestOfAll
	if screens(op) {
		best = d.bestOfScreened
	}
	if err := best(op, space, lists, row, rows); err != nil {
		return err
	}
	from := driver.Address(4 * row * op.K)
	return launch(d, "ranked", driver.Dim{X: blocks(rows*op.K, 256)}, driver.Dim{X: 256}, &rankedArgs{
		d.step.at, lists[0], addressOf(op.IDs) + from, addressOf(op.Scores) + from, rows, row, op.K, op.First,
	})
}

// bestOfAll computes all scores, a tile of items after the other, and keeps the best of each row in lists[0].
func (d *device) bestOfAll(op *kernels.TopK, space rankSpace, lists [2]driver.Address, row, rows int64) error {
	type args struct {
		step, scores, allowed              driver.Address
		list                               [2]driver.Address
		rows, row, first, items, stride, k int64
		exclude, launch                    int32
	}
	workspace := addressOf(op.Workspace)
	for first := int64(0); first < op.Items; first += space.items {
		items := min(space.items, op.Items-first)
		if err := d.score(&op.Scorer, space, workspace, row, rows, first, items); err != nil {
			return err
		}
		err := launch(d, "select_best", driver.Dim{X: uint32(rows)}, driver.Dim{X: 256}, &args{
			d.step.at, space.placed(workspace)(space.scores), addressOf(op.Allowed), lists, rows, row, first, items, space.items, op.K,
			int32(op.Exclude), d.next(site{}),
		})
		if err != nil {
			return err
		}
	}
	return nil
}
