package program

import (
	"dsstne/internal/fault"
	"dsstne/kernels"
)

// Ranks in other processes have models of their own. A process gets from them the loss of a step, which it reports,
// and at the end of a run the rows of every sharded weight, which it keeps.

// shareAcrossProcesses adds the operations for that.
func (b *Builder) shareAcrossProcesses() {
	if !kernels.ReachesHost(b.device) {
		b.Fail(fault.New(fault.Unsupported, "ranks in several processes compute in the host's memory only so far"))
		return
	}
	if b.Training() == nil {
		return
	}
	terms := int64(len(b.part.loss))
	own, all := b.Alloc("losses", "the rank", 2*terms), b.Alloc("losses", "all ranks", 2*terms*int64(b.World()))
	b.Add(&shareLoss{own: own, all: all, reports: b.first()})
	for _, w := range b.order {
		if !b.isSharded(w.Tensor) {
			continue
		}
		whole, err := b.spec.Weights(w.Name)
		b.Fail(err)
		for root := range b.World() {
			first, end := ShardOf(w.Rows, root, b.World())
			count := kernels.Count{Fixed: (end - first) * w.Columns}
			rows := whole.Slice(first*w.Columns, count.Fixed)
			add(&b.part.flush, &kernels.Broadcast{What: w.bound.String(), Buffer: rows, Count: count, Root: root})
		}
	}
}

// shareLoss makes the loss of a step that of all ranks. One rank of a process reports it, the others none.
type shareLoss struct {
	own, all kernels.Buffer // float64, by term; all: rank after rank
	reports  bool
}

// Do adds up in the order of the ranks.
func (o *shareLoss) Do(r kernels.Rank, s *kernels.Step) error {
	terms := len(s.Loss)
	copy(kernels.View[float64](o.own), s.Loss)
	if err := r.Communicator.AllGather(o.own, o.all, int64(2*terms)); err != nil {
		return err
	}
	clear(s.Loss)
	if all := kernels.View[float64](o.all); o.reports {
		for i, loss := range all {
			s.Loss[i%terms] += loss
		}
	}
	return nil
}

func (o *shareLoss) String() string { return "AllGather the losses" }
