package train

import (
	"dsstne/engine/devices"
	"dsstne/engine/program"
	"dsstne/engine/schedule"
	"dsstne/kernels"
)

// Options are those of a trainer (docs/training.md).
type Options struct {
	Optimizer    kernels.Optimizer
	LearningRate float64
	Schedule     schedule.Schedule // of the learning rate
	BatchSize    int64
	Seed         uint64
	KeepOrder    bool // rows in order; otherwise they are shuffled in every epoch
	Placement    devices.Placement
	Parallel     program.Parallel
}
