package model

import (
	"dsstne/engine/network"
	"dsstne/engine/tensor"
	"dsstne/internal/fault"
	"dsstne/internal/random"
	"dsstne/kernels"
)

// Options of Create.
type Options struct {
	Seed    uint64 // the weights are a function of form and seed alone
	Threads int    // 0: as many as the process may use
	Limit   int64  // bytes that the weights may take, 0: what is available
	Step    int64  // steps the weights have seen, for a model that is put together from another's tensors
}

// Create makes a model with fresh weights, or zeros where the form has none to begin with: the same bits for any
// number of threads. Weights that do not fit into memory are fault.OutOfMemory before anything is allocated.
func Create(form Form, o Options) (*Model, error) {
	m, specs, err := allocate(form, o.Threads, o.Limit)
	if err != nil {
		return nil, err
	}
	m.SetStep(o.Step)
	if err := m.fill(specs, o); err != nil {
		m.free()
		return nil, err
	}
	return m, nil
}

// looksUp is from how many bytes on the available memory is looked up, which takes longer than making fewer weights.
const looksUp = 1 << 24

// checkMemory compares the bytes of the tensors with a limit, or with what is available.
func checkMemory(form Form, tensors []tensor.Spec, limit int64) error {
	var total float64
	largest := tensors[0]
	for _, t := range tensors {
		total += t.Bytes()
		if t.Bytes() > largest.Bytes() {
			largest = t
		}
	}
	if limit == 0 && total < looksUp {
		return nil
	}
	what := "memory_limit"
	if available := kernels.HostAvailable(); limit == 0 || (available >= 0 && available < limit) {
		if available < 0 {
			return nil
		}
		limit, what = available, "the available memory"
	}
	if total <= float64(limit) {
		return nil
	}
	hint := ""
	if _, isNetwork := form.(*network.Network); isNetwork {
		hint = ". Smaller: hidden, fewer items, tied=True"
	}
	return fault.New(fault.OutOfMemory, "the weights need %.4g GB, %s is %.4g GB; nothing was allocated. "+
		"The largest is %s %s with %.4g GB%s", total/1e9, what, float64(limit)/1e9, largest.Name,
		tensor.ShapeText(largest.Shape), largest.Bytes()/1e9, hint)
}

// allocate makes a model whose tensors are all zero; limit as in Options.
func allocate(form Form, threads int, limit int64) (*Model, []tensor.Spec, error) {
	specs, err := form.Specs()
	if err != nil {
		return nil, nil, err
	}
	if err := checkMemory(form, specs, limit); err != nil {
		return nil, nil, err
	}
	m := &Model{form: form, threads: threads}
	for _, spec := range specs {
		t, err := tensor.New(spec.Name, spec.DType, spec.Shape, spec.Layer)
		if err != nil {
			m.free()
			return nil, nil, err
		}
		m.tensors = append(m.tensors, t)
	}
	return m, specs, nil
}

// fill writes the initial numbers of every tensor. The weights lie in the host's memory, so the CPU makes them.
func (m *Model) fill(specs []tensor.Spec, o Options) error {
	device, err := kernels.WithRole(kernels.Host)[0].Open(0, kernels.Options{Threads: o.Threads})
	if err != nil {
		return err
	}
	defer func() { _ = device.Close() }()
	for i, spec := range specs {
		if spec.Fill == kernels.FillConstant && spec.Scale == 0 {
			continue // as it was allocated
		}
		scale := float32(spec.Scale)
		if spec.Vectors != tensor.NoVectors {
			scale = 1 // until their length is known
		}
		err := device.Fill(&kernels.Fill{
			Kind: spec.Fill, Scale: scale, Seed: o.Seed, Stream: random.StreamInit | uint32(i),
			Rows: spec.Shape[0], Columns: spec.Shape[1], Out: m.tensors[i].Buffer(),
		})
		if err == nil && spec.Vectors != tensor.NoVectors {
			x := m.tensors[i].Float32()
			err = scaleUnits(x, spec.Shape[0], spec.Shape[1], spec.Vectors, spec.Scale, o.Threads)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
