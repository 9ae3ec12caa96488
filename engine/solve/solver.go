package solve

import (
	"encoding/json"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"dsstne/engine/csr"
	"dsstne/engine/devices"
	"dsstne/engine/model"
	"dsstne/engine/program"
	"dsstne/internal/fault"
	"dsstne/kernels"
)

// InputLayer is the name of what a solver takes its dataset for.
const InputLayer = "input"

// Method is a way to make a model. Its methods are called in this order.
type Method interface {
	// Check refuses data that it cannot do anything with.
	Check(data csr.Source) error
	// Build writes the operations of a step to a builder, and returns how many steps there are. It may be called several
	// times, the last time with memory.
	Build(b *program.Builder, data csr.Source) (steps int64)
	// Load fills that memory.
	Load(data csr.Source) error
	// Model makes the model when all steps are done.
	Model() (*model.Model, error)
}

// Iterative is a Method that may end before it has solved everything to its tolerance.
type Iterative interface {
	// Unfinished counts the systems of equations of which that is so.
	Unfinished() uint64
}

// Options are those of a solver.
type Options struct {
	Name      string // of the method
	Method    Method
	Placement devices.Placement
}

// Progress is a snapshot of a solver.
type Progress struct {
	Running     bool
	Done, Steps uint64
	Seconds     float64 // of all runs
	Unfinished  uint64  // systems of equations that were not solved to the tolerance
}

// Solver makes one model. Run is for one goroutine at a time; Progress and Cancel may be called from any.
type Solver struct {
	options   Options
	opened    *devices.Opened
	data      csr.Source
	program   *program.Program
	step      kernels.Step
	given     bool // the model
	cancelled atomic.Bool

	mu       sync.Mutex // guards progress
	progress Progress
}

// Open makes the device ready. The methods compute on the host.
func Open(o Options) (*Solver, error) {
	placement, err := o.Placement.Within(program.HostOnly)
	if err != nil {
		return nil, err
	}
	opened, err := placement.Open(nil)
	if err != nil {
		return nil, err
	}
	return &Solver{options: o, opened: opened}, nil
}

// Bind gives the solver its dataset, which stays in use until Close.
func (s *Solver) Bind(layer string, data csr.Source) error {
	switch {
	case layer != InputLayer:
		return fault.New(fault.NotFound, "a solver has no layer %q; its only one is %q", layer, InputLayer)
	case s.data != nil:
		return fault.New(fault.InvalidState, "the solver has a dataset already")
	case data.Rows() > math.MaxInt32:
		return fault.New(fault.InvalidData, "the dataset has %s rows; a solver takes up to %s",
			fault.Grouped(data.Rows()), fault.Grouped(math.MaxInt32))
	}
	if err := s.options.Method.Check(data); err != nil {
		return err
	}
	if err := data.Use(); err != nil {
		return err
	}
	s.data = data
	return nil
}

// spec is what the program is made from.
func (s *Solver) spec() (program.Spec, error) {
	if s.data == nil {
		return program.Spec{}, fault.New(fault.InvalidState, "no dataset is bound to the solver")
	}
	spec := program.Spec{
		Ranks: s.opened.Ranks, Rows: 1, Limit: s.options.Placement.Limit, MakeRoom: devices.MakeRoom,
	}
	spec.Computation = func(b *program.Builder) {
		b.Note(program.Part{Name: "data", Bytes: s.data.Statistics().Bytes, Device: "host", Held: true})
		steps := s.options.Method.Build(b, s.data)
		s.mu.Lock()
		s.progress.Steps = uint64(steps)
		s.mu.Unlock()
	}
	return spec, nil
}

// Plan describes the memory and the operations of a run as JSON, and allocates nothing.
func (s *Solver) Plan() ([]byte, error) {
	if s.program != nil {
		return nil, fault.New(fault.InvalidState, "the solver has begun; ask for its plan before the first run")
	}
	spec, err := s.spec()
	if err != nil {
		return nil, err
	}
	plan, err := program.Describe(spec)
	if err != nil {
		return nil, err
	}
	return json.Marshal(plan)
}

// prepare builds the program and loads the data before the first step.
func (s *Solver) prepare() error {
	if s.program != nil {
		return nil
	}
	spec, err := s.spec()
	if err != nil {
		return err
	}
	p, err := program.Build(spec)
	if err != nil {
		return err
	}
	if err := s.options.Method.Load(s.data); err != nil {
		p.Free()
		return err
	}
	s.program = p
	return nil
}

// Run does the remaining steps, or the next and those that it begins within maxSeconds (0: no such limit), and returns
// the progress, also with an error. After fault.Cancelled another run goes on.
func (s *Solver) Run(maxSeconds float64) (Progress, error) {
	if math.IsNaN(maxSeconds) || math.IsInf(maxSeconds, 0) || maxSeconds < 0 {
		return s.Progress(), fault.New(fault.InvalidArgument, "max_seconds is %v; it must be a finite number of at least 0",
			maxSeconds)
	}
	s.cancelled.Store(false)
	start, before := time.Now(), s.Progress().Seconds
	s.report(func(p *Progress) { p.Running = true })
	defer s.report(func(p *Progress) { p.Running = false })
	if err := s.prepare(); err != nil {
		return s.Progress(), err
	}
	defer s.opened.Compute()()
	for first := true; s.step.Number < int64(s.Progress().Steps); first = false {
		if s.cancelled.Load() {
			return s.Progress(), fault.New(fault.Cancelled, "%s was cancelled after step %d of %d", s.options.Name,
				s.step.Number, s.Progress().Steps)
		}
		if maxSeconds > 0 && !first && time.Since(start).Seconds() >= maxSeconds {
			break
		}
		s.step.Number++
		if err := s.program.Run(&s.step); err != nil {
			return s.Progress(), err
		}
		if _, err := s.program.Settle(0); err != nil {
			return s.Progress(), err
		}
		s.report(func(p *Progress) {
			p.Done, p.Seconds = uint64(s.step.Number), before+time.Since(start).Seconds()
			if method, iterates := s.options.Method.(Iterative); iterates {
				p.Unfinished = method.Unfinished()
			}
		})
	}
	return s.Progress(), nil
}

func (s *Solver) report(change func(*Progress)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.progress)
}

// Progress is a snapshot; it never blocks for long.
func (s *Solver) Progress() Progress {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.progress
}

// Cancel makes a running Run end at the end of its step; without one it does nothing.
func (s *Solver) Cancel() { s.cancelled.Store(true) }

// done returns an error while steps remain.
func (s *Solver) done() error {
	if p := s.Progress(); s.program == nil || p.Done < p.Steps {
		return fault.New(fault.InvalidState, "%s is not done yet: %d of %d steps; run it", s.options.Name, p.Done, p.Steps)
	}
	return nil
}

// Model makes the model, which belongs to the caller.
func (s *Solver) Model() (*model.Model, error) {
	if err := s.done(); err != nil {
		return nil, err
	}
	if s.given {
		return nil, fault.New(fault.InvalidState, "the solver has given its model already")
	}
	m, err := s.options.Method.Model()
	s.given = err == nil
	return m, err
}

// Arrays is a Method whose result are arrays instead of a model.
type Arrays interface {
	// Array copies an array when all steps are done.
	Array(name string, to []float32) error
}

// Array copies an array of the result, as often as it is asked for.
func (s *Solver) Array(name string, to []float32) error {
	if err := s.done(); err != nil {
		return err
	}
	arrays, has := s.options.Method.(Arrays)
	if !has {
		return fault.New(fault.InvalidState, "the result of %s is a model, not arrays", s.options.Name)
	}
	return arrays.Array(name, to)
}

// Close gives memory, dataset and devices back.
func (s *Solver) Close() error {
	if s.program != nil {
		s.program.Free()
	}
	if s.data != nil {
		s.data.Unuse()
	}
	return s.opened.Rest()
}
