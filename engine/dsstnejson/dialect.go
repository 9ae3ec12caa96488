package dsstnejson

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"dsstne/engine/network"
	"dsstne/internal/fault"
)

// Auto, Native and DSSTNE name the dialect of a definition; Auto: its keys decide.
const (
	Auto   = "auto"
	Native = "native"
	DSSTNE = "dsstne"
)

// Read reads the definition of a network in a dialect. Its errors are of kind fault.InvalidArgument.
func Read(text []byte, dialect string) (*Config, error) {
	if err := network.CheckLength(text); err != nil {
		return nil, err
	}
	theirs := dialect == DSSTNE
	if dialect == Auto {
		var err error
		if theirs, err = detect(text); err != nil {
			return nil, err
		}
	}
	if theirs {
		return read(text)
	}
	net, err := network.Parse(text)
	return &Config{Dialect: Native, Network: net, Datasets: map[string]string{}}, err
}

// detect reports whether a text is in DSSTNE's dialect. The keys that only one dialect has decide. A text that has
// keys of both is fault.InvalidArgument; one that both could read, or that is not JSON, is not DSSTNE's.
func detect(text []byte) (bool, error) {
	var top map[string]json.RawMessage
	if json.Unmarshal(text, &top) != nil {
		return false, nil
	}
	var found evidence
	for _, key := range slices.Sorted(maps.Keys(top)) {
		found.judge(key, key, ownTop, theirTop)
		if word := ""; key == "kind" && json.Unmarshal(top[key], &word) == nil && IsKind(word) {
			found.theirs = append(found.theirs, key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(top)) {
		if fold(key) == "layers" {
			found.judgeLayers(key, top[key])
		}
	}
	if len(found.own) > 0 && len(found.theirs) > 0 {
		return false, fault.New(fault.InvalidArgument, "network definition: %q is a key of DSSTNE's network files, and %q "+
			"is one of dsstne's own definitions; use the keys of one of them only", found.theirs[0], found.own[0])
	}
	return len(found.theirs) > 0 || found.capitals && len(found.own) == 0, nil
}

// evidence is what the keys of a text say about its dialect.
type evidence struct {
	own, theirs []string // the places of keys that only one dialect has
	capitals    bool     // a key of both is spelled with capitals, which ours never are
}

// judge adds a key, which stands at a place.
func (e *evidence) judge(key, place string, own, theirs []string) {
	isOwn, isTheirs := slices.Contains(own, key), slices.Contains(theirs, fold(key))
	switch {
	case isOwn && !isTheirs:
		e.own = append(e.own, place)
	case isTheirs && !slices.Contains(own, fold(key)):
		e.theirs = append(e.theirs, place)
	case isTheirs && key != fold(key):
		e.capitals = true
	}
}

// judgeLayers adds the keys of the layers, which are a list or a single one.
func (e *evidence) judgeLayers(key string, text json.RawMessage) {
	var list []json.RawMessage
	if json.Unmarshal(text, &list) != nil {
		list = []json.RawMessage{text}
	}
	for i, entry := range list {
		var layer map[string]json.RawMessage
		if json.Unmarshal(entry, &layer) != nil {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(layer)) {
			e.judge(name, fmt.Sprintf("%s[%d].%s", key, i, name), ownLayer, theirLayer)
		}
	}
}

// The keys of the dialects; DSSTNE's in lower case. "kind" is a key of ours beside a network's: that of other models.
var (
	ownTop, theirTop     = []string{"name", "layers", "loss", "kind"}, folded(topKeys)
	ownLayer, theirLayer = network.LayerKeys(), folded(layerKeyNames())
)

func layerKeyNames() (names []string) {
	for _, k := range layerKeys {
		names = append(names, k.key)
	}
	return names
}

func fold(key string) string { return strings.ToLower(key) }

func folded(keys []string) (list []string) {
	for _, key := range keys {
		list = append(list, fold(key))
	}
	return list
}

// networkKinds are the words of the key Kind of a file; they make no difference.
var networkKinds = []string{"FeedForward", "AutoEncoder"}

// IsKind reports whether a word is one of DSSTNE's kinds of networks.
func IsKind(word string) bool { return slices.Contains(folded(networkKinds), fold(word)) }
