package cpu_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"sync"
	"testing"
	"unsafe"

	"dsstne/kernels"
)

// These benchmarks are bound by memory. They report GB/s of the traffic that an op cannot avoid, to be compared with what
// BenchmarkMemory reports in the same run:
//
//	go test ./kernels/cpu -run - -bench 'Memory|Gather|Scatter|Replay' -benchtime 0.3s

// sparseFloats is the size of a weight, 288 MB: several times any cache.
const sparseFloats = 72 << 20

const sparseRows = 256

// sparseShape describes batches of sparseRows rows.
type sparseShape struct {
	units, items int
	length       float64 // mean, entries a row
	zipf         float64 // an item's probability is proportional to rank ** -zipf
}

func sparseShapes() (list []sparseShape) {
	for _, zipf := range []float64{0.8, 0} {
		for _, length := range []float64{20, 144, 1000} {
			for _, units := range []int{64, 256, 1024} {
				list = append(list, sparseShape{units, sparseFloats / units, length, zipf})
			}
		}
	}
	return append(list, sparseShape{1024, 27278, 144, 0.8}) // DSSTNE's benchmark network: 112 MB
}

func (s sparseShape) String() string {
	return fmt.Sprintf("K=%d/I=%d/length=%v/zipf=%v", s.units, s.items, s.length, s.zipf)
}

// batches are so many that together they touch far more weights than caches hold.
func (s sparseShape) batches() (list []*kernels.SparseBatch) {
	random := rand.New(rand.NewPCG(5, 6))
	share := make([]float64, s.items)
	sum := 0.0
	for i := range share {
		sum += math.Pow(float64(i+1), -s.zipf)
		share[i] = sum
	}
	ids := random.Perm(s.items)
	bytes := sparseRows * s.length * float64(s.units) * 4
	for range min(256, max(2, int(400e6/bytes))) {
		rows := make([][]int32, sparseRows)
		lengths, total := make([]float64, sparseRows), 0.0
		for u := range lengths {
			lengths[u] = math.Exp(1.2 * random.NormFloat64()) // 1.2 is the deviation of MovieLens-20M
			total += lengths[u]
		}
		for u := range rows {
			n := max(1, int(lengths[u]/total*sparseRows*s.length))
			for range min(n, s.items/4) {
				rank := sort.SearchFloat64s(share, random.Float64()*sum)
				rows[u] = append(rows[u], int32(ids[min(rank, s.items-1)]))
			}
			slices.Sort(rows[u])
			rows[u] = slices.Compact(rows[u])
		}
		list = append(list, inBothOrders(rows, s.items))
	}
	return list
}

func inBothOrders(rows [][]int32, items int) *kernels.SparseBatch {
	b := &kernels.SparseBatch{Columns: int64(items), Offsets: []int32{0}}
	var all []uint64 // item and row, to be sorted
	for u, row := range rows {
		b.Indices = append(b.Indices, row...)
		b.Offsets = append(b.Offsets, int32(len(b.Indices)))
		for _, item := range row {
			all = append(all, uint64(item)<<32|uint64(u))
			b.Values, b.ItemValues = append(b.Values, 0.5), append(b.ItemValues, 0.5)
		}
	}
	slices.Sort(all)
	for _, e := range all {
		if item := int32(e >> 32); len(b.Items) == 0 || b.Items[len(b.Items)-1] != item {
			b.Items, b.ItemOffsets = append(b.Items, item), append(b.ItemOffsets, int32(len(b.ItemRows)))
		}
		b.ItemRows = append(b.ItemRows, int32(uint32(e)))
	}
	b.ItemOffsets = append(b.ItemOffsets, int32(len(b.ItemRows)))
	return b
}

// sparseBuffers are a weight and two states, which all benchmarks share, because their first touch takes long.
var sparseBuffers = sync.OnceValue(func() (list [3]kernels.Buffer) {
	for i := range list {
		list[i] = filled(must(kernels.Lookup("cpu").Open(0, kernels.Options{})), sparseFloats, 0.01)
	}
	return list
})

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// sparseBench runs an op on all batches of a shape in turn; touched counts bytes per batch.
func sparseBench(b *testing.B, s sparseShape, o kernels.Optimizer, run func(*testing.B, kernels.Device, *kernels.Weights, *kernels.Step) error,
	bytes func(*kernels.SparseBatch) int) {
	for _, threads := range []int{1, 2} {
		b.Run(fmt.Sprintf("%v/threads=%d", s, threads), func(b *testing.B) {
			d := must(kernels.Lookup("cpu").Open(0, kernels.Options{Threads: threads}))
			defer func() { _ = d.Close() }()
			buffers, batches := sparseBuffers(), s.batches()
			w := &kernels.Weights{Name: "w", Rows: int64(s.items), Columns: int64(s.units), Value: buffers[0]}
			w.Last = must(d.Alloc(w.Rows))
			defer w.Last.Free()
			copy(w.State[:o.States()], buffers[1:])
			step := &kernels.Step{Number: 2, Rows: sparseRows, Training: true, RatesFrom: 1, Sparse: []*kernels.SparseBatch{nil}}
			step.Rates = []kernels.Rates{o.RatesAt(1, 1e-6), o.RatesAt(2, 1e-6)}
			traffic := 0
			for n := 0; b.Loop(); n++ {
				step.Sparse[0] = batches[n%len(batches)]
				traffic += bytes(step.Sparse[0])
				if err := run(b, d, w, step); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(traffic)/b.Elapsed().Seconds()/1e9, "GB/s")
		})
	}
}

// BenchmarkGather counts a weight row for each entry.
func BenchmarkGather(b *testing.B) {
	for _, s := range sparseShapes() {
		var op *kernels.Gather
		sparseBench(b, s, kernels.Optimizer{}, func(b *testing.B, d kernels.Device, w *kernels.Weights, step *kernels.Step) error {
			if op == nil || op.Weight != w {
				op = &kernels.Gather{Weight: w, Out: filled(d, sparseRows*w.Columns, 1), Epilogue: &kernels.Epilogue{Activation: kernels.Sigmoid}}
			}
			return d.Gather(op, step)
		}, func(batch *kernels.SparseBatch) int { return 4 * s.units * len(batch.Indices) })
	}
}

// BenchmarkScatter counts reading and writing each row that is touched, with its states.
func BenchmarkScatter(b *testing.B) {
	for _, kind := range []kernels.OptimizerKind{kernels.Momentum, kernels.Adam} {
		o := kernels.Optimizer{Kind: kind, Momentum: 0.9, Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8}
		b.Run(kind.String(), func(b *testing.B) {
			for _, s := range sparseShapes() {
				var op *kernels.Scatter
				sparseBench(b, s, o, func(b *testing.B, d kernels.Device, w *kernels.Weights, step *kernels.Step) error {
					if op == nil || op.Weight != w {
						op = &kernels.Scatter{Weight: w, DZ: filled(d, sparseRows*w.Columns, 1), Optimizer: o}
						op.Workspace = filled(d, d.WorkspaceSize(op, sparseRows), 0)
					}
					return d.Scatter(op, step)
				}, func(batch *kernels.SparseBatch) int { return 8 * (1 + o.States()) * s.units * len(batch.Items) })
			}
		})
	}
}

// BenchmarkReplay makes one missed step of each row that is touched; counted as BenchmarkScatter's.
func BenchmarkReplay(b *testing.B) {
	for _, kind := range []kernels.OptimizerKind{kernels.Momentum, kernels.Adam} {
		o := kernels.Optimizer{Kind: kind, Momentum: 0.9, Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8}
		b.Run(kind.String(), func(b *testing.B) {
			for _, s := range sparseShapes() {
				sparseBench(b, s, o, func(b *testing.B, d kernels.Device, w *kernels.Weights, step *kernels.Step) error {
					b.StopTimer()
					last := w.Last.Int32()
					for _, item := range step.Sparse[0].Items {
						last[item] = 0
					}
					b.StartTimer()
					return d.Replay(&kernels.Replay{Weight: w, Optimizer: o}, step)
				}, func(batch *kernels.SparseBatch) int { return 8 * (1 + o.States()) * s.units * len(batch.Items) })
			}
		})
	}
}

// BenchmarkMemory is what the memory gives: reading one large array, and reading and writing one or two in place.
func BenchmarkMemory(b *testing.B) {
	words := func(n int) []uint64 {
		values := sparseBuffers()[n].Float32()
		return unsafe.Slice((*uint64)(unsafe.Pointer(&values[0])), len(values)/2)
	}
	for _, threads := range []int{1, 2} {
		for name, arrays := range map[string]int{"read": 0, "update": 1, "update two": 2} {
			b.Run(fmt.Sprintf("%s/threads=%d", name, threads), func(b *testing.B) {
				x, y := words(0), words(1)
				var wait sync.WaitGroup
				for b.Loop() {
					for w := range threads {
						x, y := x[len(x)/threads*w:len(x)/threads*(w+1)], y[len(x)/threads*w:len(x)/threads*(w+1)]
						wait.Go(func() { pass(arrays, x, y) })
					}
					wait.Wait()
				}
				b.ReportMetric(float64(8*len(x)*b.N*max(1, 2*arrays))/b.Elapsed().Seconds()/1e9, "GB/s")
			})
		}
	}
}

var passed uint64

func pass(arrays int, x, y []uint64) {
	var a, b, c, d uint64
	switch arrays {
	case 0:
		for ; len(x) >= 8; x = x[8:] {
			a, b, c, d = a^x[0]^x[4], b^x[1]^x[5], c^x[2]^x[6], d^x[3]^x[7]
		}
	case 1:
		for i := range x {
			x[i] ^= 1 // the lowest bit of every second number
		}
	default:
		for i := range x {
			x[i] ^= 1
			y[i] ^= 1
		}
	}
	passed = a ^ b ^ c ^ d
}

// BenchmarkBackward counts reading h and reading and writing dh, which fit into caches.
func BenchmarkBackward(b *testing.B) {
	for _, units := range []int64{64, 256, 1024} {
		for _, dropout := range []float32{0, 0.5} {
			for _, threads := range []int{1, 2} {
				b.Run(fmt.Sprintf("K=%d/dropout=%v/threads=%d", units, dropout, threads), func(b *testing.B) {
					d := must(kernels.Lookup("cpu").Open(0, kernels.Options{Threads: threads}))
					defer func() { _ = d.Close() }()
					op := &kernels.Backward{
						Units: units, H: filled(d, sparseRows*units, 1), DH: filled(d, sparseRows*units, 1),
						Epilogue: kernels.Epilogue{Activation: kernels.Sigmoid, Dropout: dropout},
						Bias:     &kernels.Weights{Rows: units, Columns: 1, Value: filled(d, units, 1)},
					}
					step := &kernels.Step{Number: 1, Rows: sparseRows, Training: true, RatesFrom: 1, Rates: make([]kernels.Rates, 1)}
					for b.Loop() {
						if err := d.Backward(op, step); err != nil {
							b.Fatal(err)
						}
					}
					b.ReportMetric(float64(12*sparseRows*units)/b.Elapsed().Seconds()*float64(b.N)/1e9, "GB/s")
				})
			}
		}
	}
}

// BenchmarkCatchUp replays 64 missed steps of every row, which is bound by arithmetic, and counts them.
func BenchmarkCatchUp(b *testing.B) {
	const rows, columns, missed = 20_000, 256, 64
	for _, kind := range []kernels.OptimizerKind{kernels.Momentum, kernels.RMSProp, kernels.Adam} {
		b.Run(kind.String(), func(b *testing.B) {
			o := kernels.Optimizer{Kind: kind, Momentum: 1, Beta1: 1, Beta2: 1, Epsilon: 1e-8} // nothing decays
			d := must(kernels.Lookup("cpu").Open(0, kernels.Options{Threads: 1}))
			defer func() { _ = d.Close() }()
			w := &kernels.Weights{Name: "w", Rows: rows, Columns: columns, Value: filled(d, rows*columns, 1), Last: must(d.Alloc(rows))}
			for i := range o.States() {
				w.State[i] = filled(d, rows*columns, 1)
				for k, x := range w.State[i].Float32() { // second moments are positive
					w.State[i].Float32()[k] = 1 + x
				}
			}
			step := &kernels.Step{Number: missed, Training: true, RatesFrom: 1}
			for n := range int64(missed) {
				step.Rates = append(step.Rates, kernels.Rates{LearningRate: 1e-6 / float32(n+1), Scale1: 1, Scale2: 1})
			}
			for b.Loop() {
				clear(w.Last.Int32())
				if err := d.Replay(&kernels.Replay{Input: -1, Weight: w, Optimizer: o}, step); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(rows*columns*missed)*float64(b.N)/b.Elapsed().Seconds()/1e9, "Gsteps/s")
		})
	}
}
