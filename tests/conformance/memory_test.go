package conformance

import (
	"math"

	"dsstne/kernels"
)

// guardRows is how many rows every batch-sized buffer has behind the batch. They hold guardValue and must keep it.
const guardRows = 2

const guardValue = float32(-54321)

// place allocates the buffers of one run of a case and frees them together.
type place struct {
	device  kernels.Device
	buffers []kernels.Buffer
}

func (p *place) alloc(n int) kernels.Buffer {
	b, err := p.device.Alloc(int64(n))
	if err != nil {
		panic(err)
	}
	p.buffers = append(p.buffers, b)
	return b
}

func (p *place) floats(x []float32) kernels.Buffer {
	b := p.alloc(len(x))
	copy(b.Float32(), x)
	return b
}

// guarded places a batch-sized matrix with guard rows behind it.
func (p *place) guarded(x []float32, columns int64) kernels.Buffer {
	all := append([]float32{}, x...)
	for range guardRows * columns {
		all = append(all, guardValue)
	}
	return p.floats(all)
}

// workspace gives an op what it asks for, full of NaN: scratch memory is not zeroed between ops.
func (p *place) workspace(op any, rows int64) kernels.Buffer {
	n := p.device.WorkspaceSize(op, rows)
	if n == 0 {
		return nil
	}
	b := p.alloc(int(n))
	for i := range b.Float32() {
		b.Float32()[i] = float32(math.NaN())
	}
	return b
}

func (p *place) free() {
	for _, b := range p.buffers {
		b.Free()
	}
}

// weight is the host-side content of a kernels.Weights.
type weight struct {
	name          string
	rows, columns int64
	value         []float32
	state         [2][]float32
	last          []int32 // nil: the weight has no Last
	written       bool    // the gradient is written instead of used
	noDecay       bool
}

func (w *weight) place(p *place) *kernels.Weights {
	k := &kernels.Weights{Name: w.name, Rows: w.rows, Columns: w.columns, Value: p.floats(w.value), NoDecay: w.noDecay}
	for s, state := range w.state {
		if state != nil {
			k.State[s] = p.floats(state)
		}
	}
	if w.last != nil {
		k.Last = p.alloc(len(w.last))
		copy(k.Last.Int32(), w.last)
	}
	if w.written {
		k.Gradient = p.alloc(len(w.value))
		for i := range k.Gradient.Float32() {
			k.Gradient.Float32()[i] = guardValue
		}
	}
	return k
}

// result is everything that an op may have written, by name, widened to float64.
type result []field

type field struct {
	name string
	data []float64
}

func (r *result) add(name string, b kernels.Buffer) {
	if b == nil {
		return
	}
	r.addFloats(name, b.Float32())
}

func (r *result) addFloats(name string, x []float32) {
	data := make([]float64, len(x))
	for i, v := range x {
		data[i] = float64(v)
	}
	*r = append(*r, field{name, data})
}

func (r *result) addInts(name string, x []int32) {
	data := make([]float64, len(x))
	for i, v := range x {
		data[i] = float64(v)
	}
	*r = append(*r, field{name, data})
}

func (r *result) addWeights(w *kernels.Weights) {
	if w == nil {
		return
	}
	r.add(w.Name, w.Value)
	r.add(w.Name+".state0", w.State[0])
	r.add(w.Name+".state1", w.State[1])
	r.add(w.Name+".gradient", w.Gradient)
	if w.Last != nil {
		r.addInts(w.Name+".last", w.Last.Int32())
	}
}
