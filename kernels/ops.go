package kernels

// Activation is the function a layer applies to its sums.
type Activation int32

// Linear is z; Sigmoid 1/(1+exp(-z)); Tanh tanh(z); ReLU max(0, z).
const (
	Linear Activation = iota
	Sigmoid
	Tanh
	ReLU
)

// Weights is a trainable matrix with the state of its optimizer. A bias is a matrix of one column.
type Weights struct {
	Name    string // for error messages: "hidden1.weight"
	Rows    int64
	Columns int64
	Value   Buffer    // [Rows, Columns]
	State   [2]Buffer // Optimizer.States() of them, [Rows, Columns] each
	Last    Buffer    // int32 [Rows]: the step up to which the row is updated, 0 = never; nil: every step updates every row
	// Gradient, if not nil, receives the whole gradient [Rows, Columns] instead of an update being made.
	Gradient Buffer
	NoDecay  bool // weight decay does not apply (biases)
}

// Step is what changes from one step to the next. All ops of a step read the same record.
type Step struct {
	Number  int64 // counts from 1; random numbers and optimizers depend on it
	Rows    int64 // B, examples in this batch
	MaxRows int64 // those of the largest batch, which buffers have room for; 0: Rows
	// A batch may be a part of a larger one: it begins at row First of it, and that has Whole rows, 0 for Rows. Dropout, denoising
	// and the weight of a row in the loss are those of the whole.
	First, Whole int64
	Training     bool // false: no dropout, and ops that update must not be called
	Seed         uint64
	Sparse       []*SparseBatch // by slot: the batch of each bound input or target layer
	Order        []int64        // the rows of the data that the batch is made of, where Assemble makes one
	// Rates[n - RatesFrom] are the rates of step n, up to this step; older steps are needed by replays. They
	// do not change but at the end, as long as RatesFrom does not.
	Rates     []Rates
	RatesFrom int64
	Loss      []float64 // by output: sum over the batch of row weight times loss, added by OutputStep
}

// Most is the number of rows that buffers have room for.
func (s *Step) Most() int64 { return max(s.Rows, s.MaxRows) }

// WholeRows is the number of rows of the batch that this step's is a part of, or is.
func (s *Step) WholeRows() int64 {
	if s.Whole == 0 {
		return s.Rows
	}
	return s.Whole
}

// RatesOf returns the optimizer's rates at step n.
func (s *Step) RatesOf(n int64) Rates { return s.Rates[n-s.RatesFrom] }

// SparseBatch is a batch of sparse rows in memory private to the engine: checked, scaled, denoised, sorted, without
// duplicates or stored zeros. Both orders hold the same entries.
type SparseBatch struct {
	Columns int64
	Offsets []int32 // rows + 1
	Indices []int32 // ascending in each row
	Values  []float32
	RowSum  []float32 // sum of each row's values
	// by item: Items are the distinct indices, ascending; the entries of Items[j] are ItemOffsets[j] .. ItemOffsets[j+1] of
	// ItemRows (ascending) and ItemValues
	Items       []int32
	ItemOffsets []int32
	ItemRows    []int32
	ItemValues  []float32
	// Kept is where Assemble puts the batch in a device's memory; the host has nothing of it then.
	Kept Buffer
}

// Epilogue ends the forward computation of a layer: h = dropout(act(z + bias)).
// Dropped units are 0 and kept ones are multiplied by 1/(1-Dropout), in training only. Unit k of row u is dropped when
// random.Uniform(seed, Stream, step, Step.First + u, k) < Dropout, the same on every backend.
type Epilogue struct {
	Bias       Buffer // [K], nil = none
	Activation Activation
	Dropout    float32
	Stream     uint32
}

// Gather: out[u,:] (+)= sum_j x_uj W[j,:] for the stored entries of slot Input; then the epilogue, if any.
type Gather struct {
	Input      int
	Weight     *Weights // [I, K]
	Out        Buffer   // [B, K]
	Accumulate bool     // add to Out instead of replacing it
	Epilogue   *Epilogue
}

// Dense: out[u,:] (+)= in[u,:] W^T, W[units, inputs]; then the epilogue, if any.
type Dense struct {
	In         Buffer   // [B, inputs]
	Weight     *Weights // [units, inputs]
	Out        Buffer   // [B, units]
	Accumulate bool
	Epilogue   *Epilogue
	Workspace  Buffer
}

// Activate is an epilogue on its own, in place, for a layer whose sums were added up over several devices:
// out = dropout(act(out + bias)).
type Activate struct {
	Out      Buffer // [B, Units]
	Units    int64
	Epilogue Epilogue
}

// Backward turns the gradient by a layer's output into the gradient by its sums, in place, and updates the bias:
// dz = dh * mask/(1-p) * act'(z), written with the stored output h; dbias = sum over rows of dz.
type Backward struct {
	Name      string // of the layer, for error messages
	H         Buffer // [B, K], the layer's output after dropout
	DH        Buffer // [B, K], in: dL/dh, out: dL/dz
	Units     int64
	Epilogue  Epilogue // as in the forward op
	Bias      *Weights // nil = none
	Optimizer Optimizer
}

// DenseBackward: din[u,:] (+)= dz W (before the update); dW = dz^T in, then the update.
type DenseBackward struct {
	DZ         Buffer // [B, units]
	In         Buffer // [B, inputs]
	DIn        Buffer // [B, inputs]; nil = not needed
	Accumulate bool   // add to DIn
	Weight     *Weights
	Optimizer  Optimizer
	Workspace  Buffer
}

// Scatter is the update of a Gather's weight: dW[j,:] = sum over u of x_uj dz[u,:], for the rows j that the batch touches.
// With a TiedGradient, whose row n holds the output layer's part for the n-th touched item, the parts are added first.
type Scatter struct {
	Input        int
	DZ           Buffer // [B, K]
	Weight       *Weights
	TiedGradient Buffer // [min(nnz, I), K] or nil
	Optimizer    Optimizer
	Workspace    Buffer
}

// Replay brings rows whose Last is behind up to date: it runs the optimizer with a zero gradient for each step after Last
// up to Upto (Step.Number - 1 before a gather; Step.Number at a flush). It does not look at other rows.
type Replay struct {
	Input     int // rows touched by this slot's batch; -1: all rows
	Weight    *Weights
	Optimizer Optimizer
}

// Update is the step of a weight whose Gradient was written before, and perhaps summed over devices: the optimizer on every
// row, also on those whose gradient is zero.
type Update struct {
	Weight    *Weights
	Optimizer Optimizer
}

// FillKind names a distribution of initial numbers.
type FillKind int32

// With s for Fill.Scale and package random's functions at step 0: FillConstant is s; FillUniform is -s + 2s Uniform, which
// random.FillUniform computes; FillNormal has mean 0 and deviation s, by random.FillNormal.
const (
	FillConstant FillKind = iota
	FillUniform
	FillNormal
)

// Fill writes initial numbers into a matrix. They are defined to the bit: the number at a row and a column is a function of
// kind, scale, seed, stream, row and column.
type Fill struct {
	Kind    FillKind
	Scale   float32
	Seed    uint64
	Stream  uint32
	Rows    int64
	Columns int64
	Out     Buffer // [Rows, Columns]
}

// MaxSources is how many sources an output may have.
const MaxSources = 8

// OutputSource is a hidden layer that feeds an output: z += h W^T.
type OutputSource struct {
	H      Buffer   // [B, K]
	DH     Buffer   // [B, K] gets dL/dh (replaced, or added to with Accumulate); nil = not needed
	Weight *Weights // [I, K]
	// Accumulate adds to DH instead of replacing it.
	Accumulate bool
}

// Output is the widest layer and its loss. For each tile of items, and without ever storing more logits than a tile's,
//
//	z_ui  = sum over sources of h_u . w_i + b_i               (Temperature 0)
//	z_ui  = (h_u/|h_u|) . (w_i/|w_i|) / Temperature + b_i     (cosine logits; one source; a zero vector scores b_i)
//	loss  = sum over u of r_u sum over i of l(z_ui, t_ui)     added to Step.Loss[Term]
//	dz_ui = r_u dl/dz;  dh += dz w;  dw = dz^T h;  then the optimizer's update of w and b
//
// with r_u = Loss.Weight / Step.WholeRows(). OutputStats computes what Softmax needs first: the maximum and the log-sum-exp of each row.
// Targets are sparse: t_ui = 0 where nothing is stored. See Loss for l and dl/dz.
//
// Items may be 0, where a device has no share of them: then both statistics are -Inf, the loss is 0 and so is dh.
//
// With TiedInput >= 0 the rows that slot touches are not updated: their dw goes to TiedGradient, row n for the n-th touched
// item, for Scatter to finish.
type Output struct {
	Name        string // of the layer, for error messages
	Target      int    // slot
	Term        int    // index into Step.Loss
	Items       int64
	Sources     []OutputSource
	Bias        *Weights // [I, 1], nil = none
	Temperature float32
	Loss        Loss
	Stats       Buffer // [B, 2]: maximum, log-sum-exp; nil for losses that need none
	// Continues says that OutputStep runs after OutputStats of the same op and step, and that what OutputStats read and its
	// Workspace are as it left them. So it may use again what it finds there. Only for losses that need statistics.
	Continues    bool
	Optimizer    Optimizer
	TiedInput    int
	TiedGradient Buffer
	Workspace    Buffer
}

// CombineStats makes the statistics of all items out of those of shards of them: the largest maximum, and the logarithm of the
// sum of exp(log-sum-exp) over the shards. A shard without items has -Inf twice.
type CombineStats struct {
	Shards int64
	Stride int64  // rows of a shard's part, at least B
	Parts  Buffer // [Shards, Stride, 2]
	Stats  Buffer // [B, 2]
}

// Scorer is the inference side of an output layer. Its scores are defined to the bit: float64 dot products of the float32
// numbers in the order of Dot, the bias added in float64, rounded to float32 once.
type Scorer struct {
	Items       int64
	Sources     []OutputSource // DH unused
	Bias        *Weights
	Temperature float32
}

// Scores writes the scores of every item: Out[u*Stride + i].
type Scores struct {
	Scorer
	Out       []float32
	Stride    int64
	Workspace Buffer
}

// TopK finds the K best items of each row, best first; of equal scores the lower item is better. NaN scores lose.
// IDs are -1 and scores -Inf where nothing is left. Items may be 0, where a device has no share of them.
type TopK struct {
	Scorer
	K     int64
	First int64 // what IDs count the items from: the number that the first one has among those of all devices
	// Exclude, if >= 0, is the slot whose stored items are left out, row by row.
	Exclude int
	// Allowed, if not nil, has a bit per item (bit i%64 of word i/64, of uint64): only items whose bit is set take part.
	Allowed   Buffer
	IDs       Buffer // int32 [B, K]
	Scores    Buffer // [B, K]
	Workspace Buffer
}

// MergeTopK makes the K best items of all out of those of shards of them, each in the order of TopK and of IDs that no other
// has: best first, of equal scores the lower item, -1 and -Inf where nothing is left. It is what TopK finds on one device, to the bit.
type MergeTopK struct {
	Shards int64
	Each   int64  // how many a shard's lists have
	Stride int64  // rows of a shard's part, at least B
	Parts  Buffer // [Shards, 2, Stride, Each]: int32 IDs, then scores
	K      int64
	IDs    Buffer // int32 [B, K]
	Scores Buffer // [B, K]
}

// RankingMetrics compares the first recommendations of each row with the row's targets, which are the stored items of slot
// Target. Values are defined to the bit: see MetricKind for the formulas, in float64, sums in the order of the ranks.
//
//	Values[u, m] = Metrics[m] of row u; NaN without targets, and for coverage
//	Totals      += over the rows with targets, as MetricTotals lays them out: their number, the sums of Values as FixedPoint,
//	               and for coverage the items recommended
type RankingMetrics struct {
	Metrics []Metric
	Items   int64
	K       int64  // length of the lists: the largest cut-off or, if that is less, Items
	IDs     Buffer // int32 [B, K], distinct, best first, up to the first that is negative
	Target  int
	// Discounts are those of DiscountTable(K): a logarithm has not the same bits in every library.
	Discounts Buffer
	Values    Buffer // float64 [B, metrics], nil: not wanted
	Totals    Buffer
}
