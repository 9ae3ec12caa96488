package modelfile

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// Run as: go test -run - -fuzz FuzzRead -fuzztime 60s -fuzzminimizetime 20x ./engine/modelfile

// FuzzRead feeds changed files to the reader: it must neither panic nor take one that is not, byte for byte, what was
// saved. It uses one goroutine: the order of several would make the fuzzer's coverage random.
func FuzzRead(f *testing.F) {
	named, plain := namedSmall(f), fileOf(f, content(f, 40))
	for _, file := range [][]byte{named, plain, named[:100], plain[:len(plain)-1], nil, []byte("\x89PNG\r\n\x1a\n")} {
		f.Add(file)
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		if _, err := readAll(t, bytes.NewReader(file), int64(len(file)), 1); err == nil {
			require.True(t, bytes.Equal(file, named) || bytes.Equal(file, plain))
		}
	})
}
