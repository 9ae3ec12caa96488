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
	loss, dz, z, order int64
}

func spaceOfEntries(op *kernels.OutputEntries, rows int64) (s entriesSpace) {
	s.loss, s.dz = s.take(2*rows), s.take(op.Entries)
	if op.Loss.Compares() {
		s.z = s.take(op.Entries)
	}
	if op.Loss.Pairs {
		s.order = s.take(op.Entries)
	}
	return s
}

type entriesArgs struct {
	step, bias, dz, z, loss      driver.Address
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
			if (a.h[n]|a.weight[n])%16 != 0 || w.Columns%4 != 0 {
				a.fours = 0
			}
		}
		d.fill(loss, 0, 2*s.Most()) // also of rows that the batch does not have
		rows := driver.Dim{X: uint32(max(1, s.Most()))}
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
		for _, source := range op.Sources {
			if source.DH != nil {
				d.gather(&kernels.Gather{
					Input: op.Target, Weight: source.Weight, Out: source.DH, Accumulate: source.Accumulate,
				}, dz, s)
			}
		}
		type args struct {
			step, dz, byItem driver.Address
			slot, launch     int32
		}
		warps := min(max(1, op.Entries), 64*int64(d.hardware.Multiprocessors))
		launch(d, "entries_by_item", line(warps, 8), 256, &args{
			d.step.at, dz, addressOf(op.DZ), int32(op.Target), d.next(site{}),
		})
	})
}
