// Opbench runs one op of a backend alone, the CPU's if none is named, on numbers it makes up, and tells how long it
// took.
//
// It reads JSON lines: the first describes the op (see request), each further one, {"steps": n}, asks for n runs and is
// answered by {"seconds": s}. It waits while another contestant has its turn. An op that is not available is answered
// by {"error": "..."}.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"dsstne/kernels"
	_ "dsstne/kernels/cpu"
	"dsstne/tests/batch"
)

// request describes an op: "output", "entries" (an output at stored entries, with the updates of its weights), "gather", "scatter", "replay" (one missed step of every row), "backward", "top_k",
// "fill" (of the weight) or "pair" (a sparse matrix [rows, items] and its transpose times a panel of 64 columns).
type request struct {
	Op             string  `json:"op"`
	Loss           string  `json:"loss"`
	Activation     string  `json:"activation"` // of an output
	Fill           string  `json:"fill"`
	Optimizer      string  `json:"optimizer"`
	L1             float32 `json:"l1"`
	Precision      string  `json:"precision"`
	Temperature    float32 `json:"temperature"`
	Dropout        float32 `json:"dropout"` // of "backward"
	K              int64   `json:"k"`       // of "top_k"; 0 means 10
	Rows           int64   `json:"rows"`
	Units          int64   `json:"units"`
	Items          int64   `json:"items"`
	RowLength      int     `json:"row_length"`
	Batches        int     `json:"batches"` // that take turns, so that caches do not keep what the op reads
	Threads        int     `json:"threads"`
	InstructionSet string  `json:"instruction_set"`
	Backend        string  `json:"backend"` // "cpu", if it is empty, or "cuda": its first device
	Form           string  `json:"form"`    // see kernels.Options
}

// answer reports the seconds; the first one reports what the batches of sparse ops touch, and the way in which a device
// that has several does the op.
type answer struct {
	Error    string  `json:"error,omitempty"`
	Seconds  float64 `json:"seconds,omitempty"`
	Form     string  `json:"form,omitempty"`
	Entries  int     `json:"entries,omitempty"`  // stored entries of all batches
	Distinct int     `json:"distinct,omitempty"` // their distinct items, batch by batch
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	answers := json.NewEncoder(os.Stdout)
	tell := func(a answer) {
		if err := answers.Encode(a); err != nil {
			os.Exit(1) // nobody listens any more
		}
	}
	if !lines.Scan() {
		return
	}
	var r request
	if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
		tell(answer{Error: err.Error()})
		return
	}
	op, settle, touched, err := prepare(&r)
	if err != nil {
		tell(answer{Error: err.Error()})
		return
	}
	tell(touched)
	number := 0
	for lines.Scan() {
		var turn struct {
			Steps int `json:"steps"`
		}
		if err := json.Unmarshal(lines.Bytes(), &turn); err != nil {
			tell(answer{Error: err.Error()})
			return
		}
		begin := time.Now()
		for range turn.Steps {
			if err := op(number); err != nil {
				tell(answer{Error: err.Error()})
				return
			}
			number++
		}
		if err := settle(); err != nil {
			tell(answer{Error: err.Error()})
			return
		}
		tell(answer{Seconds: time.Since(begin).Seconds()})
	}
}

// word finds a word in the list whose places are the constants; none is the first.
func word(name, given string, words []string) (int, error) {
	if given == "" {
		return 0, nil
	}
	n := slices.Index(words, given)
	if n < 0 {
		return 0, fmt.Errorf("%s is %q; there are %s", name, given, strings.Join(words, ", "))
	}
	return n, nil
}

// prepare makes the op: a function of the number of the run, one that waits until all runs are done, and what the
// batches touch.
func prepare(r *request) (op func(int) error, settle func() error, touched answer, err error) {
	loss, err := word("loss", r.Loss, kernels.LossWords)
	if err != nil {
		return nil, nil, answer{}, err
	}
	kind, err := word("optimizer", r.Optimizer, kernels.OptimizerWords)
	if err != nil {
		return nil, nil, answer{}, err
	}
	fill, err := word("fill", r.Fill, kernels.FillWords)
	if err != nil {
		return nil, nil, answer{}, err
	}
	precision, err := word("precision", r.Precision, kernels.PrecisionWords)
	if err != nil {
		return nil, nil, answer{}, err
	}
	backend := kernels.Lookup(cmp.Or(r.Backend, "cpu"))
	if backend == nil {
		return nil, nil, answer{}, fmt.Errorf("this build has no backend %q", r.Backend)
	}
	d, err := backend.Open(0, kernels.Options{
		Threads: r.Threads, InstructionSet: r.InstructionSet, Precision: kernels.Precision(precision), Form: r.Form,
	})
	if err != nil {
		return nil, nil, answer{}, err
	}
	o := kernels.Optimizer{
		Kind: kernels.OptimizerKind(kind), Momentum: 0.9, Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8, L1: r.L1,
	}
	m := maker{device: d}
	w := m.weights("w", r.Items, r.Units, o.States())
	var batches []*kernels.SparseBatch
	for n := range max(1, r.Batches) {
		b := batch.Random(int(r.Rows), int(r.Items), r.RowLength, uint64(n))
		batches = append(batches, b)
		touched.Entries += len(b.Indices)
		touched.Distinct += len(b.Items)
	}
	step := &kernels.Step{
		Number: 1, Rows: r.Rows, Training: true, Loss: make([]float64, 1), RatesFrom: 1,
		Rates: []kernels.Rates{o.RatesAt(1, 1e-5)}, Sparse: []*kernels.SparseBatch{nil},
	}
	settle = func() error {
		_, err := d.Settle(0)
		return err
	}
	var run []kernels.Op
	switch r.Op {
	case "output":
		run = output(d, &m, r, kernels.LossKind(loss), o, w)
	case "entries":
		op := output(d, &m, r, kernels.LossKind(loss), o, w)[0].(kernels.OutputStep)
		run = entries(d, &m, r, op.Output)
	case "gather":
		op := &kernels.Gather{Weight: w, Out: m.filled(r.Rows*r.Units, 0)}
		op.Workspace = m.filled(d.WorkspaceSize(op, r.Rows), 0)
		run = []kernels.Op{op}
	case "scatter":
		op := &kernels.Scatter{Weight: w, DZ: m.filled(r.Rows*r.Units, 1e-3), Optimizer: o}
		op.Workspace = m.filled(d.WorkspaceSize(op, r.Rows), 0)
		run = []kernels.Op{op}
	case "replay":
		w.Last = m.filled(r.Items, 0)
		run = []kernels.Op{&kernels.Replay{Input: -1, Weight: w, Optimizer: o}}
	case "backward":
		run = []kernels.Op{&kernels.Backward{
			Units: r.Units, H: m.filled(r.Rows*r.Units, 1), DH: m.filled(r.Rows*r.Units, 1e-3), Optimizer: o,
			Epilogue: kernels.Epilogue{Activation: kernels.Activation{Kind: kernels.Sigmoid}, Dropout: r.Dropout},
			Bias:     m.weights("b", r.Units, 1, o.States()),
		}}
	case "top_k":
		op := &kernels.TopK{K: cmp.Or(r.K, 10)}
		op.Items, op.Temperature = r.Items, r.Temperature
		op.Sources = []kernels.OutputSource{{H: m.filled(r.Rows*r.Units, 1), Weight: w}}
		op.IDs, op.Scores = m.filled(r.Rows*op.K, 0), m.filled(r.Rows*op.K, 0)
		op.Workspace = m.filled(d.WorkspaceSize(op, r.Rows), 0)
		step.Training = false
		run = []kernels.Op{op}
	case "pair":
		run = pair(&m, batches[0], r)
	case "fill":
		op := &kernels.Fill{Kind: kernels.FillKind(fill), Scale: 1, Rows: r.Items, Columns: r.Units, Out: w.Value}
		return func(int) error { return d.Fill(op) }, settle, touched, m.err
	default:
		return nil, nil, answer{}, fmt.Errorf("op %q is not known", r.Op)
	}
	if m.err != nil {
		return nil, nil, answer{}, m.err
	}
	if explainer, has := d.(kernels.Explainer); has {
		touched.Form = explainer.Explain(run[len(run)-1], r.Rows)
	}
	list := &kernels.List{Sections: []kernels.Section{{Rows: r.Rows, Ops: run}}}
	return func(number int) error {
		step.Sparse[0] = batches[number%len(batches)]
		if r.Op == "replay" || r.Op == "entries" {
			step.Number++
			step.RatesFrom = step.Number
		}
		return d.Run(kernels.Rank{Device: d}, list, step)
	}, settle, touched, nil
}

func output(
	d kernels.Device, m *maker, r *request, loss kernels.LossKind, o kernels.Optimizer, w *kernels.Weights,
) []kernels.Op {
	bias := m.weights("b", r.Items, 1, o.States())
	bias.NoDecay = true
	op := &kernels.Output{
		Items: r.Items, Bias: bias, Optimizer: o, TiedInput: -1, Temperature: r.Temperature,
		Loss:    kernels.Loss{Kind: loss, Weight: 1, OneScale: 1, ZeroScale: 1, OneTarget: 0.9, ZeroTarget: 0.1},
		Sources: []kernels.OutputSource{{H: m.filled(r.Rows*r.Units, 1), DH: m.filled(r.Rows*r.Units, 0), Weight: w}},
	}
	act, err := word("activation", r.Activation, kernels.ActivationWords)
	if m.err == nil {
		m.err = err
	}
	op.Loss.Activation = kernels.Activation{Kind: kernels.ActivationKind(act), Alpha: 0.01}
	if op.Loss.NeedsStats() {
		op.Stats, op.Continues = m.filled(2*r.Rows, 0), true
		if keeper, is := d.(kernels.LogitKeeper); is {
			op.Logits = m.filled(keeper.LogitsSize(op, r.Rows), 0)
		}
	}
	op.Workspace = m.filled(d.WorkspaceSize(op, r.Rows), 0)
	if op.Loss.NeedsStats() {
		return []kernels.Op{kernels.OutputStats{Output: op}, kernels.OutputStep{Output: op}}
	}
	return []kernels.Op{kernels.OutputStep{Output: op}}
}

// entries are an output at stored entries and the updates of its weights.
func entries(d kernels.Device, m *maker, r *request, of *kernels.Output) []kernels.Op {
	op := &kernels.OutputEntries{
		Entries: r.Rows * int64(r.RowLength), Sources: of.Sources, Bias: of.Bias, Loss: of.Loss,
	}
	op.DZ, op.Workspace = m.filled(op.Entries, 0), m.filled(d.WorkspaceSize(op, r.Rows), 0)
	list := []kernels.Op{op}
	update := func(w *kernels.Weights, h kernels.Buffer) {
		if of.Optimizer.MovesUntouched(true) {
			w.Last = m.filled(w.Rows, 0)
			list = append([]kernels.Op{&kernels.Replay{Weight: w, Optimizer: of.Optimizer}}, list...)
		}
		list = append(list, &kernels.Scatter{Values: op.DZ, DZ: h, Weight: w, Optimizer: of.Optimizer})
	}
	update(of.Sources[0].Weight, of.Sources[0].H)
	update(of.Bias, nil)
	return list
}

// pair multiplies a panel by a matrix and then by its transpose.
func pair(m *maker, b *kernels.SparseBatch, r *request) []kernels.Op {
	const width = kernels.BlockWidth
	matrix := func(rows, columns int64, offsets, indices []int32) kernels.SparseMatrix {
		long := make([]uint64, len(offsets))
		for i, at := range offsets {
			long[i] = uint64(at)
		}
		s := kernels.SparseMatrix{
			Rows: rows, Columns: columns, Offsets: m.filled(2*int64(len(long)), 0),
			Indices: m.filled(int64(len(indices)), 0), Values: m.filled(int64(len(indices)), 1),
		}
		if m.err == nil {
			m.err = cmp.Or(m.device.Write(s.Offsets, 0, kernels.Bits(long)), m.device.Write(s.Indices, 0, kernels.Bits(indices)))
		}
		return s
	}
	byRow := matrix(r.Rows, r.Items, b.Offsets, b.Indices)
	offsets := make([]int32, r.Items+1) // all items, with those that no row has
	for at, item := range b.Items {
		offsets[item+1] = b.ItemOffsets[at+1] - b.ItemOffsets[at]
	}
	for i := range r.Items {
		offsets[i+1] += offsets[i]
	}
	byItem := matrix(r.Items, r.Rows, offsets, b.ItemRows)
	in, out, between := m.filled(r.Items*width, 1), m.filled(r.Items*width, 0), m.filled(r.Rows*width, 0)
	return []kernels.Op{
		&kernels.SparseProduct{Matrix: byRow, Panels: 1, Width: width, In: in, Out: between},
		&kernels.SparseProduct{Matrix: byItem, Panels: 1, Width: width, In: between, Out: out},
	}
}
