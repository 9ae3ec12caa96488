//go:build !nocuda && linux && amd64

package cuda

import (
	"dsstne/kernels"
	"dsstne/kernels/cuda/driver"
)

// entriesThreads are those of a block of output_entries: 32 kEntryWarps of src/entries.cu.
const entriesThreads = 256

// entriesSpace is the workspace of OutputEntries. Losses have 8 bytes.
type entriesSpace struct {
	space
	loss, dz int64
}

func spaceOfEntries(op *kernels.OutputEntries, rows int64) (s entriesSpace) {
	s.loss, s.dz = s.take(2*rows), s.take(op.Entries)
	return s
}

type entriesArgs struct {
	step, bias, dz, loss         driver.Address
	kind                         lossArgs
	slot, launch, sources, fours int32
	h, weight                    [kernels.MaxSources]driver.Address
	columns                      [kernels.MaxSources]int64
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
		launch(d, "output_entries", driver.Dim{X: uint32(max(1, s.Most()))}, entriesThreads, a)
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
