//go:build !nocuda && linux && amd64

package cuda

import (
	"errors"
	"slices"

	"dsstne/internal/fault"
	"dsstne/kernels"
)

// resident is a device's right to read a dataset.
type resident struct {
	*keptData
	reader *device
}

// The parts of a keptData.
const (
	partOffsets = iota // int64 [rows + 1]
	partIndices
	partValues // none where all are 1
	partSums
	partNorms // float64 [rows], only for data that are scaled
	partScaledSums
	partIndex // int64 [listed], only where a list names the rows
	partCount
)

// KeepSize is the memory of Keep.
func (d *device) KeepSize(data *kernels.Data) (size int64) {
	for _, n := range keptElements(data) {
		if n > 0 {
			size += sizeClass(4 * n)
		}
	}
	return size
}

// keptElements are the sizes of a dataset's parts in elements of 4 bytes.
func keptElements(data *kernels.Data) [partCount]int64 {
	n := [partCount]int64{partOffsets: 2 * (data.Rows + 1), partIndices: data.Entries, partSums: data.Rows}
	if data.Values {
		n[partValues] = data.Entries
	}
	if data.Index != nil {
		n[partIndex] = 2 * data.Listed
	}
	if data.Scaled {
		n[partNorms], n[partScaledSums] = 2*data.Rows, data.Rows
	}
	return n
}

// copy copies a dataset to the device that it is kept by, block by block through pinned memory.
func (k *keptData) copy(data *kernels.Data) error {
	for i, n := range keptElements(data) {
		if n == 0 {
			continue
		}
		b, err := k.device.Alloc(n)
		if err != nil {
			return err
		}
		k.parts[i] = b.(*buffer)
	}
	return k.device.do("copying a dataset", func() error {
		return k.device.throughPinned(func(t *transfer) error { return k.send(data, t) })
	})
}

// send sends a dataset's parts.
func (k *keptData) send(data *kernels.Data, t *transfer) error {
	var row, entry int64
	offsets := []int64{0}
	err := data.Blocks(func(b kernels.DataBlock) error {
		rows, entries := int64(len(b.Lengths)), int64(len(b.Indices))
		if row+rows > data.Rows || entry+entries > data.Entries {
			return fault.New(fault.InvalidData, "the matrix grew while it was read: it must not be changed while it is in use")
		}
		for _, n := range b.Lengths {
			offsets = append(offsets, offsets[len(offsets)-1]+int64(n))
		}
		p := &k.parts
		err := errors.Join(
			sendPart(t, p[partOffsets], 2*row, offsets), sendPart(t, p[partIndices], entry, b.Indices),
			sendPart(t, p[partValues], entry, b.Values), sendPart(t, p[partSums], row, b.Sums),
			sendPart(t, p[partNorms], 2*row, b.Norms), sendPart(t, p[partScaledSums], row, b.ScaledSums))
		row, entry = row+rows, entry+entries
		offsets = append(offsets[:0], entry)
		return err
	})
	if err != nil {
		return err
	}
	if err := sendPart(t, k.parts[partOffsets], 2*row, offsets); err != nil || data.Index == nil {
		return err
	}
	place := int64(0)
	return data.Index(func(rows []int64) error {
		if place+int64(len(rows)) > data.Listed || slices.Max(rows) >= row || slices.Min(rows) < 0 {
			return fault.New(fault.InvalidData, "the index changed while it was read: it must not be changed while it is in use")
		}
		err := sendPart(t, k.parts[partIndex], 2*place, rows)
		place += int64(len(rows))
		return err
	})
}

// sendPart sends numbers of a part that the dataset may not have, from an element on.
func sendPart[T any](t *transfer, to *buffer, at int64, x []T) error {
	if to == nil {
		return nil
	}
	return send(t, element(to, at), x)
}
