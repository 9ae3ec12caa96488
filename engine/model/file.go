package model

import (
	"cmp"
	"maps"
	"slices"

	"dsstne/engine/modelfile"
	"dsstne/engine/tensor"
	"dsstne/internal/fault"
)

// Load reads a model file with up to threads goroutines (0: as many as the process may use). Every byte is compared
// with its digest and every weight checked to be finite. The weights are read to where they stay, off the Go heap.
//
// A damaged file, or one that is not a model, is fault.CorruptFile; one that a later version wrote in a way that this
// version cannot read is fault.Unsupported; a path without a file is fault.NotFound.
func Load(path string, threads int) (*Model, error) {
	file, err := modelfile.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	m, err := read(file, threads)
	if err != nil {
		return nil, fault.Wrap(err, "%s", path)
	}
	return m, nil
}

// Save writes a model file, see modelfile.Save. Attributes are kept in the file; nil keeps those that the model has,
// and otherwise they are the model's from then on. It is fault.Busy while the model is trained.
func (m *Model) Save(path string, attributes map[string]string) error {
	unlock, err := m.TryRead()
	if err != nil {
		return fault.Wrap(err, "cannot save %s", path)
	}
	defer unlock()
	if err := m.Check(); err != nil {
		return fault.Wrap(err, "cannot save %s", path)
	}
	if attributes == nil {
		attributes = m.Attributes()
	}
	attributes = maps.Clone(attributes)
	delete(attributes, Checkpoint) // what else a checkpoint has is not saved
	if err := modelfile.Save(path, m.Content(attributes), m.threads); err != nil {
		return err
	}
	m.SetAttributes(attributes)
	return nil
}

// SetAttributes replaces the attributes.
func (m *Model) SetAttributes(attributes map[string]string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.attributes = maps.Clone(attributes)
}

// Checkpoint is the attribute that the file of a checkpoint has, which is that of a model with further tensors.
const Checkpoint = "dsstne.checkpoint"

// Content is what the file of the model has. The caller holds TryRead.
func (m *Model) Content(attributes map[string]string) *modelfile.Content {
	return &modelfile.Content{
		Definition: string(m.form.JSON()), IsNetwork: m.Network() != nil, Step: m.Step(),
		Attributes: attributes, Tensors: m.Tensors(),
	}
}

// read makes a model from a file.
func read(file *modelfile.File, threads int) (*Model, error) {
	form, err := ReadForm([]byte(file.Definition), nil)
	if err != nil {
		return nil, fault.New(fault.CorruptFile, "the definition in the header: %v", err)
	}
	if err := checkTensors(file, form); err != nil {
		return nil, err
	}
	m, _, err := allocate(form, threads, 0)
	if err != nil {
		return nil, err
	}
	m.attributes = file.Attributes
	m.SetStep(file.Step)
	if err = m.allocateItems(file); err == nil {
		err = file.Read(m.tensors, threads)
	}
	if err == nil {
		if failure := cmp.Or(m.checkLoadedItems(), m.Check()); failure != nil {
			err = fault.New(fault.CorruptFile, "%v", failure)
		}
	}
	if err != nil {
		m.free()
		return nil, err
	}
	return m, nil
}

// checkTensors wants the file to have every tensor of the form in its shape, before any memory is asked for.
func checkTensors(file *modelfile.File, form Form) error {
	specs, err := form.Specs()
	if err != nil {
		return fault.New(fault.CorruptFile, "the definition in the header: %v", err)
	}
	for _, spec := range specs {
		e, found := file.Entry(spec.Name)
		if !found {
			return fault.New(fault.CorruptFile, "tensor %q of the definition is missing", spec.Name)
		}
		if e.DType != spec.DType.String() || !slices.Equal(e.Shape, spec.Shape) {
			return fault.New(fault.CorruptFile, "tensor %q is %s %s, but the definition wants %s %s", e.Name, e.DType,
				tensor.ShapeText(e.Shape), spec.DType, tensor.ShapeText(spec.Shape))
		}
	}
	return nil
}

// allocateItems allocates the tensors of the items' names, if the file has any. As parts of the file they are not huge.
func (m *Model) allocateItems(file *modelfile.File) error {
	_, hasOffsets := file.Entry(itemOffsets)
	if _, hasText := file.Entry(itemBytes); hasOffsets != hasText {
		return fault.New(fault.CorruptFile, "of the tensors %q and %q one is missing", itemOffsets, itemBytes)
	}
	for _, want := range []tensor.Spec{{Name: itemOffsets, DType: tensor.I64}, {Name: itemBytes, DType: tensor.U8}} {
		e, found := file.Entry(want.Name)
		if !found {
			continue
		}
		if e.DType != want.DType.String() || len(e.Shape) != 1 {
			return fault.New(fault.CorruptFile, "tensor %q is %s %s instead of a list of %s", e.Name, e.DType,
				tensor.ShapeText(e.Shape), want.DType)
		}
		t, err := tensor.New(e.Name, want.DType, e.Shape, -1)
		if err != nil {
			return err
		}
		m.tensors = append(m.tensors, t)
	}
	return nil
}

// checkLoadedItems is checkItems for names that came from a file.
func (m *Model) checkLoadedItems() error {
	names := slices.DeleteFunc(m.Tensors(), func(t *tensor.Tensor) bool { return t.Layer >= 0 })
	if len(names) == 0 {
		return nil
	}
	return checkItems(m.form, names[0].Int64(), names[1].Bytes())
}
