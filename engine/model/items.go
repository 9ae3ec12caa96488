package model

import (
	"encoding/binary"
	"slices"
	"strings"
	"unicode/utf8"

	"dsstne/engine/tensor"
	"dsstne/internal/fault"
)

// Names of items are two tensors, as in Arrow: the name of item i is items.bytes[items.offsets[i]:items.offsets[i+1]].
const (
	itemBytes   = "items.bytes"   // U8, UTF-8
	itemOffsets = "items.offsets" // I64, one more than there are items
)

// stageItemBytes keeps the text of the names until setItemOffsets cuts it; the model's own names stay until then.
func (m *Model) stageItemBytes(src []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.staged = append([]byte{}, src...) // never nil, so that an empty text counts as given
	return nil
}

// setItemOffsets cuts the staged text, or the present names' text if none is staged, and makes it the model's.
func (m *Model) setItemOffsets(src []byte) error {
	if len(src)%8 != 0 {
		return fault.New(fault.InvalidArgument, "%s has 8 bytes an element, %s bytes are not a multiple of that",
			itemOffsets, fault.Grouped(int64(len(src))))
	}
	offsets := make([]int64, len(src)/8)
	for i := range offsets {
		offsets[i] = int64(binary.LittleEndian.Uint64(src[8*i:]))
	}
	m.mu.RLock()
	text := m.staged
	m.mu.RUnlock()
	if text == nil {
		present, err := m.Tensor(itemBytes)
		if err != nil {
			return fault.New(fault.InvalidState, "set %q before %q: the names are cut out of it", itemBytes, itemOffsets)
		}
		text = slices.Clone(present.Bytes())
	}
	if err := checkItems(m.form, offsets, text); err != nil {
		return err
	}
	return m.replaceItems(src, text)
}

// checkItems returns an error if names cannot be those of the form's items.
func checkItems(form Form, offsets []int64, text []byte) error {
	if err := checkItemCount(form, int64(len(offsets))-1); err != nil {
		return err
	}
	if offsets[0] != 0 {
		return fault.New(fault.InvalidArgument, "%s begins with %d instead of 0", itemOffsets, offsets[0])
	}
	if last := offsets[len(offsets)-1]; last != int64(len(text)) {
		return fault.New(fault.InvalidArgument, "%s ends with %s, but %s has %s bytes", itemOffsets, fault.Grouped(last),
			itemBytes, fault.Grouped(int64(len(text))))
	}
	for i := 1; i < len(offsets); i++ {
		if offsets[i] < offsets[i-1] || offsets[i] > int64(len(text)) {
			return fault.New(fault.InvalidArgument, "%s[%d] is %d after %d: offsets must not decrease, nor exceed %d",
				itemOffsets, i, offsets[i], offsets[i-1], len(text))
		}
		if name := text[offsets[i-1]:offsets[i]]; !utf8.Valid(name) {
			return fault.New(fault.InvalidArgument, "the name of item %d, %q, is not UTF-8", i-1, name)
		}
	}
	return nil
}

// checkItemCount wants as many names as an output layer has units.
func checkItemCount(form Form, count int64) error {
	var list []string
	for _, layer := range form.Ports() {
		if layer.Scores && layer.Size == count {
			return nil
		}
		if layer.Scores {
			list = append(list, layer.Name+" has "+fault.Grouped(layer.Size))
		}
	}
	if len(list) == 0 {
		return fault.New(fault.InvalidArgument, "the model has no output layer, so there are no items to name")
	}
	outputs := strings.Join(list, ", ")
	if count < 0 {
		return fault.New(fault.InvalidArgument, "%s is empty; it needs one element more than there are items (%s)",
			itemOffsets, outputs)
	}
	return fault.New(fault.InvalidArgument, "%s names were given, but output layer %s; "+
		"%s needs one element more than that", fault.Grouped(count), outputs, itemOffsets)
}

// replaceItems makes two new tensors the model's and frees the ones before.
func (m *Model) replaceItems(offsets, text []byte) error {
	cuts, err := tensor.New(itemOffsets, tensor.I64, []int64{int64(len(offsets) / 8)}, -1)
	if err != nil {
		return err
	}
	names, err := tensor.New(itemBytes, tensor.U8, []int64{int64(len(text))}, -1)
	if err != nil {
		cuts.Free()
		return err
	}
	copy(cuts.Bytes(), offsets)
	copy(names.Bytes(), text)
	m.mu.Lock()
	defer m.mu.Unlock()
	kept := make([]*tensor.Tensor, 0, len(m.tensors)+2)
	for _, t := range m.tensors {
		if t.Layer >= 0 {
			kept = append(kept, t)
		} else {
			t.Free()
		}
	}
	m.tensors = append(kept, cuts, names)
	m.staged = nil
	return nil
}
