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
	slot, launch, shift, digits              int32
	stream                                   uint32
	denoising                                float32
	whole                                    int32
}

// assembleSpace is the workspace of Assemble, in elements of 4 bytes.
type assembleSpace struct {
	items, places [2]int64
	entryRows     int64
	tileCounts    int64
	digitCounts   int64
	total         int64
}

func spaceOfAssemble(p *kernels.BatchPlaces) (s assembleSpace) {
	if p.RowsOnly {
		return s
	}
	take := func(n int64) int64 {
		at := s.total
		s.total += (n + 3) / 4 * 4
		return at
	}
	for i := range 2 {
		s.items[i], s.places[i] = take(p.Entries), take(p.Entries)
	}
	s.entryRows, s.tileCounts, s.digitCounts = take(p.Entries), take(int64(blocks(p.Entries, sortTile))<<digitBits), take(1<<digitBits)
	return s
}

// Assemble makes a batch out of a dataset that the device keeps.
func (d *device) Assemble(op *kernels.Assemble, s *kernels.Step) error {
	data, is := op.Data.(*resident)
	if !is || data.device != d || op.Scaled && data.norms == nil && data.rows > 0 || op.Places.Entries > kernels.MostEntries {
		return fault.New(fault.Internal, "%s: a batch of %s cannot be made of this data", d.info.Name, op.Name)
	}
	return d.run("Assemble", s, nil, func() error {
		p, space := &op.Places, spaceOfAssemble(&op.Places)
		in := func(b kernels.Buffer, element int64) driver.Address { return addressOf(b) + driver.Address(4*element) }
		a := assembleArgs{
			step: d.step.at, data: data.arguments(op.Scaled), capacity: p.Entries, slot: int32(op.Slot), stream: op.Stream, denoising: op.Denoising,
			whole: flag(data.whole), offsets: in(op.Batch, p.Offsets), indices: in(op.Batch, p.Indices), values: in(op.Batch, p.Values),
			rowSum: in(op.Batch, p.RowSum), counts: in(op.Batch, p.Counts), launch: d.next(site{err: tooLarge(op)}),
		}
		if !p.RowsOnly {
			a.items, a.itemOffsets = in(op.Batch, p.Items), in(op.Batch, p.ItemOffsets)
			a.itemRows, a.itemValues = in(op.Batch, p.ItemRows), in(op.Batch, p.ItemValues)
			a.entryRows, a.tileCounts = in(op.Workspace, space.entryRows), in(op.Workspace, space.tileCounts)
			a.digitCounts = in(op.Workspace, space.digitCounts)
		}
		rows, threads := driver.Dim{X: min(max(1, blocks(p.Rows, assembleWarps)), 1<<14)}, driver.Dim{X: 32 * assembleWarps}
		if err := launch(d, "assemble_count", rows, threads, &a); err != nil {
			return err
		}
		if err := launch(d, "assemble_scan", driver.Dim{X: 1}, driver.Dim{X: scanThreads}, &a); err != nil {
			return err
		}
		if err := launch(d, "assemble_fill", rows, threads, &a); err != nil || p.RowsOnly {
			return err
		}
		return d.orderByItem(op, space, a)
	})
}

// orderByItem sorts the entries, digit by digit, and finds the items among them.
func (d *device) orderByItem(op *kernels.Assemble, space assembleSpace, a assembleArgs) error {
	tiles, threads := driver.Dim{X: max(1, blocks(op.Places.Entries, sortTile))}, driver.Dim{X: sortThreads}
	workspace := addressOf(op.Workspace)
	width := max(1, bits.Len64(uint64(max(0, op.Places.Columns-1))))
	passes := (width + digitBits - 1) / digitBits
	digit := (width + passes - 1) / passes
	a.itemsFrom, a.digits = a.indices, int32(1)<<digit
	for pass := range passes {
		turn := pass % 2
		a.shift = int32(pass * digit)
		a.itemsTo, a.placesTo = workspace+driver.Address(4*space.items[turn]), workspace+driver.Address(4*space.places[turn])
		if err := launch(d, "sort_count", tiles, threads, &a); err != nil {
			return err
		}
		if err := launch(d, "sort_scan", driver.Dim{X: uint32(a.digits)}, threads, &a); err != nil {
			return err
		}
		if err := launch(d, "sort_place", tiles, threads, &a); err != nil {
			return err
		}
		a.itemsFrom, a.placesFrom = a.itemsTo, a.placesTo
	}
	if err := launch(d, "items_count", tiles, threads, &a); err != nil {
		return err
	}
	if err := launch(d, "items_scan", driver.Dim{X: 1}, driver.Dim{X: scanThreads}, &a); err != nil {
		return err
	}
	return launch(d, "items_write", tiles, threads, &a)
}

// arguments tells the kernels where the data lie.
func (r *resident) arguments(scaled bool) keptArgs {
	a := keptArgs{
		offsets: addressOf(r.offsets), indices: addressOf(r.indices), values: addressOf(r.values), sums: addressOf(r.sums), rows: r.rows,
		first: r.first,
	}
	if scaled {
		a.norms, a.sums = addressOf(r.norms), addressOf(r.scaledSums)
	}
	return a
}

// tooLarge are the errors of Assemble, by what its kernels tell.
func tooLarge(op *kernels.Assemble) [2]error {
	return [2]error{
		fault.New(fault.InvalidArgument, "layer %q: a row was asked for that the dataset has not got", op.Name),
		fault.New(fault.InvalidData, "layer %q: a batch holds more than the %d entries that were there when it was planned: the matrix "+
			"must not be changed while it is in use", op.Name, op.Places.Entries),
	}
}
