package model

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/engine/modelfile"
	"dsstne/internal/fault"
)

// fileOf is the model as a file.
func fileOf(t testing.TB, m *Model) []byte {
	path := filepath.Join(t.TempDir(), "m.dsstne")
	require.NoError(t, m.Save(path, nil))
	file, err := os.ReadFile(path)
	require.NoError(t, err)
	return file
}

// namedSmall is a model with everything that a file can hold.
func namedSmall(t testing.TB) *Model {
	m := create(t, smallDefinition, 1)
	nameItems(t, m)
	m.SetStep(17)
	m.attributes = map[string]string{"note": "a \"quoted\" <text>\n"}
	return m
}

func readBytes(file []byte, threads int) (*Model, error) {
	parsed, err := modelfile.Parse(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		return nil, err
	}
	return read(parsed, threads)
}

// parts are the header and the data of a small file, whose digests are two: one of the header and one of all data.
func parts(file []byte) (header, data []byte) {
	length := binary.LittleEndian.Uint64(file)
	return file[8 : 8+length], file[8+length : len(file)-2*sha256.Size]
}

// seal makes a file of a header and data with digests that are right, as somebody would who forges one.
func seal(header, data []byte) []byte {
	header = append(bytes.Clone(header), bytes.Repeat([]byte(" "), (8-len(header)%8)%8)...)
	head := append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...)
	digests := [][sha256.Size]byte{sha256.Sum256(head), sha256.Sum256(data)}
	return slices.Concat(head, data, digests[0][:], digests[1][:])
}

func TestALoadedModelIsTheSavedOne(t *testing.T) {
	for _, m := range []*Model{namedSmall(t), create(t, wideDefinition, 1)} {
		path := filepath.Join(t.TempDir(), "m.dsstne")
		require.NoError(t, m.Save(path, nil))
		loaded, err := Load(path, 2)
		require.NoError(t, err)
		defer loaded.Close()
		require.Equal(t, m.Step(), loaded.Step())
		require.Equal(t, m.Attributes(), loaded.Attributes())
		require.Equal(t, string(m.Network().JSON()), string(loaded.Network().JSON()))
		require.Len(t, loaded.Tensors(), len(m.Tensors()))
		for i, tensor := range m.Tensors() {
			require.Equal(t, tensor.Name, loaded.Tensors()[i].Name)
			require.Equal(t, tensor.Shape, loaded.Tensors()[i].Shape)
			require.Equal(t, tensor.Layer, loaded.Tensors()[i].Layer)
			require.Equal(t, tensor.Bytes(), loaded.Tensors()[i].Bytes())
		}
	}
}

// Each change keeps the digests right: what is refused here is refused because it does not fit the network.
func TestAForgedHeaderThatIsNotThatOfAModelIsRefused(t *testing.T) {
	header, data := parts(fileOf(t, namedSmall(t)))
	for name, c := range map[string]struct{ old, new, words string }{
		"another shape":      {`"shape":[40,3]`, `"shape":[3,40]`, "the definition wants F32 [40, 3]"},
		"another name":       {`"hidden1.bias"`, `"hidden2.bias"`, `"hidden1.bias" of the definition is missing`},
		"another dtype":      {`"dtype":"F32"`, `"dtype":"I32"`, "the definition wants F32"},
		"no network":         {`"network":`, `"notwork":`, "network"},
		"names without text": {`"items.bytes"`, `"items.pytes"`, "one is missing"},
		"names of a matrix":  {`"shape":[41]`, `"shape":[41,1]`, "instead of a list"},
	} {
		t.Run(name, func(t *testing.T) {
			forged := strings.Replace(string(header), c.old, c.new, 1)
			require.NotEqual(t, string(header), forged)
			_, err := readBytes(seal([]byte(forged), data), 2)
			requireFault(t, err, fault.CorruptFile, c.words)
		})
	}
}

func TestNamesInAFileAreChecked(t *testing.T) {
	header, data := parts(fileOf(t, namedSmall(t)))
	binary.LittleEndian.PutUint64(data[8*9:], 1<<50)
	_, err := readBytes(seal(header, data), 2)
	requireFault(t, err, fault.CorruptFile, "items.offsets[9]")
}

func TestAnErrorOfLoadNamesThePath(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.dsstne")
	header, data := parts(fileOf(t, namedSmall(t)))
	binary.LittleEndian.PutUint32(data[len(data)-len(itemText())-4:], math.Float32bits(float32(math.NaN())))
	require.NoError(t, os.WriteFile(path, seal(header, data), 0o600))
	_, err := Load(path, 0)
	requireFault(t, err, fault.CorruptFile, path+": output.bias, row 39, column 0: NaN is not finite")
}

func TestAModelCanBeSavedOverTheFileItWasLoadedFrom(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.dsstne")
	require.NoError(t, create(t, wideDefinition, 1).Save(path, nil))
	before, err := os.ReadFile(path)
	require.NoError(t, err)
	m, err := Load(path, 2)
	require.NoError(t, err)
	defer m.Close()
	require.NoError(t, m.Save(path, nil))
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, before, after)
}

func TestAttributesStayWithTheModelUnlessOthersAreGiven(t *testing.T) {
	m := create(t, smallDefinition, 1)
	path := filepath.Join(t.TempDir(), "m.dsstne")
	require.NoError(t, m.Save(path, map[string]string{"a": "b"}))
	require.NoError(t, m.Save(path, nil))
	loaded, err := Load(path, 1)
	require.NoError(t, err)
	defer loaded.Close()
	require.Equal(t, map[string]string{"a": "b"}, loaded.Attributes())
}

func TestSaveIsRefusedWhileTheModelIsTrained(t *testing.T) {
	m := create(t, smallDefinition, 1)
	unlock, err := m.TryWrite()
	require.NoError(t, err)
	defer unlock()
	requireFault(t, m.Save(filepath.Join(t.TempDir(), "m"), nil), fault.Busy, "being trained")
}
