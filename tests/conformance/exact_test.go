package conformance

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/kernels"
)

// Numbers with few bits are the same in bfloat16, and so are all sums of their products, in any order: a device must give
// the same bits at both precisions. Whatever is packed wrongly, left out or read from outside shows.

// exactShapes leave every remainder that two in a word, a vector and a tile may leave.
func exactShapes() [][3]int64 {
	shapes := [][3]int64{{3, 5, 7}, {1, 17, 1}, {33, 57, 63}, {15, 29, 33}, {65, 113, 129}, {2, 1, 2}, {34, 2049, 18}, {5, 3001, 1003}}
	return append(append(shapes, outputShapes...), layerShapes...)
}

// small fills a matrix with whole numbers up to a magnitude.
func (s *sampler) small(n int64, most int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(s.IntN(2*most+1) - most)
	}
	return x
}

// directions fills a matrix with rows that have 1, 4, 16 or 64 ones, as many as fit, of both signs, and are zeros else.
func (s *sampler) directions(rows, columns int64) []float32 {
	x := make([]float32, rows*columns)
	ones := int64(64)
	for ones > columns {
		ones /= 4
	}
	for r := range rows {
		for _, k := range s.Perm(int(columns))[:ones] {
			x[r*columns+int64(k)] = float32(2*s.IntN(2) - 1)
		}
	}
	return x
}

// largest is up to which magnitude factors may go so that a sum of n products stays below 2^8, or nearly.
func largest(n int64) int { return int(math.Max(1, math.Min(4, math.Sqrt(64/math.Sqrt(float64(n)))))) }

func ones(b *kernels.SparseBatch) *kernels.SparseBatch {
	for n := range b.Values {
		b.Values[n], b.ItemValues[n] = 1, 1
	}
	for u := range b.RowSum {
		b.RowSum[u] = float32(b.Offsets[u+1] - b.Offsets[u])
	}
	return b
}

func exactOutputs(onlyStats bool) (cases []opCase) {
	s := newSampler(25)
	for _, shape := range exactShapes() {
		for _, temperature := range []float32{0, 1} {
			b, items, units := shape[0], shape[1], shape[2]
			c := &outputCase{onlyStats: onlyStats, items: items, temperature: temperature, optimizer: s.optimizer()}
			target := ones(s.batch(b, items, pick(s, "target", batchKinds...), false))
			c.step = s.step(c.optimizer, b, s.batch(b, items, pick(s, "input", batchKinds...), true), target)
			c.loss = kernels.Loss{Kind: kernels.Squared, Weight: float32(c.step.WholeRows()) / 4} // a quarter for each row
			if onlyStats {
				c.loss = kernels.Loss{Kind: kernels.Softmax, Weight: 1}
			}
			sources, written := 1, pick(s, "written", false, false, true)
			if temperature == 0 {
				sources = pick(s, "sources", 1, 2, 1, 3)
			}
			for n := range sources {
				columns := units
				if n > 0 {
					columns = 1 + units/2
				}
				most := largest(units * int64(sources))
				source := hiddenSource{h: s.small(b*columns, most)}
				source.weight = s.weight(fieldOf("w", n), items, columns, 1, c.optimizer)
				source.weight.value, source.weight.written = s.small(items*columns, most), written
				if temperature != 0 {
					source.h, source.weight.value = s.directions(b, columns), s.directions(items, columns)
				}
				if pick(s, "dh", true, true, true, false) {
					// A sum of more than one tile may be added to what is there as a whole or tile by tile.
					source.dh, source.accumulate = s.normal(b*columns, 1), pick(s, "accumulate", false, true) && items < 2048
				}
				c.sources = append(c.sources, source)
			}
			if pick(s, "bias", true, true, false) {
				c.bias = s.weight("bias", items, 1, 1, c.optimizer)
				c.bias.value, c.bias.written = s.small(items, 1), written
			}
			c.tied = sources == 1 && pick(s, "tied", false, true)
			c.title = fmt.Sprint(shape, " temperature=", temperature, " ", s.title())
			cases = append(cases, c)
		}
	}
	s.covered()
	return cases
}

func exactDense() (cases []opCase) {
	s := newSampler(26)
	for _, shape := range exactShapes() {
		b, units, columns := shape[0], shape[1], shape[2]
		most := largest(columns)
		forward := &forwardCase{step: s.step(kernels.Optimizer{}, b), in: s.small(b*columns, most), out: s.normal(b*units, 1)}
		forward.weight = &weight{name: "w", rows: units, columns: columns, value: s.small(units*columns, most)}
		forward.accumulate = pick(s, "accumulate", false, true)
		if pick(s, "epilogue", true, false) {
			forward.epilogue, forward.bias = s.epilogue(units, 1)
		}
		forward.title = fmt.Sprint("Dense ", shape, " ", s.title())
		back := &denseBackwardCase{optimizer: s.optimizer(), dz: s.small(b*units, 100), in: s.small(b*columns, 3)}
		back.step = s.step(back.optimizer, b)
		back.weight = s.weight("w", units, columns, 1, back.optimizer)
		back.weight.value, back.weight.written = s.small(units*columns, 3), pick(s, "written", false, true)
		if pick(s, "din", true, true, false) {
			back.din, back.accumulate = s.normal(b*columns, 1), pick(s, "accumulate", false, true)
		}
		back.title = fmt.Sprint("DenseBackward ", shape, " ", s.title())
		cases = append(cases, forward, back)
	}
	s.covered()
	return cases
}

// representable reports whether every gradient with respect to a logit is a bfloat16 number.
func (c *outputCase) representable() bool {
	targets := c.targets()
	for n, z := range c.logits() {
		dz := float32((z.value - targets[n]) / 4)
		if dz != roundedTo16(dz) {
			return false
		}
	}
	return true
}

// sumsOfExponentials are the numbers of an OutputStats that are no sums of few bits. A device may add them in another order at
// another precision: then each is off by a few roundings.
func sumsOfExponentials(c opCase, want result) map[string][]float64 {
	o, is := c.(*outputCase)
	if !is || !o.onlyStats {
		return nil
	}
	bounds := make([]float64, 2*o.step.Rows)
	for u := range o.step.Rows {
		bounds[2*u+1] = 4 * unit * (1 + math.Abs(want[0].data[2*u+1]))
	}
	return map[string][]float64{"stats": bounds}
}

func TestNumbersOfFewBitsGiveTheBitsOfFloat32AtEveryPrecision(t *testing.T) {
	t.Parallel()
	steps := exactOutputs(false)
	for _, c := range steps {
		require.True(t, c.(*outputCase).representable(), c.name())
	}
	cases := append(append(steps, exactOutputs(true)...), exactDense()...)
	for _, p := range []kernels.Precision{kernels.BFloat16, kernels.TensorFloat32} {
		forEveryDeviceThatRounds(t, p, func(t *testing.T, narrow, wide opener) {
			t.Parallel()
			narrow = narrow.reusing()
			a, b := narrow(2), wide(2)
			for n, c := range cases {
				if spares(narrow, n) {
					continue
				}
				got, err := c.run(a)
				require.NoError(t, err, c.name())
				want, err := c.run(b)
				require.NoError(t, err, c.name())
				require.NoError(t, compare(got, want, sumsOfExponentials(c, want)), c.name())
			}
		})
	}
}
