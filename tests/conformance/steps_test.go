package conformance

import (
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/internal/random"
	"dsstne/kernels"
)

// The list of a small network on a device, and how its steps are begun. Batches differ in rows and entries, the last one has
// fewer rows than the others.

const (
	listItems = 90
	listUnits = 9
	listRows  = 70
	listTerms = 100 // far more than its one loss needs
)

type listRun struct {
	device  kernels.Device
	place   *place
	ops     []kernels.Op
	list    kernels.List
	weights []*kernels.Weights
	steps   []*kernels.Step
}

// newListRun places the network and makes the given number of steps.
func newListRun(d kernels.Device, steps int) *listRun {
	s := newSampler(51)
	o := kernels.Optimizer{Kind: kernels.Momentum, Momentum: 0.9, WeightDecay: 0.01}
	in := s.weight("in", listItems, listUnits, 0.3, o)
	in.last = make([]int32, listItems)
	out, bias := s.weight("out", listItems, listUnits, 0.3, o), s.weight("bias", listUnits, 1, 0.3, o)
	p := &place{device: d}
	r := &listRun{device: d, place: p, weights: []*kernels.Weights{in.place(p), out.place(p), bias.place(p)}}
	h, dh := p.alloc(listRows*listUnits), p.alloc(listRows*listUnits)
	end := kernels.Epilogue{Bias: r.weights[2].Value, Activation: kernels.Activation{Kind: kernels.Tanh}, Dropout: 0.2, Stream: random.StreamDropout}
	replay := &kernels.Replay{Input: 0, Weight: r.weights[0], Optimizer: o}
	gather := &kernels.Gather{Input: 0, Weight: r.weights[0], Out: h, Epilogue: &end}
	output := &kernels.Output{
		Name: "output", Target: 1, Term: listTerms - 1, Items: listItems, Loss: kernels.Loss{Kind: kernels.Softmax, Weight: 1}, Optimizer: o,
		Sources: []kernels.OutputSource{{H: h, DH: dh, Weight: r.weights[1]}}, Stats: p.alloc(2 * listRows), TiedInput: -1,
	}
	output.Workspace = p.workspace(output, listRows)
	back := &kernels.Backward{Name: "hidden", H: h, DH: dh, Units: listUnits, Epilogue: end, Bias: r.weights[2], Optimizer: o}
	scatter := &kernels.Scatter{Input: 0, DZ: dh, Weight: r.weights[0], Optimizer: o}
	scatter.Workspace = p.workspace(scatter, listRows)
	r.ops = []kernels.Op{
		replay, gather, kernels.OutputStats{Output: output}, kernels.OutputStep{Output: output}, back, scatter,
	}
	r.list.Sections = []kernels.Section{{Rows: listRows, Ops: r.ops}}
	rates := schedule(o, int64(steps))
	for n := range steps {
		rows := []int64{3, 64, 70, 65}[n%4]
		if n == steps-1 {
			rows = 1
		}
		kind := batchKinds[n%len(batchKinds)]
		r.steps = append(r.steps, &kernels.Step{
			Number: int64(n) + 1, Rows: rows, MaxRows: listRows, Training: true, Seed: 5, Rates: rates[:n+1], RatesFrom: 1,
			Sparse: []*kernels.SparseBatch{s.batch(rows, listItems, kind, true), s.batch(rows, listItems, "sparse", false)},
		})
	}
	return r
}

// rank is where the ops are done.
func (r *listRun) rank() kernels.Rank { return kernels.Rank{Device: r.device} }

// alone does all steps op by op and returns the losses.
func (r *listRun) alone() (losses []float64, err error) {
	for _, step := range r.steps {
		step.Loss = make([]float64, listTerms)
		for _, op := range r.ops { // outside of Run
			if err := op.Do(r.rank(), step); err != nil {
				return losses, err
			}
		}
		losses = append(losses, step.Loss[listTerms-1])
	}
	return losses, nil
}

// begun begins all steps, of which the given number may be under way, and returns the losses of those that went well.
func (r *listRun) begun(list *kernels.List, underWay int) (losses []float64, err error) {
	settle := func(underWay int) error {
		results, err := r.device.Settle(underWay)
		for _, result := range results {
			if want := r.steps[len(losses)]; result.Number != want.Number || result.Rows != want.Rows {
				return errors.New("the results are not in order")
			}
			losses = append(losses, result.Loss[listTerms-1])
		}
		return err
	}
	for _, step := range r.steps {
		own := *step // which may change as soon as the step is begun
		own.Loss = make([]float64, listTerms)
		if err = r.device.Run(r.rank(), list, &own); err != nil {
			break
		}
		own = kernels.Step{}
		if err := settle(underWay); err != nil {
			return losses, err
		}
	}
	if failure := settle(0); failure != nil {
		return losses, failure
	}
	return losses, err
}

func (r *listRun) contents() (all result) {
	for _, w := range r.weights {
		all.addWeights(w)
	}
	return all
}

func (r *listRun) free() {
	r.list.Free()
	r.place.free()
}

// spoil makes the loss of a step infinite.
func (r *listRun) spoil(n int) {
	target := r.steps[n].Sparse[1]
	target.Values, target.ItemValues = slices.Clone(target.Values), slices.Clone(target.ItemValues)
	target.Values[0], target.ItemValues[0] = infinite, infinite
	for u := range target.RowSum {
		target.RowSum[u] = infinite
	}
}

func TestStepsThatFollowEachOtherUnseenAreThoseThatAreWaitedFor(t *testing.T) {
	t.Parallel()
	forEveryBackend(t, func(t *testing.T, open opener) {
		d := open(2)
		one := newListRun(d, 10)
		defer one.free()
		want, err := one.alone()
		require.NoError(t, err)
		require.Len(t, want, 10)
		for _, kept := range []bool{false, true} {
			for _, underWay := range []int{0, 1, kernels.MostUnderWay, 99} {
				for _, known := range []bool{false, true} { // how large batches can be; otherwise what is kept has to be made anew
					r := newListRun(d, 10)
					list := &r.list
					if list.Rare = !kept; kept && known {
						r.list.Entries = []int64{listRows * listItems, listRows * listItems}
					}
					got, err := r.begun(list, underWay)
					require.NoError(t, err)
					require.Equal(t, want, got, "kept %v, %d under way, sizes known %v", kept, underWay, known)
					require.NoError(t, compare(r.contents(), one.contents(), nil))
					r.free()
				}
			}
		}
	})
}

func TestAStepThatFailsStopsThoseBehindIt(t *testing.T) {
	t.Parallel()
	forEveryBackend(t, func(t *testing.T, open opener) {
		d := open(1)
		for _, bad := range []int{0, 1, 4, 8, 9} {
			one := newListRun(d, 10)
			one.spoil(bad)
			want, failed := one.alone()
			var stopped, again *kernels.NotFiniteError
			require.ErrorAs(t, failed, &stopped)
			require.Len(t, want, bad)
			atFailure := one.contents()
			one.steps = one.steps[bad+1:]
			wantAfter, err := one.alone()
			require.NoError(t, err)
			for _, underWay := range []int{0, 1, kernels.MostUnderWay, 99} {
				r := newListRun(d, 10)
				r.spoil(bad)
				got, err := r.begun(&r.list, underWay)
				require.ErrorAs(t, err, &again)
				require.Equal(t, stopped, again)
				require.Equal(t, want, got, "the losses of the steps before step %d, %d under way", bad, underWay)
				require.NoError(t, compare(r.contents(), atFailure, nil))
				r.steps = r.steps[bad+1:]
				after, err := r.begun(&r.list, underWay)
				require.NoError(t, err, "what was told is over")
				require.Equal(t, wantAfter, after)
				require.NoError(t, compare(r.contents(), one.contents(), nil))
				r.free()
			}
			one.free()
		}
	})
}

// failing is an operation that goes wrong.
type failing struct {
	err    error
	panics bool
}

func (f failing) Do(kernels.Rank, *kernels.Step) error {
	if f.panics {
		panic(f.err)
	}
	return f.err
}

func (failing) String() string { return "failing" }

func TestAWalkThatFailsOrPanicsLeavesTheDeviceUsable(t *testing.T) {
	forEveryBackend(t, func(t *testing.T, open opener) {
		d := open(1)
		one := newListRun(d, 4)
		defer one.free()
		want, err := one.alone()
		require.NoError(t, err)
		broken := errors.New("broken")
		for _, panics := range []bool{false, true} {
			for at := range one.ops {
				r := newListRun(d, 4)
				// From its second step on a list may be captured; then nothing was done of one that fails to be.
				r.list.Sections[0].Ops = nil
				first := *r.steps[0]
				first.Loss = make([]float64, listTerms)
				require.NoError(t, d.Run(r.rank(), &r.list, &first))
				_, err := d.Settle(0)
				require.NoError(t, err)
				err = func() (err error) {
					defer func() {
						if p := recover(); p != nil {
							err = p.(error)
						}
					}()
					step := *r.steps[0]
					step.Loss = make([]float64, listTerms)
					r.list.Sections[0].Ops = append(slices.Clone(r.ops[:at]), failing{broken, panics})
					return d.Run(r.rank(), &r.list, &step)
				}()
				require.ErrorIs(t, err, broken)
				results, err := d.Settle(0)
				require.NoError(t, err)
				require.Empty(t, results)
				r.list.Sections[0].Ops = r.ops
				if d.Info().Name == "cuda:0" {
					got, err := r.begun(&r.list, 1)
					require.NoError(t, err)
					require.Equal(t, want, got)
				}
				r.free()
			}
		}
	})
}
