package program

import (
	"fmt"

	"dsstne/engine/fault"
	"dsstne/engine/network"
	"dsstne/engine/random"
	"dsstne/kernels"
)

// Batches of a device with memory of its own are made there, out of datasets that it keeps, where these fit beside everything
// else; the others are made on the host and copied step by step.

// placed decides which layers' data the devices keep, and returns the dry program for that. Where not all fit, the largest
// dataset stays on the host, and so on.
func placed(spec Spec) (Spec, *Program, error) {
	spec.host, spec.Parallel = map[int]string{}, spec.parallel()
	for {
		dry, err := build(spec, true)
		if err != nil || spec.Keep == nil {
			return spec, dry, err
		}
		misfit := dry.Plan.fits(spec.Ranks)
		if misfit == nil || !spec.leave(dry) {
			return spec, dry, nil
		}
	}
}

// leave leaves the largest dataset that devices were to keep on the host; false if there is none.
func (s *Spec) leave(dry *Program) bool {
	kept, largest := dry.parts[0].kept, int64(0)
	for _, k := range kept {
		largest = max(largest, k.bytes)
	}
	reason := fmt.Sprintf("the data take %s of the device's memory, ", size(largest))
	left := max(0, dry.Plan.Available-dry.Plan.fresh(s.Ranks[0].Device.Info().Name)+largest)
	switch {
	case dry.Plan.Limit > 0 && dry.Plan.Bytes > dry.Plan.Limit:
		reason += "and memory_limit is " + size(dry.Plan.Limit)
	case left < largest:
		reason += size(left) + " are left beside the other parts"
	default:
		reason += "which not every device has left"
	}
	for _, k := range kept {
		if k.bytes == largest {
			for _, layer := range k.layers {
				s.host[layer] = reason
			}
			return true
		}
	}
	return false
}

// keptData is a dataset that a rank's device keeps, for some layers.
type keptData struct {
	data     *kernels.Data
	bytes    int64
	layers   []int
	resident kernels.Resident
}

// keep makes the device keep the data of a layer; nil if they stay on the host.
func (b *builder) keep(layer int) (*keptData, error) {
	l := &b.net.Layers[layer]
	if b.spec.Keep == nil || !keepsData(b.device) {
		return nil, nil
	}
	_, stays := b.spec.host[layer]
	if stays || b.entriesOf(layer) > kernels.MostEntries {
		return nil, nil
	}
	first, end := b.itemsOf(l.Size)
	data, err := b.spec.Keep(layer, first, end)
	if err != nil {
		return nil, fault.Wrap(err, "layer %q", l.Name)
	}
	for _, k := range b.p.kept {
		if k.data == data {
			k.layers = append(k.layers, layer)
			return k, nil
		}
	}
	k := &keptData{data: data, bytes: b.device.KeepSize(data), layers: []int{layer}}
	b.p.memory.note("data", "the device's copy of what feeds "+l.Name, k.bytes, false)
	if !b.p.memory.dry {
		if k.resident, err = b.device.Keep(data); err != nil {
			return nil, fault.Wrap(err, "layer %q", l.Name)
		}
	}
	b.p.kept = append(b.p.kept, k)
	return k, nil
}

// keepsData tells whether a device can keep data at all.
func keepsData(d kernels.Device) bool {
	return d.KeepSize(&kernels.Data{Rows: 1, Columns: 1, Entries: 1}) > 0
}

// assemble begins the list of a step with the batches that the device makes.
func (b *builder) assemble() error {
	p := b.p
	p.made = make([]*kernels.SparseBatch, len(b.slots))
	for slot, i := range b.slots {
		layer := &b.net.Layers[i]
		k, err := b.keep(i)
		if err != nil {
			return err
		}
		if k == nil {
			if reason := b.spec.host[i]; reason != "" {
				p.notes = append(p.notes, Op{Text: fmt.Sprintf("Copy the batch of %s[%d] from the host: %s", layer.Name, layer.Size, reason)})
			}
			continue
		}
		op := &kernels.Assemble{
			Name: layer.Name, Slot: slot, Data: k.resident, Scaled: layer.Scaling == network.L2, Denoising: layer.Denoising,
			Stream: random.StreamDenoising | uint32(i),
			Places: kernels.PlacesOf(b.spec.Rows, b.entriesOf(i), k.data.Columns, b.spec.Training == nil),
		}
		if op.Batch, err = p.memory.alloc("batch", layer.Name, op.Places.Total); err != nil {
			return err
		}
		b.workspace(op, func(buffer kernels.Buffer) { op.Workspace = buffer })
		p.made[slot] = &kernels.SparseBatch{Columns: k.data.Columns, Kept: op.Batch}
		device := b.device
		b.add(assembleText(op, layer, b.spec.Training != nil), func(s *kernels.Step) error { return device.Assemble(op, s) })
	}
	return nil
}

func assembleText(op *kernels.Assemble, layer *network.Layer, training bool) string {
	text := fmt.Sprintf("Assemble the batch of %s[%d] out of the device's copy of the data", layer.Name, op.Places.Columns)
	if op.Scaled {
		text += ", scaled"
	}
	if op.Denoising > 0 && training {
		text += fmt.Sprintf(", denoising %g", op.Denoising)
	}
	return text
}

// Makes tells whether the devices make the batches of a slot, out of the rows in Step.Order: all of them do or none.
func (p *Program) Makes(slot int) bool { return p.parts[0].made[slot] != nil }

// ownBatches are the batches of a step as the rank sees them: those that its device makes, what it cuts out of whole ones, and others as they are.
func (p *part) ownBatches(step *kernels.Step) ([]*kernels.SparseBatch, error) {
	p.batches = append(p.batches[:0], step.Sparse...)
	for _, cut := range p.cuts {
		if err := cut.run(step); err != nil {
			return nil, err
		}
	}
	for slot, made := range p.made {
		if made != nil {
			p.batches[slot] = made
		} else if p.own != nil {
			p.batches[slot] = p.own[slot]
		}
	}
	return p.batches, nil
}

// freeData gives the datasets back that the device keeps.
func (p *part) freeData() {
	for _, k := range p.kept {
		if k.resident != nil {
			k.resident.Free()
		}
	}
	p.kept = nil
}
