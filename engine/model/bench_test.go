package model

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// bigDefinition has 100 million parameters, 400 MB.
const bigDefinition = `{"layers": [
	{"name": "input", "kind": "input", "size": 195000},
	{"name": "hidden1", "kind": "hidden", "size": 256},
	{"name": "output", "kind": "output", "size": 195000}]}`

// BenchmarkCreate, BenchmarkSave and BenchmarkLoad: `go test -run - -bench . -benchtime 5x ./engine/model`.
func BenchmarkCreate(b *testing.B) {
	net := parse(b, bigDefinition)
	for b.Loop() {
		m, err := Create(net, Options{Seed: 1})
		require.NoError(b, err)
		b.SetBytes(m.Bytes())
		require.NoError(b, m.Close())
	}
}

func BenchmarkSave(b *testing.B) {
	m := create(b, bigDefinition, 1)
	path := filepath.Join(b.TempDir(), "m.dsstne")
	b.SetBytes(m.Bytes())
	for b.Loop() {
		require.NoError(b, m.Save(path, nil))
	}
}

func BenchmarkLoad(b *testing.B) {
	path := filepath.Join(b.TempDir(), "m.dsstne")
	require.NoError(b, create(b, bigDefinition, 1).Save(path, nil))
	for _, threads := range []int{1, 0} {
		b.Run(fmt.Sprintf("threads=%d", threads), func(b *testing.B) {
			for b.Loop() {
				m, err := Load(path, threads)
				require.NoError(b, err)
				b.SetBytes(m.Bytes())
				require.NoError(b, m.Close())
			}
		})
	}
	require.NoError(b, os.Remove(path))
}
