package model

import (
	"math"

	"dsstne/engine/fault"
	"dsstne/engine/network"
	"dsstne/engine/random"
	"dsstne/kernels"
)

// Options of Create.
type Options struct {
	Seed    uint64 // the weights are a function of network and seed alone
	Threads int    // 0: as many as the process may use
	Limit   int64  // bytes that the weights may take, 0: what is available
	Step    int64  // steps the weights have seen, for a model that is put together from another's tensors
}

// Create makes a model with fresh weights, the same bits for any number of threads. Weights that do not fit into memory are
// fault.OutOfMemory before anything is allocated.
func Create(net *network.Network, o Options) (*Model, error) {
	m, specs, err := allocate(net, o.Threads, o.Limit)
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

// checkMemory compares the bytes of the weights with a limit, or with what is available.
func checkMemory(tensors []network.Tensor, limit int64) error {
	// In float64: sizes of absurd networks do not fit into int64, and no precision is needed to refuse them.
	var total float64
	largest := tensors[0]
	for _, t := range tensors {
		total += 4 * float64(t.Rows) * float64(t.Columns)
		if float64(t.Rows)*float64(t.Columns) > float64(largest.Rows)*float64(largest.Columns) {
			largest = t
		}
	}
	const small = 1 << 24 // looking how much the system has takes longer than making so few weights
	if limit == 0 && total < small {
		return nil
	}
	what := "memory_limit"
	if available := kernels.HostAvailable(); limit == 0 || (available >= 0 && available < limit) {
		if available < 0 {
			return nil
		}
		limit, what = available, "the available memory"
	}
	if total > float64(limit) {
		return fault.New(fault.OutOfMemory, "the weights need %.4g GB, %s is %.4g GB; nothing was allocated. "+
			"The largest is %s [%d, %d] with %.4g GB. Smaller: hidden, fewer items, tied=True", total/1e9, what, float64(limit)/1e9,
			largest.Name, largest.Rows, largest.Columns, 4*float64(largest.Rows)*float64(largest.Columns)/1e9)
	}
	return nil
}

// allocate makes a model whose weights are all zero; limit as in Options.
func allocate(net *network.Network, threads int, limit int64) (*Model, []network.Tensor, error) {
	specs, err := net.Tensors()
	if err != nil {
		return nil, nil, err
	}
	if err := checkMemory(specs, limit); err != nil {
		return nil, nil, err
	}
	m := &Model{network: net, threads: threads}
	for _, spec := range specs {
		t, err := newTensor(spec.Name, F32, []int64{spec.Rows, spec.Columns}, spec.Layer)
		if err != nil {
			freeTensors(m.tensors)
			return nil, nil, err
		}
		m.tensors = append(m.tensors, t)
	}
	return m, specs, nil
}

// fill writes the initial numbers of every tensor. The weights lie in the host's memory, so the CPU makes them.
func (m *Model) fill(specs []network.Tensor, o Options) error {
	backend := kernels.Lookup("cpu")
	if backend == nil {
		return fault.New(fault.Internal, "there is no backend \"cpu\" to make weights with")
	}
	device, err := backend.Open(0, kernels.Options{Threads: o.Threads})
	if err != nil {
		return err
	}
	defer func() { _ = device.Close() }()
	for i, spec := range specs {
		kind, scale, err := begin(spec)
		if err != nil {
			return err
		}
		if kind == kernels.FillConstant && scale == 0 {
			continue // as it was allocated
		}
		err = device.Fill(&kernels.Fill{
			Kind: kind, Scale: float32(scale), Seed: o.Seed, Stream: random.StreamInit | uint32(i), Rows: spec.Rows,
			Columns: spec.Columns, Out: m.tensors[i].buffer,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// begin says how a tensor begins: s is the initializer's scale, in and out the units on both sides.
//
//	xavier_uniform U(-r, r), r = s sqrt(6/(in+out))    xavier_normal N(0, s^2 2/(in+out))    uniform U(-s, s)
//	he_uniform     U(-r, r), r = s sqrt(6/in)          he_normal     N(0, s^2 2/in)          normal  N(0, s^2)
//
// A bias is the constant Initializer.Bias.
func begin(spec network.Tensor) (kernels.FillKind, float64, error) {
	init := spec.Initializer
	scale, in, out := float64(init.Scale), float64(spec.FanIn), float64(spec.FanOut)
	if spec.Source < 0 {
		return kernels.FillConstant, float64(init.Bias), nil
	}
	switch init.Kind {
	case network.XavierUniform:
		return kernels.FillUniform, scale * math.Sqrt(6/(in+out)), nil
	case network.XavierNormal:
		return kernels.FillNormal, scale * math.Sqrt(2/(in+out)), nil
	case network.HeUniform:
		return kernels.FillUniform, scale * math.Sqrt(6/in), nil
	case network.HeNormal:
		return kernels.FillNormal, scale * math.Sqrt(2/in), nil
	case network.Uniform:
		return kernels.FillUniform, scale, nil
	case network.Normal:
		return kernels.FillNormal, scale, nil
	case network.Constant:
		return kernels.FillConstant, scale, nil
	default:
		return 0, 0, fault.New(fault.Internal, "%s: initializer %d is unknown", spec.Name, init.Kind)
	}
}
