package cpu_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"

	"dsstne/kernels"
	_ "dsstne/kernels/cpu"
)

func filled(d kernels.Device, n int64, scale float32) kernels.Buffer {
	b, err := d.Alloc(n)
	if err != nil {
		panic(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	values := b.Float32()
	for i := range values {
		values[i] = scale * (random.Float32() - 0.5)
	}
	return b
}

// targets stores perRow random items in each row.
func targets(rows, items, perRow int) *kernels.SparseBatch {
	random := rand.New(rand.NewPCG(3, 4))
	b := &kernels.SparseBatch{Columns: int64(items), Offsets: []int32{0}}
	type entry struct{ item, row int32 }
	var all []entry
	for r := range rows {
		seen := map[int32]bool{}
		for len(seen) < perRow {
			seen[int32(random.IntN(items))] = true
		}
		var list []int32
		for i := range seen {
			list = append(list, i)
			all = append(all, entry{i, int32(r)})
		}
		slices.Sort(list)
		b.Indices = append(b.Indices, list...)
		b.Offsets = append(b.Offsets, int32(len(b.Indices)))
		b.RowSum = append(b.RowSum, float32(perRow))
	}
	slices.SortFunc(all, func(a, b entry) int {
		if a.item != b.item {
			return int(a.item - b.item)
		}
		return int(a.row - b.row)
	})
	for _, e := range all {
		if n := len(b.Items); n == 0 || b.Items[n-1] != e.item {
			b.Items = append(b.Items, e.item)
			b.ItemOffsets = append(b.ItemOffsets, int32(len(b.ItemRows)))
		}
		b.ItemRows = append(b.ItemRows, e.row)
		b.ItemValues = append(b.ItemValues, 1)
		b.Values = append(b.Values, 1)
	}
	b.ItemOffsets = append(b.ItemOffsets, int32(len(b.ItemRows)))
	return b
}

// cpuSeconds is the processor time of this process, which other processes disturb less than the clock on the wall.
func cpuSeconds() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

func BenchmarkOutput(b *testing.B) {
	for _, c := range []struct {
		loss        kernels.LossKind
		optimizer   kernels.OptimizerKind
		temperature float32
		B, K, I     int64
	}{
		{kernels.SigmoidCrossEntropy, kernels.Momentum, 0, 256, 1024, 27278},
		{kernels.SigmoidCrossEntropy, kernels.Momentum, 0, 256, 256, 100000},
		{kernels.SigmoidCrossEntropy, kernels.Momentum, 0, 512, 64, 100000},
		{kernels.Softmax, kernels.Adam, 0, 512, 256, 40981},
		{kernels.Softmax, kernels.Adam, 0.1, 512, 512, 40981},
		{kernels.Softmax, kernels.Adam, 0, 128, 64, 2000},
	} {
		for _, threads := range []int{1, 2} {
			name := fmt.Sprintf("loss=%d/optimizer=%d/T=%v/B=%d/K=%d/I=%d/threads=%d", c.loss, c.optimizer, c.temperature, c.B, c.K, c.I, threads)
			b.Run(name, func(b *testing.B) {
				d, err := kernels.Lookup("cpu").Open(0, kernels.Options{Threads: threads})
				if err != nil {
					b.Fatal(err)
				}
				w := &kernels.Weights{Name: "w", Rows: c.I, Columns: c.K, Value: filled(d, c.I*c.K, 0.05)}
				bias := &kernels.Weights{Name: "b", Rows: c.I, Columns: 1, Value: filled(d, c.I, 0.05), NoDecay: true}
				o := kernels.Optimizer{Kind: c.optimizer, Momentum: 0.9, Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8}
				for i := range o.States() {
					w.State[i], bias.State[i] = filled(d, c.I*c.K, 0), filled(d, c.I, 0)
				}
				op := &kernels.Output{
					Items: c.I, Bias: bias, Optimizer: o, TiedInput: -1, Temperature: c.temperature,
					Loss:    kernels.Loss{Kind: c.loss, Weight: 1},
					Sources: []kernels.OutputSource{{H: filled(d, c.B*c.K, 1), DH: filled(d, c.B*c.K, 0), Weight: w}},
				}
				flop := 6 * float64(c.B*c.K*c.I)
				if op.Loss.NeedsStats() {
					op.Stats, op.Continues, flop = filled(d, 2*c.B, 0), true, flop/6*8
				}
				op.Workspace = filled(d, d.WorkspaceSize(op, c.B), 0)
				step := &kernels.Step{
					Number: 1, Rows: c.B, Training: true, Loss: make([]float64, 1), RatesFrom: 1,
					Rates: []kernels.Rates{{LearningRate: 1e-5, Scale1: 1, Scale2: 1}}, Sparse: []*kernels.SparseBatch{targets(int(c.B), int(c.I), 30)},
				}
				before := cpuSeconds()
				for b.Loop() {
					if op.Loss.NeedsStats() {
						if err := d.OutputStats(op, step); err != nil {
							b.Fatal(err)
						}
					}
					if err := d.OutputStep(op, step); err != nil {
						b.Fatal(err)
					}
				}
				n := float64(b.N)
				b.ReportMetric(flop*n/b.Elapsed().Seconds()/1e9, "GFLOP/s")
				b.ReportMetric(flop*n/(cpuSeconds()-before)/1e9, "GFLOP/cpu-s")
			})
		}
	}
}
