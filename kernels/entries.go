package kernels

import "fmt"

// OutputEntries is the loss of an output at the stored entries of the target alone, in a time that grows with their
// number and not with that of the items. For each stored entry e of row u, with item i and target t_e,
//
//	z_e   = sum over sources of h_u . w_i + b_i
//	loss  = sum over u of r_u sum over e of l(a_e, t_e)      added to Step.Loss[Term]
//	dz_e  = r_u dl/da f'(z_e);  dh_u += sum over e of dz_e w_i
//
// with a = f(z) and r_u as in Output. It updates no weight: it leaves dz to a Scatter for each of them. The loss is one
// that needs no statistics.
type OutputEntries struct {
	Name    string // of the layer, for error messages
	Target  int    // slot
	Term    int    // index into Step.Loss
	Entries int64  // the most stored entries that a batch has
	Sources []OutputSource
	Bias    *Weights // [I, 1], nil = none
	Loss    Loss
	DZ      Buffer // [Entries], in the order by item
	// Workspace holds dz in the order by row, among others.
	Workspace Buffer
}

func (o *OutputEntries) Do(r Rank, s *Step) error { return r.Device.OutputEntries(o, s) }
func (o *OutputEntries) String() string {
	text := "OutputEntries " + o.Name
	for _, s := range o.Sources {
		text += " <- " + s.Weight.String()
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
