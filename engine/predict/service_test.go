package predict_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"dsstne/engine/csr"
	"dsstne/engine/predict"
	"dsstne/internal/fault"
	"dsstne/tests/fixture"
	"dsstne/tests/openers"
)

// serving is a predictor of the fixture's autoencoder that serves.
func serving(t testing.TB, options string, o predict.ServiceOptions) *predict.Predictor {
	m := fixture.Model(t, fixture.Autoencoder("softmax", ""), map[string]int64{"input": items, "output": items})
	p, err := openers.Predictor(m, []byte(options))
	require.NoError(t, err)
	require.NoError(t, p.Serve(o))
	t.Cleanup(func() {
		require.NoError(t, p.Close())
		require.NoError(t, m.Close())
	})
	return p
}

// piece is rows first .. end-1 of a matrix, with memory of its own.
func piece(t testing.TB, m *csr.Matrix, first, end int64) *csr.Matrix {
	parts := csr.Parts{Columns: m.Columns(), Offsets64: []int64{0}}
	for row := first; row < end; row++ {
		var e csr.Entries
		require.NoError(t, m.AppendRow(&e, row))
		parts.Indices32, parts.Values32 = append(parts.Indices32, e.Indices...), append(parts.Values32, e.Values...)
		parts.Offsets64 = append(parts.Offsets64, int64(len(parts.Indices32)))
	}
	if parts.Indices32 == nil {
		parts.Indices32, parts.Values32 = []int32{}, []float32{}
	}
	piece, err := csr.New(parts)
	require.NoError(t, err)
	return piece
}

// waiter is a goroutine that waits for an answer.
type waiter struct {
	err   error
	next  predict.Waiter
	woken chan bool
}

func (w *waiter) Answer(err error, next predict.Waiter) { w.err, w.next = err, next }

func (w *waiter) Wake() { close(w.woken) }

// wait waits, and wakes the next.
func (w *waiter) wait() error {
	<-w.woken
	if w.next != nil {
		w.next.Wake()
	}
	return w.err
}

// answer puts a question and waits for the answer.
func answer(p *predict.Predictor, q predict.Question) error {
	w := &waiter{woken: make(chan bool)}
	waits, err := p.Ask(q, w)
	if waits {
		return w.wait()
	}
	return err
}

// put puts a question for rows of a matrix.
func put(t testing.TB, p *predict.Predictor, x *csr.Matrix, k int64) ([]int32, []float32) {
	ids, scores := make([]int32, x.Rows()*k), make([]float32, x.Rows()*k)
	require.NoError(t, answer(p, predict.Question{Inputs: []*csr.Matrix{x}, K: k, IDs: ids, Scores: scores}))
	return ids, scores
}

func TestRowsThatComeWhileOthersAreComputedAreABatch(t *testing.T) {
	const k, size, late = 5, 8, 6
	data := fixture.Blocks(t, rows, items, 4, 6, 3)
	p := serving(t, `{"batch_size": 8}`, predict.ServiceOptions{K: k})
	// A question of many full batches leads meanwhile.
	many := csr.Parts{Columns: items, Offsets64: make([]int64, 400*size+1), Indices32: []int32{}, Values32: []float32{}}
	long, err := csr.New(many)
	require.NoError(t, err)
	var waiters [late]*waiter
	for waited := 0; waited < late; { // again, if it was over too soon
		var all sync.WaitGroup
		all.Go(func() { put(t, p, long, k) })
		waited = 0
		for n := range waiters {
			waiters[n] = &waiter{woken: make(chan bool)}
			ids, scores := make([]int32, k), make([]float32, k)
			x := piece(t, data, int64(n), int64(n)+1)
			waits, err := p.Ask(predict.Question{Inputs: []*csr.Matrix{x}, K: k, IDs: ids, Scores: scores}, waiters[n])
			require.NoError(t, err)
			if waits {
				waited++
				w := waiters[n]
				all.Go(func() { assert.NoError(t, w.wait()) })
			}
		}
		all.Wait()
	}
	for n, w := range waiters[:late-1] { // one batch has answered them all, in their order
		require.Same(t, waiters[n+1], w.next)
	}
	require.Nil(t, waiters[late-1].next)
}

func TestAnAnswerHasTheBitsOfRecommendWhoeverElseAsks(t *testing.T) {
	const k = 9
	closed, data := opened(t, "", "")
	wantIDs, wantScores := recommend(t, closed, data, predict.Filter{}, k)
	for _, options := range []string{`{"batch_size": 1}`, `{"batch_size": 7, "threads": 2}`, `{"devices": "cpu:3"}`} {
		p := serving(t, options, predict.ServiceOptions{K: k, ExcludeSeen: true})
		var all sync.WaitGroup
		for asker := range 8 {
			all.Go(func() {
				for turn := range 60 {
					row := int64((asker*31 + turn) % rows)
					short := int64(1 + (asker+turn)%k)
					ids, scores := put(t, p, piece(t, data, row, row+1), short)
					if !equal(ids, wantIDs[row*k:][:short]) || !equal(scores, wantScores[row*k:][:short]) {
						t.Errorf("%s: row %d differs", options, row)
					}
				}
			})
		}
		all.Wait()
	}
}

func equal[T comparable](a, b []T) bool { return fmt.Sprint(a) == fmt.Sprint(b) }

func TestRowsOfAQuestionMayBeManyLongOrEmpty(t *testing.T) {
	const k = 5
	closed, data := opened(t, "", "")
	wantIDs, wantScores := recommend(t, closed, nil, predict.Filter{}, k)
	p := serving(t, `{"batch_size": 8}`, predict.ServiceOptions{K: k})
	ids, scores := put(t, p, piece(t, data, 0, rows), k)
	require.Equal(t, wantIDs, ids)
	require.Equal(t, wantScores, scores)
	ids, _ = put(t, p, piece(t, data, 3, 3), k)
	require.Empty(t, ids)
	whole := csr.Parts{Columns: items, Offsets64: []int64{0, items, 2 * items, 2 * items}}
	for range 2 {
		for item := range int32(items) {
			whole.Indices32 = append(whole.Indices32, item)
		}
	}
	full, err := csr.New(whole)
	require.NoError(t, err)
	ids, _ = put(t, p, full, k)
	require.Equal(t, ids[:k], ids[k:2*k])
}

func TestItemsToLeaveOutMayComeWithTheQuestion(t *testing.T) {
	const k = 6
	closed, data := opened(t, "", "")
	other := fixture.Blocks(t, rows, items, 4, 6, 99)
	wantIDs, _ := recommend(t, closed, other, predict.Filter{}, k)
	p := serving(t, "", predict.ServiceOptions{K: k, ExcludeSeen: true})
	for row := range int64(rows) {
		ids, scores := make([]int32, k), make([]float32, k)
		require.NoError(t, answer(p, predict.Question{
			Inputs: []*csr.Matrix{piece(t, data, row, row+1)}, Exclude: piece(t, other, row, row+1), K: k, IDs: ids, Scores: scores,
		}))
		require.Equal(t, wantIDs[row*k:(row+1)*k], ids)
	}
}

func TestABadQuestionHarmsNoOther(t *testing.T) {
	p := serving(t, `{"batch_size": 8}`, predict.ServiceOptions{K: 4})
	data := fixture.Blocks(t, rows, items, 4, 6, 3)
	good := piece(t, data, 0, 2)
	want, _ := put(t, p, good, 4)
	refused := func(what string, kind fault.Kind, q predict.Question) {
		t.Helper()
		q.IDs, q.Scores = make([]int32, 64), make([]float32, 64)
		if q.K == 0 {
			q.K = 4
		}
		err := answer(p, q)
		require.ErrorContains(t, err, what)
		require.Equal(t, kind, fault.KindOf(err))
		again, _ := put(t, p, good, 4)
		require.Equal(t, want, again)
	}
	of := func(parts csr.Parts) []*csr.Matrix {
		m, err := csr.New(parts)
		require.NoError(t, err)
		return []*csr.Matrix{m}
	}
	refused("1 input layers, but 0", fault.InvalidArgument, predict.Question{})
	refused("k is 5", fault.InvalidArgument, predict.Question{Inputs: []*csr.Matrix{good}, K: 5})
	refused("3 columns instead of 130", fault.InvalidData, predict.Question{Inputs: of(csr.Parts{Columns: 3, Offsets64: []int64{0, 0}})})
	refused("1 rows, the first one has 2", fault.InvalidData,
		predict.Question{Inputs: []*csr.Matrix{good}, Exclude: piece(t, data, 0, 1)})
	refused(`layer "input": row 0 holds column 130`, fault.InvalidData,
		predict.Question{Inputs: of(csr.Parts{Columns: items, Offsets64: []int64{0, 1}, Indices32: []int32{items}})})
	decreasing := csr.Parts{Columns: items, Offsets64: []int64{0, 2, 1, 2}, Indices32: []int32{1, 2}}
	refused("must not decrease", fault.InvalidData, predict.Question{Inputs: of(decreasing)})
}

func TestAPredictorThatServesDoesNothingElse(t *testing.T) {
	p := serving(t, "", predict.ServiceOptions{K: 4})
	err := p.Recommend("", nil, nil, predict.Filter{}, 1, nil, nil)
	require.Equal(t, fault.InvalidState, fault.KindOf(err))
	require.Equal(t, fault.InvalidState, fault.KindOf(p.Serve(predict.ServiceOptions{K: 4})))
	err = p.Neighbors("", []int32{0}, predict.Filter{}, predict.NeighborOptions{}, 1, make([]int32, 1), make([]float32, 1))
	require.Equal(t, fault.InvalidState, fault.KindOf(err))
	err = p.Search("", make([]float32, 16), 16, predict.Filter{}, predict.Dot, 1, make([]int32, 1), make([]float32, 1))
	require.Equal(t, fault.InvalidState, fault.KindOf(err))
	closed, _ := opened(t, "", "")
	require.Equal(t, fault.InvalidState, fault.KindOf(answer(closed, predict.Question{})))
}

func TestAChangedModelIsAskedAsItIsNow(t *testing.T) {
	m := fixture.Model(t, fixture.Autoencoder("softmax", ""), map[string]int64{"input": items, "output": items})
	p, err := openers.Predictor(m, nil)
	require.NoError(t, err)
	require.NoError(t, p.Serve(predict.ServiceOptions{K: 3}))
	x := piece(t, fixture.Blocks(t, rows, items, 4, 6, 3), 0, 1)
	before, _ := put(t, p, x, 3)
	unlock, err := m.TryWrite()
	require.NoError(t, err)
	err = answer(p, predict.Question{Inputs: []*csr.Matrix{x}, K: 3, IDs: make([]int32, 3), Scores: make([]float32, 3)})
	require.Equal(t, fault.Busy, fault.KindOf(err))
	w, err := m.Tensor("output.weight")
	require.NoError(t, err)
	for i, x := range w.Float32() {
		w.Float32()[i] = -x
	}
	unlock()
	after, _ := put(t, p, x, 3)
	require.NotEqual(t, before, after)
}

// One row of one asker, and of sixteen.
func BenchmarkAsk(b *testing.B) {
	const wide, k = 27_278, 10
	definition := `{"layers": [{"name": "input", "kind": "input", "size": 27278},
		{"name": "hidden", "kind": "hidden", "size": 128, "activation": "tanh"},
		{"name": "output", "kind": "output", "size": 27278}]}`
	m := fixture.Model(b, definition, nil)
	p, err := openers.Predictor(m, []byte(`{"batch_size": 1024}`))
	require.NoError(b, err)
	require.NoError(b, p.Serve(predict.ServiceOptions{K: k, ExcludeSeen: true}))
	data := fixture.Valued(b, 100, wide, 60, 3)
	for _, askers := range []int{1, 16} {
		b.Run(fmt.Sprint(askers), func(b *testing.B) {
			b.ReportAllocs()
			var all sync.WaitGroup
			for asker := range askers {
				x := piece(b, data, int64(asker), int64(asker)+1)
				q := predict.Question{Inputs: []*csr.Matrix{x}, K: k, IDs: make([]int32, k), Scores: make([]float32, k)}
				all.Go(func() {
					for range b.N / askers {
						if err := answer(p, q); err != nil {
							b.Error(err)
						}
					}
				})
			}
			all.Wait()
		})
	}
	require.NoError(b, p.Close())
	require.NoError(b, m.Close())
}
