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

// rankingCase is a TopK, or with k = 0 a Scores. It has no bounds: scores are defined to the bit.
type rankingCase struct {
	title       string
	rows, items int64
	columns     int64
	sources     [][2][]float32 // h [B, K] and W [I, K]
	halves      halves         // of W, if its numbers have 2 bytes
	sparse      *sparseMatrix
	rowsOf      *kernels.SparseBatch // that the sparse source reads
	ifEmpty     bool                 // the bias counts for empty rows only
	given       []float32            // scores
	inList      bool                 // Scores go to the device's memory
	bias        []float32
	temperature float32
	k           int64
	first       int64
	exclude     *kernels.SparseBatch
	allowed     []uint64
}

func (c *rankingCase) name() string                 { return c.title }
func (c *rankingCase) bounds() map[string][]float64 { return nil }

func (c *rankingCase) run(d kernels.Device) (r result, err error) {
	p := &place{device: d}
	defer p.free()
	scorer := kernels.Scorer{Items: c.items, Temperature: c.temperature}
	for n, s := range c.sources {
		source := kernels.OutputSource{H: p.guarded(s[0], c.columns)}
		if name := fieldOf("w", n); c.halves.storage != kernels.StoredFloat32 {
			source.Weight = c.halves.place(p, name, c.items, c.columns, s[1])
		} else {
			source.Weight = (&weight{name: name, rows: c.items, columns: c.columns, value: s[1]}).place(p)
		}
		scorer.Sources = append(scorer.Sources, source)
	}
	if c.sparse != nil {
		scorer.Sparse = c.sparse.place(p)
		scorer.Sparse.BiasIfEmpty = c.ifEmpty
	}
	if c.given != nil {
		scorer.IsGiven, scorer.Given = true, p.guarded(c.given, c.items)
	}
	if c.bias != nil {
		scorer.Bias = (&weight{name: "bias", rows: c.items, columns: 1, value: c.bias}).place(p)
	}
	batches := []*kernels.SparseBatch{nil, c.exclude, c.rowsOf}
	step := &kernels.Step{Number: 1, Rows: c.rows, MaxRows: c.rows + guardRows, Sparse: batches}
	if c.k == 0 {
		op := &kernels.Scores{Scorer: scorer, Stride: c.items + 3, Out: guards((c.items + 3) * (c.rows + guardRows))}
		if c.inList {
			op = &kernels.Scores{Scorer: scorer, Name: "a part", To: p.guarded(guards(c.items*c.rows), c.items)}
		}
		op.Workspace = p.workspace(op, step.Most())
		err = d.Scores(op, step)
		out := op.Out
		if c.inList {
			out = contents(op.To)
		}
		for i, x := range out {
			if x != x { // which NaN it is depends on the CPU
				out[i] = float32(math.NaN())
			}
		}
		r.addFloats("scores", out)
		return r, err
	}
	op := &kernels.TopK{
		Scorer: scorer, K: c.k, First: c.first, Exclude: -1,
		IDs: p.guarded(guards(c.k*c.rows), c.k), Scores: p.guarded(guards(c.k*c.rows), c.k),
	}
	if c.allowed != nil {
		op.Allowed = p.floats(kernels.Bits(c.allowed))
	}
	if c.exclude != nil {
		op.Exclude = 1
	}
	op.Workspace = p.workspace(op, step.Most())
	err = d.TopK(op, step)
	r.addInts("ids", integers(contents(op.IDs)))
	r.add("scores", op.Scores)
	if err == nil {
		err = screened(p, op, *step)
	}
	return r, err
}

// screened ranks all rows, the first 64 and the first one again with a screening, where the device has a use for it. It
// is an error if they find anything else than before.
func screened(p *place, op *kernels.TopK, s kernels.Step) error {
	device, ok := p.device.(kernels.Screener)
	whole := s.Rows
	for _, rows := range []int64{whole, 64, 1} {
		if !ok || rows > whole || rows == 0 || device.ScreeningSize(&op.Scorer, rows) == 0 {
			continue
		}
		again, n := *op, op.K*rows
		again.Screening = p.floats(guards(device.ScreeningSize(&op.Scorer, rows)))
		again.IDs, again.Scores = p.floats(guards(n)), p.floats(guards(n))
		s.Rows = rows
		if err := errors.Join(device.Screen(&op.Scorer, again.Screening), p.device.TopK(&again, &s)); err != nil {
			return err
		}
		ids, scores := integers(contents(op.IDs))[:n], contents(op.Scores)[:n]
		if !slices.Equal(ids, integers(contents(again.IDs))) || !slices.Equal(scores, contents(again.Scores)) {
			return fmt.Errorf("of %d rows, %d have other items or scores with a screening", whole, rows)
		}
	}
	return nil
}

func guards(n int64) []float32 { return slices.Repeat([]float32{guardValue}, int(n)) }

// adversary makes h and W of a kind that a screening in low precision would rank wrongly.
type adversary struct {
	name string
	fill func(s *sampler, h, w []float32, columns int64)
}

var adversaries = []adversary{
	{"normal", func(*sampler, []float32, []float32, int64) {}},
	{"exact ties", func(s *sampler, h, w []float32, _ int64) {
		for _, x := range [][]float32{h, w} {
			for i := range x {
				x[i] = float32(s.IntN(3) - 1)
			}
		}
	}},
	{"neighbouring floats", func(s *sampler, _, w []float32, columns int64) {
		for i := range w {
			w[i] = w[int64(i)%columns]
			if s.IntN(4*int(columns)) == 0 {
				w[i] = math.Nextafter32(w[i], float32(s.IntN(3)-1)*100)
			}
		}
	}},
	{"equal rows", func(_ *sampler, _, w []float32, columns int64) {
		for i := range w {
			w[i] = w[int64(i)%columns]
		}
	}},
	{"huge norms", func(_ *sampler, h, w []float32, _ int64) { scaleBy(h, 1e17); scaleBy(w, 1e17) }},
	{"scores beyond float32", func(_ *sampler, h, w []float32, _ int64) { scaleBy(h, 1e30); scaleBy(w, 1e30) }},
	{"denormals", func(_ *sampler, _, w []float32, _ int64) { scaleBy(w, 1e-40) }},
	{"vanishing products", func(_ *sampler, h, w []float32, _ int64) { scaleBy(h, 1e-30); scaleBy(w, 1e-30) }},
	{"cancellation", func(s *sampler, h, w []float32, columns int64) {
		for i := range h {
			h[i] = 1
		}
		for i := range w {
			if k := int64(i) % columns; k%2 == 1 {
				w[i] = math.Nextafter32(-w[i-1], float32(s.IntN(3)-1)*1e9)
			} else {
				w[i] *= 1e6
			}
		}
	}},
	{"zero vectors", func(s *sampler, h, w []float32, columns int64) {
		for i := range w {
			if int64(i)/columns%3 != 1 {
				w[i] = 0
			}
		}
		clear(h[:columns])
	}},
	// Partial sums leave float32 on the negative side, but the whole sums do not.
	{"overflow that cancels", func(s *sampler, h, w []float32, columns int64) {
		for i := range h {
			h[i] = 1
		}
		for i := range w {
			switch k := int64(i) % columns; {
			case columns > 3 && k < 2:
				w[i] = -3e38
			case columns > 3 && k < 4:
				w[i] = float32(2e38 + 1e38*s.Float64())
			}
		}
	}},
	// The norm of a weight is so small that its reciprocal is infinite in float32.
	{"denormals of one sign", func(_ *sampler, h, w []float32, _ int64) {
		for i := range h {
			h[i] = float32(math.Abs(float64(h[i])))
		}
		for i := range w {
			w[i] = -float32(math.Abs(float64(w[i]))) * 1e-40
		}
	}},
	// One unit is so large that low precision loses all others.
	{"a unit that outweighs all others", func(s *sampler, h, w []float32, columns int64) {
		for i := range w {
			if int64(i)%columns == columns/2 {
				w[i] = 1e5 * (1 + 1e-3*w[i])
			}
		}
		for i := range h {
			if int64(i)%columns == columns/2 {
				h[i] = 1e-5
			}
		}
	}},
	// Halves of the steps that a number is rounded to in low precision, so that all errors are as large as they can be.
	{"halfway between steps", func(s *sampler, h, w []float32, columns int64) {
		for _, x := range [][]float32{h, w} {
			for i := range x {
				x[i] = (float32(s.IntN(127)) + 0.5) / 128
				if int64(i)%columns == 0 {
					x[i] = 127. / 128
				}
			}
		}
	}},
	// All products are rounded down as far as can be, to the same number. The first items are not among the best.
	{"rounded down", roundedDown},
	// As they are, products are a little more than half of the last place of a bias of 1; rounded down they are a little less.
	{"half a place of the bias", func(s *sampler, h, w []float32, columns int64) {
		roundedDown(s, h, w, columns)
		for i := range w {
			if int64(i)%columns == 0 {
				w[i] *= 63.875 - float32(columns-1)
			}
		}
		for u := int64(0); u < int64(len(h)); u += columns {
			h[u] = 1
		}
		scaleBy(w, 0x1p-30)
	}},
	{"norms of all sizes", func(s *sampler, h, w []float32, columns int64) {
		for _, x := range [][]float32{h, w} {
			for from := int64(0); from < int64(len(x)); from += columns {
				scaleBy(x[from:from+columns], float32(math.Exp2(float64(s.IntN(230)-115))))
			}
		}
	}},
	{"numbers that are not finite", func(s *sampler, h, w []float32, columns int64) {
		inf := float32(math.Inf(1))
		for _, x := range [][]float32{h, w} {
			for range 1 + len(x)/400 {
				x[s.IntN(len(x))] = []float32{inf, -inf, float32(math.NaN()), math.MaxFloat32}[s.IntN(4)]
			}
		}
	}},
	{"one direction", func(s *sampler, h, w []float32, columns int64) {
		for i := range w {
			w[i] = 3 + w[i]/100
		}
		for i := range h {
			h[i] = 1 + h[i]/100
		}
	}},
	{"ascending norms", func(_ *sampler, _, w []float32, columns int64) {
		for i := range w {
			w[i] *= float32(1 + int64(i)/columns)
		}
	}},
}

func roundedDown(s *sampler, h, w []float32, columns int64) {
	for i := range h {
		h[i] = 1 + 0.98/256
	}
	for i := range w {
		w[i] = 1 + float32(0.9+0.09*s.Float64())/256
		switch {
		case int64(i)%columns != 0:
		case i < len(w)/4:
			w[i] = 0.5
		default:
			w[i] = 1
		}
	}
}

func scaleBy(x []float32, f float32) {
	for i := range x {
		x[i] *= f
	}
}

var rankingShapes = [][3]int64{
	{1, 1, 1}, {2, 13, 3}, {7, 1003, 16}, {31, 14, 31}, {33, 100, 64}, {3, 4099, 33}, {32, 15, 100}, {100, 257, 8},
	{5, 1000, 256}, {257, 31, 7}, {2, 9001, 9}, {40, 1500, 130}, {65, 600, 513}, {9, 3000, 64},
}

func rankingCases(topK bool) (cases []opCase) {
	s := newSampler(19)
	for _, a := range adversaries {
		for range 9 {
			s.words = []string{a.name}
			shapes := append(rankingShapes, [3]int64{})
			if topK { // of a device that has no share of the items
				shapes = append(shapes, [3]int64{6, 0, 12})
			}
			shape := pick(s, "shape", shapes...)
			if shape[0] == 0 {
				shape = [3]int64{1 + int64(s.IntN(70)), 1 + int64(s.IntN(1200)), 1 + int64(s.IntN(200))}
				s.words = append(s.words, fmt.Sprint(shape))
			}
			c := &rankingCase{rows: shape[0], items: shape[1], columns: shape[2]}
			c.temperature = pick(s, "temperature", float32(0), 0.1, 1, 0)
			sources := 1
			if c.temperature == 0 {
				sources = pick(s, "sources", 1, 1, 2, 0)
			}
			for range sources {
				h, w := s.normal(c.rows*c.columns, 1), s.normal(c.items*c.columns, 1)
				if c.items > 0 {
					a.fill(s, h, w, c.columns)
				}
				c.sources = append(c.sources, [2][]float32{h, w})
			}
			switch pick(s, "bias", "none", "normal", "ties", "dominating", "not finite") {
			case "dominating":
				c.bias = s.normal(c.items, 1e4)
			case "not finite":
				c.bias = s.normal(c.items, 1)
				for n, x := range []float64{math.Inf(-1), math.NaN(), math.Inf(1)} {
					if c.items > 0 {
						c.bias[[]int64{0, c.items / 2, c.items - 1}[n]] = float32(x)
					}
				}
			case "normal":
				c.bias = s.normal(c.items, 1)
			case "ties":
				c.bias = make([]float32, c.items)
				for i := range c.bias {
					c.bias[i] = float32(s.IntN(2))
				}
			}
			if topK {
				c.draw(s)
			}
			c.title = s.title()
			cases = append(cases, c)
		}
	}
	s.covered()
	return cases
}

// draw draws what only TopK has.
func (c *rankingCase) draw(s *sampler) {
	switch pick(s, "k", "1", "10", "100", "items", "more") {
	case "1":
		c.k = 1
	case "10":
		c.k = 10
	case "100":
		c.k = 100
	case "items":
		c.k = max(1, c.items)
	case "more":
		c.k = c.items + 5
	}
	c.first = pick(s, "first", int64(0), 1000)
	if kind := pick(s, "exclude", "none", "sparse", "gaps", "full", "empty"); kind != "none" {
		c.exclude = s.batch(c.rows, c.items, kind, true)
	}
	share := pick(s, "allowed", 0, 2, 50, 1000)
	if share == 0 {
		return
	}
	c.allowed = make([]uint64, (c.items+63)/64)
	for i := range c.items {
		if share < 1000 && s.IntN(share) == 0 { // 1000: nothing is allowed
			c.allowed[i/64] |= 1 << (i % 64)
		}
	}
}

// screeningCases are large enough for every backend to look at a rough score first: each adversary with each kind of score.
func screeningCases(columns int64) (cases []opCase) {
	s := newSampler(23)
	for n, a := range adversaries {
		for m, kind := range []string{"plain", "ties in the bias", "two sources", "cosine"} {
			c := &rankingCase{title: a.name + ", " + kind, rows: []int64{3, 34}[(n+m)%2], items: 1500, columns: columns, k: 10}
			sources := 1
			switch kind {
			case "ties in the bias":
				c.bias = make([]float32, c.items)
				for i := range c.bias {
					c.bias[i] = float32(s.IntN(2))
				}
			case "two sources":
				sources = 2
			case "cosine":
				c.temperature = 0.5
			}
			for range sources {
				h, w := s.normal(c.rows*c.columns, 1), s.normal(c.items*c.columns, 1)
				a.fill(s, h, w, c.columns)
				c.sources = append(c.sources, [2][]float32{h, w})
			}
			cases = append(cases, c)
		}
	}
	return cases
}

var rankingOps = []group{
	{"Scores", remembering(func() []opCase { return rankingCases(false) })},
	{"Scores in a list", remembering(listedCases)},
	{"TopK", remembering(func() []opCase { return rankingCases(true) })},
	{"TopK of many items", remembering(func() []opCase { return screeningCases(40) })},
	{"Scores of weights of 2 bytes", remembering(func() []opCase { return storedCases(false) })},
	{"TopK of weights of 2 bytes", remembering(func() []opCase { return storedCases(true) })},
	{"Scores of a sparse source", remembering(func() []opCase { return sparseSourceCases(false) })},
	{"TopK of a sparse source", remembering(func() []opCase { return sparseSourceCases(true) })},
	{"Scores that are given", remembering(func() []opCase { return givenCases(false) })},
	{"TopK of scores that are given", remembering(func() []opCase { return givenCases(true) })},
}

func TestScoresAndTopKHaveTheBitsOfTheReference(t *testing.T) {
	t.Parallel()
	forEveryBackend(t, func(t *testing.T, open opener) {
		inParallel(t, func(t *testing.T, group group, mine func(n int) bool) {
			d, reference := open(2), oracle(t)
			group.skipUnlessDoneBy(t, d)
			for n, c := range group.cases() {
				if mine(n) && !omits(d, kernels.Float32, n) {
					require.NoError(t, agree(c, d, reference))
				}
			}
		})
	})
}

// inParallel runs a test on halves of the cases of each ranking op, which take long on an emulated device.
func inParallel(t *testing.T, test func(t *testing.T, group group, mine func(n int) bool)) {
	for _, group := range rankingOps {
		for half := range 2 {
			t.Run(group.op, func(t *testing.T) {
				t.Parallel()
				test(t, group, func(n int) bool { return n/4%2 == half }) // 4: as many as spares looks at
			})
		}
	}
}

func TestScoresAndTopKGiveTheSameBitsWithAnyNumberOfThreads(t *testing.T) {
	t.Parallel()
	forEveryBackend(t, func(t *testing.T, open opener) {
		inParallel(t, func(t *testing.T, group group, mine func(n int) bool) {
			open := open.reusing()
			group.skipUnlessDoneBy(t, open(1))
			for n, c := range group.cases() {
				if mine(n) && !spares(open, n) {
					require.NoError(t, sameBits(c, open))
				}
			}
		})
	})
}

// inOrder reports whether a row's ids and scores are what TopK promises, from the scores alone.
func inOrder(ids, scores []float64) error {
	for n := range ids {
		switch {
		case ids[n] < 0 && !math.IsInf(scores[n], -1):
			return fmt.Errorf("place %d is empty and has score %g", n, scores[n])
		case n > 0 && ids[n-1] < 0 && ids[n] >= 0:
			return fmt.Errorf("place %d is taken behind an empty one", n)
		case n > 0 && scores[n] > scores[n-1]:
			return fmt.Errorf("place %d is better than the one before", n)
		case n > 0 && ids[n] >= 0 && scores[n] == scores[n-1] && ids[n] <= ids[n-1]:
			return fmt.Errorf("place %d has the lower item of a tie", n)
		}
	}
	return nil
}

func TestTopKIsInOrderAndOfTiesTheLowerItemComesFirst(t *testing.T) {
	t.Parallel()
	forEveryBackend(t, func(t *testing.T, open opener) {
		open = open.reusing()
		for n, each := range rankingCases(true) {
			if spares(open, n) {
				continue
			}
			c := each.(*rankingCase)
			r, err := c.run(open(1))
			require.NoError(t, err)
			for u := range c.rows {
				require.NoError(t, inOrder(r[0].data[u*c.k:(u+1)*c.k], r[1].data[u*c.k:(u+1)*c.k]), c.title)
			}
		}
	})
}
