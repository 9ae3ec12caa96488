package kernels

import "slices"

// HostBackend is embedded by backends whose devices compute in the memory of the process.
type HostBackend struct{}

// Extras lists none.
func (HostBackend) Extras() []Extra { return nil }

// Join is NewHostGroup.
func (HostBackend) Join(devices []Device) ([]Communicator, error) {
	return NewHostGroup(len(devices)), nil
}

// HostMemory is embedded by devices that compute in the memory of the process: whatever the host can view, they reach,
// and what the host writes is there at once.
type HostMemory struct{}

// Alloc is AllocHost.
func (HostMemory) Alloc(n int64) (Buffer, error) {
	b, err := AllocHost(n)
	if err != nil {
		return nil, err // b, which is nil, would be a Buffer that is not
	}
	return b, nil
}

// Reaches is true for buffers that have a host view.
func (HostMemory) Reaches(b Buffer) bool { return b.Len() == 0 || b.Float32() != nil }

// Write copies into the host's view.
func (HostMemory) Write(to Buffer, at int64, from []float32) error {
	copy(to.Float32()[at:at+int64(len(from))], from)
	return nil
}

// Read copies from the host's view.
func (HostMemory) Read(from Buffer, at int64, to []float32) error {
	copy(to, from.Float32()[at:at+int64(len(to))])
	return nil
}

// Available is HostAvailable.
func (HostMemory) Available() int64 { return HostAvailable() }

// Trim has nothing to give back.
func (HostMemory) Trim() {}

// HostSteps is embedded by devices whose ops are done when they return: no step is ever under way.
type HostSteps struct{ done, returned []Result }

// Run does a step.
func (h *HostSteps) Run(rank Rank, list *List, s *Step) error {
	err := list.Do(rank, s)
	if err == nil {
		h.done = append(h.done, Result{Number: s.Number, Rows: s.WholeRows(), Loss: slices.Clone(s.Loss)})
	}
	return err
}

// Settle has nothing to wait for.
func (h *HostSteps) Settle(int) ([]Result, error) {
	h.done, h.returned = h.returned[:0], h.done
	return h.returned, nil
}
