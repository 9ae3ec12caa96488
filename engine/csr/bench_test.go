package csr_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"dsstne/engine/csr"
	"dsstne/kernels"
)

// BenchmarkBatch reads batches of the shapes of Gowalla and MovieLens-20M, scaled and denoised.
func BenchmarkBatch(b *testing.B) {
	for _, size := range []struct{ rows, entries int64 }{{512, 27}, {256, 144}} {
		for _, denoising := range []float32{0, 0.5} {
			name := fmt.Sprintf("%dx%d/denoising=%v", size.rows, size.entries, denoising)
			b.Run(name, func(b *testing.B) { benchmarkBatch(b, size.rows, size.entries, denoising) })
		}
	}
}

func benchmarkBatch(b *testing.B, rows, entries int64, denoising float32) {
	const columns, all = 40981, 2000
	rng := rand.New(rand.NewPCG(1, 2))
	p := csr.Parts{Columns: columns, Offsets32: []int32{0}}
	for range all {
		seen := map[int32]bool{}
		for int64(len(seen)) < entries {
			u := rng.Float64()
			seen[int32(u*u*columns)] = true // low items are popular
		}
		p.Indices32 = append(p.Indices32, slices.Sorted(maps.Keys(seen))...)
		p.Offsets32 = append(p.Offsets32, int32(len(p.Indices32)))
	}
	m, err := csr.New(p)
	if err != nil {
		b.Fatal(err)
	}
	if err := m.Validate(csr.ValidateOptions{}); err != nil {
		b.Fatal(err)
	}
	r := csr.Reader{Source: m, Scaling: true, Denoising: denoising, Seed: 1, Stream: 3}
	var out kernels.SparseBatch
	batch := make([]int64, rows)
	b.ReportAllocs()
	for step := int64(1); b.Loop(); step++ {
		for i := range batch {
			batch[i] = rng.Int64N(m.Rows())
		}
		if err := r.Batch(batch, step, true, &out); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkDenseBatch reads batches of dense rows, of whose cells a share is 0.
func BenchmarkDenseBatch(b *testing.B) {
	const rows, columns = 256, 4096
	for _, zeros := range []float32{0, 0.25, 0.85} {
		b.Run(fmt.Sprintf("zeros=%v", zeros), func(b *testing.B) {
			rng := rand.New(rand.NewPCG(1, 2))
			cells := make([]float32, rows*columns)
			for i := range cells {
				if rng.Float32() >= zeros {
					cells[i] = 1 + rng.Float32()
				}
			}
			m, err := csr.NewDense(cells, columns, nil)
			if err != nil {
				b.Fatal(err)
			}
			if err := m.Validate(csr.ValidateOptions{}); err != nil {
				b.Fatal(err)
			}
			r, out := csr.Reader{Source: m}, new(kernels.SparseBatch)
			for step := int64(1); b.Loop(); step++ {
				if err := r.Batch(upTo(rows), step, true, out); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkValidate reports the bytes checked a second.
func BenchmarkValidate(b *testing.B) {
	const rows, entries, columns = 20000, 100, 40981
	p := csr.Parts{Columns: columns, Offsets64: make([]int64, rows+1), Indices32: make([]int32, rows*entries),
		Values32: make([]float32, rows*entries)}
	for i := range p.Indices32 {
		p.Indices32[i], p.Values32[i] = int32(i%entries*400), 1
	}
	for i := range p.Offsets64 {
		p.Offsets64[i] = int64(i) * entries
	}
	m, err := csr.New(p)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(m.Statistics().Bytes)
	for b.Loop() {
		if err := m.Validate(csr.ValidateOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}
