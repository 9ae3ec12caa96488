//go:build !nocuda && linux && amd64

package cuda

import (
	"errors"
	"math/bits"
	"slices"
	"unsafe"

	"dsstne/kernels"
	"dsstne/kernels/cuda/driver"
)

// The structs of src/step.cuh.
type (
	stepRecord struct {
		slots, rates, results, losses, freshRates             driver.Address
		order, termFactors, rowWeights                        driver.Address
		ratesFrom, freshFrom, freshCount, number, rows, terms int64
		first, whole                                          int64
		seed                                                  uint64
		training                                              int32
	}
	sparseRecord struct {
		offsets, indices, values, rowSum         driver.Address
		items, itemOffsets, itemRows, itemValues driver.Address
		itemCount                                int64
	}
	stepResults struct{ failure, stopped uint64 } // and the losses, float64 each
)

const (
	otherFailed  = 1       // stepResults.failure, if another device of the group has failed
	alignment    = 16      // of each array in the record: kernels read vectors of four
	leastStaging = 1 << 16 // room for the record and its results beside the batches
)

// record is the memory of steps: on the device the results, the record of the step that computes, which moves only to
// grow, and an area for each slot, with its record, what that points to, and the results of the early operations; on
// the host, pinned, results and areas of all slots.
type record struct {
	results, at driver.Address // results are where the device's memory begins
	size        int64          // of an area
	terms       int
	pinned      unsafe.Pointer
}

// StepSize counts the record and the areas, the rates of a run of up to leastRates steps, and the results.
func (d *device) StepSize(rows int64, entries []int64) int64 {
	rates := sizeClass(leastRates * int64(unsafe.Sizeof(kernels.Rates{})))
	return int64(len(d.step.slots))*recordRoom(rows, entries) + rates + recordBytes + aligned(resultsSize(1))
}

// recordBytes is the size of a record without what it points to.
var recordBytes = aligned(int64(unsafe.Sizeof(stepRecord{})))

// recordRoom is the size of an area for batches of up to rows and, by slot, entries.
func recordRoom(rows int64, entries []int64) int64 {
	size := int64(leastStaging) + 8*rows
	for _, n := range entries {
		size += int64(unsafe.Sizeof(sparseRecord{})) + 4*(2*rows+1) + 4*(2*n+2*n+1+2*n) + 8*alignment
	}
	return aligned(size)
}

// ratesRoom is the size of many rates that a step brings, beyond what recordRoom has for some. The devices of a group
// bring the same rates; therefore their records move in the same step, which makes their graphs anew: collectives are
// captured on all devices or on none.
func ratesRoom(n int) int64 {
	bytes := int64(n) * int64(unsafe.Sizeof(kernels.Rates{}))
	if bytes <= leastStaging/2 {
		return 0
	}
	return 1 << bits.Len64(uint64(bytes))
}

// resultsSize is the size of the results of a step.
func resultsSize(terms int) int64 {
	return int64(unsafe.Sizeof(stepResults{})) + int64(terms)*int64(unsafe.Sizeof(float64(0)))
}

// aligned makes every part begin at a multiple of 256, as allocations do.
func aligned(size int64) int64 { return (size + 255) / 256 * 256 }

// reserve makes room for a step, and for the others of its list.
func (d *device) reserve(list *kernels.List, s *kernels.Step, batches []*kernels.SparseBatch, rates freshRates) error {
	r := &d.step
	size, terms, room := recordSize(s, batches, rates), len(s.Loss), int64(0)
	if list != nil {
		room = recordRoom(s.Most(), list.Entries) + ratesRoom(len(rates.list))
		size = max(size, room)
	}
	if r.at != 0 && size <= r.size && terms <= r.terms {
		return nil
	}
	if err := d.harvest(0); err != nil {
		return err
	}
	// Half as much again, so that what grows a little with every step does not move with every step.
	if size > r.size && size > room {
		size = max(size, r.size+r.size/2, leastStaging)
	}
	size, terms = aligned(max(size, r.size)), max(terms, r.terms)
	if err := r.free(); err != nil {
		return err
	}
	err := d.allocate(size, terms)
	if err == nil && r.failed != nil { // nobody has been told yet
		err = d.stream.Fill8(r.results, 0xff, resultsSize(0))
	}
	return err
}

// allocate takes the memory, and points the slots to their parts of it.
func (d *device) allocate(size int64, terms int) (err error) {
	r := &d.step
	slots, head := int64(len(r.slots)), aligned(resultsSize(terms))
	if r.pinned, err = driver.HostAlloc(slots * (head + size)); err != nil {
		return err
	}
	if r.results, err = driver.Alloc(head + recordBytes + slots*size); err != nil {
		return errors.Join(err, r.free())
	}
	if err := d.stream.Fill8(r.results, 0, head); err != nil {
		return errors.Join(err, r.free())
	}
	r.at, r.size, r.terms = r.results+driver.Address(head), size, terms
	for i := range r.slots {
		slot, n := &r.slots[i], int64(i)
		slot.answer = unsafe.Add(r.pinned, n*(head+size))
		slot.memory, slot.area = unsafe.Add(slot.answer, head), r.at+driver.Address(recordBytes+n*size)
	}
	return nil
}

// free gives the memory back; nothing is under way.
func (r *record) free() error {
	err := errors.Join(driver.HostFree(r.pinned), driver.Free(r.results))
	*r = record{}
	return err
}

// recordSize is what a packer needs for a step.
func recordSize(s *kernels.Step, batches []*kernels.SparseBatch, rates freshRates) int64 {
	p := packer{rates: rates}
	p.step(s, batches, 0)
	return p.used
}

// packer puts the parts of a record one behind the other; without memory it only counts.
type packer struct {
	to    []byte
	at    driver.Address // of to on the device
	used  int64
	rates freshRates
}

// put copies an array, and returns where it will lie on the device.
func put[T any](p *packer, x []T) driver.Address {
	var zero T
	bytes := int64(len(x)) * int64(unsafe.Sizeof(zero))
	at := p.used
	p.used = (at + bytes + alignment - 1) / alignment * alignment
	if p.to != nil && bytes > 0 {
		copy(p.to[at:at+bytes], unsafe.Slice((*byte)(unsafe.Pointer(&x[0])), bytes))
	}
	return p.at + driver.Address(at)
}

// rowWeights are the weights of the rows for all losses, 1 where a loss has none.
func rowWeights(s *kernels.Step) []float32 {
	all := make([]float32, 0, int64(len(s.RowWeights))*s.Rows)
	for _, of := range s.RowWeights {
		if of == nil {
			of = slices.Repeat([]float32{1}, int(s.Rows))
		}
		all = append(all, of...)
	}
	return all
}

// step packs the record, which comes first, and what it points to.
func (p *packer) step(s *kernels.Step, batches []*kernels.SparseBatch, results driver.Address) {
	var head [1]stepRecord
	put(p, head[:])
	slots, place := make([]sparseRecord, len(batches)), p.used
	slotsAt := put(p, slots)
	for i, b := range batches {
		if b == nil {
			continue
		}
		slots[i] = sparseRecord{
			put(p, b.Offsets), put(p, b.Indices), put(p, b.Values), put(p, b.RowSum), put(p, b.Items),
			put(p, b.ItemOffsets), put(p, b.ItemRows), put(p, b.ItemValues), int64(len(b.Items)),
		}
	}
	head[0] = stepRecord{
		slots: slotsAt, rates: p.rates.table, results: put(p, make([]stepResults, 1)),
		losses:     results + driver.Address(resultsSize(0)),
		freshRates: put(p, p.rates.list), order: put(p, s.Order), ratesFrom: s.RatesFrom, freshFrom: p.rates.from,
		freshCount: int64(len(p.rates.list)), number: s.Number, rows: s.Rows, terms: int64(len(s.Loss)),
		first: s.First, whole: s.WholeRows(), seed: s.Seed, training: flag(s.Training),
	}
	if s.TermFactors != nil {
		head[0].termFactors = put(p, s.TermFactors)
	}
	if s.RowWeights != nil {
		head[0].rowWeights = put(p, rowWeights(s))
	}
	end := p.used // now that they are known, the records themselves
	p.used = 0
	put(p, head[:])
	p.used = place
	put(p, slots)
	p.used = end
}
