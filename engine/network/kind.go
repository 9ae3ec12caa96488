package network

import (
	"strings"

	"dsstne/engine/program"
	"dsstne/engine/strictjson"
)

// kind is what a layer does. Everything about a kind of layer is in one file: its parameters and their keys, the rules for
// them, and its operations, with those that several devices need.
type kind interface {
	// word is the kind's name in a definition.
	word() string
	// keys are those that a definition may have, in the order of the canonical one, behind "name" and "kind".
	keys() []string
	// reads and scores are Layer.Reads and Layer.Scores.
	reads() bool
	scores() bool
	// accepts reports whether another layer may be a source.
	accepts(source kind) bool
	// read reads the keys.
	read(r *reader, o *strictjson.Object, l *Layer, earlier []Layer)
	// check applies the rules that take the whole network to decide, reporting at the layer's object.
	check(n *Network, i int, o *strictjson.Object)
	// define is the value of a key in the canonical definition; nil leaves it out.
	define(n *Network, l *Layer, key string) any
	// feed is how the layer reads a dataset.
	feed(l *Layer, f *program.Feed)
	// forward adds the operations of the layer to the list of a step, and says what its value is.
	forward(b *builder, i int)
	// loss adds those of the layer's term of the loss.
	loss(b *builder, i, term int)
	// backward adds the operations behind the losses, when all that reads the layer's value has added to its gradient.
	backward(b *builder, i int)
}

// kinds makes a layer's kind by its word; in the order of messages.
var kinds = []func() kind{
	func() kind { return &inputLayer{} },
	func() kind { return &hiddenLayer{} },
	func() kind { return &outputLayer{} },
}

// kindWords are the words of the kinds.
func kindWords() (words []string) {
	for _, make := range kinds {
		words = append(words, make().word())
	}
	return words
}

// refuseOthers reports the keys that are given but belong to layers of other kinds only.
func refuseOthers(o *strictjson.Object) {
	having := map[string][]string{}
	var keys []string
	for _, make := range kinds {
		k := make()
		for _, key := range k.keys() {
			if having[key] == nil {
				keys = append(keys, key)
			}
			having[key] = append(having[key], k.word())
		}
	}
	for _, key := range keys {
		if !o.Asked(key) {
			o.Refuse(key, "is given, but only %s layers have it", strings.Join(having[key], " and "))
		}
	}
}

// common is embedded by kinds, for what most of them do not have.
type common struct{}

func (common) reads() bool                             { return false }
func (common) scores() bool                            { return false }
func (common) check(*Network, int, *strictjson.Object) {}
func (common) feed(*Layer, *program.Feed)              {}
func (common) loss(b *builder, i, term int)            {}
func (common) backward(*builder, int)                  {}
