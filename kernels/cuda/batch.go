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
	scanThreads   = 1024
	sortThreads   = 256
	sortTile      = 8 * sortThreads
	digitBits     = 8
)

type keptArgs struct {
	offsets, indices, values, norms, sums driver.Address
	rows, first                           int64
}

type assembleArgs struct {
	step                                     driver.Address
	data                                     keptArgs
	offsets, indices, values, rowSum         driver.Address
	items, itemOffsets, itemRows, itemValues driver.Address
	counts, entryRows                        driver.Address
	tileCounts, digitCounts                  driver.Address
	itemsFrom, placesFrom, itemsTo, placesTo driver.Address
	capacity                                 int64
	slots                                    [kernels.MostSlots]int32
	slotCount, launch, shift, digits         int32
	stream                                   uint32
	denoising                                float32
	whole                                    int32
}

// assembleSpace is the workspace of Assemble.
type assembleSpace struct {
	space
	items, places                      [2]int64
	entryRows, tileCounts, digitCounts int64
}

func spaceOfAssemble(p *kernels.BatchPlaces) (s assembleSpace) {
	if p.RowsOnly {
		return s
	}
	for i := range 2 {
		s.items[i], s.places[i] = s.take(p.Entries), s.take(p.Entries)
	}
	s.entryRows, s.tileCounts = s.take(p.Entries), s.take(int64(blocks(p.Entries, sortTile))<<digitBits)
	s.digitCounts = s.take(1 << digitBits)
	return s
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
		in := func(n int64) driver.Address { return element(op.Batch, n) }
		a := assembleArgs{
			step: d.step.at, data: r.arguments(op.Scaled), offsets: in(p.Offsets), indices: in(p.Indices),
			values: in(p.Values), rowSum: in(p.RowSum), counts: in(p.Counts), capacity: p.Entries,
			launch: d.next(site{err: tooLarge(op)}), stream: op.Stream, denoising: op.Denoising, whole: flag(r.whole),
		}
		for n, slot := range op.Slots {
			a.slots[n], a.slotCount = int32(slot), int32(n+1)
		}
		if !p.RowsOnly {
			a.items, a.itemOffsets, a.itemRows = in(p.Items), in(p.ItemOffsets), in(p.ItemRows)
			a.itemValues, a.entryRows = in(p.ItemValues), element(op.Workspace, space.entryRows)
			a.tileCounts = element(op.Workspace, space.tileCounts)
			a.digitCounts = element(op.Workspace, space.digitCounts)
		}
		rows := driver.Dim{X: min(max(1, blocks(p.Rows, assembleWarps)), 1<<14)}
		launch(d, "assemble_count", rows, 32*assembleWarps, &a)
		launch(d, "assemble_scan", driver.Dim{X: 1}, scanThreads, &a)
		launch(d, "assemble_fill", rows, 32*assembleWarps, &a)
		if !p.RowsOnly {
			d.orderByItem(op, space, a)
		}
	})
}

// orderByItem sorts the entries, digit by digit, and finds the items among them.
func (d *device) orderByItem(op *kernels.Assemble, space assembleSpace, a assembleArgs) {
	tiles := driver.Dim{X: max(1, blocks(op.Places.Entries, sortTile))}
	width := max(1, bits.Len64(uint64(max(0, op.Places.Columns-1))))
	passes := (width + digitBits - 1) / digitBits
	digit := (width + passes - 1) / passes
	a.itemsFrom, a.digits = a.indices, int32(1)<<digit
	for pass := range passes {
		a.shift = int32(pass * digit)
		a.itemsTo, a.placesTo = element(op.Workspace, space.items[pass%2]), element(op.Workspace, space.places[pass%2])
		launch(d, "sort_count", tiles, sortThreads, &a)
		launch(d, "sort_scan", driver.Dim{X: uint32(a.digits)}, sortThreads, &a)
		launch(d, "sort_place", tiles, sortThreads, &a)
		a.itemsFrom, a.placesFrom = a.itemsTo, a.placesTo
	}
	launch(d, "items_count", tiles, sortThreads, &a)
	launch(d, "items_scan", driver.Dim{X: 1}, scanThreads, &a)
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
	a := keptArgs{at(partOffsets), at(partIndices), at(partValues), 0, at(partSums), k.rows, k.first}
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
