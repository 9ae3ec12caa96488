package devices

import (
	"dsstne/engine/model"
	"dsstne/kernels"
)

// Copies are the copies of a model's weights, for reading, on devices that do not reach the model's memory. They are
// made when they are first asked for, and stay as long as the devices are open for the model.
type Copies struct {
	model *model.Model
	list  map[copyKey]*weightCopy
}

// copyKey: some ask for a rank's shard of a tensor where others ask for the whole.
type copyKey struct {
	rank   int
	tensor string
	n      int64
}

// weightCopy is a rank's copy of a tensor, or of its shard of one.
type weightCopy struct {
	device      kernels.Device
	model, here kernels.Buffer
	loaded      int64 // the model's count of changes when it was made
}

// Has reports whether there is a copy of n numbers.
func (c *Copies) Has(rank int, tensor string, n int64) bool {
	return c.list[copyKey{rank, tensor, n}] != nil
}

// Of returns a rank's copy of a buffer of the model; Refresh brings its numbers.
func (c *Copies) Of(rank int, device kernels.Device, tensor string, from kernels.Buffer) (kernels.Buffer, error) {
	key := copyKey{rank, tensor, from.Len()}
	if c.list[key] == nil {
		here, err := device.Alloc(from.Len())
		if err != nil {
			return nil, err
		}
		c.list[key] = &weightCopy{device: device, here: here, loaded: -1}
	}
	c.list[key].model = from
	return c.list[key].here, nil
}

// Refresh copies what has changed since the copies were made. The caller has the right to read the model.
func (c *Copies) Refresh() error {
	changes := c.model.Changes()
	for _, copy := range c.list {
		if copy.loaded == changes {
			continue
		}
		if err := copy.device.Write(copy.here, 0, copy.model.Float32()); err != nil {
			return err
		}
		copy.loaded = changes
	}
	return nil
}

// free frees the copies, if there are any.
func (c *Copies) free() {
	if c != nil {
		for _, copy := range c.list {
			copy.here.Free()
		}
	}
}
