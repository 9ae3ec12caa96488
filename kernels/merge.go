package kernels

import "fmt"

// MergeKind is what a Merge makes of its sources.
type MergeKind int32

// The kinds of Merge. Maximum is max-out (Goodfellow et al., 2013).
const (
	MergeMaximum MergeKind = iota
	MergeDot
	MergeCosine
)

// MergeSource is a layer that a Merge reads.
type MergeSource struct {
	H          Buffer // [B, Units]
	DH         Buffer // [B, Units] gets dL/dh in MergeBackward; nil = not needed
	Accumulate bool   // adds to DH instead of replacing it
}

// Merge computes with the values of several layers of equal size, without weights. With h_s the row u of source s,
//
//	Out[u,k]   = max over s of h_s,k                          Maximum
//	Out[u,s-1] = h_0 . h_s                  for s = 1, 2 ...  Dot
//	Out[u,s-1] = h_0 . h_s / (|h_0| |h_s|)  for s = 1, 2 ...  Cosine, 0 if one of them is a zero vector
//
// The products and lengths are sums in float64.
type Merge struct {
	Name    string // of the layer
	Kind    MergeKind
	Units   int64 // of each source
	Sources []MergeSource
	Out     Buffer // [B, Columns]
}

// Columns is how many numbers a merge of some layers makes of a row.
func (k MergeKind) Columns(units int64, sources int) int64 {
	if k == MergeMaximum {
		return units
	}
	return int64(sources) - 1
}

func (o *Merge) Do(r Rank, s *Step) error { return r.Device.Merge(o, s) }
func (o *Merge) String() string {
	return fmt.Sprintf("Merge %s, %s of %d layers", o.Name, o.Kind, len(o.Sources))
}

// Work: it reads all sources and writes the result.
func (o *Merge) Work(s *Sizes) Work {
	columns := o.Kind.Columns(o.Units, len(o.Sources))
	return Work{Bytes: numbers(s.Rows, int64(len(o.Sources))*o.Units+columns)}
}

// MergeBackward goes back through a Merge. The gradient of a maximum goes to the first source that has it. That of a
// cosine c is (h_s/|h_s| - c h_0/|h_0|) / |h_0| with respect to h_0, likewise for h_s, and 0 for zero vectors.
type MergeBackward struct {
	*Merge
	DOut Buffer // [B, Columns]
}

func (o *MergeBackward) Do(r Rank, s *Step) error { return r.Device.MergeBackward(o, s) }
func (o *MergeBackward) String() string           { return "MergeBackward " + o.Name }

// Work: it reads all sources and the gradient, and writes the gradients of the sources.
func (o *MergeBackward) Work(s *Sizes) Work {
	work := o.Merge.Work(s)
	for _, source := range o.Sources {
		if source.DH != nil {
			work.Bytes += (1 + times(source.Accumulate)) * numbers(s.Rows, o.Units)
		}
	}
	return work
}

// Skip hands values on without a weight:
//
//	Out[u,k] (+)= In[u, First + k]
type Skip struct {
	Name, From    string // the layer, and the one whose values it gets
	In            Buffer // [B, Stride]
	Stride, First int64
	Out           Buffer // [B, Units]
	Units         int64
	Accumulate    bool // to Out
}

func (o *Skip) Do(r Rank, s *Step) error { return r.Device.Skip(o, s) }
func (o *Skip) String() string           { return fmt.Sprintf("Skip %s <- %s", o.Name, o.From) }

// Work: it reads and writes Units numbers a row.
func (o *Skip) Work(s *Sizes) Work {
	return Work{Bytes: (2 + times(o.Accumulate)) * numbers(s.Rows, o.Units)}
}
