package conformance

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/kernels"
)

var (
	nan      = float32(math.NaN())
	infinite = float32(math.Inf(1))
)

// planted is a case with a number in it that must stop the op. It has 33 rows, 100 items and 31 units, so that the number
// is in the middle of things for every tile size.
type planted struct {
	name string
	c    opCase
}

const plantedRows, plantedItems, plantedUnits = 33, 100, 31

// plainOutput is an OutputStep without any peculiarity.
func plainOutput(loss kernels.Loss, temperature float32) *outputCase {
	s := newSampler(20)
	o := kernels.Optimizer{Kind: kernels.Adam, Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8}
	c := &outputCase{items: plantedItems, loss: loss, optimizer: o, temperature: temperature}
	c.step = s.step(o, plantedRows, nil, s.batch(plantedRows, plantedItems, "sparse", false))
	c.sources = []hiddenSource{{
		h: s.normal(plantedRows*plantedUnits, 1), dh: make([]float32, plantedRows*plantedUnits),
		weight: s.weight("w", plantedItems, plantedUnits, 0.1, o),
	}}
	c.bias = s.weight("bias", plantedItems, 1, 0.1, o)
	return c
}

func plantedOutputs() (list []planted) {
	add := func(name string, loss kernels.Loss, temperature float32, plant func(c *outputCase)) {
		c := plainOutput(loss, temperature)
		plant(c)
		list = append(list, planted{fmt.Sprintf("%s, loss %d, temperature %g", name, loss.Kind, temperature), c})
	}
	inHidden := func(x float32) func(*outputCase) {
		return func(c *outputCase) { c.sources[0].h[17*plantedUnits+11] = x }
	}
	for _, loss := range losses {
		for _, temperature := range []float32{0, 0.5} {
			add("NaN in h", loss, temperature, inHidden(nan))
			add("Inf in h", loss, temperature, inHidden(infinite))
		}
		add("logits beyond float32", loss, 0, func(c *outputCase) {
			c.sources[0].h[17*plantedUnits+11] = 1e10
			c.sources[0].weight.value[57*plantedUnits+11] = 3e38
		})
		add("NaN in a target", loss, 0, func(c *outputCase) {
			b := c.step.Sparse[1]
			b.Values[len(b.Values)/2], b.ItemValues[len(b.ItemValues)/2] = nan, nan
			for u := range b.RowSum {
				b.RowSum[u] = nan
			}
		})
		add("Inf in a target", loss, 0, func(c *outputCase) {
			b := c.step.Sparse[1]
			b.Values[len(b.Values)/2], b.ItemValues[len(b.ItemValues)/2] = infinite, infinite
			for u := range b.RowSum {
				b.RowSum[u] = infinite
			}
		})
		add("a learning rate that throws weights away", loss, 0, func(c *outputCase) {
			c.optimizer.Kind, c.sources[0].weight.state, c.bias.state = kernels.SGD, [2][]float32{}, [2][]float32{}
			c.step.Rates = []kernels.Rates{{}, {LearningRate: 3e38, Scale1: 1, Scale2: 1}}
			scaleBy(c.sources[0].h, 1000)
		})
		if loss.NeedsStats() {
			add("NaN in h at the statistics", loss, 0, func(c *outputCase) { inHidden(nan)(c); c.onlyStats = true })
		}
	}
	for _, x := range []float32{nan, infinite, -infinite} {
		c := plainOutput(marginalLoss, 0)
		inHidden(x)(c)
		list = append(list, planted{fmt.Sprintf("%g in h at marginal targets", x), &marginalCase{outputCase: *c}})
	}
	for _, loss := range append(slices.Clone(losses), pairLoss) {
		for _, x := range []float32{nan, infinite, -infinite} {
			c := plainOutput(loss, 0)
			inHidden(x)(c)
			addNegatives(c.step.Sparse[1], 2)
			list = append(list, planted{fmt.Sprintf("%g in h at entries, loss %+v", x, loss), &entriesCase{*c}})
		}
	}
	return list
}

func plantedBackwards() (list []planted) {
	s := newSampler(21)
	sgd := kernels.Optimizer{Kind: kernels.SGD}
	momentum := kernels.Optimizer{Kind: kernels.Momentum, Momentum: 0.9}
	for _, bad := range []float32{nan, infinite, -infinite} {
		word := fmt.Sprint(bad)
		dz := s.normal(plantedRows*plantedUnits, 1)
		dz[17*plantedUnits+11] = bad
		ones := make([]float32, len(dz))
		for i := range ones {
			ones[i] = 0.5
		}
		list = append(list,
			planted{word + " in dh of Backward", &backwardCase{
				step: s.step(sgd, plantedRows), units: plantedUnits, h: ones, dh: dz, optimizer: sgd,
				epilogue: &kernels.Epilogue{Activation: kernels.Activation{Kind: kernels.Tanh}}, bias: s.weight("bias", plantedUnits, 1, 1, sgd),
			}},
			planted{word + " in dz of DenseBackward", &denseBackwardCase{
				step: s.step(sgd, plantedRows), dz: dz, in: ones, optimizer: sgd,
				weight: s.weight("w", plantedUnits, plantedUnits, 1, sgd),
			}},
			planted{word + " in dz of Scatter", &scatterCase{
				step: s.step(sgd, plantedRows, nil, s.batch(plantedRows, plantedItems, "full", true)), dz: dz, optimizer: sgd,
				weight: s.weight("w", plantedItems, plantedUnits, 1, sgd),
			}},
			planted{word + " in a tied gradient", &scatterCase{
				step: s.step(sgd, plantedRows, nil, s.batch(plantedRows, plantedRows, "full", true)), dz: ones, tied: dz, optimizer: sgd,
				weight: s.weight("w", plantedRows, plantedUnits, 1, sgd),
			}})
	}
	for _, l1 := range []float32{0, 0.5, 10} { // the step of the last one is infinite
		for _, units := range []int64{1, plantedUnits, 32, 64, 128, 256} { // vectors alone, and in pieces of every length
			c := &scatterCase{
				step: s.step(sgd, plantedRows, nil, s.batch(plantedRows, plantedItems, "full", true)),
				dz:   s.normal(plantedRows*units, 1), optimizer: sgd, weight: s.weight("w", plantedItems, units, 1, sgd),
			}
			c.optimizer.L1 = l1
			c.step.Rates = []kernels.Rates{{}, {LearningRate: 3e38, Scale1: 1, Scale2: 1}}
			scaleBy(c.dz, 1000)
			list = append(list, planted{fmt.Sprintf("a learning rate that throws %d weights away, L1 %g", units, l1), c})
		}
	}
	replay := &replayCase{step: s.step(momentum, 1), input: -1, optimizer: momentum}
	replay.step.Number, replay.step.RatesFrom, replay.step.Rates = 9, 1, schedule(momentum, 9)
	replay.weight = s.weight("w", plantedItems, plantedUnits, 1, momentum)
	replay.weight.last = make([]int32, plantedItems)
	replay.weight.state[0][57*plantedUnits+11] = 3e38
	return append(list, planted{"a momentum that carries a weight away", replay})
}

// stops reports whether the op ends with a *NotFiniteError and every weight finite.
func stops(c planted, d kernels.Device) error {
	r, err := c.c.run(d)
	var stopped *kernels.NotFiniteError
	if !errors.As(err, &stopped) {
		return fmt.Errorf("%s: error %w, want a NotFiniteError", c.name, err)
	}
	for _, f := range r {
		if f.name != "w" && f.name != "w0" && f.name != "bias" {
			continue
		}
		for i, x := range f.data {
			if math.Abs(x) <= math.MaxFloat32 {
				continue
			}
			return fmt.Errorf("%s: %s[%d] = %g", c.name, f.name, i, x)
		}
	}
	return nil
}

func TestANumberThatIsNotFiniteStopsTheOpAndLeavesWeightsFinite(t *testing.T) {
	t.Parallel()
	forEveryBackend(t, func(t *testing.T, open opener) {
		open = open.reusing()
		for _, threads := range threadsOf(open) {
			for _, c := range some(open(threads), everyPlanted(), 3) {
				require.NoError(t, stops(c, open(threads)))
			}
		}
	})
}

func everyPlanted() []planted { return append(plantedOutputs(), plantedBackwards()...) }
