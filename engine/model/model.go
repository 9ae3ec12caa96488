package model

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"dsstne/engine/strictjson"
	"dsstne/engine/tensor"
	"dsstne/internal/fault"
	"dsstne/kernels"
)

// Model is a form with its tensors. All methods may be called at the same time from several goroutines.
type Model struct {
	form    Form
	threads int
	step    atomic.Int64
	checked atomic.Int64 // the count of changes, plus 1, when Check last found the tensors in order

	access access

	mu         sync.RWMutex     // guards what follows
	tensors    []*tensor.Tensor // those of the form in its order, then names of items if there are any
	attributes map[string]string
	staged     []byte // bytes of names that wait for their offsets
}

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

// Attribute is one of them; fault.NotFound names the nearest.
func (m *Model) Attribute(name string) (string, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	text, found := m.attributes[name]
	if !found {
		known := slices.Sorted(maps.Keys(m.attributes))
		return "", fault.New(fault.NotFound, "the model has no attribute %q%s", name, strictjson.Suggestion(name, known))
	}
	return text, nil
}

// Tensors lists the tensors of the form in its order, then "items.offsets" and "items.bytes" if items have names.
func (m *Model) Tensors() []*tensor.Tensor {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return slices.Clone(m.tensors)
}

// Tensor finds a tensor by name; fault.NotFound names the nearest.
func (m *Model) Tensor(name string) (*tensor.Tensor, error) {
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

// Buffer is the memory of a tensor.
func (m *Model) Buffer(name string) (kernels.Buffer, error) {
	t, err := m.Tensor(name)
	if err != nil {
		return nil, err
	}
	return t.Buffer(), nil
}

// Parameters counts the floating-point numbers, which are all that is trained or given.
func (m *Model) Parameters() int64 {
	var n int64
	for _, t := range m.Tensors() {
		if t.DType.IsFloat() {
			n += t.Elements()
		}
	}
	return n
}

// Bytes is the memory of all tensors.
func (m *Model) Bytes() int64 {
	var n int64
	for _, t := range m.Tensors() {
		n += t.Size()
	}
	return n
}

// free gives all memory back; the tensors' views are nil from then on.
func (m *Model) free() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, t := range m.tensors {
		t.Free()
	}
	m.staged = nil
}
