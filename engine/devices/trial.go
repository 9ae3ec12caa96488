package devices

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"dsstne/engine/csr"
	"dsstne/engine/model"
	"dsstne/engine/network"
	"dsstne/engine/program"
	"dsstne/internal/fault"
	"dsstne/kernels"
)

// Devices that nobody has named are tried first: they do some steps of a small network that the CPU does too. That
// finds a driver, a library or a device that computes something else, once, before it spoils a model.

const (
	trialRows    = 24
	trialItems   = 150
	trialSteps   = 4 // the last ones run as devices keep a list
	trialEntries = 6 // of a row
	trialNetwork = `{"layers": [
		{"name": "input", "kind": "input", "size": 150, "scaling": "l2"},
		{"name": "first", "kind": "hidden", "sources": ["input"], "size": 40, "activation": "tanh", "dropout": 0.2},
		{"name": "second", "kind": "hidden", "sources": ["first"], "size": 24, "activation": "relu"},
		{"name": "output", "kind": "output", "sources": ["second"], "size": 150}], "loss": "softmax"}`
)

// trials are the outcomes of this process, by devices and precision: what differs, empty if nothing does.
var trials = struct {
	sync.Mutex
	differ map[string]string
}{differ: map[string]string{}}

// tried compares devices with the host, once. It does not record other failures, such as a lack of memory.
func tried(ranks []kernels.Rank, precision kernels.Precision) error {
	names := make([]string, len(ranks))
	for n, r := range ranks {
		names[n] = r.Device.Info().Name
	}
	where := strings.Join(names, ", ")
	key := where + precision.String()
	const failed = `a trial of %s, before its first use, failed%s; devices="cpu" computes without it`
	trials.Lock()
	defer trials.Unlock()
	differs, known := trials.differ[key]
	if !known {
		var err error
		if differs, err = compared(ranks, precision); err != nil {
			return fault.Wrap(err, failed, where, "")
		}
		trials.differ[key] = differs
	}
	if differs == "" {
		return nil
	}
	return fault.New(fault.DeviceUnavailable, failed, where, ": "+differs)
}

// compared does the trial on the devices and on the CPU, and returns what differs.
func compared(ranks []kernels.Rank, precision kernels.Precision) (differs string, err error) {
	cpu, err := openHost(0, 1, 1, kernels.Float32)
	if err != nil {
		return "", err
	}
	defer func() { _ = cpu.Close() }()
	want, err := trial([]kernels.Rank{{Device: cpu}})
	if err != nil {
		return "", err
	}
	got, err := trial(ranks)
	if err != nil {
		return "", err
	}
	// Sums in another order differ by some units of float32 in each of the steps; factors of 8 bits by 2^-9 each.
	tolerance := 1e-4
	if precision != kernels.Float32 {
		tolerance = 3e-2
	}
	for n, field := range want {
		largest := 0.0
		for _, x := range field.numbers {
			largest = math.Max(largest, math.Abs(float64(x)))
		}
		for i, x := range field.numbers {
			if y := got[n].numbers[i]; !(math.Abs(float64(x-y)) <= tolerance*largest) {
				return fmt.Sprintf("%s[%d] is %g, and %g on the CPU", field.name, i, y, x), nil
			}
		}
	}
	return "", nil
}

// found is what a trial gives by name: losses, weights, scores.
type found struct {
	name    string
	numbers []float32
}

// trial trains the network from fixed weights, and scores the items for the last batch.
func trial(ranks []kernels.Rank) (list []found, err error) {
	net, err := network.Parse([]byte(trialNetwork))
	if err != nil {
		return nil, err
	}
	m, err := model.Create(net, model.Options{Threads: 1})
	if err != nil {
		return nil, err
	}
	defer func() { err = cmp.Or(err, m.Close()) }()
	optimizer := kernels.Optimizer{Kind: kernels.SGD} // others divide by what may be nearly zero
	p, err := program.Build(program.Spec{
		Computation: net.Computation(func(f *program.Feed) {
			f.Entries = func(rows int64) int64 { return rows * trialEntries }
		}),
		Ranks: ranks, Rows: trialRows, Training: &program.Training{Optimizer: optimizer}, MakeRoom: MakeRoom,
		Weights: m.Buffer,
	})
	if err != nil {
		return nil, err
	}
	defer p.Free()
	if err := p.Load(); err != nil {
		return nil, err
	}
	losses, err := trialLosses(p, optimizer)
	if err != nil {
		return nil, err
	}
	if _, err := p.Store(); err != nil {
		return nil, err
	}
	list = append(list, found{"the loss", losses})
	for _, t := range m.Tensors() {
		list = append(list, found{t.Name, slices.Clone(t.Float32())})
	}
	scores, err := trialScores(ranks, p.Shards(len(net.Layers)-1))
	return append(list, found{"scores", scores}), err
}

// trialLosses trains for some steps and returns their losses.
func trialLosses(p *program.Program, optimizer kernels.Optimizer) (losses []float32, err error) {
	data, order := csr.Parts{Columns: trialItems, Offsets32: []int32{0}}, []int64{}
	for u := range int32(trialRows) {
		for e := range int32(trialEntries) {
			data.Indices32 = append(data.Indices32, u*u%16+e*(20+u%5))
		}
		data.Offsets32, order = append(data.Offsets32, int32(len(data.Indices32))), append(order, int64(u))
	}
	matrix, err := csr.New(data)
	if err == nil {
		err = matrix.Validate(csr.ValidateOptions{Threads: 1})
	}
	if err != nil {
		return nil, err
	}
	step := kernels.Step{Rows: trialRows, Training: true, Seed: 1, Loss: make([]float64, 1), RatesFrom: 1}
	for _, f := range p.Feeds() {
		batch, reader := &kernels.SparseBatch{}, csr.Reader{Source: matrix, Scaling: f.Scaled}
		if err := reader.Batch(order, 1, true, batch); err != nil {
			return nil, err
		}
		step.Sparse = append(step.Sparse, batch)
	}
	if err := p.Begin(&step); err != nil {
		return nil, err
	}
	for step.Number < trialSteps {
		step.Number++
		step.Rates = append(step.Rates, optimizer.RatesAt(step.Number, 0.5))
		if err := p.Run(&step); err != nil {
			return nil, err
		}
		results, err := p.Settle(0)
		if err != nil {
			return nil, err
		}
		losses = append(losses, float32(results[0].Loss[0]))
	}
	return losses, p.Flush(&step)
}

// trialScores are the scores that an output layer gives after the steps.
func trialScores(ranks []kernels.Rank, shards []program.Shard) ([]float32, error) {
	scores := make([]float32, trialRows*trialItems)
	for rank, shard := range shards {
		device := ranks[rank].Device
		op := &kernels.Scores{Scorer: shard.Scorer, Out: scores[shard.First:], Stride: trialItems}
		var err error
		if op.Workspace, err = device.Alloc(device.WorkspaceSize(op, trialRows)); err != nil {
			return nil, err
		}
		err = device.Scores(op, &kernels.Step{Rows: trialRows})
		op.Workspace.Free()
		if err != nil {
			return nil, fault.Wrap(err, "scores")
		}
	}
	return scores, nil
}
