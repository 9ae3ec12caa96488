package model

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/internal/fault"
)

// goldenItems was written by format version 2, which has models that are not networks, and must be readable forever.
const goldenItems = "../../tests/golden/model-v2.dsstne"

// storedDefinition is of a matrix [3, 3] with the entries (0, 1), (0, 2) and (2, 0).
const storedDefinition = `{"kind": "item_weights", "items": 3, "weight": "csr", "entries": 3, "bias": true}`

// stored makes a model of storedDefinition.
func stored(t *testing.T) *Model {
	form, err := ReadForm([]byte(storedDefinition), nil)
	require.NoError(t, err)
	m, err := Create(form, Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = m.Close() })
	encode := func(values any) []byte {
		out, err := binary.Append(nil, binary.LittleEndian, values)
		require.NoError(t, err)
		return out
	}
	require.NoError(t, m.SetTensor("weight.values", encode([]float32{0.5, -2, 0.25})))
	require.NoError(t, m.SetTensor("weight.indices", encode([]int32{1, 2, 0})))
	require.NoError(t, m.SetTensor("weight.offsets", encode([]int64{0, 2, 2, 3})))
	require.NoError(t, m.SetTensor("bias", encode([]float32{1, 2, 3})))
	return m
}

func TestAFileOfFormatVersion2IsStillRead(t *testing.T) {
	if *update {
		require.NoError(t, stored(t).Save(goldenItems, map[string]string{"description": "golden file, format version 2"}))
	}
	m, err := Load(goldenItems, 2)
	require.NoError(t, err)
	defer m.Close()
	require.Nil(t, m.Network())
	require.Equal(t, string(stored(t).Form().JSON()), string(m.Form().JSON()))
	require.Equal(t, map[string]string{"description": "golden file, format version 2"}, m.Attributes())
	require.EqualValues(t, 6, m.Parameters())
	for _, want := range stored(t).Tensors() {
		require.Equal(t, want.Bytes(), tensorBytes(t, m, want.Name), want.Name)
	}
}

func TestOnlyModelsThatAreNotNetworksNeedANewReader(t *testing.T) {
	for version, m := range map[string]*Model{"1": create(t, smallDefinition, 1), "2": stored(t)} {
		path := filepath.Join(t.TempDir(), "m.dsstne")
		require.NoError(t, m.Save(path, nil))
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		head := string(text[8 : 8+binary.LittleEndian.Uint64(text)])
		require.Contains(t, head, `"format_version":"`+version+`","minimum_reader_version":"`+version+`"`)
		require.Equal(t, version == "1", strings.Contains(head, `"network":`))
		require.Equal(t, version == "2", strings.Contains(head, `"definition":`))
	}
}

func TestAStoredWeightThatDoesNotFitTogetherIsNotSaved(t *testing.T) {
	m := stored(t)
	require.NoError(t, m.Check())
	require.NoError(t, m.SetTensor("weight.offsets", make([]byte, 32)))
	requireFault(t, m.Check(), fault.InvalidData, "weight.offsets ends with 0")
	path := filepath.Join(t.TempDir(), "m.dsstne")
	requireFault(t, m.Save(path, nil), fault.InvalidData, "cannot save", "weight.offsets ends with 0")
	require.NoFileExists(t, path)
}

func TestAnUnknownKindOfModelIsNamed(t *testing.T) {
	_, err := ReadForm([]byte(`{"kind": "item_weight", "items": 3}`), nil)
	requireFault(t, err, fault.InvalidArgument, `did you mean "item_weights"?`)
	_, err = ReadForm([]byte(storedDefinition), map[string]int64{"input": 3})
	requireFault(t, err, fault.InvalidArgument, "sizes")
}
