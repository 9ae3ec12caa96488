//go:build !nocuda && linux && amd64

package cuda

import (
	"errors"
	"unsafe"

	"dsstne/internal/fault"
	"dsstne/kernels"
	"dsstne/kernels/cuda/driver"
)

// uploadBlock is the size of each of the two pinned buffers that a dataset passes through.
const uploadBlock = 8 << 20

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
		u := &upload{device: k.device}
		err := u.run(k, data)
		return errors.Join(err, u.free())
	})
}

// upload sends arrays through two pinned buffers in turn: one is filled while the other is on its way.
type upload struct {
	device *device
	stage  [2]pinned
	turn   int
	used   int64 // bytes of the buffer whose turn it is
}

type pinned struct {
	memory unsafe.Pointer
	sent   driver.Event
	busy   bool
}

func (u *upload) run(k *keptData, data *kernels.Data) error {
	for i := range u.stage {
		var err error
		if u.stage[i].sent, err = driver.NewEvent(); err != nil {
			return err
		}
		if u.stage[i].memory, err = driver.HostAlloc(uploadBlock); err != nil {
			return err
		}
	}
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
			send(u, p[partOffsets], 2*row, offsets), send(u, p[partIndices], entry, b.Indices),
			send(u, p[partValues], entry, b.Values), send(u, p[partSums], row, b.Sums),
			send(u, p[partNorms], 2*row, b.Norms), send(u, p[partScaledSums], row, b.ScaledSums))
		row, entry = row+rows, entry+entries
		offsets = append(offsets[:0], entry)
		return err
	})
	if err != nil {
		return err
	}
	return send(u, k.parts[partOffsets], 2*row, offsets)
}

// send copies an array into a buffer of the device, from element at on.
func send[T any](u *upload, to *buffer, at int64, x []T) error {
	if len(x) == 0 || to == nil {
		return nil
	}
	from := unsafe.Slice((*byte)(unsafe.Pointer(&x[0])), len(x)*int(unsafe.Sizeof(x[0])))
	place := element(to, at)
	for len(from) > 0 {
		stage := &u.stage[u.turn]
		if stage.busy {
			if err := stage.sent.Synchronize(); err != nil {
				return err
			}
			stage.busy = false
		}
		n := copy(unsafe.Slice((*byte)(stage.memory), uploadBlock)[u.used:], from)
		if err := u.device.stream.CopyToDeviceAsync(place, unsafe.Add(stage.memory, u.used), int64(n)); err != nil {
			return err
		}
		u.used, place, from = u.used+int64(n), place+driver.Address(n), from[n:]
		if u.used == uploadBlock {
			if err := u.device.stream.Record(stage.sent); err != nil {
				return err
			}
			stage.busy, u.turn, u.used = true, 1-u.turn, 0
		}
	}
	return nil
}

// free waits until everything has arrived, also after an error, and gives the pinned memory back.
func (u *upload) free() error {
	err := u.device.stream.Synchronize()
	for _, stage := range u.stage {
		err = errors.Join(err, driver.HostFree(stage.memory), stage.sent.Close())
	}
	return err
}
