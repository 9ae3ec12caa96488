package model

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
)

// Run as: go test -run - -fuzz FuzzLoad -fuzztime 60s -fuzzminimizetime 20x ./engine/model

// readAlone uses one goroutine: the order of several would make the fuzzer's coverage random.
func readAlone(file []byte) (*Model, error) { return read(bytes.NewReader(file), int64(len(file)), 1) }

// FuzzLoad feeds changed files to the reader: it must neither panic nor take one that is not, byte for byte, what was saved.
func FuzzLoad(f *testing.F) {
	named := namedSmall(f)
	plain := fileOf(f, create(f, smallDefinition, 1), nil)
	for _, file := range [][]byte{named, plain, named[:100], plain[:len(plain)-1], nil, []byte("\x89PNG\r\n\x1a\n")} {
		f.Add(file)
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		m, err := readAlone(file)
		if err != nil {
			require.Nil(t, m)
			return
		}
		defer m.free()
		require.True(t, bytes.Equal(file, named) || bytes.Equal(file, plain))
	})
}

// FuzzForged changes the header and makes the digests right, to come past them: a file that is taken must be saved and
// loaded again as the same model.
func FuzzForged(f *testing.F) {
	file := namedSmall(f)
	length := binary.LittleEndian.Uint64(file)
	header, data := file[8:8+length], file[8+length:]
	f.Add(header, data[:len(data)-2*digestBytes])
	f.Fuzz(func(t *testing.T, header, data []byte) {
		head := append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...)
		m, err := readAlone(seal(head, data))
		if err != nil {
			return
		}
		defer m.free()
		again, err := readBytes(fileOf(t, m, m.Attributes()))
		require.NoError(t, err)
		defer again.free()
		require.Equal(t, m.Step(), again.Step())
		require.Equal(t, len(m.Tensors()), len(again.Tensors()))
		for i, tensor := range m.Tensors() {
			require.True(t, bytes.Equal(tensor.Bytes(), again.Tensors()[i].Bytes()), tensor.Name)
		}
	})
}
