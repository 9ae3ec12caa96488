package network

import (
	"bytes"
	"encoding/json"
	"fmt"

	"dsstne/kernels"
)

// The canonical definition; a key that a layer's kind has no use for is nil.
type definition struct {
	Name   string            `json:"name"`
	Layers []layerDefinition `json:"layers"`
	Loss   []lossDefinition  `json:"loss"`
}

type layerDefinition struct {
	Name        string                 `json:"name"`
	Kind        string                 `json:"kind"`
	Sources     *[]string              `json:"sources,omitempty"`
	Size        any                    `json:"size"`
	Scaling     string                 `json:"scaling,omitempty"`
	Denoising   *float32               `json:"denoising,omitempty"`
	Activation  string                 `json:"activation,omitempty"`
	Dropout     *float32               `json:"dropout,omitempty"`
	Bias        *bool                  `json:"bias,omitempty"`
	Temperature *float32               `json:"temperature,omitempty"`
	Shared      string                 `json:"shared,omitempty"`
	Initializer *initializerDefinition `json:"initializer,omitempty"`
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
	NormalizeRows *bool    `json:"normalize_rows,omitempty"`
	OneScale      *float32 `json:"one_scale,omitempty"`
	ZeroScale     *float32 `json:"zero_scale,omitempty"`
	OneTarget     *float32 `json:"one_target,omitempty"`
	ZeroTarget    *float32 `json:"zero_target,omitempty"`
}

// JSON returns the canonical definition, with every default written out. Equal networks give equal bytes, and Parse of them
// gives the same network.
func (n *Network) JSON() []byte {
	d := definition{Name: n.Name, Layers: []layerDefinition{}, Loss: []lossDefinition{}}
	for i := range n.Layers {
		d.Layers = append(d.Layers, n.defineLayer(&n.Layers[i]))
	}
	for _, term := range n.Terms {
		d.Loss = append(d.Loss, defineLoss(n.Layers[term.Layer].Name, term.Loss))
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(d); err != nil {
		// Only a number that is not finite can do this, and Parse lets none in.
		panic(fmt.Sprintf("network: %v", err))
	}
	return bytes.TrimSpace(out.Bytes())
}

func (n *Network) defineLayer(l *Layer) layerDefinition {
	d := layerDefinition{Name: l.Name, Kind: l.Kind.String(), Size: l.Size}
	if l.Size == 0 {
		d.Size = "auto"
	}
	if l.Kind == Input {
		d.Scaling, d.Denoising = l.Scaling.String(), &l.Denoising
		return d
	}
	sources := make([]string, len(l.Sources))
	for i, source := range l.Sources {
		sources[i] = n.Layers[source].Name
	}
	d.Sources, d.Bias = &sources, &l.Bias
	if l.Kind == Hidden {
		d.Activation, d.Dropout = kernels.ActivationWords[l.Activation], &l.Dropout
	} else {
		d.Temperature, d.Shared = &l.Temperature, l.Shared
	}
	d.Initializer = &initializerDefinition{Bias: l.Initializer.Bias}
	if l.Shared == "" {
		d.Initializer.Kind, d.Initializer.Scale = l.Initializer.Kind.String(), &l.Initializer.Scale
	}
	return d
}

func defineLoss(layer string, loss kernels.Loss) lossDefinition {
	d := lossDefinition{Layer: layer, Kind: kernels.LossWords[loss.Kind], Weight: loss.Weight}
	switch loss.Kind {
	case kernels.Softmax:
		d.NormalizeRows = &loss.NormalizeRows
	case kernels.ScaledMarginal:
		d.OneScale, d.ZeroScale = &loss.OneScale, &loss.ZeroScale
		d.OneTarget, d.ZeroTarget = &loss.OneTarget, &loss.ZeroTarget
	}
	return d
}
