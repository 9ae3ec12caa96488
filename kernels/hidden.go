package kernels

import (
	"fmt"
	"math"
)

// Epilogue ends the forward computation of a layer: h = dropout(act(z + bias)).
// Dropout, in training only, makes of units what Drop says. Unit k of row u is dropped when
// random.Uniform(seed, Stream, step, Step.First + u, k) < Dropout, the same on every backend.
type Epilogue struct {
	Bias       Buffer // [K], nil = none
	Activation Activation
	Dropout    float32
	// Alpha: dropped units get the lowest value of an ELU or SELU instead of 0, and all units are scaled and shifted so
	// that mean 0 and variance 1 stay (alpha dropout; Klambauer et al., 2017).
	Alpha  bool
	Stream uint32
}

// Drop is what dropout makes of an activation a: Scale a + Shift of a unit that is kept, and Dropped of others. Undo is
// 1 / Scale.
type Drop struct{ Scale, Shift, Dropped, Undo float32 }

// Drop is that of the layer in training.
func (e *Epilogue) Drop() Drop {
	keep := 1 - e.Dropout
	if !e.Alpha {
		return Drop{Scale: 1 / keep, Undo: keep}
	}
	low, p := -float64(e.Activation.Alpha), float64(e.Dropout)
	if e.Activation.Kind == SELU {
		low = -SELUScale * SELUAlpha
	}
	undo := math.Sqrt((1 - p) * (1 + low*low*p))
	return Drop{float32(1 / undo), float32(-p * low / undo), float32((low - p*low) / undo), float32(undo)}
}

func (e *Epilogue) String() string {
	switch {
	case e == nil:
		return ""
	case e.Dropout > 0 && e.Alpha:
		return fmt.Sprintf(", %v, alpha dropout %g", e.Activation, e.Dropout)
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
	Workspace  Buffer // or nil, if no row has a quarter of the entries that it could have
}

func (o *Gather) Do(r Rank, s *Step) error { return r.Device.Gather(o, s) }
func (o *Gather) String() string {
	return fmt.Sprintf("Gather %s <- %s %v%v", o.Name, o.From, o.Weight, o.Epilogue)
}

// Work: a multiply-add for each entry and unit. It reads the entries and the rows of W that they touch.
func (o *Gather) Work(s *Sizes) Work {
	b := s.Batches[o.Input]
	return Work{
		MultiplyAdds: b.Entries * float64(o.Weight.Columns),
		Bytes:        8*b.Entries + numbers(b.Items+times(o.Accumulate)*s.Rows, o.Weight.Columns),
	}
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

// Work: B units inputs multiply-adds.
func (o *Dense) Work(s *Sizes) Work {
	w := o.Weight
	return Work{
		MultiplyAdds: s.Rows * float64(w.Rows*w.Columns), Products: true,
		Bytes: numbers(float64(w.Rows)+s.Rows, w.Columns) + times(o.Accumulate)*numbers(s.Rows, w.Rows),
	}
}

// Activate is an epilogue on its own: out = dropout(act(norm(in) + bias)). It ends a layer whose sums were added up
// over several devices, are normalised, or are kept because Backward reads them.
type Activate struct {
	Name     string
	In       Buffer // [B, Units], may be Out
	Out      Buffer // [B, Units]
	Units    int64
	Norm     *Norm // nil = none
	Epilogue Epilogue
}

func (o *Activate) Do(r Rank, s *Step) error { return r.Device.Activate(o, s) }
func (o *Activate) String() string {
	return "Activate " + o.Name + o.Norm.String() + o.Epilogue.String()
}

// Work: it reads In and writes Out.
func (o *Activate) Work(s *Sizes) Work { return Work{Bytes: 2 * numbers(s.Rows, o.Units)} }

// Backward turns the gradient with respect to a layer's output into the one with respect to its sums, in place, and
// updates the bias: dz = (dh + shift) * mask/(1-p) * act'(z); dbias = sum over rows of dz.
type Backward struct {
	Name      string // of the layer, for error messages
	H         Buffer // [B, K]: the layer's output after dropout, or z with SlopeNeedsSum
	DH        Buffer // [B, K], in: dL/dh, out: dL/dz
	Shift     Buffer // [K], what Sparsity adds to dL/dh of every row; nil = nothing
	Units     int64
	Epilogue  Epilogue // as in the forward op
	Bias      *Weights // nil = none
	Optimizer Optimizer
}

func (o *Backward) Do(r Rank, s *Step) error { return r.Device.Backward(o, s) }
func (o *Backward) String() string           { return "Backward " + o.Name + o.Epilogue.String() }

// Work: it reads H and DH, writes DH, and updates the bias.
func (o *Backward) Work(s *Sizes) Work {
	return Work{Bytes: 3 * numbers(s.Rows, o.Units)}.update(o.Bias, float64(o.Units), o.Optimizer)
}

// Round makes the rounded copy of a weight out of its value.
type Round struct{ Weight *Weights }

func (o *Round) Do(r Rank, s *Step) error { return r.Device.(Rounder).Round(o, s) }
func (o *Round) String() string           { return "Round " + o.Weight.String() + " for products" }

// DenseBackward: din[u,:] (+)= dz W (before the update); dW = dz^T in, then the update, unless W is locked.
type DenseBackward struct {
	DZ         Buffer // [B, units]
	In         Buffer // [B, inputs]
	DIn        Buffer // [B, inputs]; nil = not needed
	Accumulate bool   // add to DIn
	Weight     *Weights
	Optimizer  Optimizer
	Workspace  Buffer // on a Separate device the op's own: it may be in use until the step ends
}

func (o *DenseBackward) Do(r Rank, s *Step) error { return r.Device.DenseBackward(o, s) }
func (o *DenseBackward) String() string           { return "DenseBackward " + o.Weight.String() }

// Work: B units inputs multiply-adds for dW, and as many for din.
func (o *DenseBackward) Work(s *Sizes) Work {
	w := o.Weight
	product := s.Rows * float64(w.Rows*w.Columns)
	work := Work{Products: true, Bytes: numbers(s.Rows, w.Rows+w.Columns)}.update(w, float64(w.Rows), o.Optimizer)
	if !w.Locked {
		work.MultiplyAdds += product
	}
	if o.DIn != nil {
		work.MultiplyAdds += product
		work.Bytes += times(o.Accumulate) * numbers(s.Rows, w.Columns)
		if w.Gradient != nil {
			work.Bytes += numbers(float64(w.Rows), w.Columns)
		}
	}
	return work
}

// Scatter is the update of a Gather's weight: dW[j,:] = sum over u of x_uj dz[u,:], for the rows j that the batch
// touches. With a TiedGradient, whose row n holds the output layer's part for the n-th touched item, the parts are
// added first.
//
// It is also the update of an OutputEntries' weights: there Values take the place of x, and DZ is the hidden layer.
// With cosine logits a multiple of each row, Own, is added to the gradient with respect to it.
type Scatter struct {
	Input        int
	Values       Buffer // [entries], in the order by item; nil: those of the batch
	DZ           Buffer // [B, K]; nil: all ones, for a weight of one column, a bias
	Weight       *Weights
	TiedGradient Buffer // [min(nnz, I), K] or nil
	Own          Buffer // by touched item, or nil; not with a TiedGradient
	Optimizer    Optimizer
	Workspace    Buffer
}

func (o *Scatter) Do(r Rank, s *Step) error { return r.Device.Scatter(o, s) }
func (o *Scatter) String() string           { return "Scatter " + o.Weight.String() }

// Work: a multiply-add for each entry and unit. It updates the rows that the batch touches. A gradient is written
// whole, unless the output layer has written the other rows.
func (o *Scatter) Work(s *Sizes) Work {
	b, w := s.Batches[o.Input], o.Weight
	rows := b.Items
	if w.Gradient != nil && o.TiedGradient == nil {
		rows = float64(w.Rows)
	}
	work := Work{
		MultiplyAdds: b.Entries * float64(w.Columns),
		Bytes:        8*b.Entries + numbers(s.Rows, w.Columns),
	}.update(w, rows, o.Optimizer)
	if o.TiedGradient != nil {
		work.Bytes += numbers(b.Items, w.Columns)
	}
	return work
}

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

// Work: it reads the gradient and updates every row.
func (o *Update) Work(*Sizes) Work {
	w := *o.Weight
	w.Gradient = nil
	rows := float64(w.Rows)
	return Work{Bytes: numbers(rows, w.Columns)}.update(&w, rows, o.Optimizer)
}
