package program

import (
	"dsstne/internal/fault"
	"dsstne/kernels"
)

// Parallel is how several devices train one model.
type Parallel int

// Auto chooses the way that exchanges fewer numbers in a step. With Model each device has a shard of the items and of
// the weights that face them, and devices exchange sums of hidden layers. With Data each device has all weights and a
// part of each batch's rows, and devices exchange gradients.
const (
	Auto Parallel = iota
	Model
	Data
)

// ParallelWords are the names, by number.
var ParallelWords = []string{"auto", "model", "data"}

func (p Parallel) String() string { return ParallelWords[p] }

// parallel decides from the shapes alone, since the bits of a result follow from them. It chooses Data for models with
// fewer weights than the numbers that a step would exchange, so the copies on all devices are small.
func (s Spec) parallel() (Parallel, error) {
	switch {
	case s.world() == 1 || s.Training == nil:
		return Model, nil
	case s.Training.needsData() != "" && s.Parallel == Model:
		return Model, fault.New(fault.InvalidArgument, `%s; with several devices it goes with parallel="data" only`,
			s.Training.needsData())
	case s.Training.needsData() != "":
		return Data, nil
	case s.Parallel != Auto:
		return s.Parallel, nil
	}
	// Without onHost the builder asks for no data.
	s.Parallel = Model
	dry, err := build(s, true)
	if err != nil {
		return Model, err
	}
	if dry.parts[0].parameters < exchanged(dry.parts[0].step.Sections, s.Rows, int64(s.world())) {
		return Data, nil
	}
	return Model, nil
}

// needsData says why a step over several devices cannot be model parallel; empty: it can.
func (t *Training) needsData() string {
	if t.Optimizer.ClipNorm > 0 {
		return "clip_norm needs the gradients of all weights on each device"
	}
	return t.WholeRows
}

// exchanged counts the numbers that the ranks add up in a step; an all-gather of n numbers from each of N ranks moves
// as many as an all-reduce of n N / 2.
func exchanged(sections []kernels.Section, rows, world int64) (n int64) {
	for _, section := range sections {
		for _, op := range section.Ops {
			switch op := op.(type) {
			case *kernels.AllReduce:
				n += rows*op.Count.PerRow + op.Count.Fixed
			case *kernels.AllGather:
				n += (rows*op.Count.PerRow + op.Count.Fixed) * world / 2
			}
		}
	}
	return n
}
