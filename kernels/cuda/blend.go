//go:build !nocuda && linux && amd64

package cuda

import (
	"dsstne/internal/fault"
	"dsstne/kernels"
	"dsstne/kernels/cuda/driver"
)

// Moments has a block of threads for each row.
func (d *device) Moments(op *kernels.Moments, s *kernels.Step) error {
	type args struct {
		step, scores, out  driver.Address
		items, slot, first int64
	}
	return d.run("Moments", s, slotsOf(op.Stored), func() {
		launch(d, "moments", driver.Dim{X: uint32(max(1, s.Most()))}, kernels.MomentLanes, &args{
			d.step.at, addressOf(op.Scores), addressOf(op.Out), op.Items, int64(op.Stored), op.First,
		})
	})
}

// Blend adds up the parts' scores.
func (d *device) Blend(op *kernels.Blend, s *kernels.Step) error {
	type part struct{ scores, moments driver.Address }
	type args struct {
		step, weights, out           driver.Address
		items, shards, stride, parts int64
		part                         [kernels.MaxParts]part
	}
	if len(op.Parts) > kernels.MaxParts {
		return fault.New(fault.Unsupported, "a blend has up to %d parts, this one has %d", kernels.MaxParts, len(op.Parts))
	}
	if op.Items == 0 {
		return nil
	}
	return d.run("Blend", s, nil, func() {
		a := &args{
			step: d.step.at, weights: addressOf(op.Weights), out: addressOf(op.Out), items: op.Items, shards: op.Shards,
			stride: op.Stride, parts: int64(len(op.Parts)),
		}
		for p, x := range op.Parts {
			a.part[p] = part{addressOf(x.Scores), addressOf(x.Moments)}
		}
		launch(d, "blend", driver.Dim{X: uint32(max(1, s.Most())), Y: min(blocks(op.Items, 1024), mostY)}, 256, a)
	})
}
