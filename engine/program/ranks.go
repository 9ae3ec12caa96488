package program

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync"

	"dsstne/engine/csr"
	"dsstne/engine/fault"
	"dsstne/kernels"
)

// Rank is one of the devices that a program runs on, and its way to the others: nil where there is only one.
type Rank struct {
	Device       kernels.Device
	Communicator kernels.Communicator
}

// Together runs work for every rank at the same time and returns when all are through. One that fails, or panics, makes the
// others leave at their next collective, and its error is returned: that of the lowest rank, if several failed on their own.
func Together(ranks []Rank, work func(rank int) error) error {
	if len(ranks) == 1 {
		return work(0)
	}
	failures := make([]error, len(ranks))
	one := func(rank int) {
		if failures[rank] = guarded(work, rank); failures[rank] != nil {
			ranks[rank].Communicator.Abort()
		}
	}
	var others sync.WaitGroup
	for rank := 1; rank < len(ranks); rank++ {
		others.Go(func() { one(rank) })
	}
	one(0)
	others.Wait()
	return settle(ranks, failures)
}

// settle finds the failure that the others followed from, and makes the ranks ready for the next time.
func settle(ranks []Rank, failures []error) error {
	var cause error
	for _, err := range failures {
		if err != nil && (cause == nil || errors.Is(cause, kernels.ErrAborted)) {
			cause = err
		}
	}
	if cause == nil {
		return nil
	}
	for _, r := range ranks {
		if err := r.Communicator.Reset(); err != nil {
			return fault.Wrap(errors.Join(cause, err), "the devices could not be joined again")
		}
	}
	return cause
}

// enqueuing is held while the ranks of a group put a step into the streams of devices. Two groups may have devices in common, and
// each waits there for its collectives: these must come in the same order on all devices.
var enqueuing sync.Mutex

// inOrder is Together for work that has collectives.
func inOrder(ranks []Rank, work func(rank int) error) error {
	if len(ranks) > 1 && !reachesHost(ranks[0].Device) {
		enqueuing.Lock()
		defer enqueuing.Unlock()
	}
	return Together(ranks, work)
}

// guarded turns a panic into an error: one in a goroutine would end the process.
func guarded(work func(rank int) error, rank int) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fault.New(fault.Internal, "panic: %s\n%s", fmt.Sprint(p), debug.Stack())
		}
	}()
	return work(rank)
}

// opList is ops that run one after the other.
type opList struct{ ops []Op }

func (l *opList) add(text string, run func(*kernels.Step) error) {
	l.ops = append(l.ops, Op{Text: text, run: run})
}

func (l *opList) run(step *kernels.Step) error {
	for i := range l.ops {
		if err := l.ops[i].run(step); err != nil {
			return err
		}
	}
	return nil
}

// part is what one rank has of a program: its lists of bound calls and the memory they work in.
type part struct {
	Rank
	rank               int
	forward            *part // whose step comes first
	begin, step, flush opList
	stepList           kernels.List           // what the device keeps for step
	rows               int64                  // of the largest batch
	hidden             map[int]kernels.Buffer // output of each hidden layer, [B, K]
	shard              map[int]Shard          // of each output layer
	grads              map[string]kernels.Buffer
	first              map[string]int64 // first row of the tensors of which there is a shard
	memory             *memory
	copies             []copied
	loss               []float64 // of the step that is begun, by term
	// cuts make batches out of a step's: what one of several ranks has of them. They come before the step's list, on the host.
	cuts []Op
	own  []*kernels.SparseBatch // by slot: what they make
	of   int                    // the rank has an equal part of each batch's rows, one of so many; 0: all rows
	// kept are the datasets that the device keeps, made the batches that it makes of them, by slot; notes say of others why not.
	kept  []*keptData
	made  []*kernels.SparseBatch
	notes []Op

	batches []*kernels.SparseBatch // of the step
}

// runStep walks the list of a step, over this rank's share of the batches.
func (p *part) runStep(step *kernels.Step) error {
	own := *step
	var err error
	if own.Sparse, err = p.ownBatches(step); err != nil {
		return err
	}
	if p.of > 0 {
		first, end := shardOf(step.Rows, p.rank, p.of)
		own.First, own.Whole, own.Rows = first, step.Rows, end-first
		if len(own.Order) > 0 {
			own.Order = own.Order[first:end]
		}
	}
	return p.walk(&p.step, &p.stepList, &own)
}

// run walks a list that needs no batches and is not walked often.
func (p *part) run(list *opList, step *kernels.Step) error {
	own := *step
	own.Sparse = nil
	return p.walk(list, nil, &own)
}

// walk begins a step that walks a list; kept is where the device may keep what it makes of it.
func (p *part) walk(list *opList, kept *kernels.List, step *kernels.Step) error {
	if len(list.ops) == 0 {
		return nil
	}
	clear(p.loss)
	step.Loss, step.MaxRows = p.loss, p.rows
	if p.forward == nil {
		return p.place(p.Device.Run(kept, step, func() error { return list.run(step) }))
	}
	step.MaxRows = max(p.rows, p.forward.rows)
	return p.place(p.Device.Run(kept, step, func() error {
		// Bits follow from the most rows: those of the forward list must not depend on what comes behind it.
		step.MaxRows = p.forward.rows
		if err := p.forward.step.run(step); err != nil {
			return err
		}
		step.MaxRows = p.rows
		return list.run(step)
	}))
}

// takeShards gives a rank its shards of the batches.
func (b *builder) takeShards() {
	b.p.own = make([]*kernels.SparseBatch, len(b.slots))
	for slot, i := range b.slots {
		if b.p.made[slot] == nil {
			b.takeShard(slot, b.feedOf(i))
		}
	}
}

func (b *builder) takeShard(slot int, f Feed) {
	out := &kernels.SparseBatch{}
	b.p.own[slot] = out
	first, end := b.shardOf(f.Columns)
	shard := csr.Shard
	if b.spec.Training == nil {
		shard = csr.ShardRows
	}
	b.p.cuts = append(b.p.cuts, Op{
		Text: fmt.Sprintf("Shard %d:%d of the batch of %s[%d]", first, end, f.Name, f.Columns),
		run: func(s *kernels.Step) error {
			shard(s.Sparse[slot], first, end, out)
			return nil
		},
	})
}

// allReduce sums a [B, units] buffer over the ranks.
func (b *builder) allReduce(what string, buffer kernels.Buffer, units int64) {
	to := b.p.Communicator
	b.add(fmt.Sprintf("AllReduce %s[%d]", what, units), func(s *kernels.Step) error { return to.AllReduce(buffer, s.MaxRows*units) })
	b.doubt = true
}

// agree comes before the ops that change weights by what other ranks have found: no weight is changed by the sums of a step that
// has failed on one of them. Replay needs none, since it takes nothing from others.
func (b *builder) agree() {
	if b.doubt {
		b.add("Agree that all devices are well", b.p.Communicator.Agree)
		b.doubt = false
	}
}

// itemsOf is the range of a layer's items that the builder's rank has.
func (b *builder) itemsOf(n int64) (first, end int64) {
	if b.sharded() {
		return b.shardOf(n)
	}
	return 0, n
}

// shardOf is the range of rows that the builder's rank has of n.
func (b *builder) shardOf(n int64) (first, end int64) { return shardOf(n, b.rank, len(b.spec.Ranks)) }

// shardOf cuts rows, or items, as equally as can be: shards differ by one row at most, and are empty where there are more
// ranks than rows.
func shardOf(n int64, rank, ranks int) (first, end int64) {
	return n * int64(rank) / int64(ranks), n * int64(rank+1) / int64(ranks)
}

// Shard is what a rank has of an output layer, or of any weight whose rows are ranked.
type Shard struct {
	kernels.Scorer
	First int64 // the first of its items
}

// ShardsOf cuts a weight that lies in the host's memory by rows, to rank them on several devices.
func ShardsOf(w *kernels.Weights, ranks int) []Shard {
	list := make([]Shard, ranks)
	for rank := range list {
		first, end := shardOf(w.Rows, rank, ranks)
		rows := *w
		rows.Rows = end - first
		rows.Value = w.Value.Slice(first*w.Columns, rows.Rows*w.Columns)
		list[rank] = Shard{Scorer: kernels.Scorer{Items: rows.Rows, Sources: []kernels.OutputSource{{Weight: &rows}}}, First: first}
	}
	return list
}
