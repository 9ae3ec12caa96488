package conformance

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"dsstne/kernels"
)

// sampler draws the options of cases. Each feature's values are dealt like a deck of cards that is shuffled again when it
// is used up, so that n draws cover every one of up to n values, in combinations that follow from the seed.
type sampler struct {
	*rand.Rand
	decks map[string][]int
	dealt map[string]int // how often a feature was drawn, less the number of its values
	words []string       // what was drawn, for the case's name
	steps int            // how many were made
}

func newSampler(seed uint64) *sampler {
	return &sampler{Rand: rand.New(rand.NewPCG(seed, 1)), decks: map[string][]int{}, dealt: map[string]int{}}
}

func pick[T any](s *sampler, feature string, values ...T) T {
	deck, known := s.decks[feature]
	if !known {
		s.dealt[feature] = -len(values)
	}
	s.dealt[feature]++
	if len(deck) == 0 {
		deck = s.Perm(len(values))
	}
	value := values[deck[0]]
	s.decks[feature] = deck[1:]
	s.words = append(s.words, fmt.Sprintf("%s=%v", feature, value))
	return value
}

// covered panics if a value of a feature is in no case, so that a list that became too short is noticed.
func (s *sampler) covered() {
	for feature, surplus := range s.dealt {
		if surplus < 0 {
			panic(fmt.Sprintf("%d values of the feature %q are in no case", -surplus, feature))
		}
	}
}

// title is the name of a case: all that was drawn since the last title.
func (s *sampler) title() string {
	text := strings.Join(s.words, " ")
	s.words = nil
	return text
}

// normal fills a matrix with normal numbers of a size; a few are exactly 0.
func (s *sampler) normal(n int64, size float64) []float32 {
	x := make([]float32, n)
	for i := range x {
		if s.IntN(50) != 0 {
			x[i] = float32(size * s.NormFloat64())
		}
	}
	return x
}

// optimizer draws one with the rates of some step.
func (s *sampler) optimizer() kernels.Optimizer {
	o := kernels.Optimizer{
		Kind: pick(s, "optimizer", optimizerKinds...),
		// Two sets of constants, so that one that is ignored shows.
		Momentum: pick(s, "momentum", float32(0.9), 0.5), Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8,
	}
	if o.Momentum == 0.5 {
		o.Beta1, o.Beta2, o.Epsilon = 0.8, 0.95, 1e-4
	}
	o.WeightDecay = pick(s, "decay", float32(0), 0.01)
	o.L1 = pick(s, "l1", float32(0), 0, 2) // weights of a size near 1 move by 0.1, so that some become 0
	return o
}

// weight draws a weight with a plausible state: first moments of any sign, second moments that belong to them.
func (s *sampler) weight(name string, rows, columns int64, size float64, o kernels.Optimizer) *weight {
	w := &weight{name: name, rows: rows, columns: columns, value: s.normal(rows*columns, size)}
	switch o.Kind {
	case kernels.SGD:
	case kernels.RMSProp, kernels.AdaGrad:
		w.state[0] = squares(s.normal(rows*columns, 0.1))
	case kernels.AdaDelta:
		w.state[0] = squares(s.normal(rows*columns, 0.1))
		w.state[1] = squares(s.normal(rows*columns, 0.1))
	case kernels.Momentum, kernels.Nesterov:
		w.state[0] = s.normal(rows*columns, 0.1)
	case kernels.Adam, kernels.AdamW:
		w.state[0] = s.normal(rows*columns, 0.1)
		w.state[1] = squares(s.normal(rows*columns, 0.1))
		for i, m := range w.state[0] {
			w.state[1][i] += m * m
		}
	default:
		panic(unhandled(o.Kind))
	}
	return w
}

func squares(x []float32) []float32 {
	for i := range x {
		x[i] *= x[i]
	}
	return x
}

// step is a training step with rates of the optimizer at a small learning rate. Other batches of its program are larger, by
// nothing, by a row or by more than a tile has: what an op does must not depend on that.
func (s *sampler) step(o kernels.Optimizer, rows int64, batches ...*kernels.SparseBatch) *kernels.Step {
	number, most := int64(3), rows+[]int64{0, 1, 70}[s.steps%3]
	s.steps++
	s.words = append(s.words, fmt.Sprintf("room for %d rows", most))
	step := &kernels.Step{
		Number: number, Rows: rows, MaxRows: most, Training: true, Seed: 0x1234567890abcdef, Sparse: batches, Loss: make([]float64, 2),
		Rates: []kernels.Rates{{LearningRate: -1}, o.RatesAt(number, 0.05)}, RatesFrom: number - 1,
	}
	if s.steps%3 == 1 {
		step.TermFactors = []float32{-1, 0.5} // of the second output, which is the one that cases are about
	}
	if s.steps%5 == 4 {
		s.words = append(s.words, "weighted rows")
		step.RowWeights = [][]float32{nil, rowWeights(rows)}
	}
	if s.steps%4 == 2 { // a part of a batch
		step.First, step.Whole = 5, rows+7
	}
	return step
}

// rowWeights are 1, 0, 2, 1/2 and so on.
func rowWeights(rows int64) []float32 {
	weights := make([]float32, rows)
	for u := range weights {
		weights[u] = []float32{1, 0, 2, 0.5}[u%4]
	}
	return weights
}

// fresh is a copy of a step whose loss counts from zero.
func fresh(step *kernels.Step) *kernels.Step {
	c := *step
	c.Loss = make([]float64, len(step.Loss))
	return &c
}

// batch draws a sparse batch of a kind; values are between 0 and 1, or of both signs.
func (s *sampler) batch(rows, columns int64, kind string, signed bool) *kernels.SparseBatch {
	density := math.Min(1, math.Max(0.05, 2/float64(columns)))
	lists := make([]map[int32]float32, rows)
	for u := range lists {
		lists[u] = map[int32]float32{}
		for i := range columns {
			take := s.Float64() < density
			switch kind {
			case "empty":
				take = false
			case "full":
				take = true
			case "gaps": // every second row has nothing
				take = take && u%2 == 1
			case "column": // everybody has the same one item
				take = i == columns/2
			case "crowded": // a third of the rows has nearly all items, and a third about two thirds of them
				take = take || s.IntN(100) < []int{0, 65, 99}[u%3]
			}
			if take {
				lists[u][int32(i)] = 1
				if s.IntN(2) == 0 {
					lists[u][int32(i)] = float32(1 - s.Float64())
				}
				if signed && s.IntN(2) == 0 {
					lists[u][int32(i)] *= -1
				}
			}
		}
	}
	return batchOf(columns, lists)
}

// batchOf puts rows of item -> value into both orders.
func batchOf(columns int64, rows []map[int32]float32) *kernels.SparseBatch {
	b := &kernels.SparseBatch{Columns: columns, Offsets: []int32{0}, ItemOffsets: []int32{0}}
	for _, row := range rows {
		sum := 0.0
		for i := range columns {
			if x, found := row[int32(i)]; found {
				b.Indices, b.Values = append(b.Indices, int32(i)), append(b.Values, x)
				sum += float64(x)
			}
		}
		b.Offsets = append(b.Offsets, int32(len(b.Indices)))
		b.RowSum = append(b.RowSum, float32(sum))
	}
	for i := range columns {
		before := len(b.ItemRows)
		for u, row := range rows {
			if x, found := row[int32(i)]; found {
				b.ItemRows, b.ItemValues = append(b.ItemRows, int32(u)), append(b.ItemValues, x)
			}
		}
		if len(b.ItemRows) > before {
			b.Items = append(b.Items, int32(i))
			b.ItemOffsets = append(b.ItemOffsets, int32(len(b.ItemRows)))
		}
	}
	return b
}
