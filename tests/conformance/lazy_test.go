package conformance

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/kernels"
)

// lazyRun trains a sparse weight for some steps of one example with one item, whose gradient is then exactly dz, and leaves
// every row up to date. How rows that a step does not touch follow is left to between.
type lazyRun struct {
	weight *weight
	o      kernels.Optimizer
	items  []int32
	rates  []kernels.Rates
	dz     [][]float32
}

func newLazyRun(o kernels.Optimizer, units int64) *lazyRun {
	s := newSampler(18)
	r := &lazyRun{o: o, weight: &weight{name: "w", rows: 7, columns: units, value: s.normal(7*units, 1)}}
	for n := range o.States() {
		r.weight.state[n] = make([]float32, 7*units)
	}
	r.items = []int32{2, 2, 0, 4, 2, 5, 5, 0, 4, 6, 0, 2}
	r.rates = schedule(o, int64(len(r.items)))
	for range r.items {
		r.dz = append(r.dz, s.normal(units, 1))
	}
	return r
}

func (r *lazyRun) step(n int) *kernels.Step {
	batch := batchOf(r.weight.rows, []map[int32]float32{{r.items[n]: 1}})
	return &kernels.Step{
		Number: int64(n) + 1, Rows: 1, Training: true, Sparse: []*kernels.SparseBatch{batch}, Rates: r.rates, RatesFrom: 1,
	}
}

// lazily replays what is missed when a row is next touched; flushing replays it at the end of every step.
func (r *lazyRun) lazily(d kernels.Device, flushing bool) (result, error) {
	p := &place{device: d}
	defer p.free()
	source := *r.weight
	source.last = make([]int32, source.rows)
	w := source.place(p)
	for n := range r.items {
		step := r.step(n)
		scatter := &kernels.Scatter{Input: 0, DZ: p.floats(r.dz[n]), Weight: w, Optimizer: r.o}
		scatter.Workspace = p.workspace(scatter, 1)
		if err := d.Replay(&kernels.Replay{Input: 0, Weight: w, Optimizer: r.o}, step); err != nil {
			return nil, err
		}
		if err := d.Scatter(scatter, step); err != nil {
			return nil, err
		}
		if flushing || n == len(r.items)-1 {
			if err := d.Replay(&kernels.Replay{Input: -1, Weight: w, Optimizer: r.o}, step); err != nil {
				return nil, err
			}
		}
	}
	var out result
	out.add("value", w.Value)
	out.add("state0", w.State[0])
	out.add("state1", w.State[1])
	return out, nil
}

// densely makes the same updates with DenseBackward, which knows no rows that are left out: the weight's row is the unit
// of a dense layer, whose gradient dz is 1 for the item of the step and 0 for all others.
func (r *lazyRun) densely(d kernels.Device) (result, error) {
	p := &place{device: d}
	defer p.free()
	w := r.weight.place(p)
	for n, item := range r.items {
		one := make([]float32, r.weight.rows)
		one[item] = 1
		op := &kernels.DenseBackward{DZ: p.floats(one), In: p.floats(r.dz[n]), Weight: w, Optimizer: r.o}
		op.Workspace = p.workspace(op, 1)
		if err := d.DenseBackward(op, r.step(n)); err != nil {
			return nil, err
		}
	}
	var out result
	out.add("value", w.Value)
	out.add("state0", w.State[0])
	out.add("state1", w.State[1])
	return out, nil
}

// lazyAgrees reports whether rows that are updated lazily end with the bits of rows that every step updates.
func lazyAgrees(d kernels.Device, o kernels.Optimizer, units int64, every func(*lazyRun) (result, error)) error {
	r := newLazyRun(o, units)
	got, err := r.lazily(d, false)
	if err != nil {
		return err
	}
	want, err := every(r)
	if err != nil {
		return err
	}
	if err := compare(got, want, nil); err != nil {
		return fmt.Errorf("%+v, %d units: %w", o, units, err)
	}
	return nil
}

func TestLazyRowsEqualRowsThatAreFlushedAtEveryStep(t *testing.T) {
	forEveryBackend(t, func(t *testing.T, open opener) {
		d := open(1)
		for _, o := range everyOptimizer() {
			for _, units := range []int64{1, 19, 64} {
				require.NoError(t, lazyAgrees(d, o, units, func(r *lazyRun) (result, error) { return r.lazily(d, true) }))
			}
		}
	})
}

func TestLazyRowsEqualDenseUpdatesOfEveryRow(t *testing.T) {
	forEveryBackend(t, func(t *testing.T, open opener) {
		d := open(1)
		for _, o := range everyOptimizer() {
			for _, units := range []int64{1, 19, 64} {
				require.NoError(t, lazyAgrees(d, o, units, func(r *lazyRun) (result, error) { return r.densely(d) }))
			}
		}
	})
}
