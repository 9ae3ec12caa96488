package conformance

import (
	"math"
	"slices"
	"sync"

	"dsstne/kernels"
)

// guardRows is how many rows every batch-sized buffer has behind the batch. They hold guardValue and must keep it.
const guardRows = 2

const guardValue = float32(-54321)

// place allocates the buffers of one run of a case and frees them together.
type place struct {
	device  kernels.Device
	host    bool // the device's memory is the host's
	buffers []kernels.Buffer
}

func (p *place) alloc(n int) kernels.Buffer {
	var b kernels.Buffer
	if !p.host || n == 0 {
		var err error
		if b, err = p.device.Alloc(int64(n)); err != nil {
			panic(err)
		}
		if p.host = n > 0 && b.Float32() != nil; p.host {
			b.Free()
		}
	}
	if p.host && n > 0 {
		b = newEdged(int64(n))
	}
	p.buffers = append(p.buffers, b)
	owners.Store(b, p.device)
	return b
}

// owners are the devices of the buffers that are placed.
var owners sync.Map

func write(b kernels.Buffer, at int64, x []float32) {
	owner, _ := owners.Load(b)
	if err := owner.(kernels.Device).Write(b, at, x); err != nil {
		panic(err)
	}
}

// contents is a copy of a buffer.
func contents(b kernels.Buffer) []float32 {
	x := make([]float32, b.Len())
	owner, _ := owners.Load(b)
	if err := owner.(kernels.Device).Read(b, 0, x); err != nil {
		panic(err)
	}
	return x
}

func (p *place) floats(x []float32) kernels.Buffer {
	b := p.alloc(len(x))
	write(b, 0, x)
	return b
}

// filled places n times the same number.
func (p *place) filled(n int, x float32) kernels.Buffer {
	return p.floats(slices.Repeat([]float32{x}, n))
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
	// An emulated device gets NaN at the ends only if cuBLASLt's 32 MB lie between them: writing those takes longer than the op.
	const edge = 1 << 18
	if slow(p.device) && n > 8*edge {
		b, edges := p.alloc(int(n)), slices.Repeat([]float32{float32(math.NaN())}, edge)
		write(b, 0, edges)
		write(b, n-edge, edges)
		return b
	}
	return p.filled(int(n), float32(math.NaN()))
}

func (p *place) free() {
	for _, b := range p.buffers {
		owners.Delete(b)
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
	locked        bool
}

// asLocked is the weight as an operation gets it that is to leave it alone.
func (w *weight) asLocked() *weight {
	return &weight{name: w.name, rows: w.rows, columns: w.columns, value: w.value, noDecay: w.noDecay, locked: true}
}

func (w *weight) place(p *place) *kernels.Weights {
	k := &kernels.Weights{Name: w.name, Rows: w.rows, Columns: w.columns, Value: p.floats(w.value), NoDecay: w.noDecay}
	k.Locked = w.locked
	for s, state := range w.state {
		if state != nil {
			k.State[s] = p.floats(state)
		}
	}
	if w.last != nil {
		k.Last = p.alloc(len(w.last))
		write(k.Last, 0, kernels.Bits(w.last))
	}
	if w.written {
		k.Gradient = p.filled(len(w.value), guardValue)
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
	r.addFloats(name, contents(b))
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
		last := make([]int32, w.Last.Len())
		copy(kernels.Bits(last), contents(w.Last))
		r.addInts(w.Name+".last", last)
	}
}
