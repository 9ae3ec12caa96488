//go:build !nocuda && linux && amd64

package cuda

import (
	"math"

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
	step, bias, addend           driver.Address
	addendStride                 int64
	dz, z                        driver.Address
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

// entries makes the arguments of output_entries. Cosine logits have the directions of the rows at a place, and the
// lengths by which they are divided at another; their cosines and the lengths of the items go to two more.
func (d *device) entries(
	target int, sources []kernels.OutputSource, bias *kernels.Weights, temperature float32, directions driver.Address,
) *entriesArgs {
	a := &entriesArgs{step: d.step.at, bias: biasOf(bias), slot: int32(target), sources: int32(len(sources)), fours: 1}
	for n, source := range sources {
		w := source.Weight
		a.h[n], a.weight[n], a.columns[n] = addressOf(source.H), addressOf(w.Value), w.Columns
		if temperature != 0 {
			a.h[n], a.inverseTemperature = directions, 1/temperature
		}
		if (a.h[n]|a.weight[n])%16 != 0 || w.Columns%4 != 0 {
			a.fours = 0
		}
	}
	return a
}

// directions makes those of the rows of a source's hidden values, and one over their lengths.
func (d *device) directions(source kernels.OutputSource, to, inverse driver.Address, s *kernels.Step) {
	launch(d, "directions", line(max(1, s.Most()), 8), 256, &directionsArgs{
		d.step.at, addressOf(source.H), to, inverse, source.Weight.Columns, d.next(site{}),
	})
}

// byItemArgs is EntriesByItemArgs of src/entries.cu.
type byItemArgs struct {
	step, dz, byItem, rowX, rowY, x, y driver.Address
	slot, launch                       int32
}

// entriesByItem brings numbers, one for each stored entry of a batch, into the order by item; entries is the most that
// there may be.
func (d *device) entriesByItem(entries int64, a *byItemArgs) {
	a.step, a.launch = d.step.at, d.next(site{})
	warps := min(max(1, entries), 64*int64(d.hardware.Multiprocessors))
	launch(d, "entries_by_item", line(warps, 8), 256, a)
}

// OutputEntries computes the loss at stored entries.
func (d *device) OutputEntries(op *kernels.OutputEntries, s *kernels.Step) error {
	return d.run("OutputEntries", s, []int{op.Target}, func() {
		space := spaceOfEntries(op, s.Most())
		loss, dz := element(op.Workspace, space.loss), element(op.Workspace, space.dz)
		a := d.entries(op.Target, op.Sources, op.Bias, op.Temperature, addressOf(op.Directions))
		a.dz, a.loss, a.kind, a.launch = dz, loss, d.lossOf(op.Loss, op.Term), d.loses(op.Name)
		d.fill(loss, 0, 2*s.Most()) // also of rows that the batch does not have
		rows, hidden := driver.Dim{X: uint32(max(1, s.Most()))}, element(op.Workspace, space.hidden)
		if op.Temperature != 0 {
			a.cosine, a.inverse = element(op.Workspace, space.cosine), element(op.Workspace, space.inverse)
			d.directions(op.Sources[0], addressOf(op.Directions), hidden, s)
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
		d.entriesByItem(op.Entries, &byItemArgs{
			dz: dz, byItem: addressOf(op.DZ), rowX: a.inverse, rowY: a.cosine, x: addressOf(op.X), y: addressOf(op.Y),
			slot: a.slot,
		})
	})
}

// marginalSpace is the workspace of MarginalTargets: what cosine logits need.
type marginalSpace struct {
	space
	cosine, inverse, directions, hidden int64
}

func spaceOfMarginal(op *kernels.MarginalTargets, rows int64) (s marginalSpace) {
	if op.Output.Temperature == 0 {
		return s
	}
	s.cosine, s.inverse, s.hidden = s.take(op.Entries), s.take(op.Entries), s.take(rows)
	s.directions = s.take(rows * op.Output.Sources[0].Weight.Columns)
	return s
}

// MarginalTargets computes which targets count: the logits of the stored entries, in whose place come the targets.
func (d *device) MarginalTargets(op *kernels.MarginalTargets, s *kernels.Step) error {
	type args struct {
		step, z, stats, sums        driver.Address
		oneScale, logTarget         float32
		normalizeRows, slot, launch int32
	}
	return d.run("MarginalTargets", s, []int{op.Output.Target}, func() {
		output, space, directions := op.Output, spaceOfMarginal(op, s.Most()), driver.Address(0)
		if output.Temperature != 0 {
			directions = element(op.Workspace, space.directions)
			d.directions(output.Sources[0], directions, element(op.Workspace, space.hidden), s)
		}
		a := d.entries(output.Target, output.Sources, output.Bias, output.Temperature, directions)
		if output.Temperature != 0 {
			a.cosine, a.inverse = element(op.Workspace, space.cosine), element(op.Workspace, space.inverse)
		}
		if addend := &output.Addend; addend.Counts() {
			a.addend, a.addendStride = element(addend.Sum, addend.First), addend.Stride
		}
		a.z, a.kind, a.launch = addressOf(output.Targets.ByRow), d.lossOf(output.Loss, output.Term), d.loses(output.Name)
		rows, limit := driver.Dim{X: uint32(max(1, s.Most()))}, float32(math.Inf(1))
		launch(d, "output_entries", rows, entriesThreads, a)
		if op.OneTarget != 1 {
			limit = float32(math.Log(float64(op.OneTarget)))
		}
		launch(d, "marginal_targets", rows, entriesThreads, &args{
			a.step, a.z, addressOf(output.Stats), addressOf(output.Targets.Sums), op.OneScale, limit, flag(op.NormalizeRows),
			a.slot, d.next(site{}),
		})
		if byItem := output.Targets.ByItem; byItem != nil {
			d.entriesByItem(op.Entries, &byItemArgs{dz: a.z, byItem: addressOf(byItem), slot: a.slot})
		}
	})
}
