package program

import (
	"fmt"
	"sync"
	"time"

	"dsstne/kernels"
)

// Profile measures the operations of a program's steps, from StartProfile to Stop.
type Profile struct {
	program *Program
	steps   int
	ranks   []rankProfile
}

// rankProfile is what one rank has measured.
type rankProfile struct {
	ops   []kernels.Op
	texts []string // of the operations, as in the plan
	clock kernels.Clock
	times []time.Duration // by operation, of all steps
	sizes kernels.Sizes   // added up over the steps
}

// Timing is what an operation of a rank took and had to do in a step, on average.
type Timing struct {
	Rank    int    // of this process
	Text    string // of the operation, as in the plan
	Seconds float64
	Work    *kernels.Work // nil: does not follow from the sizes of the batch
}

// StartProfile begins to measure. No step is under way, and from then on each step ends before the next begins.
func (p *Program) StartProfile() (*Profile, error) {
	f := &Profile{program: p, ranks: make([]rankProfile, len(p.parts))}
	for n, part := range p.parts {
		rank := &f.ranks[n]
		for _, section := range part.step.Sections {
			for _, op := range section.Ops {
				rank.ops = append(rank.ops, op)
				rank.texts = append(rank.texts, textOf(op, section.Rows, part.Device))
			}
		}
		var err error
		if rank.clock, err = kernels.NewClock(part.Device, len(rank.ops)+1); err != nil {
			f.Stop()
			return nil, err
		}
		rank.times = make([]time.Duration, len(rank.ops))
		rank.sizes.Batches = make([]kernels.BatchSizes, len(part.batches))
		part.step.Clock = rank.clock
	}
	return f, nil
}

// Stop ends measuring. No step is under way.
func (f *Profile) Stop() {
	for n, rank := range f.ranks {
		if f.program.parts[n].step.Clock = nil; rank.clock != nil {
			rank.clock.Free()
		}
	}
}

// Add adds the step that has just ended.
func (f *Profile) Add(step *kernels.Step) error {
	f.steps++
	for n, part := range f.program.parts {
		rank := &f.ranks[n]
		times, err := rank.clock.Read()
		if err != nil {
			return err
		}
		for i, t := range times {
			rank.times[i] += t
		}
		if err := rank.addSizes(part, step); err != nil {
			return err
		}
	}
	return nil
}

// addSizes adds the sizes of the rank's batches; the device knows those of batches that it has made.
func (r *rankProfile) addSizes(part *part, step *kernels.Step) error {
	rows := step.Rows
	if share := part.rowShare; share != nil {
		first, end := share.of(rows)
		rows = end - first
	}
	r.sizes.Rows += float64(rows)
	for slot, b := range part.sparse {
		r.sizes.Batches[slot].Entries += float64(len(b.Indices))
		r.sizes.Batches[slot].Items += float64(len(b.Items))
	}
	for _, op := range r.ops {
		if made, is := op.(*kernels.Assemble); is {
			counts := make([]int32, 2)
			if err := part.Device.Read(made.Batch, made.Places.Counts, kernels.Bits(counts)); err != nil {
				return err
			}
			for _, slot := range made.Slots {
				r.sizes.Batches[slot].Entries += float64(counts[0])
				r.sizes.Batches[slot].Items += float64(counts[1])
			}
		}
	}
	return nil
}

// Timings are those of all ranks, in the order of the plan. There was at least one step.
func (f *Profile) Timings() (list []Timing) {
	for n := range f.ranks {
		rank, steps := &f.ranks[n], float64(f.steps)
		mean := kernels.Sizes{Rows: rank.sizes.Rows / steps}
		for _, b := range rank.sizes.Batches {
			mean.Batches = append(mean.Batches, kernels.BatchSizes{Entries: b.Entries / steps, Items: b.Items / steps})
		}
		for i, op := range rank.ops {
			t := Timing{Rank: n, Text: rank.texts[i], Seconds: rank.times[i].Seconds() / steps}
			if counted, is := op.(kernels.Counted); is {
				work := counted.Work(&mean)
				t.Work = &work
			}
			list = append(list, t)
		}
	}
	return list
}

// limits are those of devices that were measured, together, by their descriptions.
var limits struct {
	sync.Mutex
	of map[string][]*kernels.Limits
}

// Limits measures what the ranks' devices can do at best, all at the same time, once in a process for equal devices and
// equal precisions. They are nil where a device does not measure them. No step is under way.
func (p *Program) Limits(precision kernels.Precision) ([]*kernels.Limits, error) {
	key := fmt.Sprint(precision)
	for _, part := range p.parts {
		info := part.Device.Info()
		key += fmt.Sprintf(", %s %s %d", info.Name, info.Kind, info.Threads)
	}
	limits.Lock()
	defer limits.Unlock()
	if found, known := limits.of[key]; known {
		return found, nil
	}
	found := make([]*kernels.Limits, len(p.parts))
	err := p.Together(func(local int) error {
		device, is := p.parts[local].Device.(kernels.Limited)
		if !is {
			return nil
		}
		measured, err := device.Limits(len(p.parts))
		found[local] = &measured
		return err
	})
	if err != nil {
		return nil, err
	}
	if limits.of == nil {
		limits.of = map[string][]*kernels.Limits{}
	}
	limits.of[key] = found
	return found, nil
}
