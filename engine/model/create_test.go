package model

import (
	"hash/crc32"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/internal/fault"
)

func TestInitialWeightsHaveTheSameBitsForAnyNumberOfThreads(t *testing.T) {
	net := parse(t, strings.ReplaceAll(wideDefinition, "2000", "200001"))
	one, err := Create(net, Options{Seed: 7, Threads: 1})
	require.NoError(t, err)
	defer one.Close()
	many, err := Create(net, Options{Seed: 7, Threads: 5})
	require.NoError(t, err)
	defer many.Close()
	for i, tensor := range one.Tensors() {
		require.Equal(t, tensor.Bytes(), many.Tensors()[i].Bytes(), tensor.Name)
	}
}

// These bits are promised to nobody, but a change should be meant: it makes another model of the same seed.
func TestAModelOfASeedKeepsItsBits(t *testing.T) {
	for kind, want := range map[string]uint32{
		"xavier_uniform": 0x86a7d638, "xavier_normal": 0x42eb1345, "he_uniform": 0x587c033c, "he_normal": 0x0e990437,
		"uniform": 0x0d2fa94c, "normal": 0x29e0120a, "constant": 0xd22ffe9a,
	} {
		m := create(t, `{"layers": [{"name": "input", "kind": "input", "size": 400},
			{"name": "hidden1", "kind": "hidden", "size": 50, "initializer": {"kind": "`+kind+`", "scale": 0.5, "bias": 0.25}},
			{"name": "output", "kind": "output", "size": 333}]}`, 3)
		digest := crc32.NewIEEE()
		for _, tensor := range m.Tensors() {
			_, err := digest.Write(tensor.Bytes())
			require.NoError(t, err)
		}
		require.Equal(t, want, digest.Sum32(), kind)
	}
}

func TestAnotherSeedGivesOtherWeights(t *testing.T) {
	require.NotEqual(t, tensorBytes(t, create(t, smallDefinition, 1), "hidden1.weight"),
		tensorBytes(t, create(t, smallDefinition, 2), "hidden1.weight"))
}

func TestTensorsOfOneShapeDiffer(t *testing.T) {
	m := create(t, strings.ReplaceAll(smallDefinition, `"kind": "normal", "scale": 0.1, `, ""), 1)
	require.NotEqual(t, tensorBytes(t, m, "hidden1.weight"), tensorBytes(t, m, "output.weight"))
}

func TestABiasIsTheInitializersConstant(t *testing.T) {
	m := create(t, smallDefinition, 1)
	bias, err := m.Tensor("output.bias")
	require.NoError(t, err)
	for _, b := range bias.Float32() {
		require.EqualValues(t, -1, b)
	}
}

func TestALayerWithoutASizeIsRefused(t *testing.T) {
	definition := strings.Replace(smallDefinition, `"output", "size": 40`, `"output", "size": "auto"`, 1)
	_, err := Create(parse(t, definition), Options{Seed: 1, Threads: 1})
	requireFault(t, err, fault.InvalidArgument, `"output"`, "auto")
}

// The weight [4000, 50] from the input has 200,000 draws. With fan-in 4000 and fan-out 50, its mean must be 0 and its
// deviation the formula's, both within 5 standard errors; a uniform one must fill its range and not leave it.
func TestInitializersFollowTheirFormulas(t *testing.T) {
	const in, out, scale, n = 4000.0, 50.0, 0.5, 200000.0
	xavier, he := scale*math.Sqrt(6/(in+out)), scale*math.Sqrt(6/in)
	for kind, c := range map[string]struct{ deviation, radius float64 }{
		"xavier_uniform": {xavier / math.Sqrt(3), xavier},
		"he_uniform":     {he / math.Sqrt(3), he},
		"uniform":        {scale / math.Sqrt(3), scale},
		"xavier_normal":  {scale * math.Sqrt(2/(in+out)), 0},
		"he_normal":      {scale * math.Sqrt(2/in), 0},
		"normal":         {scale, 0},
	} {
		t.Run(kind, func(t *testing.T) {
			m := create(t, `{"layers": [{"name": "input", "kind": "input", "size": 4000},
				{"name": "hidden1", "kind": "hidden", "size": 50, "initializer": {"kind": "`+kind+`", "scale": 0.5}},
				{"name": "output", "kind": "output", "size": 1}]}`, 3)
			w, err := m.Tensor("hidden1.weight")
			require.NoError(t, err)
			var sum, squares, largest float64
			for _, x := range w.Float32() {
				sum += float64(x)
				squares += float64(x) * float64(x)
				largest = max(largest, math.Abs(float64(x)))
			}
			require.InDelta(t, 0, sum/n, 5*c.deviation/math.Sqrt(n))
			require.InEpsilon(t, c.deviation, math.Sqrt(squares/n), 5/math.Sqrt(2*n))
			if c.radius > 0 {
				require.LessOrEqual(t, largest, c.radius*(1+1e-7)) // the radius is rounded to float32
				require.Greater(t, largest, c.radius*0.999)
			}
		})
	}
}

func TestTheConstantInitializerIsItsScale(t *testing.T) {
	m := create(t, strings.Replace(smallDefinition, `"normal"`, `"constant"`, 1), 1)
	w, err := m.Tensor("output.weight")
	require.NoError(t, err)
	for _, x := range w.Float32() {
		require.EqualValues(t, float32(0.1), x)
	}
}

func TestWeightsBeyondTheLimitAreRefusedByName(t *testing.T) {
	_, err := Create(parse(t, wideDefinition), Options{Limit: 1000})
	requireFault(t, err, fault.OutOfMemory, "memory_limit", "nothing was allocated", ".weight [")
}

func TestAbsurdSizesAreRefusedWithoutOverflow(t *testing.T) {
	definition := strings.Replace(
		strings.Replace(smallDefinition, `"output", "size": 40`, `"output", "size": 2147483647`, 1),
		`"size": 3`, `"size": 2147483647`, 1)
	_, err := Create(parse(t, definition), Options{})
	requireFault(t, err, fault.OutOfMemory, "the available memory is")
}

func TestAModelCanBeginAtAStep(t *testing.T) {
	m, err := Create(parse(t, smallDefinition), Options{Step: 41})
	require.NoError(t, err)
	require.EqualValues(t, 41, m.Step())
}
