//go:build !nocuda && linux && amd64

package cuda

import (
	"dsstne/kernels"
	"dsstne/kernels/cuda/driver"
)

// entriesThreads are those of a block of output_entries and of compare_entries: 32 kEntryWarps of src/entries.cu.
const entriesThreads = 256

// entriesSpace is the workspace of OutputEntries. Losses have 8 bytes.
type entriesSpace struct {
	space
	loss, dz, z, order             int64
	cosine, inverse, along, hidden int64
}

func spaceOfEntries(op *kernels.OutputEntries, rows int64) (s entriesSpace) {
	s.loss, s.dz = s.take(2*rows), s.take(op.Entries)
	if op.Loss.Compares() {
		s.z = s.take(op.Entries)
	}
	if op.Loss.Pairs {
		s.order = s.take(op.Entries)
	}
	if op.Temperature != 0 {
		s.cosine, s.inverse, s.along = s.take(op.Entries), s.take(op.Entries), s.take(op.Entries)
		s.hidden = s.take(rows)
	}
	return s
}

type entriesArgs struct {
	step, bias, dz, z            driver.Address
	cosine, inverse              driver.Address
	inverseTemperature           float32
	loss                         driver.Address
	kind                         lossArgs
	slot, launch, sources, fours int32
	h, weight                    [kernels.MaxSources]driver.Address
	columns                      [kernels.MaxSources]int64
}

type compareArgs struct {
	step, z, dz, order, loss driver.Address
	kind                     lossArgs
	items                    int64
	stream                   uint32
	pairs, slot, launch      int32
}

type directionsArgs struct {
	step, h, direction, inverse driver.Address
	columns                     int64
	launch                      int32
}

type turnArgs struct {
	step, dz, cosine, inverse, along, direction, hidden, dh driver.Address
	columns                                                 int64
	inverseTemperature                                      float32
	accumulate, slot, launch                                int32
}

// OutputEntries computes the loss at stored entries.
func (d *device) OutputEntries(op *kernels.OutputEntries, s *kernels.Step) error {
	return d.run("OutputEntries", s, []int{op.Target}, func() {
		space := spaceOfEntries(op, s.Most())
		loss, dz := element(op.Workspace, space.loss), element(op.Workspace, space.dz)
		a := &entriesArgs{
			step: d.step.at, bias: biasOf(op.Bias), dz: dz, loss: loss, kind: d.lossOf(op.Loss, op.Term),
			slot: int32(op.Target), launch: d.loses(op.Name), sources: int32(len(op.Sources)), fours: 1,
		}
		for n, source := range op.Sources {
			w := source.Weight
			a.h[n], a.weight[n], a.columns[n] = addressOf(source.H), addressOf(w.Value), w.Columns
			if op.Temperature != 0 {
				a.h[n] = addressOf(op.Directions)
				a.cosine, a.inverse = element(op.Workspace, space.cosine), element(op.Workspace, space.inverse)
				a.inverseTemperature = 1 / op.Temperature
			}
			if (a.h[n]|a.weight[n])%16 != 0 || w.Columns%4 != 0 {
				a.fours = 0
			}
		}
		d.fill(loss, 0, 2*s.Most()) // also of rows that the batch does not have
		rows, hidden := driver.Dim{X: uint32(max(1, s.Most()))}, element(op.Workspace, space.hidden)
		if op.Temperature != 0 {
			source := op.Sources[0]
			launch(d, "directions", line(max(1, s.Most()), 8), 256, &directionsArgs{
				a.step, addressOf(source.H), addressOf(op.Directions), hidden, source.Weight.Columns, d.next(site{}),
			})
		}
		if op.Loss.Compares() {
			a.z = element(op.Workspace, space.z)
		}
		launch(d, "output_entries", rows, entriesThreads, a)
		if op.Loss.Compares() {
			launch(d, "compare_entries", rows, entriesThreads, &compareArgs{
				a.step, a.z, dz, element(op.Workspace, space.order), loss, a.kind, op.Items, op.Stream, flag(op.Loss.Pairs),
				a.slot, d.loses(op.Name),
			})
		}
		d.sumLoss(loss, s.Most(), op.Term, op.Name)
		values, turned := dz, op.Temperature != 0
		if turned {
			source := op.Sources[0]
			values = element(op.Workspace, space.along)
			launch(d, "turn_entries", rows, entriesThreads, &turnArgs{
				a.step, dz, a.cosine, a.inverse, values, addressOf(op.Directions), hidden, addressOf(source.DH),
				source.Weight.Columns, a.inverseTemperature, flag(source.Accumulate), a.slot, d.next(site{}),
			})
		}
		for _, source := range op.Sources {
			if source.DH != nil {
				d.gather(&kernels.Gather{
					Input: op.Target, Weight: source.Weight, Out: source.DH, Accumulate: source.Accumulate || turned,
				}, values, s)
			}
		}
		type args struct {
			step, dz, byItem, rowX, rowY, x, y driver.Address
			slot, launch                       int32
		}
		warps := min(max(1, op.Entries), 64*int64(d.hardware.Multiprocessors))
		launch(d, "entries_by_item", line(warps, 8), 256, &args{
			d.step.at, dz, addressOf(op.DZ), a.inverse, a.cosine, addressOf(op.X), addressOf(op.Y), int32(op.Target),
			d.next(site{}),
		})
	})
}
