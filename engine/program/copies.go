package program

import (
	"slices"

	"dsstne/engine/model"
	"dsstne/kernels"
)

// copied is a tensor of the model, or a shard of one, and the copy of it that a device computes with because it does not
// reach the model's memory.
type copied struct {
	name        string
	model, here kernels.Buffer
	owned       bool // this device's copy is what the model gets at the end of a run
}

// place binds a tensor: as it is where the device reaches it, else a copy, which Load fills.
func (b *builder) place(name string, model kernels.Buffer, owned bool) (kernels.Buffer, error) {
	if b.device.Reaches(model) {
		return model, nil
	}
	if copies := b.spec.Copies; copies != nil {
		held := copies.Has(b.rank, name, model.Len())
		b.p.memory.note("weights", "the device's copy of "+name, 4*model.Len(), held)
		if b.p.memory.dry {
			return nil, nil
		}
		return copies.Of(b.rank, b.device, name, model)
	}
	here, err := b.p.memory.alloc("weights", "the device's copy of "+name, model.Len())
	b.p.copies = append(b.p.copies, copied{name, model, here, owned})
	return here, err
}

// Load makes the devices' copies of the model equal to it: before a run, and after somebody else has changed the model.
// Devices that reach the model's memory have none.
func (p *Program) Load() error {
	for _, part := range p.parts {
		for _, c := range part.copies {
			if err := part.Device.Write(c.here, 0, c.model.Float32()); err != nil {
				return err
			}
		}
	}
	return nil
}

// Copy is a rank's copy of a tensor, or of its shard of one; nil if it has none.
func (p *Program) Copy(rank int, name string) kernels.Buffer {
	for _, c := range p.parts[rank].copies {
		if c.name == name {
			return c.here
		}
	}
	return nil
}

// Copies tells whether devices compute with copies of the model's weights.
func (p *Program) Copies() bool {
	return slices.ContainsFunc(p.parts, func(p *part) bool { return len(p.copies) > 0 })
}

// Store brings the weights that devices have trained back to the model: all of them or, where a device does not answer any
// more, none, since nobody knows what the others have got from it before that was seen. After another failure it tells how many
// tensors are back.
func (p *Program) Store() (stored int, err error) {
	for _, part := range p.parts {
		if len(p.parts) == 1 {
			continue
		}
		if err := part.memory.answers(); err != nil {
			return 0, err
		}
	}
	for _, part := range p.parts {
		for _, c := range part.copies {
			if !c.owned {
				continue
			}
			if err := part.Device.Read(c.here, 0, c.model.Float32()); err != nil {
				return stored, err
			}
			stored++
		}
	}
	return stored, nil
}

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

// HostName is what plans call the host's memory, seen from a device: the device itself if it computes there.
func HostName(device kernels.Device) string {
	if reachesHost(device) {
		return device.Info().Name
	}
	return "host"
}

func reachesHost(device kernels.Device) bool {
	nothing, err := kernels.AllocHost(0)
	return err == nil && device.Reaches(nothing)
}
