package train_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/tests/fixture"
	"dsstne/tests/openers"
)

// BenchmarkStep takes steps of small networks, where what surrounds the kernels weighs most.
func BenchmarkStep(b *testing.B) {
	for _, c := range []struct {
		items, units, batch, perRow int
		loss                        string
	}{
		{100, 16, 8, 5, "softmax"},
		{2000, 64, 128, 20, "softmax"},
		{2000, 64, 128, 20, "sigmoid"},
		{2000, 64, 512, 20, "softmax"},
	} {
		for _, threads := range []int{1, 2} {
			name := fmt.Sprintf("I=%d/K=%d/B=%d/%s/threads=%d", c.items, c.units, c.batch, c.loss, threads)
			b.Run(name, func(b *testing.B) {
				benchmarkStep(b, c.items, c.units, c.perRow, c.loss, fmt.Sprintf(`{"batch_size": %d, "threads": %d}`, c.batch,
					threads))
			})
		}
		b.Run(fmt.Sprintf("I=%d/K=%d/B=%d/%s/devices=2", c.items, c.units, c.batch, c.loss), func(b *testing.B) {
			benchmarkStep(b, c.items, c.units, c.perRow, c.loss,
				fmt.Sprintf(`{"batch_size": %d, "threads": 2, "devices": "cpu:2"}`, c.batch))
		})
	}
}

func benchmarkStep(b *testing.B, items, units, perRow int, loss, options string) {
	definition := fmt.Sprintf(`{"layers": [
		{"name": "input", "kind": "input", "size": "auto", "scaling": "l2", "denoising": 0.5},
		{"name": "hidden1", "kind": "hidden", "size": %d, "activation": "tanh"},
		{"name": "output", "kind": "output", "size": "auto"}], "loss": %q}`, units, loss)
	m := fixture.Model(b, definition, map[string]int64{"input": int64(items), "output": int64(items)})
	random := rand.New(rand.NewPCG(1, 2))
	lists := make([][]int32, 4096)
	for row := range lists {
		for len(lists[row]) < perRow {
			u := random.Float64()
			if item := int32(u * u * float64(items)); !slices.Contains(lists[row], item) { // low items are popular
				lists[row] = append(lists[row], item)
			}
		}
		slices.Sort(lists[row])
	}
	data := fixture.Matrix(b, int64(items), lists)
	trainer, err := openers.Trainer(m, []byte(options))
	require.NoError(b, err)
	require.NoError(b, trainer.Bind("input", data))
	require.NoError(b, trainer.Bind("output", data))
	_, err = trainer.Run(1, 0)
	require.NoError(b, err)
	b.ReportAllocs()
	b.ResetTimer()
	_, err = trainer.Run(uint64(b.N), 0)
	b.StopTimer()
	require.NoError(b, err)
	require.NoError(b, trainer.Close())
}
