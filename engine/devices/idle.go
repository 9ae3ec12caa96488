package devices

import (
	"slices"
	"sync"

	"dsstne/engine/model"
	"dsstne/kernels"
)

// Opening CUDA devices takes tenths of a second each, joining them longer, and copying a large model's weights to them as long.
// So a placement that is closed stays open, idle, with the weights that it has been given for reading, until the next one of
// the same kind takes it: whoever asks a model again and again pays once. It goes when memory is short, when its model is closed
// (the weights), or when the process ends.

// mostIdle is how many idle placements are kept; the oldest are closed.
const mostIdle = 4

// Opened is a placement that is ready to use.
type Opened struct {
	Ranks []kernels.Rank
	// Copies are what devices that do not reach a model's memory have of its weights, for reading; nil where nobody reads.
	Copies *Copies
	key    string // what equal placements have in common; empty if it is not to be kept
}

var idle struct {
	sync.Mutex
	off  bool
	list []*Opened
}

// KeepIdle says whether placements that are closed stay open for the next one; those that are idle are closed if not.
func KeepIdle(keep bool) {
	idle.Lock()
	defer idle.Unlock()
	idle.off = !keep
	if idle.off {
		closeIdle(func(*Opened) bool { return true })
	}
}

// wake takes an idle placement, if there is one with copies of the model, or else without copies. Those whose devices do not
// answer any more are closed: while one is open, so is their context.
func wake(key string, m *model.Model) *Opened {
	idle.Lock()
	defer idle.Unlock()
	closeIdle(func(o *Opened) bool { return !o.healthy() })
	best := -1
	for n, o := range idle.list {
		if o.key == key && (best < 0 || o.suits(m) > idle.list[best].suits(m)) {
			best = n
		}
	}
	if best < 0 {
		return nil
	}
	o := idle.list[best]
	idle.list = slices.Delete(idle.list, best, best+1)
	return o
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

// forget frees what idle placements have of a model.
func forget(m *model.Model) {
	idle.Lock()
	defer idle.Unlock()
	for _, o := range idle.list {
		if o.Copies != nil && o.Copies.model == m {
			o.leaveModel()
			o.trim()
		}
	}
}

// MakeRoom closes all that is idle, and reports whether that was anything.
func MakeRoom() bool {
	idle.Lock()
	defer idle.Unlock()
	found := len(idle.list) > 0
	closeIdle(func(*Opened) bool { return true })
	return found
}

// closeIdle closes some of those that are idle. What they say does not matter: nobody uses them.
func closeIdle(which func(*Opened) bool) {
	idle.list = slices.DeleteFunc(idle.list, func(o *Opened) bool {
		if which(o) {
			_ = o.close()
			return true
		}
		return false
	})
}

// healthy tells whether all devices answer, nothing is under way on them, and they are joined.
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
	if o.Copies != nil && o.Copies.model != reads {
		o.leaveModel()
	}
	if reads != nil && o.Copies == nil {
		o.Copies = &Copies{model: reads}
	}
}

// leaveModel frees the copies.
func (o *Opened) leaveModel() {
	if o.Copies != nil {
		o.Copies.free()
		o.Copies = nil
	}
}

func (o *Opened) close() error {
	o.leaveModel()
	return closeAll(o.Ranks)
}
