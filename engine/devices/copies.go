package devices

import (
	"dsstne/engine/model"
	"dsstne/kernels"
)

// Copies are what devices that do not reach a model's memory have of its weights, for reading. They are made when they are first
// asked for, and stay as long as the devices are open for the model.
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

// Has tells whether there is a copy of as many numbers.
func (c *Copies) Has(rank int, tensor string, n int64) bool {
	return c.list[copyKey{rank, tensor, n}] != nil
}

// Of gives a rank's copy of what the model has in a buffer; Refresh brings its numbers.
func (c *Copies) Of(rank int, device kernels.Device, tensor string, from kernels.Buffer) (kernels.Buffer, error) {
	key := copyKey{rank, tensor, from.Len()}
	if c.list[key] == nil {
		here, err := device.Alloc(from.Len())
		if err != nil {
			return nil, err
		}
		if c.list == nil {
			c.list = map[copyKey]*weightCopy{}
		}
		c.list[key] = &weightCopy{device: device, here: here, loaded: -1}
	}
	known := c.list[key]
	known.model = from
	return known.here, nil
}

// Refresh copies what was changed since the copies were made. The caller has the right to read the model.
func (c *Copies) Refresh() error {
	changes := c.model.Changes()
	for _, known := range c.list {
		if known.loaded == changes {
			continue
		}
		if err := known.device.Write(known.here, 0, known.model.Float32()); err != nil {
			return err
		}
		known.loaded = changes
	}
	return nil
}

func (c *Copies) free() {
	for _, known := range c.list {
		known.here.Free()
	}
	c.list = nil
}
