package main

import (
	"math/rand/v2"

	"dsstne/kernels"
)

// maker allocates and fills; the first failure stays in err.
type maker struct {
	device kernels.Device
	err    error
}

// filled returns n numbers from -scale/2 to scale/2.
func (m *maker) filled(n int64, scale float32) kernels.Buffer {
	b, err := m.device.Alloc(n)
	if err != nil {
		m.err = err
		return nil
	}
	random := rand.New(rand.NewPCG(1, 2))
	values := make([]float32, min(n, 1<<20))
	// Zeros are written too, so that the pages exist.
	for at := int64(0); at < n && m.err == nil; at += int64(len(values)) {
		values = values[:min(int64(len(values)), n-at)]
		for i := range values {
			values[i] = scale * (random.Float32() - 0.5)
		}
		m.err = m.device.Write(b, at, values)
	}
	return b
}

func (m *maker) weights(name string, rows, columns int64, states int) *kernels.Weights {
	w := &kernels.Weights{Name: name, Rows: rows, Columns: columns, Value: m.filled(rows*columns, 0.05)}
	for i := range states {
		w.State[i] = m.filled(rows*columns, 0)
	}
	return w
}
