package kernels

import "fmt"

// TargetValues stand in for the values of a target's batch, at the same entries.
type TargetValues struct {
	ByRow  Buffer // [Entries], in the order by row
	ByItem Buffer // [Entries], in the order by item; nil where Output.ByRow
	Sums   Buffer // [B]: of each row, over the items of all devices
}

// MarginalTargets makes the targets of a soft-max with the scaled marginal cross-entropy: a target counts only as long
// as the probability a of its item is below a limit. It comes after CombineStats and before OutputStep, which takes
// Output.Targets. With the logit z of each stored entry e, and the statistics of its row,
//
//	a_e  = exp(z_e - log-sum-exp)
//	t'_e = OneScale t_e where a_e < OneTarget, or OneTarget is 1; else 0
//	n'_u = sum over e of t'_e
//
// so that the loss of Softmax is -t'_e ln a_e, and its gradient n'_u a - t'. With NormalizeRows t_e is divided by the
// sum of the row's targets first; a row without targets gives 0.
//
// It computes the logits of the stored entries alone. A target counts in the loss and in the gradient by one decision,
// although OutputStep may round its logits otherwise.
type MarginalTargets struct {
	Output              *Output // whose Targets it writes; Sums have the device's own items
	Entries             int64   // the most stored entries that a batch has
	NormalizeRows       bool
	OneScale, OneTarget float32
	// Workspace may not be what OutputStats leaves to OutputStep.
	Workspace Buffer
}

func (o *MarginalTargets) Do(r Rank, s *Step) error { return r.Device.MarginalTargets(o, s) }
func (o *MarginalTargets) String() string {
	text := "MarginalTargets " + o.Output.Name
	for _, s := range o.Output.Sources {
		text += " <- " + s.Weight.String()
	}
	return fmt.Sprintf("%s, targets of probabilities below %g, times %g", text, o.OneTarget, o.OneScale)
}

// Work: a multiply-add for each entry and unit, and the rows of W that the entries touch.
func (o *MarginalTargets) Work(s *Sizes) Work {
	b := s.Batches[o.Output.Target]
	work := Work{Bytes: 16*b.Entries + numbers(s.Rows, 3)}
	if o.Output.Addend.Counts() {
		work.Bytes += 4 * b.Entries
	}
	for _, source := range o.Output.Sources {
		k := source.Weight.Columns
		work.MultiplyAdds += b.Entries * float64(k)
		work.Bytes += numbers(b.Items+s.Rows, k)
	}
	if o.Output.Bias != nil {
		work.Bytes += numbers(b.Items, 1)
	}
	return work
}

// Marginal reports whether MarginalTargets makes the targets of a soft-max.
func (l Loss) Marginal() bool { return l.Kind == Softmax && l.OneTarget != 0 }

// OfMarginal is what is left of a Marginal loss for OutputStep: that of the targets that MarginalTargets makes.
func (l Loss) OfMarginal() Loss {
	l.NormalizeRows, l.OneScale, l.OneTarget = false, 0, 0
	return l
}
