package kernels

import "fmt"

// OutputEntries is the loss of an output at the stored entries of the target alone, in a time that grows with their
// number and not with that of the items. For each stored entry e of row u, with item i and target t_e,
//
//	z_e   = sum over sources of h_u . w_i + b_i
//	loss  = sum over u of r_u sum over e of l(a_e, t_e)      added to Step.Loss[Term]
//	dz_e  = r_u dl/da f'(z_e);  dh_u += sum over e of dz_e w_i
//
// with a = f(z) and r_u as in Output. It updates no weight: it leaves dz to a Scatter for each of them.
//
// With a Temperature z_e are the cosine logits of Output, c_e / Temperature + b_i. Then it leaves to the Scatter of the
// weight what that adds up to its gradient, the sum over e of x_e h_u/|h_u| + y_i w_i:
//
//	x_e = dz_e / (Temperature |w_i|);  y_i = -sum over its entries of x_e c_e / |w_i|
//
// and zeros where a vector is zero. A y_i of a w_i that is shorter than about 1e-18 is too large.
//
// Entries whose target is 0 may be negatives: items that were drawn, see csr.Reader.Negatives. A loss that Compares
// takes them as that. With the N_u entries of a row whose target is 0, and the P_u others,
//   - Softmax is the sampled soft-max over the entries of a row: the logit of a negative becomes
//     z_e + ln((Items - P_u) / N_u), so that the sum of exponentials is, on average over draws, that of all items (the
//     log-Q correction of Bengio and Senecal, 2008, for negatives that are drawn evenly);
//   - the loss of Pairs is that of each negative e and of one other entry i: (P_u/N_u) t_i l(z_i - z_e, 1). In the
//     order of the items the n-th negative has the other entry (n + s) mod P_u, where s is
//     P_u Uniform(Seed, Stream, step, u, 4), rounded down, and u is Step.First and the row's place in the batch. With
//     l of SigmoidCrossEntropy, which alone may have Pairs, this is BPR (Rendle et al., 2009). A row without negatives
//     has no loss.
type OutputEntries struct {
	Name    string // of the layer, for error messages
	Target  int    // slot
	Term    int    // index into Step.Loss
	Entries int64  // the most stored entries that a batch has
	Sources []OutputSource
	Bias    *Weights // [I, 1], nil = none
	// Temperature divides cosine logits, of one source; 0: logits are dot products.
	Temperature float32
	Loss        Loss
	Items       int64  // of the output, on all ranks
	Stream      uint32 // of the random numbers of Pairs
	DZ          Buffer // [Entries], in the order by item
	// Of cosine logits: h_u/|h_u| [B, K]; x_e [Entries], in the order by item; y_i, by touched item [min(Entries, I)].
	Directions, X, Y Buffer
	// Workspace holds dz in the order by row, among others.
	Workspace Buffer
}

func (o *OutputEntries) Do(r Rank, s *Step) error { return r.Device.OutputEntries(o, s) }
func (o *OutputEntries) String() string {
	text := "OutputEntries " + o.Name
	for _, s := range o.Sources {
		text += " <- " + s.Weight.String()
	}
	if o.Loss.Pairs {
		text += ", pairs"
	}
	if o.Temperature != 0 {
		text += fmt.Sprintf(", cosine logits / %g", o.Temperature)
	}
	return fmt.Sprintf("%s, %v at the stored entries", text, o.Loss.Kind)
}

// Work: two multiply-adds for each entry and unit, and the rows of W that the entries touch.
func (o *OutputEntries) Work(s *Sizes) Work {
	b := s.Batches[o.Target]
	work := Work{Bytes: 16 * b.Entries}
	for _, source := range o.Sources {
		k := source.Weight.Columns
		work.MultiplyAdds += b.Entries * float64(k)
		work.Bytes += numbers(b.Items+s.Rows, k)
		if source.DH != nil {
			work.MultiplyAdds += b.Entries * float64(k)
			work.Bytes += times(source.Accumulate) * numbers(s.Rows, k)
		}
	}
	if o.Bias != nil {
		work.Bytes += numbers(b.Items, 1)
	}
	return work
}
