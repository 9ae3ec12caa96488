package network

import (
	"math"

	"dsstne/engine/program"
	"dsstne/engine/tensor"
	"dsstne/internal/fault"
	"dsstne/kernels"
)

// What follows makes a Network the form of a model (model.Form).

// Ports are the layers, in order.
func (n *Network) Ports() []program.Port {
	list := make([]program.Port, len(n.Layers))
	for i := range n.Layers {
		l := &n.Layers[i]
		list[i] = program.Port{
			Name: l.Name, Kind: l.kind.word(), Size: l.Size, Reads: l.Reads(), Scores: l.Scores(), Scaled: l.Scaled(),
		}
		for _, source := range l.Sources {
			list[i].Weights = append(list[i].Weights, n.WeightName(i, source))
		}
	}
	return list
}

// Specs are the tensors, with how they begin.
func (n *Network) Specs() ([]tensor.Spec, error) {
	tensors, err := n.Tensors()
	if err != nil {
		return nil, err
	}
	list := make([]tensor.Spec, len(tensors))
	for i, t := range tensors {
		list[i] = tensor.Spec{Name: t.Name, DType: tensor.F32, Shape: []int64{t.Rows, t.Columns}, Layer: t.Layer}
		if list[i].Fill, list[i].Scale, err = begin(t); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// Matrices are the weights without the biases.
func (n *Network) Matrices() (list []program.Matrix) {
	for _, t := range n.tensors() {
		if t.Source != Bias {
			list = append(list, program.Matrix{Name: t.Name, Rows: t.Rows, Columns: t.Columns})
		}
	}
	return list
}

// Computation makes programs of the network; bind completes what feeds a layer.
func (n *Network) Computation(bind func(*program.Feed)) program.Computation {
	return func(b *program.Builder) { n.build(b, bind) }
}

// Check accepts any weights.
func (n *Network) Check(func(name string) (*tensor.Tensor, error)) error { return nil }

// begin says how a tensor begins: s is the initializer's scale, in and out the units on both sides.
//
//	xavier_uniform U(-r, r), r = s sqrt(6/(in+out))    xavier_normal N(0, s^2 2/(in+out))    uniform U(-s, s)
//	he_uniform     U(-r, r), r = s sqrt(6/in)          he_normal     N(0, s^2 2/in)          normal  N(0, s^2)
//
// A bias is the constant Initializer.Bias.
func begin(spec Tensor) (kernels.FillKind, float64, error) {
	init := spec.Initializer
	scale, in, out := float64(init.Scale), float64(spec.FanIn), float64(spec.FanOut)
	if spec.Source == Bias {
		return kernels.FillConstant, float64(init.Bias), nil
	}
	switch init.Kind {
	case XavierUniform:
		return kernels.FillUniform, scale * math.Sqrt(6/(in+out)), nil
	case XavierNormal:
		return kernels.FillNormal, scale * math.Sqrt(2/(in+out)), nil
	case HeUniform:
		return kernels.FillUniform, scale * math.Sqrt(6/in), nil
	case HeNormal:
		return kernels.FillNormal, scale * math.Sqrt(2/in), nil
	case Uniform:
		return kernels.FillUniform, scale, nil
	case Normal:
		return kernels.FillNormal, scale, nil
	case Constant:
		return kernels.FillConstant, scale, nil
	default:
		return 0, 0, fault.New(fault.Internal, "%s: initializer %d is unknown", spec.Name, init.Kind)
	}
}
