package model

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// Run as: go test -run - -fuzz FuzzForged -fuzztime 60s -fuzzminimizetime 20x ./engine/model

// FuzzForged changes the header and makes the digests right, to come past them: a file that is taken must be saved and
// loaded again as the same model. It uses one goroutine: the order of several would make the fuzzer's coverage random.
func FuzzForged(f *testing.F) {
	header, data := parts(fileOf(f, namedSmall(f)))
	f.Add(header, data)
	f.Fuzz(func(t *testing.T, header, data []byte) {
		m, err := readBytes(seal(header, data), 1)
		if err != nil {
			require.Nil(t, m)
			return
		}
		defer m.free()
		again, err := readBytes(fileOf(t, m), 1)
		require.NoError(t, err)
		defer again.free()
		require.Equal(t, m.Step(), again.Step())
		require.Equal(t, len(m.Tensors()), len(again.Tensors()))
		for i, tensor := range m.Tensors() {
			require.True(t, bytes.Equal(tensor.Bytes(), again.Tensors()[i].Bytes()), tensor.Name)
		}
	})
}
