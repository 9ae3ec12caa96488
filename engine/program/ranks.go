package program

import (
	"errors"
	"slices"
	"sync"

	"dsstne/internal/fault"
	"dsstne/internal/parallel"
	"dsstne/kernels"
)

// Team lets the ranks of this process work at the same time. Each rank but the first has a goroutine for as long as the
// team is open; the first works on the caller's. One caller at a time.
type Team struct {
	ranks    []kernels.Rank
	work     func(local int) error
	failures []error
	begin    []chan struct{} // of the ranks but the first
	done     sync.WaitGroup
}

// NewTeam makes a team, which is to be closed.
func NewTeam(ranks []kernels.Rank) *Team {
	return &Team{ranks: ranks, failures: make([]error, len(ranks))}
}

// start begins the goroutines of the ranks, when they are first needed.
func (t *Team) start() {
	t.begin = make([]chan struct{}, len(t.ranks)-1)
	for n := range t.begin {
		begin := make(chan struct{}, 1)
		t.begin[n] = begin
		go func() {
			for range begin {
				t.one(n + 1)
				t.done.Done()
			}
		}()
	}
}

// Close ends the goroutines.
func (t *Team) Close() {
	for _, begin := range t.begin {
		close(begin)
	}
	t.begin = nil
}

// Together does work for every rank at the same time and returns when all ranks have ended. A rank that fails, or
// panics, makes the others leave at their next collective. The error is that of the lowest rank that failed by itself.
func (t *Team) Together(work func(local int) error) error {
	if len(t.ranks) == 1 && t.ranks[0].Communicator == nil {
		return work(0)
	}
	if t.begin == nil {
		t.start()
	}
	t.work = work
	t.done.Add(len(t.ranks) - 1)
	for _, begin := range t.begin {
		begin <- struct{}{}
	}
	t.one(0)
	t.done.Wait()
	return t.cause()
}

// one does the work of one rank.
func (t *Team) one(local int) {
	err := parallel.Guarded(t.work, local)
	if t.failures[local] = err; err != nil {
		t.ranks[local].Communicator.Abort()
	}
}

// cause finds the failure that the others followed from, and makes the ranks ready for the next time.
func (t *Team) cause() error {
	var cause error
	for _, err := range t.failures {
		if err != nil && (cause == nil || errors.Is(cause, kernels.ErrAborted)) {
			cause = err
		}
	}
	if cause == nil {
		return nil
	}
	for _, r := range t.ranks {
		if err := r.Communicator.Reset(); err != nil {
			return fault.Wrap(errors.Join(cause, err), "the devices could not be joined again")
		}
	}
	return cause
}

// enqueuing is held while the ranks of a group put a step into the streams of devices. Two groups may have devices in
// common, and each waits there for its collectives: these must come in the same order on all devices.
var enqueuing sync.Mutex

// InOrder is Together for work that has collectives.
func (t *Team) InOrder(work func(local int) error) error {
	if len(t.ranks) > 1 && !kernels.ReachesHost(t.ranks[0].Device) {
		enqueuing.Lock()
		defer enqueuing.Unlock()
	}
	return t.Together(work)
}

// part is what one rank of this process has of a program: its lists of operations and the memory they work in.
type part struct {
	kernels.Rank
	follows            *part        // whose step comes first
	keeps, rounds      bool         // logits are kept, and rounded copies of weights
	begin, step, flush kernels.List // the step's first sections are those of follows
	rows               int64        // of the largest batch
	rowShare           *rowShare    // of each batch's rows; nil: all
	firstSlot          int          // of batches
	batches            []source
	parameters         int64
	hidden             map[int]kernels.Buffer // output of each hidden layer, [B, K]
	shard              map[int]Shard          // of each output layer
	first              map[string]int64       // first row of the tensors of which there is a shard
	plan               []Part
	buffers            []kernels.Buffer
	copies             []copied
	states             []held           // of the optimizer
	last               []kernels.Buffer // numbers of the steps that updated the rows of lazy weights last
	resident           []*residentData  // datasets that the device keeps
	planNotes          []string
	loss               []float64              // of the step that is begun, by term
	sparse             []*kernels.SparseBatch // the rank's batches of the step
}

// runStep walks the list of a step, over this rank's share of the batches.
func (p *part) runStep(step *kernels.Step) error {
	own := *step
	p.sparse = p.shares(append(p.sparse[:0], step.Sparse...), step)
	own.Sparse = p.sparse
	if share := p.rowShare; share != nil {
		first, end := share.of(step.Rows)
		own.First, own.Whole, own.Rows = first, step.Rows, end-first
		if len(own.Order) > 0 {
			own.Order = own.Order[first:end]
		}
		own.RowWeights = slices.Clone(own.RowWeights)
		for term, weights := range own.RowWeights {
			if weights != nil {
				own.RowWeights[term] = weights[first:end]
			}
		}
	}
	return p.walk(&p.step, &own)
}

// run walks a list that needs no batches.
func (p *part) run(list *kernels.List, step *kernels.Step) error {
	own := *step
	own.Sparse = nil
	if len(list.Sections[0].Ops) == 0 {
		return nil
	}
	return p.walk(list, &own)
}

// walk begins a step that walks a list.
func (p *part) walk(list *kernels.List, step *kernels.Step) error {
	clear(p.loss)
	step.Loss = p.loss
	return p.locate(p.Device.Run(p.Rank, list, step))
}

// locate turns the row of an error from a row of the shard into one of the tensor.
func (p *part) locate(err error) error {
	var bad *kernels.NotFiniteError
	if errors.As(err, &bad) && bad.Row >= 0 {
		bad.Row += p.first[bad.Tensor]
	}
	return err
}
