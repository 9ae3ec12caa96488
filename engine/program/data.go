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

// Feed is what a slot's batches are made of: a dataset and how it is read.
type Feed struct {
	Name    string // of the layer that it feeds, or what its items are
	Columns int64
	Entries int64 // the most stored entries that a batch has
	// Keep describes columns first .. end for devices that keep them; nil: batches are made on the host.
	Keep func(first, end int64) (*kernels.Data, error)
	// Shared: devices use what they keep for others, and keep nothing for this.
	Shared    bool
	text      string // what Name is in sentences
	whole     bool   // every rank has all columns
	part      int64  // the most stored entries that a rank's rows of a batch have, where ranks share out the rows
	scaled    bool
	denoising float32
	stream    uint32
}

// feedOf is what feeds a layer.
func (b *builder) feedOf(layer int) Feed {
	l := &b.net.Layers[layer]
	f := Feed{
		Name: l.Name, Columns: l.Size, Entries: b.spec.Entries(layer, b.batch), part: b.spec.Entries(layer, b.spec.Rows), text: "what feeds " + l.Name, scaled: l.Scaling == network.L2,
		denoising: l.Denoising, stream: random.StreamDenoising | uint32(layer),
	}
	if keep := b.spec.Keep; keep != nil {
		f.Keep = func(first, end int64) (*kernels.Data, error) {
			data, err := keep(layer, first, end)
			return data, fault.Wrap(err, "layer %q", l.Name)
		}
	}
	return f
}

// placed decides which layers' data the devices keep, and returns the dry program for that. Where not all fit, the largest
// dataset stays on the host, and so on.
func placed(spec Spec) (Spec, *Program, error) {
	spec.host, spec.Parallel = map[string]string{}, spec.parallel()
	for {
		dry, err := build(spec, true)
		if err != nil || spec.Keep == nil {
			return spec, dry, err
		}
		misfit := dry.Plan.fits(spec.Ranks)
		if misfit == nil || !leave(spec.host, &dry.Plan, dry.parts[0]) {
			return spec, dry, nil
		}
	}
}

// leave leaves the largest dataset that devices were to keep on the host, and notes why; false if there is none.
func leave(host map[string]string, plan *Plan, p *part) bool {
	largest := int64(0)
	for _, k := range p.kept {
		largest = max(largest, k.bytes)
	}
	reason := fmt.Sprintf("the data take %s of the device's memory, ", size(largest))
	left := max(0, plan.Available-plan.fresh(p.Device.Info().Name)+largest)
	switch {
	case plan.Limit > 0 && plan.Bytes > plan.Limit:
		reason += "and memory_limit is " + size(plan.Limit)
	case left < largest:
		reason += size(left) + " are left beside the other parts"
	default:
		reason += "which not every device has left"
	}
	for _, k := range p.kept {
		if k.bytes == largest {
			for _, name := range k.feeds {
				host[name] = reason
			}
			return true
		}
	}
	return false
}

// keptData is a dataset that a rank's device keeps, for some feeds.
type keptData struct {
	data     *kernels.Data
	bytes    int64
	feeds    []string // their names
	resident kernels.Resident
}

// keep makes the device keep the data of a feed; nil if they stay on the host.
func (b *builder) keep(f Feed) (*keptData, error) {
	_, stays := b.spec.host[f.Name]
	if f.Keep == nil || stays || b.entriesOf(f) > kernels.MostEntries || !keepsData(b.device) {
		return nil, nil
	}
	first, end := b.itemsOf(f.Columns)
	if f.whole {
		first, end = 0, f.Columns
	}
	data, err := f.Keep(first, end)
	if err != nil {
		return nil, err
	}
	for _, k := range b.others {
		if k.data == data {
			return k, nil
		}
	}
	for _, k := range b.p.kept {
		if k.data == data {
			k.feeds = append(k.feeds, f.Name)
			return k, nil
		}
	}
	if f.Shared {
		return nil, nil
	}
	k := &keptData{data: data, bytes: b.device.KeepSize(data), feeds: []string{f.Name}}
	b.p.memory.note("data", "the device's copy of "+f.text, k.bytes, false)
	if !b.p.memory.dry {
		if k.resident, err = b.device.Keep(data); err != nil {
			return nil, fault.Wrap(err, "%s", f.text)
		}
	}
	b.p.kept = append(b.p.kept, k)
	return k, nil
}

// keepsData tells whether a device can keep data at all.
func keepsData(d kernels.Device) bool {
	return d.KeepSize(&kernels.Data{Rows: 1, Columns: 1, Entries: 1}) > 0
}

// assemble puts the making of a slot's batches at the end of the list, if the device makes them.
func (b *builder) assemble(slot int, f Feed) error {
	p := b.p
	k, err := b.keep(f)
	if err != nil {
		return err
	}
	if k == nil {
		if reason := b.spec.host[f.Name]; reason != "" {
			p.notes = append(p.notes, Op{Text: fmt.Sprintf("Copy the batch of %s[%d] from the host: %s", f.Name, f.Columns, reason)})
		}
		return nil
	}
	op := &kernels.Assemble{
		Name: f.Name, Slot: slot, Data: k.resident, Scaled: f.scaled, Denoising: f.denoising, Stream: f.stream,
		Places: kernels.PlacesOf(b.spec.Rows, b.entriesOf(f), k.data.Columns, b.spec.Training == nil),
	}
	if op.Batch, err = p.memory.alloc("batch", f.Name, op.Places.Total); err != nil {
		return err
	}
	b.workspace(op, func(buffer kernels.Buffer) { op.Workspace = buffer })
	p.made[slot] = &kernels.SparseBatch{Columns: k.data.Columns, Kept: op.Batch}
	device := b.device
	b.add(assembleText(op, b.spec.Training != nil), func(s *kernels.Step) error { return device.Assemble(op, s) })
	return nil
}

func assembleText(op *kernels.Assemble, training bool) string {
	text := fmt.Sprintf("Assemble the batch of %s[%d] out of the device's copy of the data", op.Name, op.Places.Columns)
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
	for _, list := range []*part{p.forward, p} {
		if list == nil {
			continue
		}
		for _, cut := range list.cuts {
			if err := cut.run(step); err != nil {
				return nil, err
			}
		}
		for slot, made := range list.made {
			if made != nil {
				p.batches[slot] = made
			} else if list.own != nil && list.own[slot] != nil {
				p.batches[slot] = list.own[slot]
			}
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
