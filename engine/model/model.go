package model

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"dsstne/engine/fault"
	"dsstne/engine/network"
	"dsstne/engine/strictjson"
)

// Model is a network with its weights. All methods may be called at the same time from several goroutines.
type Model struct {
	network *network.Network
	threads int
	step    atomic.Int64

	access access

	mu         sync.RWMutex // guards what follows
	tensors    []*Tensor    // weights in the order of the network, then names of items if there are any
	attributes map[string]string
	staged     []byte // bytes of names that wait for their offsets
}

// Network is the definition; it must not be changed.
func (m *Model) Network() *network.Network { return m.network }

// Step is the number of updates that the weights have seen.
func (m *Model) Step() int64 { return m.step.Load() }

// SetStep is called by the trainer, which counts.
func (m *Model) SetStep(step int64) { m.step.Store(step) }

// Attributes are the texts that the caller keeps with the model: those of the file, or of the last Save.
func (m *Model) Attributes() map[string]string {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return maps.Clone(m.attributes)
}

// Tensors lists the weights in the order of network.Tensors, then "items.offsets" and "items.bytes" if items have names.
func (m *Model) Tensors() []*Tensor {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return slices.Clone(m.tensors)
}

// Tensor finds a tensor by name; fault.NotFound names the nearest.
func (m *Model) Tensor(name string) (*Tensor, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	names := make([]string, len(m.tensors))
	for i, t := range m.tensors {
		if t.Name == name {
			return t, nil
		}
		names[i] = t.Name
	}
	if name == itemBytes || name == itemOffsets {
		return nil, fault.New(fault.NotFound, "the items of this model have no names (tensors %q and %q are not set)",
			itemBytes, itemOffsets)
	}
	return nil, fault.New(fault.NotFound, "the model has no tensor %q%s", name, strictjson.Suggestion(name, names))
}

// Parameters counts the trainable numbers.
func (m *Model) Parameters() int64 {
	var n int64
	for _, t := range m.Tensors() {
		if t.DType == F32 {
			n += t.Elements()
		}
	}
	return n
}

// Bytes is the memory of all tensors.
func (m *Model) Bytes() int64 {
	var n int64
	for _, t := range m.Tensors() {
		n += t.size
	}
	return n
}

// GetTensor copies a whole tensor to dst, little-endian and row-major; dst must have its size.
func (m *Model) GetTensor(name string, dst []byte) error {
	unlock, err := m.TryRead()
	if err != nil {
		return err
	}
	defer unlock()
	t, err := m.Tensor(name)
	if err != nil {
		return err
	}
	if int64(len(dst)) != t.size {
		return sizeMismatch(t, int64(len(dst)))
	}
	copy(dst, t.Bytes())
	return nil
}

// SetTensor replaces a whole tensor by src, little-endian and row-major. Weights must exist, have the size of src and
// stay finite. "items.bytes" and then "items.offsets" may have any size and give the items names (see items.go).
func (m *Model) SetTensor(name string, src []byte) error {
	unlock, err := m.TryWrite()
	if err != nil {
		return err
	}
	defer unlock()
	switch name {
	case itemBytes:
		return m.stageItemBytes(src)
	case itemOffsets:
		return m.setItemOffsets(src)
	}
	t, err := m.Tensor(name)
	if err != nil {
		return err
	}
	if int64(len(src)) != t.size {
		return sizeMismatch(t, int64(len(src)))
	}
	if at := firstNotFinite(src); at >= 0 {
		return notFinite(t, at, src[4*at:])
	}
	copy(t.Bytes(), src)
	return nil
}

func sizeMismatch(t *Tensor, given int64) error {
	return fault.New(fault.InvalidArgument, "%s is %s %s, %s bytes, but %s bytes (%s elements) were given",
		t.Name, t.DType, shapeText(t.Shape), grouped(t.size), grouped(given), grouped(given/t.DType.Size()))
}

// free gives all memory back; the tensors' views are nil from then on.
func (m *Model) free() {
	m.mu.Lock()
	defer m.mu.Unlock()
	freeTensors(m.tensors)
	m.staged = nil
}

func freeTensors(tensors []*Tensor) {
	for _, t := range tensors {
		t.buffer.Free()
	}
}
