package network

import (
	"fmt"
	"slices"

	"dsstne/engine/strictjson"
	"dsstne/internal/fault"
	"dsstne/kernels"
)

// Share says whose weight a layer uses between itself and a source.
type Share struct {
	Weight     string // a tensor of an earlier layer; empty: the layer has a weight of its own
	Transposed bool
	given      bool // while reading: the definition says whether it is transposed
}

// share is what the layer has for a source.
func (l *Layer) share(source int) Share {
	if l.Shared == nil {
		return Share{}
	}
	if n := slices.Index(l.Sources, source); n >= 0 && n < len(l.Shared) {
		return l.Shared[n]
	}
	return Share{}
}

// sharesAll reports whether the layer has no weight of its own, but has sources.
func (l *Layer) sharesAll() bool {
	return len(l.Shared) > 0 && !slices.ContainsFunc(l.Shared, func(s Share) bool { return s.Weight == "" })
}

// readShared reads the key "shared": the name of a weight, an object, or a list of objects, one for each source.
func readShared(o *strictjson.Object, l *Layer, earlier []Layer) {
	switch o.Type("shared") {
	case strictjson.Missing:
	case strictjson.ListType:
		entries := o.Objects("shared")
		if len(entries) == 0 {
			o.Fail("shared", "is an empty list; leave it out if the layer shares no weight")
			return
		}
		for _, entry := range entries {
			readShare(entry, l, earlier)
		}
	case strictjson.ObjectType:
		entry := o.Object("shared")
		l.needOneSource(o, entry.String("weight", ""))
		readShare(entry, l, earlier)
	case strictjson.StringType:
		if weight := o.String("shared", ""); weight != "" && l.needOneSource(o, weight) {
			l.Shared = []Share{{Weight: weight}}
		}
	default:
		o.Fail("shared", "is %v; it must be the name of a weight, an object or a list of objects", o.Type("shared"))
	}
}

// needOneSource refuses a weight that does not say for which of several sources it is.
func (l *Layer) needOneSource(o *strictjson.Object, weight string) bool {
	if l.Sources == nil { // which has been or will be reported
		return false
	}
	if o.Err() == nil && len(l.Sources) != 1 {
		hint := ""
		if len(l.Sources) > 1 {
			hint = `; a list of objects with "source" and "weight" says which of them share`
		}
		o.Fail("shared", "is %q, which needs exactly one source, but the layer has %d%s", weight, len(l.Sources), hint)
	}
	return o.Err() == nil
}

// readShare reads an object of "shared".
func readShare(o *strictjson.Object, l *Layer, earlier []Layer) {
	o.Require("weight")
	share := Share{o.String("weight", ""), o.Bool("transposed", false), o.Has("transposed")}
	if o.Err() != nil {
		return
	}
	if o.Has("weight") && share.Weight == "" {
		o.Fail("weight", "is empty")
		return
	}
	n, name := 0, o.String("source", "")
	if l.Sources == nil { // which has been or will be reported
		return
	}
	if o.Has("source") || len(l.Sources) != 1 {
		o.Require("source")
		var names []string
		for _, s := range l.Sources {
			names = append(names, earlier[s].Name)
		}
		if n = slices.Index(names, name); n < 0 && o.Has("source") {
			o.Fail("source", "is %q, which is not a source of the layer%s", name, strictjson.Suggestion(name, names))
		}
	}
	if n < 0 || !o.Has("weight") {
		return
	}
	if l.Shared == nil {
		l.Shared = make([]Share, len(l.Sources))
	}
	if l.Shared[n].Weight != "" {
		o.Fail("source", "is %q for the second time", name)
	}
	l.Shared[n] = share
}

// defineShared is the value of "shared": the shortest that has one meaning.
func (n *Network) defineShared(l *Layer) any {
	if l.Shared == nil {
		return ""
	}
	if len(l.Shared) > 1 {
		list := []fields{}
		for k, share := range l.Shared {
			if share.Weight != "" {
				source := field{"source", n.Layers[l.Sources[k]].Name}
				list = append(list, fields{source, {"weight", share.Weight}, {"transposed", share.Transposed}})
			}
		}
		return list
	}
	share := l.Shared[0]
	between, _ := n.owner(share.Weight)
	if own := n.between(l, l.Sources[0]); between.fits(own, false) && between.fits(own, true) {
		return fields{{"weight", share.Weight}, {"transposed", share.Transposed}}
	}
	return share.Weight
}

// end is a layer at one end of a weight.
type end struct {
	layer *Layer
	items bool  // its numbers are those of items: an input or an output
	size  int64 // 0 = not known yet
}

func (e end) String() string {
	what := "units"
	if e.items {
		what = "items"
	}
	if e.size == 0 {
		return what
	}
	return fmt.Sprintf("%d %s", e.size, what)
}

// named is the end with the name of its layer, whose units may have several sums each.
func (e end) named() string {
	if e.size != e.layer.Size {
		return fmt.Sprintf("the weight leads to %d sums of %q", e.size, e.layer.Name)
	}
	return fmt.Sprintf("%q has size %d", e.layer.Name, e.size)
}

// pair is what a weight is between.
type pair struct{ from, to end }

func (p pair) String() string { return fmt.Sprintf("from %v to %v", p.from, p.to) }

func (p pair) turned(transposed bool) pair {
	if transposed {
		return pair{p.to, p.from}
	}
	return p
}

// between are the ends of the weight between a layer and a source.
func (n *Network) between(l *Layer, source int) pair {
	from := &n.Layers[source]
	return pair{end{from, from.Reads(), from.Size}, end{l, l.Scores(), l.kind.heads() * l.Size}}
}

// hasPlaces reports whether items are where those of another weight are. On several devices each has a share of them. A
// weight between two layers of items is not transposed: its rows are the items that are shared out.
func (p pair) hasPlaces(other pair, transposed bool) bool {
	if transposed && p.from.items && p.to.items {
		return false
	}
	other = other.turned(transposed)
	return p.from.items == other.from.items && p.to.items == other.to.items
}

// conflict explains why sizes do not fit. Empty: they do, or are unknown.
func (p pair) conflict(other pair, transposed bool) string {
	other = other.turned(transposed)
	for _, ends := range [][2]end{{p.to, other.to}, {p.from, other.from}} {
		if a, b := ends[0], ends[1]; a.size != b.size && a.size != 0 && b.size != 0 {
			return fmt.Sprintf("%v and %v", a.named(), b.named())
		}
	}
	return ""
}

// fits reports whether the weight can be another one's, as it is or transposed.
func (p pair) fits(other pair, transposed bool) bool {
	return p.hasPlaces(other, transposed) && p.conflict(other, transposed) == ""
}

// owner finds the ends of a weight by its name, and its source; -1 if there is none.
func (n *Network) owner(name string) (pair, int) {
	for i := range n.Layers {
		l := &n.Layers[i]
		for _, s := range l.Sources {
			if l.share(s).Weight == "" && n.WeightName(i, s) == name {
				return n.between(l, s), s
			}
		}
	}
	return pair{}, -1
}

// checkShared decides whether a layer can use the weights of others, and which way round.
func (n *Network) checkShared(i int, o *strictjson.Object) {
	l := &n.Layers[i]
	for k := range l.Shared {
		share := &l.Shared[k]
		if share.Weight == "" {
			continue
		}
		if reason := n.orient(i, l.Sources[k], share); reason != "" {
			at, key := entryOf(o, n.Layers[l.Sources[k]].Name)
			at.Fail(key, "is %q%s", share.Weight, reason)
		}
		share.given = false
	}
}

// entryOf is where a definition names the weight that is shared for a source.
func entryOf(o *strictjson.Object, source string) (at *strictjson.Object, key string) {
	switch o.Type("shared") {
	case strictjson.ListType:
		for _, entry := range o.Objects("shared") {
			if at = entry; entry.String("source", "") == source {
				break
			}
		}
		return at, "weight"
	case strictjson.ObjectType:
		return o.Object("shared"), "weight"
	}
	return o, "shared"
}

// orient decides which way round a weight is used, or explains why it cannot be.
func (n *Network) orient(i, source int, share *Share) string {
	earlier := Network{Layers: n.Layers[:i]}
	owner, s := earlier.owner(share.Weight)
	if s < 0 {
		return fmt.Sprintf("; no earlier layer has this weight%s",
			strictjson.Suggestion(share.Weight, earlier.shareable()))
	}
	own := n.between(&n.Layers[i], source)
	straight, turned := owner.fits(own, false), owner.fits(own, true)
	places := [2]bool{owner.hasPlaces(own, false), owner.hasPlaces(own, true)}
	switch {
	case share.given && (share.Transposed && turned || !share.Transposed && straight):
	case share.given && share.Transposed && straight:
		return ", which fits only as it is, not transposed"
	case share.given && turned:
		return ", which fits only transposed"
	case straight && turned:
		return fmt.Sprintf(`, which fits as it is and transposed; say which, as in {"weight": %q, "transposed": true}`,
			share.Weight)
	case straight || turned:
		share.Transposed = turned
	case places[0] && places[1]:
		return fmt.Sprintf(", a weight %v, but the layer needs one %v or, transposed, %v", owner, own, own.turned(true))
	case places[0] || places[1]:
		return ", but " + owner.conflict(own, places[1])
	default:
		return fmt.Sprintf(", a weight %v, but the layer needs one %v; items fit items only", owner, own)
	}
	return ""
}

// shareable lists the weights that owner finds.
func (n *Network) shareable() (list []string) {
	for i := range n.Layers {
		for _, s := range n.Layers[i].Sources {
			if n.Layers[i].share(s).Weight == "" {
				list = append(list, n.WeightName(i, s))
			}
		}
	}
	return list
}

// isShared reports whether another layer has a tensor as its weight.
func (n *Network) isShared(tensor string) bool {
	return slices.ContainsFunc(n.Layers, func(l Layer) bool {
		return slices.ContainsFunc(l.Shared, func(s Share) bool { return s.Weight == tensor })
	})
}

// spreadShared gives inputs and outputs the sizes of those whose weights they share, and the other way round.
func (n *Network) spreadShared() error {
	for spreads := true; spreads; {
		spreads = false
		for i := range n.Layers {
			l := &n.Layers[i]
			for k, share := range l.Shared {
				owner, source := n.owner(share.Weight)
				if source < 0 {
					continue
				}
				own := n.between(l, l.Sources[k])
				if reason := owner.conflict(own, share.Transposed); reason != "" {
					return fault.New(fault.InvalidArgument, "the layer %q shares %q, but %s", l.Name, share.Weight, reason)
				}
				own = own.turned(share.Transposed)
				for _, ends := range [][2]end{{owner.from, own.from}, {owner.to, own.to}} {
					if a, b := ends[0], ends[1]; a.size != b.size {
						a.layer.Size, b.layer.Size = max(a.size, b.size), max(a.size, b.size)
						spreads = true
					}
				}
			}
		}
	}
	return nil
}

// at is a layer and one of its sources.
type at struct{ layer, source int }

// users lists who computes with a weight.
func (b *builder) users(tensor string) (list []at) {
	for i, runs := range b.runs {
		for _, s := range b.net.Layers[i].Sources {
			if runs && b.net.WeightName(i, s) == tensor {
				list = append(list, at{i, s})
			}
		}
	}
	return list
}

// gathers reports whether a layer reads a weight by rows of an input.
func (b *builder) gathers(of at) bool { return b.net.Layers[of.source].Reads() }

// isTied reports whether a hidden layer that reads an input and an output that scores all items by one hidden layer are
// all who use a weight. Then the operations of the output update all of it, but for the rows that those of the input
// finish.
func (b *builder) isTied(users []at) bool {
	if len(users) != 2 || !b.gathers(users[0]) || b.gathers(users[1]) {
		return false
	}
	into := &b.net.Layers[users[1].layer]
	output, scores := into.kind.(*outputLayer)
	whole := scores && output.cap == 0 && !b.net.touchesEntries(users[1].layer)
	return !b.net.Layers[users[0].layer].Scores() && whole && len(into.Sources) == 1
}

// tied is the weight that an output shares with the input that feeds a slot; -1: it shares none in this way.
func (b *builder) tied(output int) (tensor string, slot int) {
	for _, share := range b.net.Layers[output].Shared {
		if users := b.users(share.Weight); share.Weight != "" && b.isTied(users) {
			return share.Weight, b.slots[users[0].source]
		}
	}
	return "", -1
}

// isSummed is program.Tensor.Summed.
func (b *builder) isSummed(tensor string) bool {
	users := b.users(tensor)
	return len(users) > 1 && !b.isTied(users) || len(users) == 1 && b.copies(users[0])
}

// isTouched is program.Tensor.Touched.
func (b *builder) isTouched(tensor string) bool {
	users := b.users(tensor)
	return len(users) == 1 && (b.gathers(users[0]) || b.net.touchesEntries(users[0].layer))
}

// copies reports whether a layer computes with a transposed copy of a weight. A weight of items has a row for each of
// them, whichever way round it is used.
func (b *builder) copies(of at) bool {
	l := &b.net.Layers[of.layer]
	return l.share(of.source).Transposed && !b.gathers(of) && !l.Scores()
}

// weight binds the weight between a layer and a source.
func (b *builder) weight(i, source int) *kernels.Weights {
	user := b.net.Layers[i].Name + " <- " + b.net.Layers[source].Name
	return b.Use(b.net.WeightName(i, source), user, b.copies(at{i, source}))
}
