package kernels

import "fmt"

// Epilogue ends the forward computation of a layer: h = dropout(act(z + bias)).
// Dropped units are 0 and kept ones are multiplied by 1/(1-Dropout), in training only. Unit k of row u is dropped when
// random.Uniform(seed, Stream, step, Step.First + u, k) < Dropout, the same on every backend.
type Epilogue struct {
	Bias       Buffer // [K], nil = none
	Activation Activation
	Dropout    float32
	Stream     uint32
}

func (e *Epilogue) String() string {
	switch {
	case e == nil:
		return ""
	case e.Dropout > 0:
		return fmt.Sprintf(", %v, dropout %g", e.Activation, e.Dropout)
	}
	return ", " + e.Activation.String()
}

// Gather: out[u,:] (+)= sum_j x_uj W[j,:] for the stored entries of slot Input; then the epilogue, if any.
type Gather struct {
	Name, From string // of the layer and of the input
	Input      int
	Weight     *Weights // [I, K]
	Out        Buffer   // [B, K]
	Accumulate bool     // add to Out instead of replacing it
	Epilogue   *Epilogue
}

func (o *Gather) Do(r Rank, s *Step) error { return r.Device.Gather(o, s) }
func (o *Gather) String() string {
	return fmt.Sprintf("Gather %s <- %s %v%v", o.Name, o.From, o.Weight, o.Epilogue)
}

// Dense: out[u,:] (+)= in[u,:] W^T, W[units, inputs]; then the epilogue, if any.
type Dense struct {
	Name, From string   // of the layer and of its source
	In         Buffer   // [B, inputs]
	Weight     *Weights // [units, inputs]
	Out        Buffer   // [B, units]
	Accumulate bool
	Epilogue   *Epilogue
	Workspace  Buffer
}

func (o *Dense) Do(r Rank, s *Step) error { return r.Device.Dense(o, s) }
func (o *Dense) String() string {
	return fmt.Sprintf("Dense %s <- %s %v%v", o.Name, o.From, o.Weight, o.Epilogue)
}

// Activate is an epilogue on its own, in place, for a layer whose sums were added up over several devices:
// out = dropout(act(out + bias)).
type Activate struct {
	Name     string
	Out      Buffer // [B, Units]
	Units    int64
	Epilogue Epilogue
}

func (o *Activate) Do(r Rank, s *Step) error { return r.Device.Activate(o, s) }
func (o *Activate) String() string           { return "Activate " + o.Name + o.Epilogue.String() }

// Backward turns the gradient with respect to a layer's output into the one with respect to its sums, in place, and
// updates the bias: dz = dh * mask/(1-p) * act'(z), written with the stored output h; dbias = sum over rows of dz.
type Backward struct {
	Name      string // of the layer, for error messages
	H         Buffer // [B, K], the layer's output after dropout
	DH        Buffer // [B, K], in: dL/dh, out: dL/dz
	Units     int64
	Epilogue  Epilogue // as in the forward op
	Bias      *Weights // nil = none
	Optimizer Optimizer
}

func (o *Backward) Do(r Rank, s *Step) error { return r.Device.Backward(o, s) }
func (o *Backward) String() string           { return "Backward " + o.Name + o.Epilogue.String() }

// DenseBackward: din[u,:] (+)= dz W (before the update); dW = dz^T in, then the update.
type DenseBackward struct {
	DZ         Buffer // [B, units]
	In         Buffer // [B, inputs]
	DIn        Buffer // [B, inputs]; nil = not needed
	Accumulate bool   // add to DIn
	Weight     *Weights
	Optimizer  Optimizer
	Workspace  Buffer
}

func (o *DenseBackward) Do(r Rank, s *Step) error { return r.Device.DenseBackward(o, s) }
func (o *DenseBackward) String() string           { return "DenseBackward " + o.Weight.String() }

// Scatter is the update of a Gather's weight: dW[j,:] = sum over u of x_uj dz[u,:], for the rows j that the batch
// touches. With a TiedGradient, whose row n holds the output layer's part for the n-th touched item, the parts are
// added first.
type Scatter struct {
	Input        int
	DZ           Buffer // [B, K]
	Weight       *Weights
	TiedGradient Buffer // [min(nnz, I), K] or nil
	Optimizer    Optimizer
	Workspace    Buffer
}

func (o *Scatter) Do(r Rank, s *Step) error { return r.Device.Scatter(o, s) }
func (o *Scatter) String() string           { return "Scatter " + o.Weight.String() }

// Replay brings rows whose Last is behind up to date: it runs the optimizer with a zero gradient for each step after
// Last up to Upto (Step.Number - 1 before a gather; Step.Number at a flush). It does not look at other rows.
type Replay struct {
	Input     int // rows touched by this slot's batch; -1: all rows
	Weight    *Weights
	Optimizer Optimizer
}

func (o *Replay) Do(r Rank, s *Step) error { return r.Device.Replay(o, s) }
func (o *Replay) String() string {
	if o.Input < 0 {
		return "Replay all rows of " + o.Weight.String()
	}
	return "Replay the batch's rows of " + o.Weight.String()
}

// Update is the step of a weight whose Gradient was written before, and perhaps summed over devices: the optimizer on
// every row, also on those whose gradient is zero.
type Update struct {
	Weight    *Weights
	Optimizer Optimizer
}

func (o *Update) Do(r Rank, s *Step) error { return r.Device.Update(o, s) }
func (o *Update) String() string           { return "Update " + o.Weight.String() }
