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
	parts := initialParts(specs)
	err = inParallel(o.Threads, len(parts), func(i int) error {
		p := parts[i]
		return initialise(m.tensors[p.tensor].Float32(), specs[p.tensor], o.Seed, uint32(p.tensor), p.from, p.to)
	})
	if err != nil {
		m.free()
		return nil, err
	}
	return m, nil
}

// checkMemory compares the bytes of the weights with a limit, or with what is available.
func checkMemory(tensors []network.Tensor, limit int64) error {
	what := "memory_limit"
	if available := kernels.HostAvailable(); limit == 0 || (available >= 0 && available < limit) {
		if available < 0 {
			return nil
		}
		limit, what = available, "the available memory"
	}
	// In float64: sizes of absurd networks do not fit into int64, and no precision is needed to refuse them.
	var total float64
	largest := tensors[0]
	for _, t := range tensors {
		total += 4 * float64(t.Rows) * float64(t.Columns)
		if float64(t.Rows)*float64(t.Columns) > float64(largest.Rows)*float64(largest.Columns) {
			largest = t
		}
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

// rowRange is some rows of a tensor.
type rowRange struct {
	tensor   int
	from, to int64
}

// initialParts cuts all tensors into ranges of rows of about a megabyte.
func initialParts(specs []network.Tensor) []rowRange {
	const elements = 1 << 18
	var parts []rowRange
	for i, spec := range specs {
		rows := max(1, elements/max(1, spec.Columns))
		for from := int64(0); from < spec.Rows; from += rows {
			parts = append(parts, rowRange{tensor: i, from: from, to: min(spec.Rows, from+rows)})
		}
	}
	return parts
}

// initialise fills rows from .. to of a weight or bias. A bias is the constant Initializer.Bias.
func initialise(weights []float32, spec network.Tensor, seed uint64, index uint32, from, to int64) error {
	fill, err := filler(spec, seed, random.StreamInit|index)
	if err != nil {
		return err
	}
	for row := from; row < to; row++ {
		fill(weights[row*spec.Columns:(row+1)*spec.Columns], row)
	}
	return nil
}

// filler chooses what fills a row: s is the initializer's scale, in and out the units on both sides.
//
//	xavier_uniform U(-r, r), r = s sqrt(6/(in+out))    xavier_normal N(0, s^2 2/(in+out))    uniform U(-s, s)
//	he_uniform     U(-r, r), r = s sqrt(6/in)          he_normal     N(0, s^2 2/in)          normal  N(0, s^2)
func filler(spec network.Tensor, seed uint64, stream uint32) (func(dst []float32, row int64), error) {
	init := spec.Initializer
	scale, in, out := float64(init.Scale), float64(spec.FanIn), float64(spec.FanOut)
	if spec.Source < 0 {
		return constant(init.Bias), nil
	}
	uniform := func(radius float64) func([]float32, int64) {
		r := float32(radius)
		return func(dst []float32, row int64) { random.FillUniform(dst, seed, stream, row, -r, r) }
	}
	normal := func(deviation float64) func([]float32, int64) {
		d := float32(deviation)
		return func(dst []float32, row int64) { random.FillNormal(dst, seed, stream, row, 0, d) }
	}
	switch init.Kind {
	case network.XavierUniform:
		return uniform(scale * math.Sqrt(6/(in+out))), nil
	case network.XavierNormal:
		return normal(scale * math.Sqrt(2/(in+out))), nil
	case network.HeUniform:
		return uniform(scale * math.Sqrt(6/in)), nil
	case network.HeNormal:
		return normal(scale * math.Sqrt(2/in)), nil
	case network.Uniform:
		return uniform(scale), nil
	case network.Normal:
		return normal(scale), nil
	case network.Constant:
		return constant(init.Scale), nil
	default:
		return nil, fault.New(fault.Internal, "%s: initializer %d is unknown", spec.Name, init.Kind)
	}
}

func constant(value float32) func([]float32, int64) {
	return func(dst []float32, _ int64) {
		for i := range dst {
			dst[i] = value
		}
	}
}
