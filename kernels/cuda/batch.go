//go:build !nocuda && linux && amd64

package cuda

import (
	"math/bits"

	"dsstne/internal/fault"
	"dsstne/kernels"
	"dsstne/kernels/cuda/driver"
)

// Constants of src/batch.cu.
const (
	assembleWarps = 8
	sortThreads   = 256
	sortTile      = 8 * sortThreads
	digitBits     = 8
)

type keptArgs struct {
	index, offsets, indices, values, norms, sums driver.Address
	rows, first                                  int64
}

type assembleArgs struct {
	step                                     driver.Address
	data                                     keptArgs
	offsets, indices, values, rowSum         driver.Address
	items, itemOffsets, itemRows, itemValues driver.Address
	counts, lengths, entryRows               driver.Address
	tileCounts, nextCounts, digitCounts      driver.Address
	zeros                                    int64
	itemsFrom, placesFrom, itemsTo, placesTo driver.Address
	capacity, tiles                          int64
	slots                                    [kernels.MostSlots]int32
	slotCount, launch, shift, digits         int32
	nextShift                                int32
	stream                                   uint32
	denoising                                float32
	whole                                    int32
}

// assembleSpace is the workspace of Assemble.
type assembleSpace struct {
	space
	lengths                            int64
	items, places                      [2]int64
	entryRows, tileCounts, digitCounts int64
	tiles                              int64
	passes, digit                      int // of the sort, and bits that a pass sorts by
}

func spaceOfAssemble(p *kernels.BatchPlaces) (s assembleSpace) {
	s.lengths = s.take(p.Rows)
	if p.RowsOnly {
		return s
	}
	width := max(1, bits.Len64(uint64(max(0, p.Columns-1))))
	s.passes = (width + digitBits - 1) / digitBits
	s.digit = (width + s.passes - 1) / s.passes
	s.tiles = max(1, int64(blocks(p.Entries, sortTile)))
	for i := range 2 {
		s.items[i], s.places[i] = s.take(p.Entries), s.take(p.Entries)
	}
	s.entryRows, s.tileCounts = s.take(p.Entries), s.take(int64(s.passes)*s.passCounts())
	s.digitCounts = s.take(1 << digitBits)
	return s
}

// passCounts is how many counts a pass of the sort needs, one for each digit and tile.
func (s *assembleSpace) passCounts() int64 { return s.tiles << s.digit }

// BatchSize has room for a batch of each step under way, and of the one that is made meanwhile.
func (d *device) BatchSize(op *kernels.Assemble) int64 {
	return int64(len(d.step.slots)) * op.Places.Total
}

// Assemble makes a batch out of a dataset that the device keeps.
func (d *device) Assemble(op *kernels.Assemble, s *kernels.Step) error {
	r, is := op.Data.(*resident)
	unscaled := is && op.Scaled && r.parts[partNorms] == nil && r.rows > 0
	if !is || r.reader != d || unscaled || op.Places.Entries > kernels.MostEntries {
		return fault.New(fault.Internal, "%s: a batch of %s cannot be made of this data", d.info.Name, op.Name)
	}
	return d.run("Assemble", s, nil, func() {
		p, space := &op.Places, spaceOfAssemble(&op.Places)
		in := func(n int64) driver.Address { return element(op.Batch, int64(d.step.copy)*p.Total+n) }
		a := assembleArgs{
			step: d.step.at, data: r.arguments(op.Scaled), offsets: in(p.Offsets), indices: in(p.Indices),
			values: in(p.Values), rowSum: in(p.RowSum), counts: in(p.Counts), capacity: p.Entries,
			lengths: element(op.Workspace, space.lengths),
			launch:  d.next(site{err: tooLarge(op)}), stream: op.Stream, denoising: op.Denoising, whole: flag(r.whole),
		}
		for n, slot := range op.Slots {
			a.slots[n], a.slotCount = int32(slot), int32(n+1)
		}
		if op.ByItem() {
			a.items, a.itemOffsets, a.itemRows = in(p.Items), in(p.ItemOffsets), in(p.ItemRows)
			a.itemValues, a.entryRows = in(p.ItemValues), element(op.Workspace, space.entryRows)
			a.tileCounts = element(op.Workspace, space.tileCounts)
			a.digitCounts = element(op.Workspace, space.digitCounts)
			a.nextCounts, a.digits, a.tiles = a.tileCounts, int32(1)<<space.digit, space.tiles
			a.zeros = int64(space.passes) * space.passCounts()
		}
		rows := driver.Dim{X: min(max(1, blocks(p.Rows, assembleWarps)), 1<<14)}
		launch(d, "assemble_count", rows, 32*assembleWarps, &a)
		launch(d, "assemble_fill", rows, 32*assembleWarps, &a)
		if op.ByItem() {
			d.orderByItem(op, &space, a)
		}
	})
}

// orderByItem sorts the entries, digit by digit, and finds the items among them.
func (d *device) orderByItem(op *kernels.Assemble, space *assembleSpace, a assembleArgs) {
	tiles, all := driver.Dim{X: uint32(space.tiles)}, a.tileCounts
	a.itemsFrom = a.indices
	for pass := range space.passes {
		a.shift, a.tileCounts = int32(pass*space.digit), a.nextCounts
		a.nextShift, a.nextCounts = a.shift+int32(space.digit), a.tileCounts+driver.Address(4*space.passCounts())
		if pass == space.passes-1 {
			a.nextCounts = 0
		}
		a.itemsTo, a.placesTo = element(op.Workspace, space.items[pass%2]), element(op.Workspace, space.places[pass%2])
		launch(d, "sort_scan", driver.Dim{X: uint32(a.digits)}, sortThreads, &a)
		launch(d, "sort_place", tiles, sortThreads, &a)
		a.itemsFrom, a.placesFrom = a.itemsTo, a.placesTo
	}
	a.tileCounts = all
	launch(d, "items_count", tiles, sortThreads, &a)
	launch(d, "items_write", tiles, sortThreads, &a)
}

// arguments are the places of the data, for kernels.
func (k *keptData) arguments(scaled bool) keptArgs {
	at := func(part int) driver.Address {
		if k.parts[part] == nil {
			return 0
		}
		return k.parts[part].at
	}
	a := keptArgs{
		at(partIndex), at(partOffsets), at(partIndices), at(partValues), 0, at(partSums), k.rows, k.first,
	}
	if scaled {
		a.norms, a.sums = at(partNorms), at(partScaledSums)
	}
	return a
}

// tooLarge are the errors of Assemble, by the kind of failure that its kernels note.
func tooLarge(op *kernels.Assemble) [2]error {
	return [2]error{
		fault.New(fault.InvalidArgument, "layer %q: a row of the batch is not in the dataset", op.Name),
		fault.New(fault.InvalidData, "layer %q: a batch holds more than the %d entries that were there when it was planned: "+
			"the matrix must not be changed while it is in use", op.Name, op.Places.Entries),
	}
}
