package cpu_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"dsstne/kernels"
	"dsstne/kernels/cpu/c"
)

// topK is the input of a TopK: normal weights and rows, bias i the logarithm of an item's rank if popular.
func topK(d kernels.Device, rows, units, items, k int64, popular bool) (*kernels.TopK, *kernels.Step) {
	random := rand.New(rand.NewPCG(5, 6))
	normal := func(n int64) kernels.Buffer {
		b, err := d.Alloc(n)
		if err != nil {
			panic(err)
		}
		for i := range b.Float32() {
			b.Float32()[i] = float32(random.NormFloat64())
		}
		return b
	}
	op := &kernels.TopK{K: k, IDs: filled(d, rows*k, 0), Scores: filled(d, rows*k, 0)}
	op.Items = items
	op.Sources = []kernels.OutputSource{{H: normal(rows * units), Weight: &kernels.Weights{Rows: items, Columns: units, Value: normal(items * units)}}}
	if popular {
		bias := normal(items)
		for i, rank := range random.Perm(int(items)) {
			bias.Float32()[i] = -float32(math.Log(float64(rank+1)) * math.Sqrt(float64(units)))
		}
		op.Bias = &kernels.Weights{Rows: items, Columns: 1, Value: bias}
	}
	op.Workspace = filled(d, d.WorkspaceSize(op, rows), 0)
	return op, &kernels.Step{Number: 1, Rows: rows, Sparse: []*kernels.SparseBatch{targets(int(rows), int(items), int(min(144, items/2)))}}
}

// scored runs the op on one worker and counts exact scores.
func scored(level int, op *kernels.TopK, s *kernels.Step) int64 {
	table, pool := c.Select(level), c.NewPool(1)
	defer pool.Close()
	call := table.TopK(op, s, 1)
	if err := pool.Run(table, call); err != nil {
		panic(err)
	}
	return call.Scored()
}

func BenchmarkTopK(b *testing.B) {
	for _, shape := range []struct {
		rows, units, items int64
		popular            bool
	}{
		{512, 64, 27278, false}, {512, 128, 27278, false}, {512, 256, 27278, false}, {512, 1024, 27278, false},
		{512, 128, 27278, true}, {512, 1024, 27278, true}, {2048, 128, 27278, false}, {2048, 1024, 27278, false},
		{1, 128, 27278, false}, {2, 128, 27278, false}, {4, 128, 27278, false}, {1, 1024, 27278, false}, {1, 256, 40981, false}, {5, 256, 40981, false}, {8, 256, 40981, false}, {17, 256, 40981, false},
		{32, 256, 40981, false}, {100, 256, 40981, false}, {2000, 256, 40981, false},
	} {
		for _, threads := range []int{1, 2} {
			name := fmt.Sprintf("B=%d/K=%d/I=%d/popular=%v/threads=%d", shape.rows, shape.units, shape.items, shape.popular, threads)
			b.Run(name, func(b *testing.B) {
				d, err := kernels.Lookup("cpu").Open(0, kernels.Options{Threads: threads})
				if err != nil {
					b.Fatal(err)
				}
				op, step := topK(d, shape.rows, shape.units, shape.items, 10, shape.popular)
				for b.Loop() {
					if err := d.TopK(op, step); err != nil {
						b.Fatal(err)
					}
				}
				rate := float64(shape.rows) * float64(b.N) / b.Elapsed().Seconds()
				b.ReportMetric(rate, "rows/s")
				b.ReportMetric(2*rate*float64(shape.units*shape.items)/1e9, "Gop/s")
				b.ReportMetric(float64(scored(c.Widest, op, step))/float64(shape.rows), "scored/row")
			})
		}
	}
}
