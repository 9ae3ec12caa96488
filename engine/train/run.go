package train

import (
	"cmp"
	"errors"
	"math"
	"time"

	"dsstne/engine/devices"
	"dsstne/internal/fault"
	"dsstne/internal/parallel"
	"dsstne/internal/random"
	"dsstne/kernels"
)

// Run trains until maxSteps more steps are done or maxSeconds have passed (0: no such limit), and returns the
// progress, also with an error. After fault.Cancelled and fault.NotFinite the model is usable.
func (t *Trainer) Run(maxSteps uint64, maxSeconds float64) (Progress, error) {
	if maxSteps == 0 && !(maxSeconds > 0) {
		return t.Progress(), fault.New(fault.InvalidArgument, "a run needs a limit: max_steps or max_seconds")
	}
	if math.IsNaN(maxSeconds) || math.IsInf(maxSeconds, 0) || maxSeconds < 0 {
		return t.Progress(), fault.New(fault.InvalidArgument, "max_seconds is %v; it must be a finite number of at least 0",
			maxSeconds)
	}
	unlock, err := t.Model.TryWriteAs(t)
	if err != nil {
		return t.Progress(), err
	}
	defer unlock()
	t.cancelled.Store(false)
	for _, begin := range []func() error{t.prepare, t.own, t.load, func() error { return t.program.Begin(&t.step) }} {
		if err := begin(); err != nil {
			return t.Progress(), err
		}
	}
	stop, err := t.startProfile()
	if err != nil {
		return t.Progress(), err
	}
	defer stop()
	defer t.Compute()()
	t.setRunning(true)
	defer t.setRunning(false)
	start, before := time.Now(), t.seen
	err = t.loop(maxSteps, maxSeconds, start)
	t.profile.begin()
	flushErr := t.explain(t.catchUp())
	t.profile.ends(catchingUp)
	err = cmp.Or(err, flushErr)
	if t.program.HasCopies() {
		err = t.lend(err)
	}
	t.measure(t.seen-before, time.Since(start)) // with the catching up, which is part of the work
	t.setRunning(false)
	return t.Progress(), err
}

// catchUp ends a run: it brings rows that lag behind up to date, also after an error, and then drops the rates of the
// steps.
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

// loop does steps until a limit, a cancel request or an error. The host prepares the next step while steps are under
// way. At the end all have ended, with the result as if each had ended before the next began.
func (t *Trainer) loop(maxSteps uint64, maxSeconds float64, start time.Time) error {
	before := t.seen
	t.settled = t.step.Number
	countAndMeasure := func(underWay int) error {
		err := t.count(underWay)
		t.measure(t.seen-before, time.Since(start))
		return err
	}
	t.profile.begin()
	var ended error
	for begun := uint64(0); ended == nil && (maxSteps == 0 || begun < maxSteps); begun++ {
		if t.cancelled.Load() {
			ended = fault.New(fault.Cancelled, "training was cancelled after step %d; the model is usable", t.step.Number)
			break
		}
		if maxSeconds > 0 && time.Since(start).Seconds() >= maxSeconds {
			break
		}
		if ended = t.advance(); ended == nil {
			if err := countAndMeasure(t.profile.underWay()); err != nil {
				return err
			}
			t.profile.ends(settling)
			if err := t.profile.add(&t.step); err != nil {
				return err
			}
			t.profile.begin()
		}
	}
	return cmp.Or(countAndMeasure(0), ended)
}

// advance begins a step.
func (t *Trainer) advance() error {
	t.choose()
	number := t.step.Number + 1
	threads := devices.Threads(t.options.Placement.Threads)
	if err := parallel.Do(threads, len(t.feeds), func(slot int) error { return t.batch(slot, number) }); err != nil {
		return err
	}
	t.profile.ends(batching)
	t.weighBatch()
	t.step.TermFactors = t.net.TermFactors(number, t.stepsPerEpoch())
	t.step.Number, t.step.Rows, t.step.Order = number, int64(len(t.order)), t.order
	t.step.Rates = append(t.step.Rates, t.options.Optimizer.RatesAt(number, t.rate(number)))
	return t.explain(t.program.Run(&t.step))
}

// batch makes a slot's batch of a step, unless the devices make it.
func (t *Trainer) batch(slot int, number int64) error {
	if t.program.Makes(slot) {
		return nil
	}
	f := &t.feeds[slot]
	return fault.Wrap(f.reader.Batch(t.order, number, true, &f.batch), "layer %q", f.name)
}

// rate is the learning rate of a step.
func (t *Trainer) rate(number int64) float64 {
	return t.options.LearningRate * t.options.Schedule.At(number, t.stepsPerEpoch())
}

// count waits until at most underWay steps are under way, and counts the steps that are done. A step that has failed
// counts as the last that was begun, since the steps behind it have changed nothing.
func (t *Trainer) count(underWay int) error {
	results, err := t.program.Settle(underWay)
	t.profile.ends(working)
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

// choose fills order with the rows of the next step: position p of the epoch is row p, or its image in a permutation.
func (t *Trainer) choose() {
	epoch, steps := t.place(t.step.Number)
	first := steps * t.options.BatchSize
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
	if epoch, _ := t.place(r.Number - 1); epoch != t.lossEpoch { // a step that failed may have been the last of its epoch
		t.lossEpoch, t.lossSum, t.lossExamples = epoch, 0, 0
	}
	t.lossSum += loss * float64(r.Rows)
	t.lossExamples += r.Rows
	p := &t.progress
	t.reach(r.Number)
	p.Loss = t.lossSum / float64(t.lossExamples)
	if p.Examples == 0 {
		p.EpochLoss = p.Loss
	}
}

// reach updates what the progress says about the last step.
func (t *Trainer) reach(step int64) {
	epochs, steps := t.place(step)
	t.progress.Step, t.progress.Epoch = uint64(step), uint64(epochs)
	t.progress.Examples = uint64(steps * t.options.BatchSize)
	if step > 0 {
		t.progress.LearningRate = t.rate(step)
	}
}

// measure updates the rate of the running or last run.
func (t *Trainer) measure(examples int64, elapsed time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.progress.Seconds = elapsed.Seconds()
	t.progress.ExamplesPerSecond = float64(examples) / elapsed.Seconds()
}

// explain makes an error of a number that is not finite: where, when, what to try. It returns other errors as they are.
func (t *Trainer) explain(err error) error {
	var bad *kernels.NotFiniteError
	if !errors.As(err, &bad) {
		return err
	}
	epochs, _ := t.place(t.step.Number - 1)
	return fault.From(fault.NotFinite, err, "training stopped at step %d (epoch %d); the model keeps its last finite "+
		"weights. %s", t.step.Number, epochs+1, t.remedy())
}
