package train_test

import (
	"math"
	"testing"

	"dsstne/engine/csr"
	"dsstne/engine/model"
	"dsstne/engine/network"
	"dsstne/kernels"
)

// gradientError bounds how far a gradient on several devices can be from that on one. They differ in the order in which
// float32 numbers are added. A sum of n terms in any order is off by at most n u sum|terms|, u = 2^-24 (Higham, section 4.2),
// so two orders differ by at most v sum|terms| with v = 2 n u, n the longest sum of the step plus the few roundings of the
// functions on the way. How a difference grows from layer to layer is bounded with the largest magnitudes of what it meets:
//
//	forward   a sum z = sum of w h:         |dz| <= K |w| e(h) + v K |w| |h|; activations have slopes of at most 1
//	loss      the gradient by the logits:   changes by its second derivative times e(z), and by v of its own magnitude
//	backward  sum of w dz, of h dz, of x dz: as forward, with a difference in each factor
//
// With bfloat16, a factor that is nearly the same may be rounded to a neighbour: 2^-8 of it.
func gradientError(t testing.TB, m *model.Model, narrow bool) float64 {
	n, b := m.Network(), 50.0
	var longest, most float64
	for _, l := range n.Layers {
		longest = max(longest, float64(l.Size), b)
	}
	v, step := 2*(longest+16)*math.Pow(2, -24), 0.0
	if narrow {
		step = math.Pow(2, -8)
	}
	bound := &bounds{net: n, model: m, data: dataOf(t, n), v: v, step: step, rows: b}
	bound.forward()
	for _, term := range n.Terms {
		most = max(most, bound.output(term))
	}
	for i := len(n.Layers) - 1; i >= 0; i-- {
		if n.Layers[i].Kind == network.Hidden {
			most = max(most, bound.backward(i))
		}
	}
	return most
}

// number is a bound on magnitudes and one on differences.
type number struct{ size, off float64 }

// sum is one of n products of numbers like a and b.
func (s *bounds) sum(n float64, a, b number) number {
	return number{n * a.size * b.size, n*(a.size*(b.off+s.step*b.size)+b.size*(a.off+s.step*a.size)+2*a.off*b.off) + s.v*n*a.size*b.size}
}

func (a number) plus(b number) number { return number{a.size + b.size, a.off + b.off} }

func (a number) times(x float64) number { return number{a.size * x, a.off * x} }

type bounds struct {
	net           *network.Network
	model         *model.Model
	data          data
	v, step, rows float64
	h, dh         [16]number // by layer; dh by its output
}

// weight is the largest magnitude of a tensor; of a normalised row it is 1.
func (s *bounds) weight(layer, source int) number {
	largest := 0.0
	tensor, err := s.model.Tensor(s.net.WeightName(layer, source))
	if err != nil {
		panic(err)
	}
	for _, w := range tensor.Float32() {
		largest = max(largest, math.Abs(float64(w)))
	}
	return number{size: largest}
}

// sums are the largest sums of magnitudes along rows and along columns of an input as a layer sees it.
func (s *bounds) sums(layer int) (row, column float64) {
	l, d := &s.net.Layers[layer], s.data[s.net.Layers[layer].Name]
	columns := make([]float64, d.Columns())
	var e csr.Entries
	for u := range d.Rows() {
		e.Reset()
		if err := d.AppendRow(&e, u); err != nil {
			panic(err)
		}
		factor, total := 1/(1-float64(l.Denoising)), 0.0
		if l.Scaling == network.L2 {
			factor /= math.Sqrt(max(1, float64(len(e.Values)))) // all values are 1
		}
		for i, value := range e.Values {
			total += float64(value) * factor
			columns[e.Indices[i]] += float64(value) * factor
		}
		row = max(row, total)
	}
	for _, total := range columns {
		column = max(column, total)
	}
	return row, column
}

func (s *bounds) forward() {
	for i, l := range s.net.Layers {
		if l.Kind != network.Hidden {
			continue
		}
		var z number
		for _, source := range l.Sources {
			w := s.weight(i, source)
			if from := &s.net.Layers[source]; from.Kind == network.Input {
				row, _ := s.sums(source)
				z = z.plus(number{row * w.size, s.v * row * w.size}) // no bfloat16 here
			} else {
				z = z.plus(s.sum(float64(from.Size), w, s.h[source]))
			}
		}
		if z.off += s.v; l.Activation == kernels.Tanh || l.Activation == kernels.Sigmoid {
			z.size = min(1, z.size+1)
		}
		s.h[i] = z.times(1 / (1 - float64(l.Dropout)))
	}
}

// output bounds the gradients of an output's weights, and adds to those of its sources.
func (s *bounds) output(term network.Term) float64 {
	l, d := &s.net.Layers[term.Layer], s.data[s.net.Layers[term.Layer].Name]
	targets, items, most := 0.0, float64(l.Size), 0.0
	for u := range d.Rows() {
		targets = max(targets, float64(d.RowLength(u)))
	}
	var z number
	sharp := 1.0
	if l.Temperature != 0 {
		// Through the normalisation, a difference is divided by a length. No row that is not all zeros is shorter than 0.01 here.
		sharp = 100 / float64(l.Temperature)
	}
	for _, source := range l.Sources {
		z = z.plus(s.sum(float64(s.net.Layers[source].Size), s.weight(term.Layer, source), s.h[source]).times(sharp))
	}
	r := float64(term.Loss.Weight) / s.rows
	var each, all number // the gradient by a logit, and the sum of its magnitudes over the items
	switch term.Loss.Kind {
	case kernels.Softmax: // n p - t; p changes by a factor of exp(2 e(z))
		all = number{2 * targets * r, targets * r * (math.Expm1(2*z.off) + s.v)}
		each = all
	case kernels.Squared:
		each = number{(z.size + 1) * r, (z.off + s.v) * r}
		all = each.times(items)
	default: // slopes of at most 1/4, times the scales; a target that is reached switches a term off, which no test comes near
		scale := max(1, float64(term.Loss.OneScale), float64(term.Loss.ZeroScale))
		each = number{scale * r, scale * r * (z.off + s.v)}
		all = each.times(items)
	}
	for _, source := range l.Sources {
		weight := s.sum(s.rows, each, s.h[source]).times(sharp)
		most = max(most, weight.off, s.rows*(each.off+s.v*each.size))
		s.dh[source] = s.dh[source].plus(s.sum(1, all, s.weight(term.Layer, source)).times(sharp))
	}
	return most
}

// backward bounds the gradients of a hidden layer's weights.
func (s *bounds) backward(i int) (most float64) {
	l := &s.net.Layers[i]
	dz := s.dh[i]
	dz = number{dz.size, dz.off + dz.size*(s.h[i].off+s.v)}.times(1 / (1 - float64(l.Dropout))) // second derivatives of at most 1
	for _, source := range l.Sources {
		if s.net.Layers[source].Kind == network.Input {
			_, column := s.sums(source)
			most = max(most, column*(dz.off+s.v*dz.size))
			continue
		}
		most = max(most, s.sum(s.rows, dz, s.h[source]).off)
		s.dh[source] = s.dh[source].plus(s.sum(float64(l.Size), dz, s.weight(i, source)))
	}
	return max(most, s.rows*(dz.off+s.v*dz.size))
}

// stepError bounds how far a weight can be after the first step, at a rate of 0.1, if its gradient is off by so much. The
// first step of RMSProp and Adam is rate times g / (a |g| + e): its slope is at most 1 / (a |g|), and it is at most 1 / a.
func stepError(optimizer string, gradient, off, weight float64) float64 {
	const rate = 0.1
	step := rate * off
	switch optimizer {
	case "nesterov":
		step *= 1.9
	case "rmsprop", "adam", "adamw":
		a := 1.0
		if optimizer == "rmsprop" {
			a = math.Sqrt(0.1)
		}
		step = rate / a * min(2, 2*off/max(gradient-off-1e-6, 1e-30))
	}
	return step + math.Pow(2, -22)*(math.Abs(weight)+rate)
}
