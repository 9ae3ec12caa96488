package kernels

import "fmt"

// MaxSources is how many sources an output may have.
const MaxSources = 64

// OutputSource is a hidden layer that feeds an output: z += h W^T.
type OutputSource struct {
	H      Buffer   // [B, K]
	DH     Buffer   // [B, K] gets dL/dh (replaced, or added to with Accumulate); nil = not needed
	Weight *Weights // [I, K]
	// Accumulate adds to DH instead of replacing it.
	Accumulate bool
}

// Addend is a part of the logits that was computed before, of the items of all devices.
type Addend struct {
	Sum    Buffer // [B, Stride]; nil = none
	Stride int64  // 0 = none: a plan has no memory
	First  int64  // the column of the op's first item
	Empty  bool   // nothing was computed before: Sum is where OutputStep leaves the gradient, and it counts as 0
}

// Counts reports whether there are numbers to add.
func (a *Addend) Counts() bool { return a.Stride > 0 && !a.Empty }

// Output is the widest layer and its loss. For each tile of items, without storing more logits than a tile's unless
// there is memory for Logits,
//
//	z_ui  = sum over sources of h_u . w_i + b_i               (Temperature 0)
//	z_ui  = (h_u/|h_u|) . (w_i/|w_i|) / Temperature + b_i     (cosine logits; one source; a zero vector scores b_i)
//	loss  = sum over u of r_u sum over i of l(a_ui, t_ui)     added to Step.Loss[Term]
//	dz_ui = r_u dl/da f'(z);  dh += dz w;  dw = dz^T h;  then the optimizer's update of w and b, unless they are locked
//
// with r_u = Step.TermWeight(Term, Loss) / Step.WholeRows(), times the row's own weight if rows are Weighted.
// OutputStats computes what Softmax needs first: the maximum and the log-sum-exp of each row. Targets are sparse:
// t_ui = 0 where nothing is stored. a = f(z) is the value of the output's activation, Loss.Activation; see LossKind for
// l and dl/da.
//
// With an Addend, which is what input layers and skips add to the logits, z_ui += addend[u, First + i]. OutputStep
// leaves dL/dz in its place, and 0 at the columns of other devices' items.
//
// Items may be 0, where a device has no share of them: then both statistics are -Inf, the loss is 0 and so is dh.
//
// With TiedInput >= 0 the rows that slot touches are not updated: their dw goes to TiedGradient, row n for the n-th
// touched item, for Scatter to finish.
type Output struct {
	Name        string // of the layer, for error messages
	Target      int    // slot
	ByRow       bool   // the target's batch is without the order by item
	Term        int    // index into Step.Loss
	Items       int64
	Sources     []OutputSource
	Bias        *Weights // [I, 1], nil = none
	Addend      Addend
	Temperature float32
	Loss        Loss
	Weighted    bool   // rows may have weights, Step.RowWeights
	Stats       Buffer // [B, 2]: maximum, log-sum-exp; nil for losses that need none
	// Targets, if not nil, are the targets of OutputStep in place of the batch's, see MarginalTargets.
	Targets TargetValues
	// Continues says that OutputStep runs after OutputStats of the same op and step, and that what OutputStats read and
	// its Workspace are as it left them. So it may use again what it finds there. Only for Softmax, and without Targets.
	Continues bool
	// Logits, if not nil, keeps what OutputStats computed for the OutputStep that Continues, see LogitKeeper.
	Logits       Buffer
	Optimizer    Optimizer
	TiedInput    int
	TiedGradient Buffer
	Workspace    Buffer // on a Separate device the op's own: it may be in use until the step ends
}

func (o *Output) String() string {
	text := fmt.Sprintf("%s[%d]", o.Name, o.Items)
	for _, s := range o.Sources {
		text += " <- " + s.Weight.String()
	}
	text += ", " + o.Loss.Kind.String()
	switch {
	case o.Addend.Stride > 0 && o.Addend.Empty:
		text += ", leaves its gradient"
	case o.Addend.Stride > 0:
		text += ", with an addend"
	}
	if o.Temperature != 0 {
		text += fmt.Sprintf(", cosine logits / %g", o.Temperature)
	}
	if o.Weighted {
		text += ", weighted rows"
	}
	return text
}

// OutputStats is the operation that computes the statistics of an Output.
type OutputStats struct{ *Output }

func (o OutputStats) Do(r Rank, s *Step) error { return r.Device.OutputStats(o.Output, s) }
func (o OutputStats) String() string           { return "OutputStats " + o.Output.String() }

// Work: B I K multiply-adds for the logits, K the units of all sources.
func (o OutputStats) Work(s *Sizes) Work {
	work := Work{Products: true, Bytes: numbers(s.Rows, 2)}
	for _, source := range o.Sources {
		work.MultiplyAdds += s.Rows * float64(o.Items*source.Weight.Columns)
		work.Bytes += numbers(s.Rows+float64(o.Items), source.Weight.Columns)
	}
	if o.Bias != nil {
		work.Bytes += numbers(float64(o.Items), 1)
	}
	if o.Addend.Counts() {
		work.Bytes += numbers(s.Rows, o.Items)
	}
	return work
}

// OutputStep is the operation that computes the loss of an Output and its gradients, and updates its weights.
type OutputStep struct{ *Output }

func (o OutputStep) Do(r Rank, s *Step) error { return r.Device.OutputStep(o.Output, s) }
func (o OutputStep) String() string           { return "OutputStep " + o.Output.String() }

// Work: B I K multiply-adds for the logits, as many for dw, and as many for dh. It updates all rows of W but those of
// tied items, which it reads, and whose dw it writes. It may spare some of the logits if it Continues.
func (o OutputStep) Work(s *Sizes) Work {
	items, tied := float64(o.Items), 0.0
	if o.TiedInput >= 0 {
		tied = s.Batches[o.TiedInput].Items
	}
	work := Work{Products: true, Bytes: 8 * s.Batches[o.Target].Entries}.update(o.Bias, items, o.Optimizer)
	if o.Stats != nil {
		work.Bytes += numbers(s.Rows, 2)
	}
	if o.Addend.Stride > 0 {
		work.Bytes += (1 + times(o.Addend.Counts())) * numbers(s.Rows, o.Addend.Stride)
	}
	for _, source := range o.Sources {
		w := source.Weight
		product := s.Rows * float64(o.Items*w.Columns)
		work = work.update(w, items-tied, o.Optimizer)
		work.MultiplyAdds += product
		if !w.Locked {
			work.MultiplyAdds += product
		}
		work.Bytes += numbers(s.Rows+2*tied, w.Columns)
		if w.Gradient != nil {
			work.Bytes += numbers(items-tied, w.Columns)
		}
		if source.DH != nil {
			work.MultiplyAdds += product
			work.Bytes += times(source.Accumulate) * numbers(s.Rows, w.Columns)
		}
	}
	return work
}

// CombineStats makes the statistics of all items out of those of shards of them: the largest maximum, and the logarithm
// of the sum of exp(log-sum-exp) over the shards. A shard without items has -Inf twice.
type CombineStats struct {
	Name   string // of the layer
	Shards int64
	Stride int64  // rows of a shard's part, at least B
	Parts  Buffer // [Shards, Stride, 2]
	Stats  Buffer // [B, 2]
}

func (o *CombineStats) Do(r Rank, s *Step) error { return r.Device.CombineStats(o, s) }
func (o *CombineStats) String() string           { return "CombineStats " + o.Name }

// Work: it reads the statistics of all shards.
func (o *CombineStats) Work(s *Sizes) Work {
	return Work{Bytes: numbers(float64(o.Shards+1)*s.Rows, 2)}
}
