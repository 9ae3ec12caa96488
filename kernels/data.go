package kernels

import "fmt"

// Data is a dataset, or a device's share of its columns, as the device stores it: rows in order, columns
// ascending in each, without duplicates or stored zeros, values of float32.
type Data struct {
	// Of is what the data are read from: data of one Of with the same First, Columns and Scaled are equal, and a device
	// keeps them once. Nil: they are equal to no other. It can be compared.
	Of      any
	Rows    int64
	Columns int64 // the device's
	First   int64 // the first of them in the dataset, from which they are counted
	Entries int64 // an upper bound on the number of stored entries
	Values  bool  // false: every value is 1
	Scaled  bool  // blocks have Norms and ScaledSums
	Whole   bool  // the device has all columns
	// Listed is how many rows the dataset has. With an Index, row r is the row of those that Blocks reads whose number is
	// number r of the Index; without one, there are Rows. Index reads the numbers, in order, and calls each for some of
	// them at a time. An error of either ends it.
	Listed int64
	Index  func(each func([]int64) error) error
	// Blocks reads all rows, in order, and calls each for some of them at a time. An error of either ends it.
	Blocks func(each func(DataBlock) error) error
}

// DataBlock is some rows of a Data, valid until the next block. Norms and sums are those of whole rows.
type DataBlock struct {
	Lengths    []int32 // by row: how many entries
	Indices    []int32
	Values     []float32
	Sums       []float32 // by row: of the values
	Norms      []float64 // by row: 1 over the L2 norm, 1 for an empty row
	ScaledSums []float32 // by row: of the values times the norm
}

// MostEntries is what a batch can hold: places in it are int32.
const MostEntries = 1<<31 - 1

// Resident is a dataset in a device's memory.
type Resident interface {
	// Free ends the use of the dataset; that of the last user gives the memory back.
	Free()
}

// Assemble makes a batch of the rows Step.Order of a dataset that the device keeps, in both orders, the same numbers as
// csr.Reader's: each row divided by its L2 norm with Scaled; in training entry (u, j) is left out when
// random.Uniform(seed, Stream, step, u, j) < Denoising, where u is Step.First and the row's place in the batch, and the
// others are divided by 1 - Denoising. RowSum is that of whole rows. A shard of a denoised batch has none: only targets
// are asked for sums, and they are not denoised.
type Assemble struct {
	Name      string // of the layer, for error messages; of several that read the same, the first
	Slots     []int  // that receive the batch, MostSlots at most
	ByRow     []int  // those that are read in row order alone; if all are, the order by item may be left out
	Data      Resident
	Scaled    bool
	Denoising float32
	Stream    uint32
	Batch     Buffer // Keeper.BatchSize elements; the parts of a batch are where Places says
	Places    BatchPlaces
	Workspace Buffer // not used by other operations, unless they are early, too
}

func (o *Assemble) Do(r Rank, s *Step) error { return r.Device.(Keeper).Assemble(o, s) }
func (o *Assemble) String() string {
	text := fmt.Sprintf("Assemble the batch of %s[%d] out of the device's copy of the data", o.Name, o.Places.Columns)
	if o.Scaled {
		text += ", scaled"
	}
	if o.Denoising > 0 {
		text += fmt.Sprintf(", denoising %g", o.Denoising)
	}
	if n := len(o.Slots); n > 1 {
		text += fmt.Sprintf(", for %d layers", n)
	}
	if !o.Places.RowsOnly && !o.ByItem() {
		text += ", in row order"
	}
	return text
}

// Early: it reads the record of the step and the data.
func (o *Assemble) Early() {}

// ByItem reports whether the order by item is read.
func (o *Assemble) ByItem() bool { return !o.Places.RowsOnly && len(o.ByRow) < len(o.Slots) }

// MostSlots is how many slots an Assemble fills.
const MostSlots = 8

// BatchPlaces is where the parts of a batch lie in the buffer that Assemble fills, in elements of 4 bytes.
type BatchPlaces struct {
	Rows, Entries, Columns int64 // the most rows and entries of a batch, and its columns
	RowsOnly               bool  // without the order by item

	Counts int64 // int32 [2]: how many entries and how many distinct items the batch has
	// as those of SparseBatch
	Offsets, Indices, Values, RowSum, Items, ItemOffsets, ItemRows, ItemValues int64

	Total int64
}

// PlacesOf lays out a batch of up to rows rows and entries entries.
func PlacesOf(rows, entries, columns int64, rowsOnly bool) BatchPlaces {
	p := BatchPlaces{Rows: rows, Entries: entries, Columns: columns, RowsOnly: rowsOnly}
	take := func(n int64) int64 {
		at := p.Total
		p.Total += (n + 3) / 4 * 4
		return at
	}
	p.Counts, p.Offsets, p.RowSum = take(2), take(rows+1), take(rows)
	p.Indices, p.Values = take(entries), take(entries)
	if !rowsOnly {
		items := min(entries, columns)
		p.Items, p.ItemOffsets = take(items), take(items+1)
		p.ItemRows, p.ItemValues = take(entries), take(entries)
	}
	return p
}
