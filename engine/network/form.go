package network

import (
	"math"
	"slices"
	"strings"

	"dsstne/engine/program"
	"dsstne/engine/tensor"
	"dsstne/internal/fault"
	"dsstne/kernels"
)

// The methods of this file make a Network the form of a model (model.Form).

// Ports are the layers, in order.
func (n *Network) Ports() []program.Port {
	list := make([]program.Port, len(n.Layers))
	for i := range n.Layers {
		l := &n.Layers[i]
		list[i] = program.Port{
			Name: l.Name, Kind: l.kind.word(), Size: l.Size, Reads: l.Reads(), Scores: l.Scores(), Scaled: l.Scaled(),
		}
		for _, source := range l.Sources {
			name := n.WeightName(i, source)
			rows := !n.Layers[source].Reads() || !l.Scores() // otherwise none belongs to an item that is scored
			if rows && !slices.Contains(list[i].Weights, name) {
				list[i].Weights = append(list[i].Weights, name)
			}
		}
	}
	return list
}

// Specs are the tensors, with how they begin.
func (n *Network) Specs() ([]tensor.Spec, error) {
	tensors, err := n.Tensors()
	list := make([]tensor.Spec, len(tensors))
	for i, t := range tensors {
		list[i] = tensor.Spec{
			Name: t.Name, DType: tensor.F32, Shape: []int64{t.Rows, t.Columns}, Layer: t.Layer, Fill: t.Fill, Scale: t.Scale,
			Vectors: t.Vectors,
		}
		if t.Measured {
			list[i].Role = tensor.Measured
		}
	}
	return list, err
}

// Matrices are the weights between layers.
func (n *Network) Matrices() (list []program.Matrix) {
	for _, t := range n.tensors() {
		if t.Source >= 0 {
			list = append(list, program.Matrix{Name: t.Name, Rows: t.Rows, Columns: t.Columns})
		}
	}
	return list
}

// Computation makes programs of the network; bind completes what feeds a layer.
func (n *Network) Computation(bind func(*program.Feed)) program.Computation {
	return func(b *program.Builder) { n.build(b, bind) }
}

// Bounds are the most rows of a batch where an output adds up scores.
func (n *Network) Bounds() (rows int64, on program.Reach) {
	rows = math.MaxInt64
	for i := range n.Layers {
		if l := &n.Layers[i]; l.Scores() && n.addsScores(i) {
			rows = min(rows, max(1, program.ScoreBytes/(4*max(1, l.Size))))
		}
	}
	return rows, program.SeveralDevices
}

// Check refuses running variances below 0.
func (n *Network) Check(find func(name string) (*tensor.Tensor, error)) error {
	for i := range n.Layers {
		for _, name := range n.running(i) {
			t, err := find(name)
			if err != nil {
				return err
			}
			least := slices.Min(t.Float32())
			if strings.HasSuffix(name, runningVariance) && !(least >= 0) {
				return fault.New(fault.InvalidData, "%s has the element %g; a variance is at least 0", name, least)
			}
		}
	}
	return nil
}

// begin returns the distribution of a weight's initial values, and its scale. A bias is constant.
func (i Initializer) begin(fanIn, fanOut int64) (kernels.FillKind, float64) {
	in, out := float64(fanIn), float64(fanOut)
	of := [...]struct {
		fill  kernels.FillKind
		scale float64
	}{
		XavierUniform: {kernels.FillUniform, math.Sqrt(6 / (in + out))},
		XavierNormal:  {kernels.FillNormal, math.Sqrt(2 / (in + out))},
		HeUniform:     {kernels.FillUniform, math.Sqrt(6 / in)},
		HeNormal:      {kernels.FillNormal, math.Sqrt(2 / in)},
		FanOutUniform: {kernels.FillUniform, math.Sqrt(3 / out)},
		UnitNorm:      {kernels.FillNormal, 1},
		Normal:        {kernels.FillNormal, 1},
		Uniform:       {kernels.FillUniform, 1},
		Constant:      {kernels.FillConstant, 1},
	}[i.Kind]
	return of.fill, float64(i.Scale) * of.scale
}
