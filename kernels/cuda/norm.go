//go:build !nocuda && linux && amd64

package cuda

import (
	"dsstne/kernels"
	"dsstne/kernels/cuda/driver"
)

// normArgs is Norm of src/norm.cu.
type normArgs struct {
	mean, variance, scale driver.Address
	epsilon               float32
	byRow                 int32
}

func normOf(n *kernels.Norm) normArgs {
	return normArgs{addressOf(n.Mean), addressOf(n.Variance), addressOf(n.Scale), n.Epsilon, flag(n.ByRow)}
}

// UnitMoments computes means and squared deviations of units over the rows.
func (d *device) UnitMoments(op *kernels.UnitMoments, s *kernels.Step) error {
	type args struct {
		step, x, moments driver.Address
		units            int64
		launch           int32
	}
	return d.run("UnitMoments", s, nil, func() {
		launch(d, "unit_moments", line(op.Units, backwardUnits), backwardThreads, &args{
			d.step.at, addressOf(op.X), addressOf(op.Moments), op.Units, d.next(site{}),
		})
	})
}

const rowWarps = 8 // kRowWarps of src/step.cuh

// RowMoments computes means and variances of rows over their units.
func (d *device) RowMoments(op *kernels.RowMoments, s *kernels.Step) error {
	type args struct {
		step, x, mean, variance driver.Address
		units                   int64
		launch                  int32
	}
	return d.run("RowMoments", s, nil, func() {
		launch(d, "row_moments", line(s.Most(), rowWarps), 32*rowWarps, &args{
			d.step.at, addressOf(op.X), addressOf(op.Mean), addressOf(op.Variance), op.Units, d.next(site{}),
		})
	})
}

// CombineMoments combines those of all ranks.
func (d *device) CombineMoments(op *kernels.CombineMoments, s *kernels.Step) error {
	type args struct {
		step, parts, mean, variance driver.Address
		ranks, units                int64
		launch                      int32
	}
	return d.run("CombineMoments", s, nil, func() {
		launch(d, "combine_moments", line(op.Units, rowThreads), rowThreads, &args{
			d.step.at, addressOf(op.Parts), addressOf(op.Mean), addressOf(op.Variance), op.Ranks, op.Units,
			d.next(site{tensor: op.Name, what: [2]string{kernels.OfVariance}}),
		})
	})
}

// MoveMoments moves running moments.
func (d *device) MoveMoments(op *kernels.MoveMoments, s *kernels.Step) error {
	type args struct {
		step, mean, variance, runningMean, runningVariance driver.Address
		units                                              int64
		momentum                                           float32
		launch                                             int32
	}
	return d.run("MoveMoments", s, nil, func() {
		launch(d, "move_moments", line(op.Units, rowThreads), rowThreads, &args{
			d.step.at, addressOf(op.Mean), addressOf(op.Variance), addressOf(op.RunningMean), addressOf(op.RunningVariance),
			op.Units, op.Momentum, d.next(site{}),
		})
	})
}

// normalise is an Activate with a norm.
func (d *device) normalise(op *kernels.Activate, s *kernels.Step) {
	type args struct {
		step, in, out driver.Address
		units         int64
		norm          normArgs
		epilogue      epilogueArgs
		launch        int32
	}
	launch(d, "normalise", grid2(op.Units, rowThreads, s.Most()), rowThreads, &args{
		d.step.at, addressOf(op.In), addressOf(op.Out), op.Units, normOf(op.Norm), d.epilogueOf(&op.Epilogue), d.next(site{}),
	})
}

// NormSums adds up what the way back needs.
func (d *device) NormSums(op *kernels.NormSums, s *kernels.Step) error {
	type args struct {
		step, dy, x, sums driver.Address
		units             int64
		norm              normArgs
		launch            int32
	}
	return d.run("NormSums", s, nil, func() {
		launch(d, "norm_sums", line(op.Units, backwardUnits), backwardThreads, &args{
			d.step.at, addressOf(op.DY), addressOf(op.X), addressOf(op.Sums), op.Units, normOf(&op.Norm), d.next(site{}),
		})
	})
}

// NormBackward goes back through a norm and updates its scale.
func (d *device) NormBackward(op *kernels.NormBackward, s *kernels.Step) error {
	type args struct {
		step, dy, x, parts driver.Address
		units, ranks, own  int64
		norm               normArgs
		scale              weightsArgs
		launch             int32
	}
	return d.run("NormBackward", s, nil, func() {
		if op.Norm.ByRow {
			d.normBackwardRows(op, s)
			return
		}
		a := &args{
			step: d.step.at, dy: addressOf(op.DY), x: addressOf(op.X), parts: addressOf(op.Parts), units: op.Units,
			own: op.Rank, norm: normOf(&op.Norm),
		}
		if !op.Constant {
			a.ranks = op.Ranks
		}
		if !op.Scale.Locked {
			a.scale = d.weightsOf(op.Scale, op.Optimizer)
		}
		a.launch = d.updates(op.Scale.Name)
		launch(d, "norm_backward", line(op.Units, backwardUnits), backwardThreads, a)
	})
}

// normBackwardRows is a NormBackward by row: the update of the scale comes behind the rows, which use the old one.
func (d *device) normBackwardRows(op *kernels.NormBackward, s *kernels.Step) {
	type args struct {
		step, dy, x driver.Address
		units       int64
		norm        normArgs
		launch      int32
	}
	launch(d, "norm_backward_rows", line(s.Most(), rowWarps), 32*rowWarps, &args{
		d.step.at, addressOf(op.DY), addressOf(op.X), op.Units, normOf(&op.Norm), d.updates(op.Scale.Name),
	})
	if !op.Scale.Locked {
		d.updateWritten(op.Scale, op.Optimizer, addressOf(op.Own()), 0, op.Units, 1, 0)
	}
}
