package network

import (
	"slices"

	"dsstne/engine/strictjson"
	"dsstne/kernels"
)

// wholeRows is what a hidden layer does with whole rows of its units: a soft-max in place of an activation, and a cap
// on the norm of the gradient with respect to the sums, 0: none.
type wholeRows struct {
	softmax bool
	cap     float32
}

const deltaNormKey = "delta_norm"

// hiddenFunctions are the words for a hidden layer's activation.
var hiddenFunctions = append(slices.Clone(kernels.ActivationWords), kernels.Softmax.String())

// readFunction reads the activation. That of a soft-max layer is linear: the soft-max comes after it.
func (k *hiddenLayer) readFunction(o *strictjson.Object) {
	var word string
	word, k.activation = readActivation(o, kernels.Tanh.String(), hiddenFunctions...)
	k.rows = wholeRows{
		softmax: word == kernels.Softmax.String(), cap: readCap(o),
	}
}

// function is the word for the activation.
func (k *hiddenLayer) function() string {
	if k.rows.softmax {
		return kernels.Softmax.String()
	}
	return k.activation.Kind.String()
}

// readCap reads the largest norm of the gradient of a row.
func readCap(o *strictjson.Object) float32 { return o.Float32(deltaNormKey, 0, strictjson.NotNegative) }

func defineCap(most float32) fields {
	if most == 0 {
		return nil
	}
	return fields{{deltaNormKey, most}}
}

// differentiate turns the gradient with respect to the values into that with respect to the sums and bias, behind a
// norm, and updates the bias by it. What works on whole rows comes between the activation and the bias.
func (k *hiddenLayer) differentiate(b *builder, i int) {
	l, v := &b.net.Layers[i], &b.values[i]
	h := v.out
	if v.argument != nil {
		h = v.argument
	}
	back := kernels.Backward{
		Name: l.Name, H: h, DH: v.gradient, Shift: k.penalise(b, i), Units: v.units, Epilogue: *k.epilogue(b, i),
		Optimizer: b.Training().Optimizer,
	}
	if k.rows.softmax {
		b.Add(&kernels.SoftmaxRowsBackward{Name: l.Name, H: h, DH: v.gradient, Shift: back.Shift, Units: v.units})
		back.Shift = nil
	}
	if k.rows.cap > 0 {
		if !k.rows.softmax {
			of := back
			b.Add(&of)
			back.Shift, back.Epilogue = nil, kernels.Epilogue{}
		}
		b.Add(&kernels.CapRows{Name: l.Name, DZ: v.gradient, Units: v.units, Cap: k.rows.cap})
	}
	back.Bias = b.freeBias(i)
	b.Add(&back)
}
