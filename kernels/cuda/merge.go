//go:build !nocuda && linux && amd64

package cuda

import (
	"dsstne/kernels"
	"dsstne/kernels/cuda/driver"
)

// mergeRows is kMergeRows of src/merge.cu.
const mergeRows = 4

// mergeArgs is MergeArgs of src/merge.cu.
type mergeArgs struct {
	step                  driver.Address
	h, dh                 [kernels.MaxSources]driver.Address
	accumulate            uint64
	out                   driver.Address
	units                 int64
	sources, kind, launch int32
}

func (d *device) merge(kernel string, op *kernels.Merge, out kernels.Buffer, s *kernels.Step) {
	a := &mergeArgs{
		step: d.step.at, out: addressOf(out), units: op.Units, sources: int32(len(op.Sources)), kind: number(d, op.Kind),
		launch: d.next(site{}),
	}
	for n, source := range op.Sources {
		a.h[n], a.dh[n] = addressOf(source.H), addressOf(source.DH)
		a.accumulate |= uint64(flag(source.Accumulate)) << n
	}
	launch(d, kernel, line(s.Most(), mergeRows), 32*mergeRows, a)
}

// Merge computes with the values of several layers.
func (d *device) Merge(op *kernels.Merge, s *kernels.Step) error {
	return d.run("Merge", s, nil, func() { d.merge("merge", op, op.Out, s) })
}

// MergeBackward goes back through a Merge.
func (d *device) MergeBackward(op *kernels.MergeBackward, s *kernels.Step) error {
	return d.run("MergeBackward", s, nil, func() { d.merge("merge_backward", op.Merge, op.DOut, s) })
}

// Skip hands values on.
func (d *device) Skip(op *kernels.Skip, s *kernels.Step) error {
	type args struct {
		step, in, out      driver.Address
		units, stride      int64
		accumulate, launch int32
	}
	return d.run("Skip", s, nil, func() {
		launch(d, "skip", grid2(op.Units, rowThreads, s.Most()), rowThreads, &args{
			d.step.at, element(op.In, op.First), addressOf(op.Out), op.Units, op.Stride, flag(op.Accumulate), d.next(site{}),
		})
	})
}
