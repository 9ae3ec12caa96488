package conformance

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/kernels"
)

// replayCase is a Replay.
type replayCase struct {
	title     string
	step      *kernels.Step
	input     int
	weight    *weight
	optimizer kernels.Optimizer
}

func (c *replayCase) name() string { return c.title }

func (c *replayCase) run(d kernels.Device) (r result, err error) {
	p := &place{device: d}
	defer p.free()
	op := &kernels.Replay{Input: c.input, Weight: c.weight.place(p), Optimizer: c.optimizer}
	err = d.Replay(op, c.step)
	r.addWeights(op.Weight)
	return r, err
}

// upto is the step that a row must be brought to, or 0 for a row that is not looked at.
func (c *replayCase) upto(row int64) int64 {
	if c.input < 0 {
		return c.step.Number
	}
	for _, item := range c.step.Sparse[c.input].Items {
		if int64(item) == row {
			return c.step.Number - 1
		}
	}
	return 0
}

// bounds follows every number through its missed steps. An error in the state of a step moves the next state by at most as
// much (the factors of the states are below 1) and the next weight by at most the change of the rule, which is evaluated at
// both ends of the state's interval.
func (c *replayCase) bounds() map[string][]float64 {
	w := c.weight
	size := w.rows * w.columns
	all := [3][]float64{make([]float64, size), make([]float64, size), make([]float64, size)}
	for i := range size {
		row := i / w.columns
		x, off := w.number(i), number{}
		for n := int64(w.last[row]) + 1; n <= c.upto(row); n++ {
			x, off = zeroStep(ruleOf(c.optimizer, c.step.RatesOf(n), w.noDecay), x, off)
		}
		for f := range all {
			all[f][i] = off[f]
		}
	}
	to := map[string][]float64{w.name: all[0]}
	for s, state := range w.state {
		if state != nil {
			to[w.name+[]string{".state0", ".state1"}[s]] = all[s+1]
		}
	}
	return to
}

// zeroStep makes a zero-gradient step and carries the error along.
func zeroStep(r rule, x, off number) (number, number) {
	next, _ := r.apply(x, 0)
	own := r.bound(x, 0, 0)
	var carried number
	for corner := range 8 {
		y := x
		for f := range y {
			y[f] += off[f] * float64(corner>>f&1*2-1)
		}
		y[2] = max(y[2], 0)
		if r.Kind == kernels.RMSProp || r.Kind == kernels.AdaGrad || r.Kind == kernels.AdaDelta {
			y[1] = max(y[1], 0)
		}
		moved, _ := r.apply(y, 0)
		for f := range carried {
			carried[f] = max(carried[f], moved[f]-next[f], next[f]-moved[f])
		}
	}
	for f := range own {
		own[f] += carried[f]
	}
	return next, own
}

// schedule gives the rates of steps 1 to n with a learning rate that changes every few steps.
func schedule(o kernels.Optimizer, n int64) []kernels.Rates {
	rates := make([]kernels.Rates, n)
	for i := range rates {
		rates[i] = o.RatesAt(int64(i)+1, 0.05/float64(1+i/3))
	}
	return rates
}

func replayCases() (cases []opCase) {
	s := newSampler(16)
	for range 36 {
		shape := pick(s, "shape", layerShapes...)
		b, items, units := min(shape[0], 33), min(shape[1], 300), shape[2]
		c := &replayCase{optimizer: s.optimizer()}
		c.input = pick(s, "input", 1, -1)
		batch := s.batch(b, items, pick(s, "batch", batchKinds...), true)
		c.step = s.step(c.optimizer, b, nil, batch)
		c.step.Number, c.step.RatesFrom, c.step.Rates = 9, 1, schedule(c.optimizer, 9)
		c.weight = s.weight("w", items, units, 1, c.optimizer)
		c.weight.noDecay = pick(s, "exempt", false, false, true)
		c.weight.last = make([]int32, items)
		for row := range c.weight.last {
			c.weight.last[row] = int32(s.IntN(9))
			if s.IntN(4) == 0 { // a row that was never touched
				c.weight.last[row] = 0
				for _, state := range c.weight.state {
					if state != nil {
						clear(state[int64(row)*units : int64(row+1)*units])
					}
				}
			}
		}
		c.title = s.title()
		cases = append(cases, c)
	}
	s.covered()
	return cases
}

// everyOptimizer is each rule with and without decay and L1, which makes some weights of a size near 1 exactly 0.
func everyOptimizer() (list []kernels.Optimizer) {
	for _, kind := range optimizerKinds {
		for _, penalty := range [][2]float32{{0, 0}, {0.02, 0}, {0, 0.3}, {0.02, 0.3}} {
			list = append(list, kernels.Optimizer{
				Kind: kind, Momentum: 0.9, Beta1: 0.9, Beta2: 0.99, Epsilon: 1e-8, WeightDecay: penalty[0], L1: penalty[1],
			})
		}
	}
	return list
}

// replayUpto makes a flush at each of the given steps.
func replayUpto(d kernels.Device, o kernels.Optimizer, steps ...int64) (result, error) {
	p := &place{device: d}
	defer p.free()
	s := newSampler(17)
	source := s.weight("w", 37, 19, 1, o)
	source.last = make([]int32, source.rows)
	for row := range source.last {
		source.last[row] = int32(row % 5)
	}
	w := source.place(p)
	var r result
	for _, n := range steps {
		step := &kernels.Step{Number: n, RatesFrom: 1, Rates: schedule(o, n)}
		if err := d.Replay(&kernels.Replay{Input: -1, Weight: w, Optimizer: o}, step); err != nil {
			return nil, err
		}
	}
	r.addWeights(w)
	return r, nil
}

// splitReplayAgrees reports whether a replay in pieces gives the bits of a replay at once.
func splitReplayAgrees(d kernels.Device, o kernels.Optimizer) error {
	want, err := replayUpto(d, o, 40)
	if err != nil {
		return err
	}
	for _, pieces := range [][]int64{{1, 40}, {39, 40}, {7, 8, 20, 33, 40}, {40, 40}} {
		got, err := replayUpto(d, o, pieces...)
		if err != nil {
			return err
		}
		if err := compare(got, want, nil); err != nil {
			return fmt.Errorf("in pieces %v: %w", pieces, err)
		}
	}
	return nil
}

func TestAReplayInPiecesGivesTheBitsOfOneAtOnce(t *testing.T) {
	forEveryBackend(t, func(t *testing.T, open opener) {
		d := open(1)
		for _, o := range everyOptimizer() {
			require.NoError(t, splitReplayAgrees(d, o), "%+v", o)
		}
	})
}
