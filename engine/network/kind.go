package network

import (
	"maps"
	"slices"
	"strings"

	"dsstne/engine/program"
	"dsstne/engine/schedule"
	"dsstne/engine/strictjson"
)

// kind is what a layer does. One file has everything about a kind: keys, rules and operations, also for several
// devices.
type kind interface {
	// word is the kind's name in a definition.
	word() string
	// reads and scores are Layer.Reads and Layer.Scores.
	reads() bool
	scores() bool
	// heads is the number of sums of each unit.
	heads() int64
	// penalty reports whether the layer adds a term to the loss, behind those of the outputs, and how its weight changes.
	penalty() (schedule.Schedule, bool)
	// weightNorm is the greatest norm of a unit's weights from a source; 0: any.
	weightNorm() float32
	// accepts reports whether another layer may be a source.
	accepts(source kind) bool
	// read reads the keys.
	read(r *reader, o *strictjson.Object, l *Layer, earlier []Layer)
	// check applies the rules that take the whole network to decide, reporting at the layer's object.
	check(n *Network, i int, o *strictjson.Object)
	// define is the canonical definition behind "name" and "kind". Its keys are those that the kind knows.
	define(n *Network, l *Layer) fields
	// feed says how the layer reads a dataset.
	feed(f *program.Feed)
	// forward adds the operations of the layer to the list of a step, and sets its value.
	forward(b *builder, i int)
	// loss adds the operations of the layer's term of the loss.
	loss(b *builder, i, term int)
	// backward adds the operations behind the losses, once all readers of the layer's value have added to its gradient.
	backward(b *builder, i int)
}

// kinds make a kind, in the order of messages.
var kinds = []func() kind{
	func() kind { return &inputLayer{} },
	func() kind { return &hiddenLayer{} },
	func() kind { return &variationalLayer{} },
	func() kind { return &mergeLayer{} },
	func() kind { return &outputLayer{} },
}

func kindWords() (words []string) {
	for _, make := range kinds {
		words = append(words, make().word())
	}
	return words
}

// keysOf lists the keys of a kind in the order of the canonical definition.
func keysOf(k kind) (keys []string) {
	for _, field := range k.define(&Network{}, &Layer{}) {
		keys = append(keys, field.key)
	}
	return keys
}

// LayerKeys lists the keys that layers have, each once.
func LayerKeys() []string {
	keys := []string{"name", "kind"}
	for _, make := range kinds {
		keys = append(keys, keysOf(make())...)
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// refuseOthers reports the keys that are given but belong to layers of other kinds only.
func refuseOthers(o *strictjson.Object) {
	having := map[string][]string{}
	for _, make := range kinds {
		k := make()
		for _, key := range keysOf(k) {
			having[key] = append(having[key], k.word())
		}
	}
	for _, key := range slices.Sorted(maps.Keys(having)) {
		if !o.Asked(key) {
			o.Refuse(key, "is given, but only %s layers have it", listed(having[key], "and"))
		}
	}
}

// listed is an enumeration: "a, b and c".
func listed(words []string, conjunction string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " " + conjunction + " " + words[last]
}

// common is embedded by kinds, for what most of them do not have.
type common struct{}

func (common) reads() bool                             { return false }
func (common) scores() bool                            { return false }
func (common) heads() int64                            { return 1 }
func (common) weightNorm() float32                     { return 0 }
func (common) penalty() (schedule.Schedule, bool)      { return schedule.Schedule{}, false }
func (common) check(*Network, int, *strictjson.Object) {}
func (common) feed(*program.Feed)                      {}
func (common) loss(b *builder, i, term int)            {}
func (common) backward(*builder, int)                  {}

const weightNormKey = "weight_norm"

// capped is embedded by kinds whose weights may have a greatest norm.
type capped struct {
	common
	mostNorm float32 // of each unit's weights from a source; 0: any
}

func (c *capped) weightNorm() float32 { return c.mostNorm }

func (c *capped) readWeightNorm(o *strictjson.Object) {
	c.mostNorm = o.Float32(weightNormKey, 0, strictjson.NotNegative)
}

func (c *capped) defineWeightNorm() fields {
	if c.mostNorm == 0 {
		return fields{{weightNormKey, ""}} // left out, but known
	}
	return fields{{weightNormKey, c.mostNorm}}
}
