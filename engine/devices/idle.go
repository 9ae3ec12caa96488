package devices

import (
	"slices"
	"sync"

	"dsstne/engine/model"
	"dsstne/kernels"
)

// Opening CUDA devices takes tenths of a second each, joining them longer, and copying a large model's weights to them
// as long. So a placement that is closed stays open, idle, with its copies of weights, until the next equal placement
// takes it. It goes when memory is short, when its model is closed (the copies), or when the process ends.

// mostIdle is the greatest number of idle placements; the oldest are closed.
const mostIdle = 4

// Opened is a placement that is ready to use.
type Opened struct {
	Ranks  []kernels.Rank
	Copies *Copies // of the weights of the model that is read; nil where nobody reads
	// Precision is that of products, on all devices.
	Precision kernels.Precision
	key       string // that equal placements share; empty: not to be kept
	threads   int    // of all ranks, on the host; 0 elsewhere
	named     bool   // whether the user named a number of threads
	share     int    // of the threads that a run has at the moment; 0: it has all
}

var idle struct {
	sync.Mutex
	off  bool
	list []*Opened
}

// KeepIdle sets whether placements that are closed stay open for the next one; if not, it closes those that are idle.
func KeepIdle(keep bool) {
	idle.Lock()
	defer idle.Unlock()
	if idle.off = !keep; idle.off {
		closeIdle(every)
	}
}

// wake takes an idle placement: one with copies of the model's weights, else one without copies, else any. It closes
// those whose devices have stopped answering: while one is open, so is their context.
func wake(key string, m *model.Model) *Opened {
	idle.Lock()
	defer idle.Unlock()
	closeIdle(func(o *Opened) bool { return !o.healthy() })
	var best *Opened
	for _, o := range idle.list {
		if o.key == key && (best == nil || o.suits(m) > best.suits(m)) {
			best = o
		}
	}
	idle.list = slices.DeleteFunc(idle.list, func(o *Opened) bool { return o == best })
	return best
}

func (o *Opened) suits(m *model.Model) int {
	switch {
	case o.Copies == nil:
		return 1
	case o.Copies.model == m:
		return 2
	}
	return 0
}

// Rest ends the use of a placement: it is closed, or kept open for the next use.
func (o *Opened) Rest() error {
	idle.Lock()
	defer idle.Unlock()
	if o.key == "" || idle.off || !o.healthy() {
		return o.close()
	}
	if o.Copies != nil {
		m := o.Copies.model
		m.AtClose(func() { forget(m) })
	}
	o.trim()
	idle.list = append(idle.list, o)
	if len(idle.list) > mostIdle {
		oldest := idle.list[0]
		closeIdle(func(o *Opened) bool { return o == oldest })
	}
	return nil
}

// forget frees the copies that idle placements have of a model's weights.
func forget(m *model.Model) {
	idle.Lock()
	defer idle.Unlock()
	for _, o := range idle.list {
		if o.Copies != nil && o.Copies.model == m {
			o.serve(nil)
			o.trim()
		}
	}
}

// MakeRoom closes all idle placements, and reports whether there were any.
func MakeRoom() bool {
	idle.Lock()
	defer idle.Unlock()
	found := len(idle.list) > 0
	closeIdle(every)
	return found
}

func every(*Opened) bool { return true }

// closeIdle closes some idle placements. Their errors do not matter: nobody uses them.
func closeIdle(which func(*Opened) bool) {
	idle.list = slices.DeleteFunc(idle.list, func(o *Opened) bool {
		closes := which(o)
		if closes {
			_ = o.close()
		}
		return closes
	})
}

// healthy reports whether all devices answer, nothing is under way on them, and they are joined.
func (o *Opened) healthy() bool {
	for _, r := range o.Ranks {
		if r.Communicator != nil && r.Communicator.Reset() != nil {
			return false
		}
		if _, err := r.Device.Settle(0); err != nil || r.Device.Available() < 0 {
			return false
		}
	}
	return true
}

// trim gives spare memory back.
func (o *Opened) trim() {
	for _, r := range o.Ranks {
		r.Device.Trim()
	}
}

// serve makes the copies those of the model that will be read; nil: there are to be none.
func (o *Opened) serve(reads *model.Model) {
	if o.Copies != nil && o.Copies.model == reads {
		return
	}
	o.Copies.free()
	o.Copies = nil
	if reads != nil {
		o.Copies = &Copies{reads, map[copyKey]*weightCopy{}}
	}
}

func (o *Opened) close() error {
	o.serve(nil)
	return closeAll(o.Ranks)
}
