package cpu_test

import (
	"fmt"
	"testing"

	"dsstne/kernels"
)

// BenchmarkFill fills 288 MB that was written before; engine/model's BenchmarkCreate takes new memory.
func BenchmarkFill(b *testing.B) {
	for name, kind := range map[string]kernels.FillKind{"constant": kernels.FillConstant, "uniform": kernels.FillUniform, "normal": kernels.FillNormal} {
		for _, columns := range []int64{64, 256} {
			for _, threads := range []int{1, 2} {
				b.Run(fmt.Sprintf("%s/K=%d/threads=%d", name, columns, threads), func(b *testing.B) {
					d := must(kernels.Lookup("cpu").Open(0, kernels.Options{Threads: threads}))
					defer func() { _ = d.Close() }()
					op := &kernels.Fill{Kind: kind, Scale: 1, Rows: sparseFloats / columns, Columns: columns, Out: sparseBuffers()[0]}
					for b.Loop() {
						if err := d.Fill(op); err != nil {
							b.Fatal(err)
						}
					}
					b.ReportMetric(4*sparseFloats*float64(b.N)/b.Elapsed().Seconds()/1e9, "GB/s")
				})
			}
		}
	}
}
