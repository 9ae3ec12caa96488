//go:build !nocuda && linux && amd64

package cuda

import (
	"cmp"
	"errors"
	"slices"
	"unsafe"

	"dsstne/internal/fault"
	"dsstne/kernels"
	"dsstne/kernels/cuda/driver"
)

// The host packs a step's record and batches into pinned memory; the stream of copies takes them to an area of the
// device; a stream does the early ops there, which make batches of data that the device keeps; the stream of ops copies
// the record to where all steps have theirs, does the ops and copies the results back. Thus the next step is packed and
// copied, and its batches are made, while this one computes. The host waits only for a step that is as old as there are
// slots.

// steps are those under way, and what all of them share.
type steps struct {
	record
	rates    rateTable
	open     *kernels.Step // the one that is begun
	slots    [kernels.MostUnderWay + 1]slot
	next     int  // slot of the next step
	copy     int  // of the buffers that early operations write, the one that the operations at hand do: their step's slot
	underWay int  // how many slots before it are taken
	joint    bool // the open step has collectives that wait in a kernel
	done     []kernels.Result
	told     []kernels.Result // returned by Settle, whose next call takes the memory again
	failed   error            // of the first step that failed, until Settle returns it
}

// slot is what a step has of its own until it is done.
type slot struct {
	memory, answer      unsafe.Pointer // pinned: record and batches; results
	area                driver.Address // on the device: what was in memory
	copied, early, done driver.Event   // early: the early ops are done
	number, rows        int64
	terms               int
	sites               []site
}

func (r *steps) events() (list []*driver.Event) {
	for i := range r.slots {
		list = append(list, &r.slots[i].copied, &r.slots[i].early, &r.slots[i].done)
	}
	return list
}

// Run begins a step, by launching the graph that the list was captured as.
func (d *device) Run(rank kernels.Rank, list *kernels.List, s *kernels.Step) error {
	r := &d.step
	if r.open != nil {
		return fault.New(fault.Internal, "%s: a step begins inside another", d.info.Name)
	}
	r.open = s
	defer func() { r.open = nil }()
	var failed error // of an operation; other errors follow from it
	s.MaxRows = list.Rows()
	walk := func(do func(kernels.Rank, *kernels.Step) error) func() error {
		return func() error {
			failed = do(rank, s)
			return failed
		}
	}
	kept, ops := list, walks{late: walk(list.Do)}
	if list.Rare || list.Clock != nil {
		kept = nil
	} else if list.HasEarly() {
		ops = walks{walk(list.DoEarly), walk(list.DoLate)}
	}
	err := d.do("a step", func() error { return d.begin(kept, s, s.Sparse, ops) })
	if failed != nil {
		return failed
	}
	return err
}

// run puts an operation into the stream while its step is open, behind all that was put into the side stream; otherwise
// the operation is a step of its own, with the batches in the slots.
func (d *device) run(what string, s *kernels.Step, slots []int, work func()) error {
	return d.runBeside(what, s, slots, func() {
		d.join()
		work()
	})
}

// runBeside is run of an operation that shares no memory with updates of outputs and dense layers, which may still be
// under way in the side stream.
func (d *device) runBeside(what string, s *kernels.Step, slots []int, work func()) error {
	end := func() {
		work()
		if d.step.open == nil {
			d.join()
		}
	}
	return d.do(what, func() error {
		switch d.step.open {
		case s:
			return d.enqueue(end)
		case nil:
			return d.alone(s, slots, func() error { return d.enqueue(end) })
		}
		return fault.New(fault.Internal, "an operation of one step is called inside another")
	})
}

// slotsOf are those slots that there are; -1 is none.
func slotsOf(slots ...int) []int {
	return slices.DeleteFunc(slots, func(slot int) bool { return slot < 0 })
}

// alone does an operation as a step, and waits for it.
func (d *device) alone(s *kernels.Step, slots []int, work func() error) error {
	r := &d.step
	if err := d.harvest(0); err != nil {
		return err
	}
	if r.failed != nil {
		return fault.New(fault.Internal, "an earlier step has failed, and Settle has not been called: %v", r.failed)
	}
	batches := make([]*kernels.SparseBatch, len(s.Sparse))
	for _, slot := range slots {
		batches[slot] = s.Sparse[slot]
	}
	before := len(r.done)
	if err := d.begin(nil, s, batches, walks{late: work}); err != nil {
		return err
	}
	if err := d.harvest(0); err != nil {
		return err
	}
	if r.failed != nil {
		return d.tell()
	}
	for term, loss := range r.done[before].Loss {
		s.Loss[term] += loss
	}
	r.done = r.done[:before]
	return nil
}

// walks put the operations of a step into the streams: those that are early, nil if there are none, and the others.
type walks struct{ early, late func() error }

// begin sends a step's record and batches, and puts its ops and the copy of its results into the streams.
func (d *device) begin(
	list *kernels.List, s *kernels.Step, batches []*kernels.SparseBatch, ops walks,
) (err error) {
	r, begun := &d.step, false
	defer func() {
		if begun {
			return
		}
		// Work in the streams uses the slot, which the next step will take, and may have found a failure.
		if after := errors.Join(d.harvest(0), d.clear()); err == nil {
			err = after
		}
	}()
	if r.underWay == len(r.slots) {
		if err := d.harvest(r.underWay - 1); err != nil {
			return err
		}
	}
	rates, err := r.rates.prepare(d, s)
	if err != nil {
		return err
	}
	r.rates.note(s, false)
	if err := d.reserve(list, s, batches, rates); err != nil {
		return err
	}
	slot := &r.slots[r.next]
	slot.number, slot.rows, slot.terms = s.Number, s.WholeRows(), len(s.Loss)
	if err := d.send(slot, s, batches, rates); err != nil {
		return err
	}
	r.joint = false
	if err := d.work(list, slot, ops); err != nil {
		return err
	}
	if err := d.stream.CopyToHostAsync(slot.answer, r.results, resultsSize(slot.terms)); err != nil {
		return err
	}
	if err := d.stream.Record(slot.done); err != nil {
		return err
	}
	d.passTurn(slot.done)
	r.rates.note(s, true)
	begun, r.next, r.underWay = true, (r.next+1)%len(r.slots), r.underWay+1
	return nil
}

// send packs record and batches, and puts their copy into the stream of copies. The slot's former step is done.
func (d *device) send(slot *slot, s *kernels.Step, batches []*kernels.SparseBatch, rates freshRates) error {
	r := &d.step
	p := packer{to: unsafe.Slice((*byte)(slot.memory), r.size), at: slot.area, rates: rates}
	p.step(s, batches, r.results)
	if err := d.copies.CopyToDeviceAsync(slot.area, slot.memory, p.used); err != nil {
		return err
	}
	return d.copies.Record(slot.copied)
}

// Settle waits for the oldest steps.
func (d *device) Settle(underWay int) (results []kernels.Result, err error) {
	r := &d.step
	if r.underWay > underWay || r.failed != nil {
		err = d.do("waiting for a step", func() error {
			err := d.harvest(underWay)
			if err != nil {
				_ = d.harvest(0)
			}
			if r.failed == nil {
				return err
			}
			return cmp.Or(err, d.tell())
		})
	}
	r.done, r.told = r.told[:0], r.done
	return r.told, err
}

// harvest waits until at most underWay steps are, and takes the results of the others. It returns errors of the device
// or of its group; if the device does not answer any more, nothing is known of the steps that were under way.
func (d *device) harvest(underWay int) (broken error) {
	r := &d.step
	for r.underWay > underWay {
		slot := &r.slots[(r.next+len(r.slots)-r.underWay)%len(r.slots)]
		group, err := d.watched(slot.wait)
		if err != nil {
			if _, lost := d.watched(d.stream.Synchronize); lost != nil {
				_ = d.clear()
				return err
			}
		}
		broken = cmp.Or(broken, err, group)
		r.underWay--
		results := (*stepResults)(slot.answer)
		switch {
		case r.failed != nil: // this one has changed nothing
		case results.failure == otherFailed:
			r.failed = kernels.ErrAborted
		case results.failure != 0:
			r.failed = d.notFinite(results.failure, slot.sites)
		default:
			loss := unsafe.Slice((*float64)(unsafe.Add(slot.answer, unsafe.Sizeof(*results))), slot.terms)
			r.done = append(r.done, kernels.Result{Number: slot.number, Rows: slot.rows, Loss: append([]float64(nil), loss...)})
		}
	}
	return broken
}

// wait returns when the step is done.
func (s *slot) wait() error {
	done, err := s.done.Happened()
	if err == nil && !done {
		err = s.done.Synchronize()
	}
	return err
}

// tell returns the failure of a step, when nothing is under way any more, and forgets it for the next step.
func (d *device) tell() error {
	if err := d.harvest(0); err != nil {
		return err
	}
	failed := d.step.failed
	d.step.failed = nil
	if err := d.clear(); err != nil {
		return err
	}
	return failed
}

// clear waits for the streams, and clears the device's note of a failure.
func (d *device) clear() error {
	r := &d.step
	r.underWay = 0
	d.side.open = false // what failed may have left work there that the device's stream does not wait for
	_, err := d.watched(func() error { return errors.Join(d.stream.Synchronize(), d.side.stream.Synchronize()) })
	err = errors.Join(d.copies.Synchronize(), d.early.Synchronize(), err)
	if r.results != 0 {
		err = errors.Join(err, d.stream.Fill8(r.results, 0, resultsSize(0)))
	}
	return err
}
