package train

import (
	"slices"

	"dsstne/engine/devices"
	"dsstne/engine/program"
	"dsstne/engine/tensor"
	"dsstne/internal/parallel"
)

// snapshot is memory for copies of weights and states, from which a checkpoint is written beside training. It is kept
// from one checkpoint to the next, since memory that is new is slow.
type snapshot struct {
	tensors []*tensor.Tensor
	refused bool // there is no memory for it
}

// snapshotOf begins the description of the plan's part.
const snapshotOf = "copies of weights and optimizer state, to write checkpoints beside training"

// withSnapshot adds the memory of a snapshot to a specification if it fits beside the rest.
func (t *Trainer) withSnapshot(spec program.Spec) (program.Spec, error) {
	draft, err := program.Draft(spec)
	if err != nil {
		return spec, err
	}
	var bytes int64
	for _, w := range t.Model.Tensors() {
		bytes += w.Size()
	}
	for _, s := range draft.States() {
		bytes += 4 * s.Rows * s.Columns
	}
	part := program.Part{
		Name: "checkpoint", Of: snapshotOf, Bytes: bytes, Device: program.HostName(t.Ranks[0].Device),
		Held: t.snapshot.bytes() >= bytes,
	}
	if t.program == nil { // else it was decided
		parts := append(slices.Clone(draft.Plan.Parts), part)
		t.snapshot.refused = program.Fits(t.Ranks, t.options.Placement.Limit, parts, devices.MakeRoom) != nil
	}
	if !t.snapshot.refused {
		spec.Held = append(spec.Held, part)
	} else if t.saving == nil {
		t.snapshot.free()
	}
	return spec, nil
}

func (s *snapshot) bytes() (sum int64) {
	for _, w := range s.tensors {
		sum += w.Size()
	}
	return sum
}

// reserve allocates the memory that was planned, and writes it once, so that no step waits for the system to clear it.
func (t *Trainer) reserve() error {
	if !t.options.Checkpoints || t.snapshot.refused || t.saving != nil { // while it is written, it is there
		return nil
	}
	states, err := t.states()
	if tensors := append(t.Model.Tensors(), states...); err == nil && t.snapshot.fits(t, tensors) {
		t.snapshot.take(tensors, t.options.Placement.Threads)
	}
	free(states)
	return err
}

// fits allocates what the snapshot lacks, if there is memory for it.
func (s *snapshot) fits(t *Trainer, tensors []*tensor.Tensor) bool {
	if s.refused {
		return false
	}
	missing := slices.DeleteFunc(slices.Clone(tensors), func(w *tensor.Tensor) bool { return s.find(w) != nil })
	if len(missing) == 0 {
		return true
	}
	if !t.options.Checkpoints || t.program == nil { // else they were planned
		var parts []program.Part
		if t.program != nil {
			parts = slices.Clone(t.program.Plan.Parts)
		}
		for n := range parts {
			parts[n].Held = true
		}
		for _, w := range missing {
			parts = append(parts, program.Part{
				Name: "checkpoint", Of: snapshotOf, Bytes: w.Size(), Device: program.HostName(t.Ranks[0].Device),
			})
		}
		if program.Fits(t.Ranks, t.options.Placement.Limit, parts, devices.MakeRoom) != nil {
			return false
		}
	}
	for _, w := range missing {
		made, err := tensor.New(w.Name, w.DType, w.Shape, w.Layer)
		if err != nil {
			return false
		}
		s.tensors = append(s.tensors, made)
	}
	return true
}

// find is the copy of a tensor.
func (s *snapshot) find(w *tensor.Tensor) *tensor.Tensor {
	n := slices.IndexFunc(s.tensors, func(c *tensor.Tensor) bool { return c.Name == w.Name && c.Size() == w.Size() })
	if n < 0 {
		return nil
	}
	return s.tensors[n]
}

// take copies tensors, for which fits has found memory.
func (s *snapshot) take(tensors []*tensor.Tensor, threads int) []*tensor.Tensor {
	const piece = 4 << 20
	type part struct{ to, from []byte }
	var parts []part
	taken := make([]*tensor.Tensor, len(tensors))
	for n, w := range tensors {
		taken[n] = s.find(w)
		to, from := taken[n].Bytes(), w.Bytes()
		for at := 0; at < len(from); at += piece {
			end := min(at+piece, len(from))
			parts = append(parts, part{to[at:end], from[at:end]})
		}
	}
	_ = parallel.Do(threads, len(parts), func(n int) error {
		copy(parts[n].to, parts[n].from)
		return nil
	})
	return taken
}

// free gives the memory back.
func (s *snapshot) free() {
	free(s.tensors)
	s.tensors = nil
}
