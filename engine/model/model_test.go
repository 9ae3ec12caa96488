package model

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/engine/network"
	"dsstne/internal/fault"
	_ "dsstne/kernels/cpu"
)

// smallDefinition has 40 items, 3 hidden units and 283 parameters.
const smallDefinition = `{"name": "small", "layers": [
	{"name": "input", "kind": "input", "size": 40},
	{"name": "hidden1", "kind": "hidden", "size": 3},
	{"name": "output", "kind": "output", "size": 40, "initializer": {"kind": "normal", "scale": 0.1, "bias": -1}}]}`

// wideDefinition has 2,000 items: its weights fill several blocks of 4 KiB.
const wideDefinition = `{"layers": [
	{"name": "input", "kind": "input", "size": 2000},
	{"name": "hidden1", "kind": "hidden", "size": 5},
	{"name": "output", "kind": "output", "size": 2000}]}`

func parse(t testing.TB, definition string) *network.Network {
	net, err := network.Parse([]byte(definition))
	require.NoError(t, err)
	return net
}

func create(t testing.TB, definition string, seed uint64) *Model {
	m, err := Create(parse(t, definition), Options{Seed: seed, Threads: 2})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	return m
}

// requireFault wants an error of a kind whose text contains all of the words.
func requireFault(t testing.TB, err error, kind fault.Kind, words ...string) {
	t.Helper()
	require.Error(t, err)
	require.Equal(t, kind, fault.KindOf(err), err.Error())
	for _, word := range words {
		require.Contains(t, err.Error(), word)
	}
}

func floatBytes(values ...float32) []byte {
	b := make([]byte, 0, 4*len(values))
	for _, v := range values {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return b
}

func offsetBytes(values ...int64) []byte {
	b := make([]byte, 0, 8*len(values))
	for _, v := range values {
		b = binary.LittleEndian.AppendUint64(b, uint64(v))
	}
	return b
}

func tensorBytes(t testing.TB, m *Model, name string) []byte {
	tensor, err := m.Tensor(name)
	require.NoError(t, err)
	return tensor.Bytes()
}

func TestTensorsAreListedInTheOrderOfTheNetwork(t *testing.T) {
	m := create(t, smallDefinition, 1)
	var names []string
	for _, tensor := range m.Tensors() {
		names = append(names, tensor.Name)
	}
	require.Equal(t, []string{"hidden1.weight", "hidden1.bias", "output.weight", "output.bias"}, names)
}

func TestParametersCountsEveryWeightAndBias(t *testing.T) {
	require.EqualValues(t, 40*3+3+40*3+40, create(t, smallDefinition, 1).Parameters())
}

func TestBytesIsTheMemoryOfAllTensorsWithTheNames(t *testing.T) {
	m := create(t, smallDefinition, 1)
	nameItems(t, m)
	require.EqualValues(t, 4*283+8*41+len(itemText()), m.Bytes())
}

func TestAnUnknownTensorNamesTheNearest(t *testing.T) {
	_, err := create(t, smallDefinition, 1).Tensor("hiden1.weight")
	requireFault(t, err, fault.NotFound, `"hiden1.weight"`, `did you mean "hidden1.weight"`)
}

func TestATensorThatIsSetIsGotBack(t *testing.T) {
	m := create(t, smallDefinition, 1)
	require.NoError(t, m.SetTensor("hidden1.bias", floatBytes(1, -2, 3)))
	got := make([]byte, 12)
	require.NoError(t, m.GetTensor("hidden1.bias", got))
	require.Equal(t, floatBytes(1, -2, 3), got)
}

func TestSetTensorRefusesAWrongSizeAndSaysBoth(t *testing.T) {
	err := create(t, smallDefinition, 1).SetTensor("hidden1.weight", make([]byte, 4000))
	requireFault(t, err, fault.InvalidArgument, "hidden1.weight", "[40, 3]", "480 bytes", "4,000 bytes", "1,000 elements")
}

func TestGetTensorRefusesAWrongSize(t *testing.T) {
	err := create(t, smallDefinition, 1).GetTensor("hidden1.bias", make([]byte, 8))
	requireFault(t, err, fault.InvalidArgument, "[3, 1]", "12 bytes", "8 bytes")
}

func TestSetTensorNamesThePlaceOfANumberThatIsNotFinite(t *testing.T) {
	values := make([]float32, 120)
	values[7*3+2] = float32(math.Inf(-1))
	err := create(t, smallDefinition, 1).SetTensor("hidden1.weight", floatBytes(values...))
	requireFault(t, err, fault.NotFinite, "hidden1.weight, row 7, column 2", "-Inf")
}

func TestARefusedTensorLeavesTheOldValues(t *testing.T) {
	m := create(t, smallDefinition, 1)
	before := append([]byte{}, tensorBytes(t, m, "hidden1.bias")...)
	require.Error(t, m.SetTensor("hidden1.bias", floatBytes(1, 2, float32(math.NaN()))))
	require.Equal(t, before, tensorBytes(t, m, "hidden1.bias"))
}

func TestOneWriterShutsOutEverybodyElse(t *testing.T) {
	m := create(t, smallDefinition, 1)
	unlock, err := m.TryWrite()
	require.NoError(t, err)
	defer unlock()
	_, err = m.TryRead()
	requireFault(t, err, fault.Busy, "being trained")
	_, err = m.TryWrite()
	requireFault(t, err, fault.Busy, "being trained")
}

func TestReadersWorkSideBySideAndShutOutAWriter(t *testing.T) {
	m := create(t, smallDefinition, 1)
	first, err := m.TryRead()
	require.NoError(t, err)
	second, err := m.TryRead()
	require.NoError(t, err)
	_, err = m.TryWrite()
	requireFault(t, err, fault.Busy, "2 other call(s)")
	first()
	first() // a second call must not count for the other reader
	_, err = m.TryWrite()
	requireFault(t, err, fault.Busy, "1 other call(s)")
	second()
	unlock, err := m.TryWrite()
	require.NoError(t, err)
	unlock()
}

func TestCloseIsRefusedWhileTheModelIsUsed(t *testing.T) {
	m := create(t, smallDefinition, 1)
	m.Use()
	requireFault(t, m.Close(), fault.Busy, "1 open trainer(s) or predictor(s)")
	m.Unuse()
	require.NoError(t, m.Close())
}

func TestCloseIsRefusedDuringACall(t *testing.T) {
	m := create(t, smallDefinition, 1)
	unlock, err := m.TryRead()
	require.NoError(t, err)
	requireFault(t, m.Close(), fault.Busy)
	unlock()
}

func TestAClosedModelSaysSo(t *testing.T) {
	m := create(t, smallDefinition, 1)
	require.NoError(t, m.Close())
	requireFault(t, m.GetTensor("hidden1.bias", make([]byte, 12)), fault.InvalidState, "closed")
}

func TestViewsOfAClosedModelAreNil(t *testing.T) {
	m := create(t, smallDefinition, 1)
	require.NoError(t, m.Close())
	require.Nil(t, m.Tensors()[0].Float32())
}
