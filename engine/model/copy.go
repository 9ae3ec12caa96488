package model

import (
	"slices"

	"dsstne/engine/tensor"
	"dsstne/internal/fault"
	"dsstne/kernels"
)

// Copy makes a model of the same network, weights, step, names and attributes. The two share the memory of their
// tensors until one of them is changed, which gets private copies first (Own). While the model is trained it is
// fault.Busy.
func (m *Model) Copy() (*Model, error) {
	unlock, err := m.TryRead()
	if err != nil {
		return nil, err
	}
	defer unlock()
	c := &Model{form: m.form, threads: m.threads, attributes: m.Attributes()}
	c.SetStep(m.Step())
	for _, t := range m.Tensors() {
		c.tensors = append(c.tensors, t.Share())
	}
	return c, nil
}

// Shared lists the weights whose memory another model has too. Names of items are never written, only replaced.
func (m *Model) Shared() []*tensor.Tensor {
	var shared []*tensor.Tensor
	for _, t := range m.Tensors() {
		if t.Layer >= 0 && t.IsShared() {
			shared = append(shared, t)
		}
	}
	return shared
}

// Own gives the model private copies of the weights that it shares, but for those that nobody will change, by name; the
// buffers stay the same. The caller holds TryWrite. Copies that do not fit into memory are fault.OutOfMemory before
// anything is copied.
func (m *Model) Own(unchanged map[string]bool) error {
	return own(slices.DeleteFunc(m.Shared(), func(t *tensor.Tensor) bool { return unchanged[t.Name] })...)
}

// own makes private copies of those of the tensors that are shared.
func own(tensors ...*tensor.Tensor) error {
	var bytes int64
	for _, t := range tensors {
		if t.IsShared() {
			bytes += t.Size()
		}
	}
	if bytes >= looksUp {
		if available := kernels.HostAvailable(); available >= 0 && bytes > available {
			return fault.New(fault.OutOfMemory, "the weights are shared with a copy of the model, and changing them needs "+
				"private ones of %.4g GB, the available memory is %.4g GB; nothing was copied",
				float64(bytes)/1e9, float64(available)/1e9)
		}
	}
	for _, t := range tensors {
		if err := t.Own(); err != nil {
			return err
		}
	}
	return nil
}
