package program

import (
	"slices"
	"sync"

	"dsstne/engine/fault"
	"dsstne/engine/model"
)

// Opening CUDA devices takes tenths of a second each, joining them longer, and copying a large model's weights to them as long.
// So a placement that is closed stays open, idle, with the weights that it has been given for reading, until the next one of
// the same kind takes it: whoever asks a model again and again pays once. It goes when memory is short, when its model is closed
// (the weights), or when the process ends.

// mostIdle is how many idle placements are kept; the oldest are closed.
const mostIdle = 4

// opened is a placement that is ready to use.
type opened struct {
	ranks  []Rank
	key    string  // what equal placements have in common; empty if it is not to be kept
	copies *Copies // what its devices have of a model; may be nil
}

var idle struct {
	sync.Mutex
	off  bool
	list []*opened
}

// KeepIdle says whether placements that are closed stay open for the next one; those that are idle are closed if not.
func KeepIdle(keep bool) {
	idle.Lock()
	defer idle.Unlock()
	idle.off = !keep
	if idle.off {
		closeIdle(func(*opened) bool { return true })
	}
}

// wake takes an idle placement, if there is one with copies of the model, or else without copies. Those whose devices do not
// answer any more are closed: while one is open, so is their context.
func wake(key string, m *model.Model) *opened {
	idle.Lock()
	defer idle.Unlock()
	closeIdle(func(o *opened) bool { return !o.healthy() })
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

func (o *opened) suits(m *model.Model) int {
	switch {
	case o.copies == nil:
		return 1
	case o.copies.model == m:
		return 2
	}
	return 0
}

// rest closes a placement, or keeps it.
func (o *opened) rest() error {
	idle.Lock()
	defer idle.Unlock()
	if o.key == "" || idle.off || !o.healthy() {
		return o.close()
	}
	if o.copies != nil {
		m := o.copies.model
		m.AtClose(func() { forget(m) })
	}
	o.trim()
	idle.list = append(idle.list, o)
	if len(idle.list) > mostIdle {
		oldest := idle.list[0]
		closeIdle(func(o *opened) bool { return o == oldest })
	}
	return nil
}

// forget frees what idle placements have of a model.
func forget(m *model.Model) {
	idle.Lock()
	defer idle.Unlock()
	for _, o := range idle.list {
		if o.copies != nil && o.copies.model == m {
			o.leaveModel()
			o.trim()
		}
	}
}

// makeRoom closes all that is idle, and tells whether that was anything.
func makeRoom() bool {
	idle.Lock()
	defer idle.Unlock()
	found := len(idle.list) > 0
	closeIdle(func(*opened) bool { return true })
	return found
}

// withRoom tries again without what is idle when memory has run out.
func withRoom[T any](build func() (T, error)) (T, error) {
	built, err := build()
	if fault.KindOf(err) == fault.OutOfMemory && makeRoom() {
		return build()
	}
	return built, err
}

// closeIdle closes some of those that are idle. What they say does not matter: nobody uses them.
func closeIdle(which func(*opened) bool) {
	idle.list = slices.DeleteFunc(idle.list, func(o *opened) bool {
		if which(o) {
			_ = o.close()
			return true
		}
		return false
	})
}

// healthy tells whether all devices answer, nothing is under way on them, and they are joined.
func (o *opened) healthy() bool {
	for _, r := range o.ranks {
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
func (o *opened) trim() {
	for _, r := range o.ranks {
		r.Device.Trim()
	}
}

// serve makes the copies those of the model that will be read; nil: there are to be none.
func (o *opened) serve(reads *model.Model) {
	if o.copies != nil && o.copies.model != reads {
		o.leaveModel()
	}
	if reads != nil && o.copies == nil {
		o.copies = &Copies{model: reads}
	}
}

// leaveModel frees the copies.
func (o *opened) leaveModel() {
	if o.copies != nil {
		o.copies.free()
		o.copies = nil
	}
}

func (o *opened) close() error {
	o.leaveModel()
	return Close(o.ranks)
}
