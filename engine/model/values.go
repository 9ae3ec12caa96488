package model

import (
	"dsstne/engine/tensor"
	"dsstne/internal/fault"
)

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
	if int64(len(dst)) != t.Size() {
		return sizeMismatch(t, int64(len(dst)))
	}
	copy(dst, t.Bytes())
	return nil
}

// SetTensor replaces a whole tensor by src, little-endian and row-major. Tensors other than names must exist and have
// the size of src, and floating-point numbers must be finite. "items.bytes" and then "items.offsets" set names
// (items.go).
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
	if int64(len(src)) != t.Size() {
		return sizeMismatch(t, int64(len(src)))
	}
	return replace(t, 0, src)
}

// GetRows copies n rows of a tensor from row first on to dst, which must have their size. A row is everything that has
// the same first index.
func (m *Model) GetRows(name string, first, n int64, dst []byte) error {
	unlock, err := m.TryRead()
	if err != nil {
		return err
	}
	defer unlock()
	t, err := m.Tensor(name)
	if err != nil {
		return err
	}
	begin, end, err := rowBytes(t, first, n, int64(len(dst)))
	if err != nil {
		return err
	}
	copy(dst, t.Bytes()[begin:end])
	return nil
}

// SetRows replaces n rows of a tensor from row first on by src; the rules are those of SetTensor. Names of items are
// replaced as a whole only, because their number of bytes changes.
func (m *Model) SetRows(name string, first, n int64, src []byte) error {
	unlock, err := m.TryWrite()
	if err != nil {
		return err
	}
	defer unlock()
	if name == itemBytes || name == itemOffsets {
		return fault.New(fault.InvalidArgument, "%s cannot be set by rows; set the names of items as a whole", name)
	}
	t, err := m.Tensor(name)
	if err != nil {
		return err
	}
	begin, _, err := rowBytes(t, first, n, int64(len(src)))
	if err != nil {
		return err
	}
	return replace(t, begin, src)
}

// rowBytes is the range of bytes that n rows of a tensor take, which must be as many as the caller's memory has.
func rowBytes(t *tensor.Tensor, first, n, given int64) (begin, end int64, err error) {
	rows := t.Shape[0]
	if first < 0 || n < 0 || first > rows || n > rows-first {
		return 0, 0, fault.New(fault.InvalidArgument, "%s has %s rows, which do not include %s from row %s on", t.Name,
			fault.Grouped(rows), fault.Grouped(n), fault.Grouped(first))
	}
	if rows > 0 {
		row := t.Size() / rows
		begin, end = first*row, (first+n)*row
	}
	if given != end-begin {
		return 0, 0, fault.New(fault.InvalidArgument, "%s rows of %s, %s %s, are %s bytes, but %s bytes were given",
			fault.Grouped(n), t.Name, t.DType, tensor.ShapeText(t.Shape), fault.Grouped(end-begin), fault.Grouped(given))
	}
	return begin, end, nil
}

// replace replaces the bytes of a tensor from a place on, in private memory. Floating-point numbers must be finite.
func replace(t *tensor.Tensor, at int64, src []byte) error {
	if t.DType.IsFloat() {
		if err := t.CheckFinite(at, src); err != nil {
			return err
		}
	}
	if err := own(t); err != nil {
		return err
	}
	copy(t.Bytes()[at:], src)
	return nil
}

func sizeMismatch(t *tensor.Tensor, given int64) error {
	return fault.New(fault.InvalidArgument, "%s is %s %s, %s bytes, but %s bytes (%s elements) were given",
		t.Name, t.DType, tensor.ShapeText(t.Shape), fault.Grouped(t.Size()), fault.Grouped(given),
		fault.Grouped(given/t.DType.Size()))
}
