package reference

import (
	"math"

	"dsstne/kernels"
)

// Merge computes with the values of several layers.
func (device) Merge(op *kernels.Merge, step *kernels.Step) error {
	if err := kernels.CheckKind(op.Kind); err != nil {
		return err
	}
	columns := op.Kind.Columns(op.Units, len(op.Sources))
	for u := range step.Rows {
		out := rowOf(op.Out, u, columns)
		if op.Kind == kernels.MergeMaximum {
			for k := range out {
				out[k] = rowOf(op.Sources[largest(op, u, k)].H, u, op.Units)[k]
			}
			continue
		}
		for n := range out {
			p := pairOf(op, u, n+1)
			out[n] = float32(p.value)
		}
	}
	return nil
}

// largest is the first source with the largest value of a unit.
func largest(op *kernels.Merge, u int64, k int) (source int) {
	for s := range op.Sources {
		if rowOf(op.Sources[s].H, u, op.Units)[k] > rowOf(op.Sources[source].H, u, op.Units)[k] {
			source = s
		}
	}
	return source
}

// pair is the product of the first source with another one, and the lengths that it is divided by.
type pair struct {
	a, b              []float32
	value, aLen, bLen float64
	cosine, zero      bool // zero: a cosine with a zero vector
}

func pairOf(op *kernels.Merge, u int64, source int) pair {
	p := pair{a: rowOf(op.Sources[0].H, u, op.Units), b: rowOf(op.Sources[source].H, u, op.Units), aLen: 1, bLen: 1}
	p.value = kernels.Dot(p.a, p.b)
	if op.Kind == kernels.MergeCosine {
		p.cosine = true
		p.aLen, p.bLen = math.Sqrt(kernels.Dot(p.a, p.a)), math.Sqrt(kernels.Dot(p.b, p.b))
		if p.zero = p.aLen == 0 || p.bLen == 0; p.zero {
			p.value = 0
		} else {
			p.value = p.value / p.aLen / p.bLen
		}
	}
	return p
}

// back adds the gradients with respect to both factors.
func (p *pair) back(g float64, da, db []float64) {
	if p.zero {
		return
	}
	for k := range p.a {
		a, b := float64(p.a[k])/p.aLen, float64(p.b[k])/p.bLen
		if p.cosine {
			da[k] += g * (b - p.value*a) / p.aLen
			db[k] += g * (a - p.value*b) / p.bLen
		} else {
			da[k] += g * b
			db[k] += g * a
		}
	}
}

// MergeBackward goes back through a Merge.
func (device) MergeBackward(op *kernels.MergeBackward, step *kernels.Step) error {
	if err := kernels.CheckKind(op.Kind); err != nil {
		return err
	}
	columns := op.Kind.Columns(op.Units, len(op.Sources))
	gradients := make([][]float64, len(op.Sources))
	for s := range gradients {
		gradients[s] = make([]float64, step.Rows*op.Units)
	}
	of := func(s int, u int64) []float64 { return gradients[s][u*op.Units : (u+1)*op.Units] }
	for u := range step.Rows {
		for n, g := range rowOf(op.DOut, u, columns) {
			if op.Kind == kernels.MergeMaximum {
				of(largest(op.Merge, u, n), u)[n] = float64(g)
				continue
			}
			p := pairOf(op.Merge, u, n+1)
			p.back(float64(g), of(0, u), of(n+1, u))
		}
	}
	for s, source := range op.Sources {
		if source.DH != nil {
			storeRows(source.DH, gradients[s], source.Accumulate)
		}
	}
	return nil
}

// Skip hands values on.
func (device) Skip(op *kernels.Skip, step *kernels.Step) error {
	for u := range step.Rows {
		in := rowOf(op.In, u, op.Stride)[op.First:]
		for k := range rowOf(op.Out, u, op.Units) {
			out := &rowOf(op.Out, u, op.Units)[k]
			if op.Accumulate {
				*out += in[k]
			} else {
				*out = in[k]
			}
		}
	}
	return nil
}
