package network

import (
	"slices"

	"dsstne/engine/program"
	"dsstne/engine/tensor"
	"dsstne/internal/fault"
	"dsstne/kernels"
)

// Bias is the Source of a tensor that is a bias; the others are those of tensors that normalise the sums of a layer.
const (
	Bias            = -1
	Scale           = -2
	RunningMean     = -3
	RunningVariance = -4
)

// Tensor is a matrix that training changes. Its name is "<layer>.weight", "<layer>.weight.<source>" where the layer
// has several sources, or "<layer>.bias"; a normalised layer also has "<layer>.scale" and "<layer>.running_mean" and
// "<layer>.running_variance", which are Measured. Shapes, with items I and units K: [I, K] between an input layer and
// a hidden one, and between a hidden layer and an output; [columns, items] between an input and an output; [units,
// inputs] between hidden layers; [units, 1] for all others. A variational layer has 2 K sums for its
// K units, first those of the means.
type Tensor struct {
	program.Tensor
	Layer  int              // the layer it belongs to
	Source int              // the layer it weighs, or Bias and so on
	Fill   kernels.FillKind // how it begins, see tensor.Spec
	Scale  float64
	// Vectors are the weights of each unit, where they begin with a length.
	Vectors tensor.Vectors
}

// Tensors lists the tensors in the order of the model file: by layer, weights by source, then the bias and others. A
// shared weight is listed once, with the layer that owns it. A size that is still "auto" is fault.InvalidArgument.
func (n *Network) Tensors() ([]Tensor, error) {
	for i := range n.Layers {
		if n.Layers[i].Size == 0 {
			return nil, fault.New(fault.InvalidArgument,
				`the layer %q has size "auto"; its size must be given before the model is made`, n.Layers[i].Name)
		}
	}
	return n.tensors(), nil
}

// tensors is Tensors where sizes may be missing.
func (n *Network) tensors() []Tensor {
	var list []Tensor
	for i := range n.Layers {
		l := &n.Layers[i]
		sums := l.kind.heads() * l.Size
		for _, s := range l.Sources {
			if l.share(s).Weight != "" {
				continue
			}
			source, t := &n.Layers[s], Tensor{Layer: i, Source: s}
			t.Fill, t.Scale = l.Initializer.begin(source.Size, sums)
			t.Name, t.Rows, t.Columns, t.Decays = n.WeightName(i, s), sums, source.Size, true
			t.ByItem = source.Reads() || l.Scores()
			t.MaxNorm, t.NormByColumn = l.kind.weightNorm(), source.Reads()
			t.Touched = (source.Reads() || n.touchesEntries(i)) && !n.isShared(t.Name)
			if l.Initializer.Kind == UnitNorm {
				t.Vectors = tensor.RowVectors
			}
			if source.Reads() {
				if t.Vectors == tensor.RowVectors {
					t.Vectors = tensor.ColumnVectors
				}
				t.Rows, t.Columns = source.Size, sums
			}
			list = append(list, t)
		}
		if l.Bias {
			t := Tensor{Layer: i, Source: Bias, Fill: kernels.FillConstant, Scale: float64(l.Initializer.Bias)}
			t.Name, t.Rows, t.Columns, t.ByItem = l.Name+".bias", sums, 1, l.Scores()
			t.Touched = n.touchesEntries(i)
			list = append(list, t)
		}
		for _, of := range l.normTensors() {
			t := Tensor{Layer: i, Source: of.source, Fill: kernels.FillConstant, Scale: of.begins}
			t.Name, t.Rows, t.Columns, t.Measured = l.Name+of.ending, l.Size, 1, of.measured
			list = append(list, t)
		}
	}
	return list
}

// touchesEntries reports whether a layer is an output of which a step touches the items of entries only.
func (n *Network) touchesEntries(layer int) bool {
	if !n.Layers[layer].Scores() {
		return false
	}
	term := n.termOf(layer)
	return term.touchesEntries()
}

// inputsOf lists the sources of a layer that are input layers.
func (n *Network) inputsOf(layer int) []int {
	return slices.DeleteFunc(slices.Clone(n.Layers[layer].Sources), func(s int) bool { return !n.Layers[s].Reads() })
}

// scoresInput reports whether a tensor is the weight between an input and an output.
func (n *Network) scoresInput(t *Tensor) bool {
	return t.Source >= 0 && n.Layers[t.Source].Reads() && n.Layers[t.Layer].Scores()
}

// WeightName is the name of the tensor between a layer and one of its sources, or of the one that the layer shares.
func (n *Network) WeightName(layer, source int) string {
	l := &n.Layers[layer]
	share := l.share(source)
	switch {
	case share.Weight != "":
		return share.Weight
	case len(l.Sources) == 1:
		return l.Name + ".weight"
	}
	return l.Name + ".weight." + n.Layers[source].Name
}
