package network

import (
	"fmt"

	"dsstne/engine/strictjson"
	"dsstne/kernels"
)

// fields are keys and values in a fixed order.
type fields []field

type field struct {
	key   string
	value any
}

// MarshalJSON is JSON.
func (n *Network) MarshalJSON() ([]byte, error) { return n.JSON(), nil }

// MarshalJSON writes the fields, without those whose value is an empty string.
func (f fields) MarshalJSON() ([]byte, error) {
	out := []byte{'{'}
	for _, entry := range f {
		if entry.value == "" {
			continue
		}
		value, err := strictjson.Marshal(entry.value)
		if err != nil {
			return nil, err
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = fmt.Appendf(out, "%q:%s", entry.key, value)
	}
	return append(out, '}'), nil
}

// JSON returns the canonical definition, with every default: equal bytes for equal networks. Parse reads it back.
func (n *Network) JSON() []byte {
	layers, terms := []fields{}, []fields{}
	for i := range n.Layers {
		l := &n.Layers[i]
		layers = append(layers, append(fields{{"name", l.Name}, {"kind", l.kind.word()}}, l.kind.define(n, l)...))
	}
	for _, term := range n.Terms {
		terms = append(terms, defineTerm(n.Layers[term.Layer].Name, term))
	}
	text, err := strictjson.Marshal(struct {
		Name   string   `json:"name"`
		Layers []fields `json:"layers"`
		Loss   []fields `json:"loss"`
	}{n.Name, layers, terms})
	if err != nil {
		panic(fmt.Sprintf("network: %v", err)) // a number that is not finite, and Parse accepts none
	}
	return text
}

func (n *Network) defineSources(l *Layer) []string { return n.names(l.Sources) }

// names are those of layers.
func (n *Network) names(layers []int) []string {
	list := make([]string, len(layers))
	for i, layer := range layers {
		list[i] = n.Layers[layer].Name
	}
	return list
}

func defineSize(l *Layer) any {
	if l.Size == 0 {
		return "auto"
	}
	return l.Size
}

func defineInitializer(l *Layer) fields {
	i := l.Initializer
	if l.sharesAll() {
		return fields{{"bias", i.Bias}}
	}
	return fields{{"kind", i.Kind.String()}, {"scale", i.Scale}, {"bias", i.Bias}}
}

func defineTerm(layer string, term Term) fields {
	loss := term.Loss
	list := fields{{"layer", layer}, {"kind", lossWord(loss)}, {"weight", loss.Weight}}
	if !term.Schedule.IsConstant() {
		list = append(list, field{"schedule", term.Schedule})
	}
	if term.StoredOnly {
		list = append(list, field{"stored_only", true})
	}
	if term.Negatives > 0 {
		list = append(list, field{"negatives", term.Negatives})
	}
	if one, zero := loss.Boosts(); one != 1 || zero != 1 {
		list = append(list, fields{{"one_scale", one}, {"zero_scale", zero}}...)
	}
	switch loss.Kind {
	case kernels.Softmax:
		list = append(list, field{"normalize_rows", loss.NormalizeRows})
		if loss.Marginal() {
			list = append(list, fields{{"one_scale", loss.OneScale}, {"one_target", loss.OneTarget}}...)
		}
	case kernels.CosineContrastive:
		list = append(list, fields{{"zero_scale", loss.ZeroScale}, {"margin", loss.ZeroTarget}}...)
	case kernels.ScaledMarginal:
		list = append(list, fields{
			{"one_scale", loss.OneScale}, {"zero_scale", loss.ZeroScale},
			{"one_target", loss.OneTarget}, {"zero_target", loss.ZeroTarget},
		}...)
	}
	return list
}
