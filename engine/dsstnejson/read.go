package dsstnejson

import (
	"bytes"
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"dsstne/engine/network"
	"dsstne/engine/strictjson"
	"dsstne/internal/fault"
)

// what names a file in messages.
const what = "DSSTNE network"

const oldest = 0.6999 // the first version that DSSTNE reads, 0.7, with room for rounding

// Config is what a definition holds. Its JSON is that of dsstne_network_read.
type Config struct {
	Dialect  string            `json:"dialect"`
	Network  *network.Network  `json:"network"`
	Training Training          `json:"training"`
	Datasets map[string]string `json:"datasets"` // the name of the dataset by that of the layer, where it has one
	Words    Words             `json:"words"`
}

// Words are those of a file of DSSTNE that make no difference here: of several words for one loss, the one that it has.
type Words struct {
	Kind string `json:"kind,omitempty"`
	Loss string `json:"loss,omitempty"`
}

// Training is what DSSTNE's files say about training: options of a trainer. Ours say nothing.
type Training struct {
	Shuffle  *bool     `json:"shuffle,omitempty"`
	Schedule *Schedule `json:"schedule,omitempty"`
}

// Schedule is a schedule of the learning rate: 1 / (1 + rate * step).
type Schedule struct {
	Kind string  `json:"kind"`
	Rate float64 `json:"rate"`
}

// read translates a file.
func read(text []byte) (*Config, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, fault.New(fault.InvalidArgument, "%s: the text is empty", what)
	}
	o, err := strictjson.ParseFolded(text, what)
	if err != nil {
		return nil, err
	}
	f := &file{o: o}
	config := &Config{Dialect: DSSTNE, Datasets: map[string]string{}}
	name := f.readTop(config)
	if len(f.objects) > network.MostLayers {
		o.Fail("Layers", "has %d layers; a network has at most %d", len(f.objects), network.MostLayers)
		return nil, o.Err()
	}
	for i, object := range f.objects {
		f.layers = append(f.layers, f.begin(i, object))
	}
	for i := range f.layers {
		f.read(i)
	}
	if err := o.Done(); err != nil {
		return nil, err
	}
	ordered := f.order()
	for n, l := range ordered {
		if l.shares != nil {
			f.share(l, ordered[:n])
		}
	}
	if err := o.Err(); err != nil {
		return nil, err
	}
	for _, l := range ordered {
		if l.dataset != "" {
			config.Datasets[l.name] = l.dataset
		}
	}
	config.Network, err = f.network(name, ordered)
	return config, err
}

// file is a file that is being read.
type file struct {
	o       *strictjson.Object
	objects []*strictjson.Object // of the layers
	layers  []*layer

	// What the file says for all layers:
	loss       string
	margins    margins
	boosts     fields // weights of ones and zeros, if they are not both 1
	denoising  float32
	penalty    penalty
	parameters parameters
}

// readTop reads the keys of the file, and returns its name.
func (f *file) readTop(config *Config) (name string) {
	o := f.o
	o.Require("Layers")
	if version := o.Float("Version", 1, strictjson.Any); version < oldest {
		o.Fail("Version", "is %v; DSSTNE reads files of version 0.7 and later", version)
	}
	name = o.String("Name", "")
	kind := o.Word("Kind", networkKinds[0], networkKinds...) // which makes no difference in DSSTNE either
	if weights := o.String("WeightsData", ""); weights != "" {
		o.Fail("WeightsData", noWeightsData, weights)
	}
	f.loss, f.margins, f.parameters = readLoss(o), readMargins(o), readParameters(o, parameters{})
	config.Words = Words{kind, f.loss}
	f.denoising = o.Object("Denoising").Float32("p", 0, strictjson.Fraction)
	f.penalty = readPenalty(o, penalty{})
	f.checkPooling()
	f.boosts = readBoosts(o)
	shuffle := o.Bool("ShuffleIndices", true)
	config.Training.Shuffle = &shuffle
	if decay := o.Float("Decay", 0, strictjson.NotNegative); decay > 0 {
		config.Training.Schedule = &Schedule{"inverse", decay}
	}
	if o.Type("Layers") == strictjson.ObjectType {
		f.objects = []*strictjson.Object{o.Object("Layers")}
	} else {
		f.objects = o.Objects("Layers")
	}
	return name
}

// checkPooling checks the parameters of pooling layers, which have no effect without such a layer.
func (f *file) checkPooling() {
	normalization := f.o.Object(only(f.o, "LRN", "LocalResponseNormalization"))
	for _, key := range []string{"k", "n", "alpha", "beta"} {
		normalization.Float32(key, 0, strictjson.Any)
	}
	f.o.Object("MaxOut").Float32("k", 0, strictjson.Any)
}

// network writes the definition in our dialect and makes the network of it.
func (f *file) network(name string, ordered []*layer) (*network.Network, error) {
	var layers, losses []fields
	var written []*layer // that the layers of our definition are written for
	for _, l := range ordered {
		if l.kind != input {
			l.keys["sources"] = f.namesOf(l.sources)
		}
		if len(l.skips) > 0 {
			l.keys["skips"] = f.namesOf(l.skips)
		}
		if l.kind == output {
			l.loss["layer"] = l.name
			losses = append(losses, l.loss)
			if l.merge != "" {
				layers, written = append(layers, f.mergeBefore(l)), append(written, l)
			}
		}
		layers, written = append(layers, l.keys), append(written, l)
	}
	if err := f.o.Err(); err != nil {
		return nil, err
	}
	text, err := strictjson.Marshal(fields{"name": name, "layers": layers, "loss": losses})
	if err != nil {
		return nil, err
	}
	net, err := network.Parse(text)
	if err != nil {
		return nil, named(err, written)
	}
	return net, nil
}

var place = regexp.MustCompile(`\blayers\[(\d+)\]\.?(\w*)(?:(?:\[\d+\])?\.weight)?`)

// theirKeys are the keys of DSSTNE for those of ours in which network.Parse can find errors of a file.
var theirKeys = map[string]string{
	"name": "Name", "sources": "Source", "skips": "Skip", "size": "N", "shared": "SharedWeights", "dropout": "pDropout",
}

// named puts the names of layers, and DSSTNE's keys, for ours into an error about the definition that was written.
func named(err error, written []*layer) error {
	text := place.ReplaceAllStringFunc(err.Error(), func(found string) string {
		match := place.FindStringSubmatch(found)
		i, _ := strconv.Atoi(match[1])
		return fmt.Sprintf("layer %q: %s", written[i].name, cmp.Or(theirKeys[match[2]], match[2]))
	})
	return fault.New(fault.InvalidArgument, "%s", what+strings.TrimPrefix(text, "network definition"))
}

// sized is a layer with its size, for messages.
func sized(l *layer) string {
	if l.size == 0 {
		return fmt.Sprintf("%q (auto)", l.name)
	}
	return fmt.Sprintf("%q (%d)", l.name, l.size)
}
