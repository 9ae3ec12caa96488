package network

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/internal/fault"
)

// sharing has weights that layers of all kinds share, in every form of the key.
const sharing = `{"name": "bought", "kind": "input"}, {"name": "seen", "kind": "input"},
	{"name": "b", "kind": "hidden", "sources": ["bought"], "size": 8},
	{"name": "s", "kind": "hidden", "sources": ["seen"], "size": 8, "shared": "b.weight"},
	{"name": "down", "kind": "hidden", "sources": ["b", "s"], "size": 5},
	{"name": "square", "kind": "hidden", "size": 5},
	{"name": "back", "kind": "hidden", "size": 5, "shared": {"weight": "square.weight", "transposed": true}},
	{"name": "again", "kind": "hidden", "size": 5, "shared": {"weight": "square.weight", "source": "back",
		"transposed": false}},
	{"name": "up", "kind": "hidden", "sources": ["again", "back"], "size": 8, "initializer": {"scale": 2}, "shared":
		[{"source": "back", "weight": "down.weight.s", "transposed": true}]},
	{"name": "z", "kind": "variational", "size": 3}, {"name": "z2", "kind": "variational", "sources": ["up"], "size": 3,
		"shared": "z.weight"},
	{"name": "first", "kind": "output", "sources": ["up"], "shared": "b.weight"},
	{"name": "second", "kind": "output", "sources": ["up", "bought"], "shared": [{"source": "up", "weight": "b.weight"}]},
	{"name": "third", "kind": "output", "sources": ["seen"], "shared": "second.weight.bought"},
	{"name": "late", "kind": "hidden", "sources": ["seen"], "size": 4}, {"name": "wide", "kind": "output", "size": "auto"},
	{"name": "wider", "kind": "output", "sources": ["late"], "shared": "wide.weight"}`

const everything = `{"name": "a <b> & \u2028", "layers": [
	{"name": "input", "kind": "input", "size": 100, "scaling": "l2", "denoising": 0.4},
	{"name": "more", "kind": "input"},
	{"name": "hidden1", "kind": "hidden", "sources": ["more", "input"], "size": 8, "activation": "relu", "dropout": 0.1,
		"sparsity": {"mean": 0.1, "weight": 0.3}, "batch_norm": {"momentum": 0.02}, "delta_norm": 0.5, "weight_norm": 3,
		"bias": false, "initializer": {"kind": "he_normal", "scale": 1e-7}},
	{"name": "shifted", "kind": "hidden", "size": 4, "activation": "selu", "alpha_dropout": 0.1},
	{"name": "drawn", "kind": "variational", "sources": ["hidden1"], "size": 3, "bias": false, "kl": {"weight": 0.2,
		"schedule": {"kind": "constant", "warmup_steps": 10}}},
	{"name": "output", "kind": "output", "sources": ["hidden1"], "temperature": 0.07, "shared": "hidden1.weight.input", "initializer":
		{"bias": -10.2}},
	{"name": "popular", "kind": "output", "sources": ["shifted"], "weight_norm": 0.25, "size": 7}],
	"loss": [{"layer": "popular", "kind": "sigmoid"}, {"layer": "output", "kind": "scaled_marginal", "weight": 0.3}]}`

func TestJSONIsCanonicalAndComplete(t *testing.T) {
	require.Equal(t, `{"name":"","layers":[`+
		`{"name":"input","kind":"input","size":"auto","scaling":"none","denoising":0},`+
		`{"name":"hidden1","kind":"hidden","sources":["input"],"size":8,"activation":"tanh","dropout":0,"bias":true,`+
		`"initializer":{"kind":"xavier_uniform","scale":1,"bias":0}},`+
		`{"name":"output","kind":"output","sources":["hidden1"],"size":"auto","bias":true,"temperature":0,`+
		`"initializer":{"kind":"xavier_uniform","scale":1,"bias":0}}],`+
		`"loss":[{"layer":"output","kind":"softmax","weight":1,"normalize_rows":false}]}`, string(parse(t,
		layers(auto)).JSON()))
}

func TestParseOfJSONIsTheIdentity(t *testing.T) {
	for name, text := range map[string]string{
		"defaults": layers(auto), "tied": layers(tied), "sharing": layers(sharing), "everything": everything,
		"an encoder": layers(in + strings.TrimSuffix(hidden, ", ")),
		"layers that lead to no output": layers(auto + `, {"name": "other", "kind": "input"}, {"name": "h", "kind": ` +
			`"hidden", "size": 3}, {"name": "none", "kind": "input"}`),
	} {
		t.Run(name, func(t *testing.T) {
			n := parse(t, text)
			require.Equal(t, n, parse(t, string(n.JSON())))
		})
	}
}

func TestParseOfJSONIsTheIdentityAfterWithSizes(t *testing.T) {
	n, err := parse(t, everything).WithSizes(map[string]int64{"more": 9})
	require.NoError(t, err)
	require.Equal(t, n, parse(t, string(n.JSON())))
}

// Every block of JSON in the reference is a definition.
func TestTheExamplesOfTheReferenceAreValid(t *testing.T) {
	text, err := os.ReadFile("../../docs/network.md")
	require.NoError(t, err)
	blocks := regexp.MustCompile("(?s)```json\n(.*?)```").FindAllSubmatch(text, -1)
	require.NotEmpty(t, blocks)
	for _, block := range blocks {
		_, err := Parse(block[1])
		require.NoError(t, err, "%s", block[1])
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{``, `{}`, layers(auto), layers(tied), layers(in + hidden + out), everything, layers(sharing),
		layers(`{"name": "o", "kind": "output", "sources": []}`),
		layers(in + `{"name": "z", "kind": "variational", "size": 2, "kl": {"schedule": {}}}, ` + out),
		`{"layers": [` + in + hidden + out + `], "loss": {"kind": "sigmoid_cross_entropy", "schedule": {"kind": "constant"}}}`,
		`{"layers": [{"name": "i", "kind": "input"}], "loss": [{}]}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		n, err := Parse(text)
		if err != nil {
			require.Equal(t, fault.InvalidArgument, fault.KindOf(err))
			return
		}
		canonical := n.JSON()
		again, err := Parse(canonical)
		require.NoError(t, err)
		require.Equal(t, n, again)
		require.True(t, bytes.Equal(canonical, again.JSON()))
		sizes := map[string]int64{}
		for _, l := range n.Layers {
			if l.Size == 0 {
				sizes[l.Name] = 1000
			}
		}
		// A shared weight may make these sizes contradict the definition.
		if filled, err := n.WithSizes(sizes); err == nil {
			_, err = filled.Tensors()
			require.NoError(t, err)
		}
	})
}
