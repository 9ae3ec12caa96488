package program_test

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/engine/csr"
	"dsstne/engine/model"
	"dsstne/engine/program"
	"dsstne/internal/fault"
	"dsstne/kernels"
	_ "dsstne/kernels/cpu"
	_ "dsstne/kernels/reference"
	"dsstne/tests/fixture"
)

// computation is that of a model's network, fed by batches with the given number of entries in a row.
func computation(m *model.Model, each int64) program.Computation {
	return m.Network().Computation(func(f *program.Feed) {
		f.Entries = func(rows int64) int64 { return each * rows }
	})
}

func specOf(t *testing.T, device kernels.Device, definition string, items, rows int64,
	optimizer kernels.OptimizerKind) program.Spec {
	sizes := map[string]int64{"input": items, "output": items}
	if definition == wide { // has all its sizes
		sizes = nil
	}
	m := fixture.Model(t, definition, sizes)
	t.Cleanup(func() { _ = m.Close() })
	return program.Spec{
		Computation: computation(m, 20), Ranks: []kernels.Rank{{Device: device}}, Rows: rows,
		Weights: func(name string) (kernels.Buffer, error) {
			tensor, err := m.Tensor(name)
			if err != nil {
				return nil, err
			}
			return tensor.Buffer(), nil
		},
		Training: &program.Training{Optimizer: kernels.Optimizer{Kind: optimizer}},
	}
}

func fresh(p *program.Plan, except ...string) (bytes int64) {
	for _, part := range p.Parts {
		if !part.Held && !strings.Contains(strings.Join(except, ","), part.Name) {
			bytes += part.Bytes
		}
	}
	return bytes
}

func TestThePlanIsWhatIsAllocated(t *testing.T) {
	for _, definition := range []string{
		fixture.Autoencoder("softmax", ""), fixture.Autoencoder("sigmoid",
			`, "shared": "hidden1.weight", "temperature": 0.2`), decoder,
	} {
		device := fixture.Device(t, "cpu")
		p, err := program.Build(specOf(t, device, definition, 500, 64, kernels.Adam))
		require.NoError(t, err)
		require.Equal(t, fresh(&p.Plan, "batch"), device.Bytes)
		p.Free()
	}
}

func TestThePlanOfSeveralDevicesIsWhatIsAllocatedOnEach(t *testing.T) {
	for _, definition := range []string{
		fixture.Autoencoder("softmax", ""), fixture.Autoencoder("sigmoid",
			`, "shared": "hidden1.weight", "temperature": 0.2`), decoder,
	} {
		const ranks = 4
		one := fixture.Device(t, "cpu")
		single, err := program.Describe(specOf(t, one, definition, 5000, 64, kernels.Adam))
		require.NoError(t, err)
		spec := specOf(t, one, definition, 5000, 64, kernels.Adam)
		spec.Ranks = nil
		backend := kernels.Lookup("cpu")
		for rank, to := range kernels.NewHostGroup(ranks) {
			d, err := backend.Open(rank, kernels.Options{Threads: 2, Of: ranks})
			require.NoError(t, err)
			t.Cleanup(func() { _ = d.Close() })
			spec.Ranks = append(spec.Ranks, kernels.Rank{Device: &fixture.Counting{Device: d}, Communicator: to})
		}
		p, err := program.Build(spec)
		require.NoError(t, err)
		planned, sum := map[string]int64{}, int64(0)
		for _, part := range p.Plan.Parts {
			sum += part.Bytes
			if !part.Held && part.Name != "batch" {
				planned[part.Device] += part.Bytes
			}
		}
		require.Equal(t, sum, p.Plan.Bytes)
		for _, r := range spec.Ranks {
			require.Equal(t, planned[r.Device.Info().Name], r.Device.(*fixture.Counting).Bytes)
		}
		// Nothing that faces items is held twice: weights and state are those of one device, and copies of the others, of
		// which the decoder has most.
		const others = 16*7 + 16 + 16 + 7
		for _, name := range []string{"weights", "optimizer state", "steps of last updates"} {
			total := func(plan *program.Plan) (bytes int64) {
				for _, part := range plan.Parts {
					if part.Name == name {
						bytes += part.Bytes
					}
				}
				return bytes
			}
			require.LessOrEqual(t, total(&p.Plan)-total(single), int64((ranks-1)*others*4*2), name)
		}
		p.Free()

		spec.Parallel = program.Data // each device has everything, and gradients
		before := map[string]int64{}
		for _, r := range spec.Ranks {
			before[r.Device.Info().Name] = r.Device.(*fixture.Counting).Bytes
		}
		p, err = program.Build(spec)
		require.NoError(t, err)
		for _, r := range spec.Ranks {
			name, bytes := r.Device.Info().Name, int64(0)
			for _, part := range p.Plan.Parts {
				if !part.Held && part.Name != "batch" && part.Device == name {
					bytes += part.Bytes
				}
			}
			require.Equal(t, bytes, r.Device.(*fixture.Counting).Bytes-before[name])
		}
		p.Free()
	}
}

func TestNothingOfSizeBatchTimesItemsIsPlanned(t *testing.T) {
	const items, rows = 300_000, 512
	spec := specOf(t, fixture.Device(t, "cpu"), fixture.Autoencoder("softmax", ""), items, rows, kernels.SGD)
	plan, err := program.Describe(spec)
	require.NoError(t, err)
	require.Less(t, fresh(plan), int64(4*items*rows/20))
}

func TestAPlanBeyondTheLimitIsRefusedWithItsPartsBeforeAnythingIsAllocated(t *testing.T) {
	device := fixture.Device(t, "cpu")
	spec := specOf(t, device, fixture.Autoencoder("softmax", ""), 100_000, 64, kernels.Adam)
	spec.Limit = 1 << 20
	_, err := program.Build(spec)
	require.Equal(t, fault.OutOfMemory, fault.KindOf(err))
	for _, part := range []string{ // the workspace depends on the width of the CPU's vectors
		"memory_limit is 1.05 MB; nothing was allocated. Parts: optimizer state 26.4 MB, ", "weights 13.2 MB, ", "workspace ",
	} {
		require.ErrorContains(t, err, part)
	}
	require.Zero(t, device.Bytes)
}

func TestMemoryBesideAProgramCountsTowardsTheLimit(t *testing.T) {
	device := fixture.Device(t, "cpu")
	held := program.Part{Name: "weights", Bytes: 600, Held: true}
	require.NoError(t, program.Fits([]kernels.Rank{{Device: device}}, 1000, []program.Part{held, {Name: "workspace",
		Bytes: 400}}, nil))
	err := program.Fits([]kernels.Rank{{Device: device}}, 1000, []program.Part{held, {Name: "workspace", Bytes: 401}}, nil)
	require.Equal(t, fault.OutOfMemory, fault.KindOf(err))
	require.ErrorContains(t, err, "needs 1 kB, memory_limit is 1 kB; nothing was allocated. Parts: weights 600 B, "+
		"workspace 401 B")
	require.NotContains(t, err.Error(), "optimizer")
	require.Equal(t, fault.OutOfMemory, fault.KindOf(program.Fits([]kernels.Rank{{Device: device}}, 0,
		[]program.Part{{Name: "workspace", Bytes: 1 << 60}}, nil)))
	require.NoError(t, program.Fits([]kernels.Rank{{Device: device}}, 0, []program.Part{{Name: "weights", Bytes: 1 << 60,
		Held: true}}, nil))
}

// apart is a device with memory of its own.
type apart struct {
	kernels.Device
	name      string
	available int64
}

func (a apart) Info() kernels.DeviceInfo    { return kernels.DeviceInfo{Name: a.name} }
func (a apart) Available() int64            { return a.available }
func (a apart) Reaches(kernels.Buffer) bool { return false }

func (a apart) StepSize(int64, []int64) int64 { return 0 }

func TestMemoryOfDevicesThatHaveTheirOwnIsCountedForEach(t *testing.T) {
	const much = 1 << 30
	ranks := []kernels.Rank{{Device: apart{name: "a:0", available: much}}, {Device: apart{name: "a:1",
		available: 2 * much}}}
	parts := []program.Part{
		{Name: "weights", Bytes: much, Device: "a:0"}, {Name: "weights", Bytes: 2 * much, Device: "a:1"},
		{Name: "batch", Bytes: 5 * much, Device: "host"},
	}
	require.NoError(t, program.Fits(ranks, 0, parts, nil))
	parts[1].Bytes++
	err := program.Fits(ranks, 0, parts, nil)
	require.Equal(t, fault.OutOfMemory, fault.KindOf(err))
	require.ErrorContains(t, err, "more memory on a:1")
}

func TestTheSystemIsAskedForItsMemoryOnceAndNotForSmallPrograms(t *testing.T) {
	device := fixture.Device(t, "cpu")
	plan, err := program.Describe(specOf(t, device, fixture.Autoencoder("softmax", ""), 100, 32, kernels.Adam))
	require.NoError(t, err)
	require.Positive(t, plan.Available)
	require.Equal(t, 1, device.Asked)
	p, err := program.Build(specOf(t, device, fixture.Autoencoder("softmax", ""), 100, 32, kernels.Adam))
	require.NoError(t, err)
	require.Equal(t, 1, device.Asked)
	p.Free()
	p, err = program.Build(specOf(t, device, fixture.Autoencoder("softmax", ""), 300_000, 32, kernels.Adam))
	require.NoError(t, err)
	require.Equal(t, 2, device.Asked)
	p.Free()
}

func TestABatchTakesWhatIsPlannedForIt(t *testing.T) {
	const rows = 1000
	m := fixture.Blocks(t, rows, 50_000, 4, 200, 1)
	list := make([]int64, rows)
	for i := range list {
		list[i] = int64(i)
	}
	for _, rowsOnly := range []bool{false, true} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		reader := csr.Reader{Source: m, RowsOnly: rowsOnly}
		require.NoError(t, reader.Batch(list, 0, false, &kernels.SparseBatch{}))
		runtime.ReadMemStats(&after)
		require.InEpsilon(t, program.BatchBytes(rows, m.Statistics().NonZeros, rowsOnly),
			after.TotalAlloc-before.TotalAlloc, 0.1)
	}
}

func TestTheOperationsReadLikeTheStep(t *testing.T) {
	device := fixture.Device(t, "cpu")
	plan, err := program.Describe(specOf(t, device, fixture.Autoencoder("softmax", ""), 100, 32, kernels.Momentum))
	require.NoError(t, err)
	require.Equal(t, []string{
		"Replay the batch's rows of hidden1.weight[100, 16]",
		"Gather hidden1 <- input hidden1.weight[100, 16], tanh, dropout 0.1",
		"OutputStats output[100] <- output.weight[100, 16], softmax",
		"OutputStep output[100] <- output.weight[100, 16], softmax",
		"Backward hidden1, tanh, dropout 0.1",
		"Scatter hidden1.weight[100, 16]",
		"at the end of a run: Replay all rows of hidden1.weight[100, 16]",
	}, plan.Operations)
}

func TestTheOperationsOfSeveralDevicesReadLikeTheStep(t *testing.T) {
	spec := specOf(t, fixture.Device(t, "cpu"), fixture.Autoencoder("softmax", ""), 101, 32, kernels.Momentum)
	spec.Ranks = fixture.Ranks(t, "reference", 2)
	plan, err := program.Describe(spec)
	require.NoError(t, err)
	require.Equal(t, []string{
		"reference: at the start of a run: Broadcast hidden1.bias[16, 1] from 0",
		"reference: at the start of a run: Broadcast the state of hidden1.bias[16, 1] from 0",
		"reference: Shard 50:101 of the batch of input[101]",
		"reference: Shard 50:101 of the batch of output[101]",
		"reference: Replay the batch's rows of hidden1.weight[51, 16]",
		"reference: Gather hidden1 <- input hidden1.weight[51, 16]",
		"reference: AllReduce hidden1[16]",
		"reference: Activate hidden1, tanh, dropout 0.1",
		"reference: OutputStats output[51] <- output.weight[51, 16], softmax",
		"reference: AllGather the statistics of output, and agree that all devices are well",
		"reference: CombineStats output",
		"reference: OutputStep output[51] <- output.weight[51, 16], softmax",
		"reference: AllReduce the gradient of hidden1[16], and agree that all devices are well",
		"reference: Backward hidden1, tanh, dropout 0.1",
		"reference: Scatter hidden1.weight[51, 16]",
		"reference: at the end of a run: Replay all rows of hidden1.weight[51, 16]",
	}, plan.Operations[len(plan.Operations)/2:])
}

func TestTheDevicesAddUpWhichTargetsCount(t *testing.T) {
	definition := fixture.Autoencoder("softmax", "")
	definition = strings.Replace(definition, `"softmax"`, `{"kind": "softmax", "one_target": 0.25, "one_scale": 2}`, 1)
	for _, c := range []struct {
		ranks int
		want  []string
	}{
		{1, []string{
			"OutputStats output[101] <- output.weight[101, 16], softmax",
			"MarginalTargets output <- output.weight[101, 16], targets of probabilities below 0.25, times 2",
			"OutputStep output[101] <- output.weight[101, 16], softmax",
		}},
		{2, []string{
			"reference: OutputStats output[51] <- output.weight[51, 16], softmax",
			"reference: AllGather the statistics of output",
			"reference: CombineStats output",
			"reference: MarginalTargets output <- output.weight[51, 16], targets of probabilities below 0.25, times 2",
			"reference: AllReduce the targets of output that count[1], and agree that all devices are well",
			"reference: OutputStep output[51] <- output.weight[51, 16], softmax",
		}},
	} {
		spec := specOf(t, fixture.Device(t, "cpu"), definition, 101, 32, kernels.Momentum)
		if c.ranks > 1 {
			spec.Ranks = fixture.Ranks(t, "reference", c.ranks)
		}
		plan, err := program.Describe(spec)
		require.NoError(t, err)
		rank := plan.Operations[len(plan.Operations)/c.ranks*(c.ranks-1):]
		first := slices.Index(rank, c.want[0])
		require.GreaterOrEqual(t, first, 0, rank)
		require.Equal(t, c.want, rank[first:first+len(c.want)])
	}
}

// wide has every way of wiring: two inputs, layers with two sources (sparse and dense), a shared weight, two outputs.
const wide = `{"layers": [
	{"name": "a", "kind": "input", "size": 30},
	{"name": "b", "kind": "input", "size": 12, "scaling": "l2"},
	{"name": "h", "kind": "hidden", "sources": ["a", "b"], "size": 7, "activation": "tanh"},
	{"name": "g", "kind": "hidden", "sources": ["h", "b"], "size": 5, "activation": "sigmoid"},
	{"name": "f", "kind": "hidden", "sources": ["h", "g"], "size": 7, "activation": "tanh"},
	{"name": "x", "kind": "output", "sources": ["f"], "size": 30, "shared": "h.weight.a", "temperature": 0.5},
	{"name": "y", "kind": "output", "sources": ["g", "h"], "size": 9}],
	"loss": [{"layer": "x", "kind": "softmax", "normalize_rows": true}, {"layer": "y", "kind": "sigmoid", "weight": 0.5}]}`

// decoder is an autoencoder whose decoder has the weights of its encoder.
const decoder = `{"layers": [
	{"name": "input", "kind": "input", "size": "auto"},
	{"name": "hidden1", "kind": "hidden", "size": 16},
	{"name": "code", "kind": "hidden", "size": 7},
	{"name": "back", "kind": "hidden", "size": 16, "shared": "code.weight"},
	{"name": "output", "kind": "output", "size": "auto", "sources": ["back", "hidden1"], "shared":
		[{"source": "back", "weight": "hidden1.weight"}, {"source": "hidden1", "weight": "hidden1.weight"}]}]}`

// sharing has weights with several users, as they are and transposed.
const sharing = `{"layers": [
	{"name": "a", "kind": "input", "size": 30},
	{"name": "b", "kind": "input", "size": 30, "scaling": "l2"},
	{"name": "h", "kind": "hidden", "sources": ["a"], "size": 7, "activation": "tanh"},
	{"name": "g", "kind": "hidden", "sources": ["b"], "size": 7, "activation": "tanh", "shared": "h.weight"},
	{"name": "d", "kind": "hidden", "sources": ["h", "g"], "size": 5, "activation": "sigmoid"},
	{"name": "u", "kind": "hidden", "size": 7, "activation": "tanh", "shared": "d.weight.g"},
	{"name": "s", "kind": "hidden", "size": 7, "activation": "tanh"},
	{"name": "t", "kind": "hidden", "size": 7, "shared": {"weight": "s.weight", "transposed": true}},
	{"name": "v", "kind": "hidden", "sources": ["t", "h"], "size": 7, "shared":
		[{"source": "h", "weight": "s.weight", "transposed": false}]},
	{"name": "x", "kind": "output", "sources": ["v"], "size": 30, "shared": "h.weight", "temperature": 0.5},
	{"name": "y", "kind": "output", "sources": ["u"], "size": 9},
	{"name": "z", "kind": "output", "sources": ["g", "b", "u"], "size": 9, "shared":
		[{"source": "g", "weight": "y.weight"}, {"source": "u", "weight": "y.weight"}]}],
	"loss": [{"layer": "x", "kind": "softmax", "normalize_rows": true}, {"layer": "y", "kind": "sigmoid", "weight": 0.5},
		{"layer": "z", "kind": "squared"}]}`

// batchOf sorts a few random entries into both orders.
func batchOf(t *testing.T, rows, columns int, seed uint64) *kernels.SparseBatch {
	m := fixture.Valued(t, rows, columns, 4, seed)
	return fixture.Batch(t, m)
}

func TestGradientsAgreeWithFiniteDifferences(t *testing.T) {
	for _, backend := range []string{"reference", "cpu"} {
		for _, ranks := range []int{1, 3, 11} {
			for definition, tensors := range map[string]int{wide: 13, sharing: 17} {
				gradientsAgree(t, definition, tensors, fixture.Ranks(t, backend, ranks), program.Model)
				if ranks > 1 {
					gradientsAgree(t, definition, tensors, fixture.Ranks(t, backend, ranks), program.Data)
				}
			}
		}
	}
}

// wideRows are the rows of its batches.
const wideRows = 6

// wideOn is the network with layers of all kinds on some ranks.
func wideOn(t *testing.T, ranks []kernels.Rank, way program.Parallel, training program.Training) (*model.Model,
	program.Spec) {
	return networkOn(t, wide, ranks, way, training)
}

func networkOn(t *testing.T, definition string, ranks []kernels.Rank, way program.Parallel, training program.Training) (
	*model.Model, program.Spec) {
	m := fixture.Model(t, definition, nil)
	return m, program.Spec{
		Computation: computation(m, 4), Ranks: ranks, Rows: wideRows,
		Weights: func(name string) (kernels.Buffer, error) {
			tensor, err := m.Tensor(name)
			return tensor.Buffer(), err
		},
		Parallel: way, Training: &training,
	}
}

// wideStep is the first step of such a program.
func wideStep(t *testing.T, p *program.Program, m *model.Model, learningRate float32) kernels.Step {
	step := kernels.Step{
		Number: 1, Rows: wideRows, Training: true, Loss: make([]float64, len(m.Network().Terms)), RatesFrom: 1,
		Rates: []kernels.Rates{{LearningRate: learningRate}},
	}
	for _, f := range p.Feeds() {
		step.Sparse = append(step.Sparse, batchOf(t, wideRows, int(f.Columns), uint64(f.Layer)))
	}
	return step
}

// gradientsAgree takes a step of gradient descent with a learning rate of 1, which changes weights by their gradients.
func gradientsAgree(t *testing.T, definition string, tensors int, ranks []kernels.Rank, way program.Parallel) {
	m, spec := networkOn(t, definition, ranks, way, program.Training{})
	p, err := program.Build(spec)
	require.NoError(t, err)
	defer p.Free()
	before := map[string][]float32{}
	for _, tensor := range m.Tensors() {
		before[tensor.Name] = slices.Clone(tensor.Float32())
	}
	require.Len(t, before, tensors)
	run := func(learningRate float32) float64 {
		step := wideStep(t, p, m, learningRate)
		require.NoError(t, p.Begin(&step))
		require.NoError(t, p.Run(&step))
		results := must(p.Settle(0))
		require.Len(t, results, 1)
		total := 0.0
		for _, loss := range results[0].Loss {
			total += loss
		}
		return total
	}
	run(1)
	gradients := map[string][]float32{}
	for name, values := range before {
		now := must(m.Tensor(name)).Float32()
		for i, value := range values {
			gradients[name] = append(gradients[name], value-now[i])
		}
		copy(now, values)
	}
	for name, gradient := range gradients {
		values := must(m.Tensor(name)).Float32()
		for i := 0; i < len(values); i += 1 + len(values)/9 {
			// The loss is about 5 and rounded to float32 in places: a step of 0.01 leaves errors of some 1e-4.
			const h = 0.01
			values[i] = before[name][i] + h
			above := run(0)
			values[i] = before[name][i] - h
			below := run(0)
			values[i] = before[name][i]
			require.InDelta(t, (above-below)/(2*h), gradient[i], 1e-3, fmt.Sprintf("%d ranks: %s[%d]", len(ranks), name, i))
		}
	}
}

// changes are how a step of gradient descent with a learning rate of 1 changes the weights.
func changes(t *testing.T, training program.Training, ranks []kernels.Rank, way program.Parallel) (
	map[string][]float32, program.Plan) {
	m, spec := networkOn(t, sharing, ranks, way, training)
	p, err := program.Build(spec)
	require.NoError(t, err)
	defer p.Free()
	found := map[string][]float32{}
	for _, tensor := range m.Tensors() {
		found[tensor.Name] = slices.Clone(tensor.Float32())
	}
	step := wideStep(t, p, m, 1)
	require.NoError(t, p.Begin(&step))
	require.NoError(t, p.Run(&step))
	must(p.Settle(0))
	for _, tensor := range m.Tensors() {
		for i, now := range tensor.Float32() {
			found[tensor.Name][i] -= now
		}
	}
	return found, p.Plan
}

func TestTheNormOfGradientsHasASharedWeightOnce(t *testing.T) {
	const limit = 1e-2 // which the gradient exceeds
	for _, ranks := range []int{1, 3} {
		clipped := program.Training{Optimizer: kernels.Optimizer{ClipNorm: limit}}
		found, _ := changes(t, clipped, fixture.Ranks(t, "cpu", ranks), program.Data)
		square := 0.0
		for _, values := range found {
			square += kernels.Dot(values, values)
		}
		require.InEpsilon(t, limit, math.Sqrt(square), 1e-4)
	}
}

func TestLockedSharedWeightsHaveNoGradient(t *testing.T) {
	for _, ranks := range []int{1, 3} {
		locked := program.Training{Locked: map[string]bool{"h.weight": true, "s.weight": true}}
		found, plan := changes(t, locked, fixture.Ranks(t, "cpu", ranks), program.Model)
		for name, values := range found {
			changed := slices.ContainsFunc(values, func(x float32) bool { return x != 0 })
			require.Equal(t, !locked.Locked[name], changed, name)
		}
		for _, part := range plan.Parts {
			if strings.Contains(part.Name, "gradients") {
				require.NotContains(t, part.Of, "h.weight")
				require.NotContains(t, part.Of, "s.weight")
			}
		}
	}
}

func TestAStepUpdatesWeightsAtOnceIfAllThatAreSharedAreLocked(t *testing.T) {
	locked := map[string]bool{"h.weight": true, "s.weight": true, "d.weight.g": true, "y.weight": true}
	_, plan := changes(t, program.Training{Locked: locked}, fixture.Ranks(t, "cpu", 1), program.Model)
	for _, part := range plan.Parts {
		require.NotEqual(t, "gradients", part.Name)
	}
}

func TestLayersThatShareAWeightLeavePartsOfItsGradient(t *testing.T) {
	_, spec := networkOn(t, sharing, fixture.Ranks(t, "reference", 1), program.Model, program.Training{})
	plan, err := program.Describe(spec)
	require.NoError(t, err)
	var copies []string
	for _, operation := range plan.Operations {
		if strings.HasPrefix(operation, "CopyMatrix") {
			copies = append(copies, operation)
		}
	}
	require.Equal(t, []string{
		"CopyMatrix d.weight.g transposed[7, 5]",
		"CopyMatrix s.weight transposed[7, 7]",
		"CopyMatrix the gradient of h.weight by g <- b[30, 7]",
		"CopyMatrix the gradient of h.weight by x <- v[30, 7]",
		"CopyMatrix the gradient of d.weight.g by u <- d[5, 7]",
		"CopyMatrix the gradient of s.weight by t <- s[7, 7]",
		"CopyMatrix the gradient of s.weight by v <- h[7, 7]",
		"CopyMatrix the gradient of y.weight by z <- g[9, 7]",
		"CopyMatrix the gradient of y.weight by z <- u[9, 7]",
	}, copies)
	last := plan.Operations[len(plan.Operations)-17:]
	require.True(t, !slices.ContainsFunc(last, func(s string) bool { return !strings.HasPrefix(s, "Update ") }), last)
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func TestAnInferenceProgramHasTheForwardPartOnly(t *testing.T) {
	spec := specOf(t, fixture.Device(t, "cpu"), fixture.Autoencoder("softmax", ""), 100, 32, kernels.Adam)
	spec.Training = nil
	plan, err := program.Describe(spec)
	require.NoError(t, err)
	require.Equal(t, []string{"Gather hidden1 <- input hidden1.weight[100, 16], tanh"}, plan.Operations)
}
