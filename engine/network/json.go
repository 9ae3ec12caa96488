package network

import (
	"bytes"
	"encoding/json"
	"fmt"

	"dsstne/kernels"
)

// definition is the canonical definition.
type definition struct {
	Name   string           `json:"name"`
	Layers []fields         `json:"layers"`
	Loss   []lossDefinition `json:"loss"`
}

// fields are keys and values in a fixed order.
type fields []field

type field struct {
	key   string
	value any
}

// MarshalJSON writes the fields that have a value.
func (f fields) MarshalJSON() ([]byte, error) {
	var out bytes.Buffer
	for _, entry := range f {
		if entry.value == nil {
			continue
		}
		value, err := plainJSON(entry.value)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&out, "%c%q:%s", separator(out.Len()), entry.key, value)
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

func separator(written int) byte {
	if written == 0 {
		return '{'
	}
	return ','
}

type initializerDefinition struct {
	Kind  string   `json:"kind,omitempty"`
	Scale *float32 `json:"scale,omitempty"`
	Bias  float32  `json:"bias"`
}

type lossDefinition struct {
	Layer         string   `json:"layer"`
	Kind          string   `json:"kind"`
	Weight        float32  `json:"weight"`
	Schedule      any      `json:"schedule,omitempty"`
	NormalizeRows *bool    `json:"normalize_rows,omitempty"`
	OneScale      *float32 `json:"one_scale,omitempty"`
	ZeroScale     *float32 `json:"zero_scale,omitempty"`
	OneTarget     *float32 `json:"one_target,omitempty"`
	ZeroTarget    *float32 `json:"zero_target,omitempty"`
}

// JSON returns the canonical definition, with every default written out. Equal networks give equal bytes, and Parse of them
// gives the same network.
func (n *Network) JSON() []byte {
	d := definition{Name: n.Name, Layers: []fields{}, Loss: []lossDefinition{}}
	for i := range n.Layers {
		d.Layers = append(d.Layers, n.defineLayer(&n.Layers[i]))
	}
	for _, term := range n.Terms {
		d.Loss = append(d.Loss, defineTerm(n.Layers[term.Layer].Name, term))
	}
	text, err := plainJSON(d)
	if err != nil {
		// Only a number that is not finite can do this, and Parse lets none in.
		panic(fmt.Sprintf("network: %v", err))
	}
	return text
}

// plainJSON leaves <, > and & readable.
func plainJSON(value any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return bytes.TrimSpace(out.Bytes()), err
}

func (n *Network) defineLayer(l *Layer) fields {
	list := fields{{"name", l.Name}, {"kind", l.kind.word()}}
	for _, key := range l.kind.keys() {
		list = append(list, field{key, l.kind.define(n, l, key)})
	}
	return list
}

// defineCommon is the value of a key that several kinds of layers have.
func (n *Network) defineCommon(l *Layer, key string) any {
	switch key {
	case "sources":
		sources := make([]string, len(l.Sources))
		for i, source := range l.Sources {
			sources[i] = n.Layers[source].Name
		}
		return sources
	case "size":
		return sizeOf(l)
	case "bias":
		return l.Bias
	case "initializer":
		d := initializerDefinition{Bias: l.Initializer.Bias}
		if l.Shared == "" {
			d.Kind, d.Scale = l.Initializer.Kind.String(), &l.Initializer.Scale
		}
		return d
	}
	panic("network: unknown key " + key)
}

func sizeOf(l *Layer) any {
	if l.Size == 0 {
		return "auto"
	}
	return l.Size
}

func defineTerm(layer string, term Term) lossDefinition {
	loss := term.Loss
	d := lossDefinition{Layer: layer, Kind: kernels.LossWords[loss.Kind], Weight: loss.Weight}
	if !term.Schedule.IsConstant() {
		d.Schedule = term.Schedule
	}
	switch loss.Kind {
	case kernels.Softmax:
		d.NormalizeRows = &loss.NormalizeRows
	case kernels.ScaledMarginal:
		d.OneScale, d.ZeroScale = &loss.OneScale, &loss.ZeroScale
		d.OneTarget, d.ZeroTarget = &loss.OneTarget, &loss.ZeroTarget
	}
	return d
}
