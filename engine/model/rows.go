package model

import (
	"unsafe"

	"dsstne/engine/tensor"
	"dsstne/internal/fault"
)

// SetRows replaces rows of a matrix, from number first on, by rows of float32 with as many columns, which must be
// finite. The other rows stay.
func (m *Model) SetRows(name string, first int64, rows []float32, columns int64) error {
	unlock, err := m.TryWrite()
	if err != nil {
		return err
	}
	defer unlock()
	t, err := m.Tensor(name)
	if err != nil {
		return err
	}
	if t.DType != tensor.F32 || len(t.Shape) != 2 {
		return fault.New(fault.InvalidArgument, "%s is %s %s, not a matrix of float32 numbers; set the whole tensor", name,
			t.DType, tensor.ShapeText(t.Shape))
	}
	if columns != t.Shape[1] {
		return fault.New(fault.InvalidArgument, "%s has %d columns, but the rows have %d", name, t.Shape[1], columns)
	}
	n := int64(0)
	if columns > 0 {
		n = int64(len(rows)) / columns
	}
	if first < 0 || first > t.Shape[0] || n > t.Shape[0]-first {
		return fault.New(fault.InvalidArgument, "%s has %s rows; %s rows from row %s on do not fit", name,
			fault.Grouped(t.Shape[0]), fault.Grouped(n), fault.Grouped(first))
	}
	if n == 0 {
		return nil
	}
	src := unsafe.Slice((*byte)(unsafe.Pointer(&rows[0])), 4*len(rows))
	if err := t.CheckFinite(4*first*columns, src); err != nil {
		return err
	}
	if err := own(t); err != nil {
		return err
	}
	copy(t.Bytes()[4*first*columns:], src)
	return nil
}
