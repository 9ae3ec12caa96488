package model

import (
	"flag"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false,
	"write the golden file of the present format; never for a format that was released")

// goldenFile was written by format version 1 and must be readable forever.
const goldenFile = "../../tests/golden/model-v1.dsstne"

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(m.Run())
}

// writeGolden makes the file: every weight is its position in the tensor divided by 64, minus 1.
func writeGolden(t *testing.T) {
	m := create(t, smallDefinition, 1)
	for _, tensor := range m.Tensors() {
		for i := range tensor.Float32() {
			tensor.Float32()[i] = float32(i)/64 - 1
		}
	}
	nameItems(t, m)
	m.SetStep(1234)
	require.NoError(t, m.Save(goldenFile, map[string]string{"description": "golden file, format version 1"}))
}

func TestAFileOfFormatVersion1IsStillRead(t *testing.T) {
	if *update {
		writeGolden(t)
	}
	m, err := Load(goldenFile, 2)
	require.NoError(t, err)
	defer m.Close()
	require.EqualValues(t, 1234, m.Step())
	require.Equal(t, map[string]string{"description": "golden file, format version 1"}, m.Attributes())
	require.Equal(t, "small", m.Network().Name)
	require.Equal(t, 40, namedItems(m))
	require.Equal(t, itemText(), string(tensorBytes(t, m, "items.bytes")))
	require.EqualValues(t, 283, m.Parameters())
	weight, err := m.Tensor("output.weight")
	require.NoError(t, err)
	require.Equal(t, []int64{40, 3}, weight.Shape)
	for i, x := range weight.Float32() {
		require.Equal(t, float32(i)/64-1, x)
	}
}
