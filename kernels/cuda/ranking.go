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
	rankTile   = 32   // kRankTile of src/rank.cu
	sparseTile = 1024 // kSparseTile of src/rank.cu
	rankItems  = 4096 // scores of a row that TopK has at a time
	rankRows   = 512  // rows that it ranks at a time
	// scoreRoom is how many scores Scores has at a time, unless one row has more.
	scoreRoom = 1 << 22
)

// rankSpace is the workspace of Scores and TopK.
type rankSpace struct {
	space
	rows, items                               int64 // of a block of scores
	hiddenSquares, itemSquares, lists, scores int64 // where they begin; all but scores have 8 bytes
	hiddenNorms, limit, count, kept           int64 // for screening, see src/screen.cu
	least, candidates, bounds                 int64
	hidden, weights, norms                    int64
	partItems                                 int64 // of each of the two places for weights
}

// spaceOfRanking has room for the scores of a block, unless these stand elsewhere.
func spaceOfRanking(s *kernels.Scorer, rows, items, k int64, elsewhere bool) rankSpace {
	r := rankSpace{rows: rows, items: items}
	if s.Temperature != 0 {
		r.hiddenSquares, r.itemSquares = r.take(2*rows), r.take(2*items)
	}
	r.lists = r.take(2 * 2 * rows * k)
	if !elsewhere {
		r.scores = r.take(rows * items)
	}
	return r
}

func (d *device) spaceOfTopK(op *kernels.TopK, rows int64) rankSpace {
	if screened(&op.Scorer, op.K) {
		return d.spaceOfScreening(op, min(rows, rankRows))
	}
	return spaceOfRanking(&op.Scorer, min(rows, rankRows), min(op.Items, rankItems), op.K, op.IsGiven)
}

func spaceOfScores(op *kernels.Scores, rows int64) rankSpace {
	elsewhere := op.InList() || op.IsGiven
	if rows = min(rows, mostY*rankTile); !elsewhere {
		rows = min(rows, scoreRoom/max(1, op.Items))
	}
	return spaceOfRanking(&op.Scorer, max(1, rows), op.Items, 0, elsewhere)
}

// WorkspaceSize is what an op needs, see kernels.Device. cuBLASLt is asked in the device's context, to which its handle
// belongs. If the library fails, the size is for its product, and the op asks again when it is done.
func (d *device) WorkspaceSize(op any, rows int64) (size int64) {
	_ = d.do("planning", func() error {
		switch op := op.(type) {
		case *kernels.Output:
			form, _ := d.formOf(op, rows)
			size = form.workspace
		case *kernels.OutputEntries:
			size = spaceOfEntries(op, rows).total
		case *kernels.MarginalTargets:
			size = spaceOfMarginal(op, rows).total
		case *kernels.Dense:
			size = d.denseWorkspace(op.Weight, rows)
		case *kernels.DenseBackward:
			size = d.denseWorkspace(op.Weight, rows)
		case *kernels.ClipNorm:
			size = 2 * clipBlocks
		case *kernels.ColumnNorms:
			size = 2 * capParts(op.Weight) * op.Weight.Columns
		case *kernels.SampleBackward:
			size = 2 * rows
		case *kernels.TopK:
			size = d.spaceOfTopK(op, rows).total
		case *kernels.Scores:
			size = spaceOfScores(op, rows).total
		case *kernels.Solve:
			size = spaceOfSolve(op).total
		case *kernels.PanelProduct:
			size = spaceOfPanels(op)
		case *kernels.Assemble:
			size = spaceOfAssemble(&op.Places).total
		}
		return nil
	})
	return size
}

// sourceArgs is a source of dense hidden values.
type sourceArgs struct {
	h, weight        driver.Address
	columns, storage int64
}

// sourcesOf are the sources of a scorer, from a row of the batch on. There are at most kernels.MaxSources.
func sourcesOf(s *kernels.Scorer, row int64) (list [kernels.MaxSources]sourceArgs) {
	for n, source := range s.Sources {
		w := source.Weight
		at := addressOf(w.Value) + driver.Address(w.Skip*w.Storage.Bytes())
		list[n] = sourceArgs{element(source.H, row*w.Columns), at, w.Columns, int64(w.Storage)}
	}
	return list
}

// block is a block of rows of the batch, as far as the batch has them, with its place in a workspace.
type block struct {
	space     rankSpace
	workspace kernels.Buffer
	row, rows int64
	to        kernels.Buffer // [B, stride] for all scores, nil: a tile of them stands in the workspace
	stride    int64
}

func (b *block) place(n int64) driver.Address { return element(b.workspace, n) }

// scores is where the scores of an item on stand, and how far a row is from the next.
func (b *block) scores(first int64) (at driver.Address, stride int64) {
	if b.to != nil {
		return element(b.to, b.row*b.stride+first), b.stride
	}
	return b.place(b.space.scores), b.space.items
}

// score makes the scores of the block's rows for items first .. first + items stand where scores says.
func (d *device) score(s *kernels.Scorer, b block, first, items int64) {
	switch {
	case s.IsGiven: // they do
		return
	case s.Sparse != nil:
		d.scoreSparse(s, b, first, items)
		return
	}
	out, stride := b.scores(first)
	type args struct {
		step                                  driver.Address
		source                                [kernels.MaxSources]sourceArgs
		bias, hiddenSquares, itemSquares, out driver.Address
		rows, row, first, items, stride       int64
		sources                               int32
		temperature                           float32
	}
	if len(s.Sources) > kernels.MaxSources {
		d.note(fault.New(fault.Unsupported, "an output has up to %d sources, this one has %d", kernels.MaxSources,
			len(s.Sources)))
		return
	}
	a := args{
		step: d.step.at, source: sourcesOf(s, b.row), bias: biasOf(s.Bias), out: out, rows: b.rows, row: b.row,
		first: first, items: items, stride: stride, sources: int32(len(s.Sources)), temperature: s.Temperature,
	}
	if s.Temperature != 0 {
		a.hiddenSquares, a.itemSquares = b.place(b.space.hiddenSquares), b.place(b.space.itemSquares)
		x := a.source[0]
		if first == 0 {
			d.squares(d.step.at, x.h, a.hiddenSquares, b.rows, b.row, x.columns, kernels.StoredFloat32)
		}
		storage := s.Sources[0].Weight.Storage
		from := x.weight + driver.Address(storage.Bytes()*first*x.columns)
		d.squares(0, from, a.itemSquares, items, 0, x.columns, storage)
	}
	launch(d, "scores", driver.Dim{X: blocks(items, rankTile), Y: blocks(b.rows, rankTile)}, 256, &a)
}

// scoreSparse is score for a scorer with a sparse source.
func (d *device) scoreSparse(s *kernels.Scorer, b block, first, items int64) {
	type args struct {
		step, offsets, indices, values, bias, out              driver.Address
		rows, row, first, items, stride, columns, column, slot int64
		biasIfEmpty                                            int64
	}
	x := s.Sparse
	out, stride := b.scores(first)
	a := args{
		step: d.step.at, values: addressOf(x.Values), bias: biasOf(s.Bias), out: out, rows: b.rows, row: b.row,
		first: first, items: items, stride: stride, columns: x.Columns, column: x.First + first, slot: int64(x.Input),
	}
	if x.BiasIfEmpty {
		a.biasIfEmpty = 1
	}
	if x.Offsets != nil {
		a.offsets, a.indices = addressOf(x.Offsets), addressOf(x.Indices)
	}
	launch(d, "sparse_scores", driver.Dim{X: uint32(b.rows), Y: min(blocks(items, sparseTile), mostY)}, 256, &a)
}

// squares computes the squares of the norms of rows; with a step those of the batch from one row on, as far as it has
// them.
func (d *device) squares(step, x, to driver.Address, rows, row, columns int64, storage kernels.Storage) {
	type args struct {
		step, x, squares            driver.Address
		rows, row, columns, storage int64
	}
	launch(d, "squares", line(rows, 32), 256, &args{step, x, to, rows, row, columns, int64(storage)})
}

// sparseSlot is the slot that a scorer reads, -1 if there is none.
func sparseSlot(s *kernels.Scorer) int {
	if s.Sparse == nil {
		return -1
	}
	return s.Sparse.Input
}

// Scores writes all scores, a block of rows after the other. In a list they go to the device's memory.
func (d *device) Scores(op *kernels.Scores, s *kernels.Step) error {
	if op.Items == 0 {
		return nil
	}
	return d.run("Scores", s, slotsOf(sparseSlot(&op.Scorer)), func() {
		defer runtime.KeepAlive(op.Out)
		rows := s.Rows
		if op.InList() {
			rows = s.Most()
		}
		b := block{space: spaceOfScores(op, rows), workspace: op.Workspace, to: op.Given, stride: op.Items}
		if op.InList() {
			b.to = op.To
		}
		for ; b.row < rows && d.failed == nil; b.row += b.space.rows {
			b.rows = min(b.space.rows, rows-b.row)
			d.score(&op.Scorer, b, 0, op.Items)
			if op.InList() || d.failed != nil {
				continue
			}
			to := unsafe.Pointer(&op.Out[b.row*op.Stride])
			scores, _ := b.scores(0)
			d.note(d.stream.CopyRowsToHostAsync(to, 4*op.Stride, scores, 4*op.Items, b.rows))
			d.note(d.wait())
		}
	})
}

// TopK ranks a block of rows after the other, each by going over all items once.
func (d *device) TopK(op *kernels.TopK, s *kernels.Step) error {
	if op.K == 0 {
		return nil
	}
	return d.run("TopK", s, slotsOf(sparseSlot(&op.Scorer), op.Exclude), func() {
		most := s.Most()
		b := block{space: d.spaceOfTopK(op, most), workspace: op.Workspace, to: op.Given, stride: op.Items}
		for ; b.row < most; b.row += b.space.rows {
			b.rows = min(b.space.rows, most-b.row)
			d.rank(op, b)
		}
	})
}

// rank ranks a block of rows.
func (d *device) rank(op *kernels.TopK, b block) {
	type args struct {
		step, list, ids, scores driver.Address
		rows, row, k, first     int64
	}
	if screened(&op.Scorer, op.K) {
		d.bestOfScreened(op, b)
		return
	}
	n := b.rows * op.K
	lists := [2]driver.Address{b.place(b.space.lists), b.place(b.space.lists + 2*n)}
	d.fill(lists[0], 0, 2*n)
	d.bestOfAll(op, b, lists)
	launch(d, "ranked", line(n, 256), 256, &args{
		d.step.at, lists[0], element(op.IDs, b.row*op.K), element(op.Scores, b.row*op.K), b.rows, b.row, op.K, op.First,
	})
}

// bestOfAll computes all scores, a tile of items after the other, and keeps the best of each row in lists[0].
func (d *device) bestOfAll(op *kernels.TopK, b block, lists [2]driver.Address) {
	type args struct {
		step, scores, allowed              driver.Address
		list                               [2]driver.Address
		rows, row, first, items, stride, k int64
		exclude, launch                    int32
	}
	tile := b.space.items
	if op.IsGiven {
		tile = op.Items
	}
	for first := int64(0); first < op.Items; first += tile {
		items := min(tile, op.Items-first)
		d.score(&op.Scorer, b, first, items)
		scores, stride := b.scores(first)
		launch(d, "select_best", driver.Dim{X: uint32(b.rows)}, 256, &args{
			d.step.at, scores, addressOf(op.Allowed), lists, b.rows, b.row, first, items, stride, op.K,
			int32(op.Exclude), d.next(site{}),
		})
	}
}
