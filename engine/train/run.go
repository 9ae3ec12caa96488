package train

import (
	"errors"
	"math"
	"time"

	"dsstne/internal/fault"
	"dsstne/internal/random"
	"dsstne/kernels"
)

// Run trains until maxSteps more steps are done or maxSeconds have passed (0: no such limit). After fault.Cancelled and
// fault.NotFinite the model is usable, and the progress that is returned tells how far it came.
func (t *Trainer) Run(maxSteps uint64, maxSeconds float64) (Progress, error) {
	if maxSteps == 0 && !(maxSeconds > 0) {
		return t.Progress(), fault.New(fault.InvalidArgument, "a run needs a limit: max_steps or max_seconds")
	}
	if math.IsNaN(maxSeconds) || math.IsInf(maxSeconds, 0) || maxSeconds < 0 {
		return t.Progress(), fault.New(fault.InvalidArgument, "max_seconds is %v; it must be a finite number of at least 0", maxSeconds)
	}
	unlock, err := t.Model.TryWriteAs(t)
	if err != nil {
		return t.Progress(), err
	}
	defer unlock()
	t.cancelled.Store(false)
	if err := t.prepare(); err != nil {
		return t.Progress(), err
	}
	if err := t.own(); err != nil {
		return t.Progress(), err
	}
	if err := t.load(); err != nil {
		return t.Progress(), err
	}
	if err := t.program.Begin(&t.step); err != nil {
		return t.Progress(), err
	}
	t.setRunning(true)
	defer t.setRunning(false)
	start, before := time.Now(), t.seen
	err = t.loop(maxSteps, maxSeconds, start)
	if flushErr := t.catchUp(); err == nil && flushErr != nil {
		err = t.explain(flushErr)
	}
	if t.program.HasCopies() {
		err = t.lend(err)
	}
	t.measure(t.seen-before, time.Since(start)) // with the catching up, which is part of the work
	t.setRunning(false)
	return t.Progress(), err
}

// catchUp ends a run: rows that lag behind are brought up to date, so that whoever reads the weights finds them whole, also
// after an error. No row needs the rates of these steps any more.
func (t *Trainer) catchUp() error {
	if err := t.program.Flush(&t.step); err != nil {
		return err // and rows that still lag behind will need the rates
	}
	t.step.Rates, t.step.RatesFrom = t.step.Rates[:0], t.step.Number+1
	return nil
}

func (t *Trainer) setRunning(running bool) {
	t.mu.Lock()
	t.progress.Running = running
	t.mu.Unlock()
}

// loop does steps until a limit, a cancel request or an error. The device may have some under way while the next one is
// prepared; whatever ends the loop, all that were begun are done then, and it ends as if each had been done before the next.
func (t *Trainer) loop(maxSteps uint64, maxSeconds float64, start time.Time) error {
	before := t.seen
	t.settled = t.step.Number
	settle := func(underWay int) error {
		err := t.settle(underWay)
		t.measure(t.seen-before, time.Since(start))
		return err
	}
	var ended error
	for begun := uint64(0); maxSteps == 0 || begun < maxSteps; begun++ {
		if t.cancelled.Load() {
			ended = fault.New(fault.Cancelled, "training was cancelled after step %d; the model is usable", t.step.Number)
			break
		}
		if maxSeconds > 0 && time.Since(start).Seconds() >= maxSeconds {
			break
		}
		if ended = t.advance(); ended != nil {
			break
		}
		if err := settle(kernels.MostUnderWay); err != nil {
			return err
		}
	}
	if err := settle(0); err != nil {
		return err
	}
	return ended
}

// advance begins a step.
func (t *Trainer) advance() error {
	t.choose()
	number := t.step.Number + 1
	for slot := range t.feeds {
		if t.program.Makes(slot) {
			continue
		}
		f := &t.feeds[slot]
		if err := f.reader.Batch(t.order, number, true, &f.batch); err != nil {
			return fault.Wrap(err, "layer %q", f.name)
		}
	}
	t.step.TermFactors = t.net.TermFactors(number)
	t.step.Number, t.step.Rows, t.step.Order = number, int64(len(t.order)), t.order
	t.step.Rates = append(t.step.Rates, t.options.Optimizer.RatesAt(number, t.rate(number)))
	if err := t.program.Run(&t.step); err != nil {
		return t.explain(err)
	}
	return nil
}

// rate is the learning rate of a step.
func (t *Trainer) rate(number int64) float64 {
	return t.options.LearningRate * t.options.Schedule.At(number)
}

// settle waits until at most so many steps are under way, and counts those that are done. If one has failed, it is the last
// one that was begun, as far as anybody sees: those after it have changed nothing.
func (t *Trainer) settle(underWay int) error {
	results, err := t.program.Settle(underWay)
	for _, r := range results {
		t.settled = r.Number
		t.seen += r.Rows
		t.Model.SetStep(t.Model.Step() + 1)
		t.report(r)
	}
	if err == nil {
		return nil
	}
	t.step.Number = min(t.step.Number, t.settled+1)
	t.step.Rates = t.step.Rates[:max(0, t.step.Number-t.step.RatesFrom+1)]
	return t.explain(err)
}

// choose fills order with the rows of the next step: position p of the epoch is row p, or its image under the epoch's
// permutation.
func (t *Trainer) choose() {
	steps := t.stepsPerEpoch()
	epoch, first := t.step.Number/steps, t.step.Number%steps*t.options.BatchSize
	t.order = t.order[:0]
	permutation := random.NewPermutation(t.options.Seed, epoch, t.Rows())
	for p := first; p < min(first+t.options.BatchSize, t.Rows()); p++ {
		row := p
		if !t.options.KeepOrder {
			row = permutation.At(p)
		}
		t.order = append(t.order, row)
	}
}

// report updates the progress after a step.
func (t *Trainer) report(r kernels.Result) {
	var loss float64
	for _, l := range r.Loss {
		loss += l
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	steps, p := t.stepsPerEpoch(), &t.progress
	if epoch := (r.Number - 1) / steps; epoch != t.lossEpoch { // a step that failed may have been the last of its epoch
		t.lossEpoch, t.lossSum, t.lossExamples = epoch, 0, 0
	}
	t.lossSum += loss * float64(r.Rows)
	t.lossExamples += r.Rows
	p.Step, p.Epoch = uint64(r.Number), uint64(r.Number/steps)
	p.Examples = uint64(r.Number % steps * t.options.BatchSize)
	p.Loss = t.lossSum / float64(t.lossExamples)
	if p.Examples == 0 {
		p.EpochLoss = p.Loss
	}
	p.LearningRate = t.rate(r.Number)
}

// measure updates the rate of the running or last run.
func (t *Trainer) measure(examples int64, elapsed time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.progress.Seconds = elapsed.Seconds()
	t.progress.ExamplesPerSecond = float64(examples) / elapsed.Seconds()
}

// explain turns a number that is not finite into an error that says where, when and what to try.
func (t *Trainer) explain(err error) error {
	var bad *kernels.NotFiniteError
	if !errors.As(err, &bad) {
		return err
	}
	return fault.From(fault.NotFinite, err,
		"training stopped at step %d (epoch %d); the model keeps its last finite weights. "+
			"Try a learning_rate below %g, a warm-up, input_scaling=\"l2\" or smaller values in the data",
		t.step.Number, (t.step.Number-1)/t.stepsPerEpoch()+1, t.options.LearningRate)
}
