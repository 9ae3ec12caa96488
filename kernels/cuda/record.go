//go:build !nocuda && linux && amd64

package cuda

import (
	"errors"
	"unsafe"

	"dsstne/engine/fault"
	"dsstne/kernels"
	"dsstne/kernels/cuda/driver"
)

// The structs of src/step.cuh.
type (
	stepRecord struct {
		slots, rates, results, freshRates, order driver.Address

		ratesFrom, freshFrom, freshCount int64

		number       int64
		rows         int64
		first, whole int64
		seed         uint64
		training     int32
	}
	sparseRecord struct {
		offsets, indices, values, rowSum         driver.Address
		items, itemOffsets, itemRows, itemValues driver.Address
		itemCount                                int64
	}
	stepResults struct {
		failure uint64
		loss    [mostLosses]float64
	}
)

const (
	mostLosses = 64
	// alignment of each array in the record, so that vectors of four can be read.
	alignment = 16
	// leastStaging has room for the record beside the batches.
	leastStaging = 1 << 16
)

// record is the memory of a step's record: two pinned copies on the host, of which one can be written while the other is
// still on its way, and one on the device, at an address that stays the same as long as it is large enough.
type record struct {
	open    *kernels.Step // the one that runs
	staging [2]staging
	turn    int
	here    unsafe.Pointer // stepResults, pinned
	results driver.Address
	at      driver.Address
	size    int64
	rates   rateTable
}

type staging struct {
	memory unsafe.Pointer
	size   int64
	sent   driver.Event
	busy   bool
}

// StepSize counts what pack writes for batches without gaps, and the results.
func (d *device) StepSize(rows int64, entries []int64) int64 {
	size := int64(leastStaging) + int64(unsafe.Sizeof(stepResults{}))
	for _, n := range entries {
		size += int64(unsafe.Sizeof(sparseRecord{})) + 4*(2*rows+1) + 4*(2*n+2*n+1+2*n) + 8*alignment
	}
	return sizeClass(size)
}

// Run copies the record and all batches to the device, puts the ops into the stream and reads the results: the only time in a
// step that the host waits.
func (d *device) Run(_ *kernels.List, s *kernels.Step, walk func() error) error {
	if d.step.open != nil {
		return fault.New(fault.Internal, "%s: a step begins inside another", d.info.Name)
	}
	if err := d.do("beginning a step", func() error { return d.begin(s, s.Sparse...) }); err != nil {
		return err
	}
	d.step.open = s
	defer func() { d.step.open = nil }()
	err := walk()
	if failure := d.do("ending a step", func() error { return d.end(s) }); err == nil {
		err = failure
	}
	return err
}

// run puts an op into the stream while its step runs; otherwise it is a step of its own, with the batches that it needs.
func (d *device) run(what string, s *kernels.Step, slots []int, work func() error) error {
	return d.do(what, func() error {
		if d.step.open == s {
			return work()
		}
		batches := make([]*kernels.SparseBatch, len(s.Sparse))
		for _, slot := range slots {
			batches[slot] = s.Sparse[slot]
		}
		if err := d.begin(s, batches...); err != nil {
			return err
		}
		if err := work(); err != nil {
			return errors.Join(err, d.stream.Synchronize())
		}
		return d.end(s)
	})
}

func (d *device) begin(s *kernels.Step, batches ...*kernels.SparseBatch) error {
	r := &d.step
	if len(s.Loss) > mostLosses {
		return fault.New(fault.Unsupported, "a network has up to %d losses on a CUDA device, this one has %d", mostLosses, len(s.Loss))
	}
	d.launches = d.launches[:0]
	rates, err := r.rates.prepare(d, s)
	if err != nil {
		return err
	}
	r.rates.note(s, false)
	if err := r.reserve(d, recordSize(s, batches, rates)); err != nil {
		return err
	}
	stage := &r.staging[r.turn]
	r.turn = 1 - r.turn
	if stage.busy {
		if err := stage.sent.Synchronize(); err != nil {
			return err
		}
	}
	p := packer{to: unsafe.Slice((*byte)(stage.memory), stage.size), at: r.at, rates: rates}
	p.step(s, batches, r.results)
	if err := d.stream.CopyToDeviceAsync(r.at, stage.memory, p.used); err != nil {
		return err
	}
	stage.busy = true
	if err := d.stream.Record(stage.sent); err != nil {
		return err
	}
	if err := d.stream.Fill8(r.results, 0, int64(unsafe.Sizeof(stepResults{}))); err != nil {
		return err
	}
	type args struct{ step driver.Address }
	err = launch(d, "keep_rates", driver.Dim{X: 1}, driver.Dim{X: 128}, &args{r.at})
	r.rates.note(s, err == nil)
	return err
}

func (d *device) end(s *kernels.Step) error {
	r := &d.step
	if err := d.toHost(r.here, r.results, int64(unsafe.Sizeof(stepResults{}))); err != nil {
		return err
	}
	results := (*stepResults)(r.here)
	for term := range s.Loss {
		s.Loss[term] += results.loss[term]
	}
	return d.notFinite(results.failure)
}

// reserve makes room for a record of a size.
func (r *record) reserve(d *device, size int64) error {
	if r.results == 0 {
		if err := r.first(); err != nil {
			return err
		}
	}
	if size <= r.size {
		return nil
	}
	size = sizeClass(max(size, leastStaging))
	if err := d.stream.Synchronize(); err != nil {
		return err
	}
	for i := range r.staging {
		memory, err := driver.HostAlloc(size)
		if err != nil {
			return err
		}
		old := r.staging[i].memory
		r.staging[i].memory, r.staging[i].size, r.staging[i].busy = memory, size, false
		if old != nil {
			if err := driver.HostFree(old); err != nil {
				return err
			}
		}
	}
	if r.at != 0 {
		old := r.at
		r.at, r.size = 0, 0
		if err := driver.Free(old); err != nil {
			return err
		}
	}
	at, err := driver.Alloc(size)
	if err != nil {
		return err
	}
	r.at, r.size = at, size
	return nil
}

// first takes what does not depend on the size.
func (r *record) first() (err error) {
	for i := range r.staging {
		if r.staging[i].sent == (driver.Event{}) {
			if r.staging[i].sent, err = driver.NewEvent(false); err != nil {
				return err
			}
		}
	}
	if r.here == nil {
		if r.here, err = driver.HostAlloc(int64(unsafe.Sizeof(stepResults{}))); err != nil {
			return err
		}
	}
	r.results, err = driver.Alloc(int64(unsafe.Sizeof(stepResults{})))
	return err
}

func (r *record) free() (err error) {
	for i := range r.staging {
		if r.staging[i].memory != nil {
			err = errors.Join(err, driver.HostFree(r.staging[i].memory))
		}
		if r.staging[i].sent != (driver.Event{}) {
			err = errors.Join(err, r.staging[i].sent.Close())
		}
	}
	if r.here != nil {
		err = errors.Join(err, driver.HostFree(r.here))
	}
	for _, at := range []driver.Address{r.results, r.at} {
		if at != 0 {
			err = errors.Join(err, driver.Free(at))
		}
	}
	err = errors.Join(err, r.rates.free())
	*r = record{}
	return err
}

// recordSize is what pack needs for a step.
func recordSize(s *kernels.Step, batches []*kernels.SparseBatch, rates freshRates) int64 {
	p := packer{rates: rates}
	p.step(s, batches, 0)
	return p.used
}

// packer puts the parts of a record one behind the other; without memory it only counts.
type packer struct {
	to   []byte
	at   driver.Address // of to on the device
	used int64

	rates freshRates
}

// put copies an array and tells where it will lie on the device.
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

// step packs the record, which comes first, and what it points to.
func (p *packer) step(s *kernels.Step, batches []*kernels.SparseBatch, results driver.Address) {
	var head [1]stepRecord
	put(p, head[:])
	slots := make([]sparseRecord, len(batches))
	place := p.used
	put(p, slots)
	for i, b := range batches {
		if b == nil {
			continue
		}
		slots[i] = sparseRecord{
			offsets: put(p, b.Offsets), indices: put(p, b.Indices), values: put(p, b.Values), rowSum: put(p, b.RowSum),
			items: put(p, b.Items), itemOffsets: put(p, b.ItemOffsets), itemRows: put(p, b.ItemRows), itemValues: put(p, b.ItemValues),
			itemCount: int64(len(b.Items)),
		}
	}
	head[0] = stepRecord{
		slots: p.at + driver.Address(place), rates: p.rates.table, results: results, freshRates: put(p, p.rates.list), order: put(p, s.Order),
		ratesFrom: s.RatesFrom, freshFrom: p.rates.from, freshCount: int64(len(p.rates.list)), number: s.Number,
		rows: s.Rows, first: s.First, whole: s.WholeRows(), seed: s.Seed,
	}
	if s.Training {
		head[0].training = 1
	}
	if p.to != nil {
		end := p.used
		p.used = 0
		put(p, head[:])
		p.used = place
		put(p, slots)
		p.used = end
	}
}
