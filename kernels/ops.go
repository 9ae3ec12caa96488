package kernels

import "fmt"

// ActivationKind names a function that a layer applies to its sums z.
type ActivationKind int32

const (
	// Linear: z.
	Linear ActivationKind = iota
	// Sigmoid: 1 / (1 + exp(-z)).
	Sigmoid
	// Tanh: tanh(z).
	Tanh
	// ReLU: max(0, z).
	ReLU
	// ELU: z for z > 0, else Alpha (exp(z) - 1). (Clevert et al., 2016)
	ELU
	// SELU: SELUScale z for z > 0, else SELUScale SELUAlpha (exp(z) - 1). (Klambauer et al., 2017)
	SELU
	// LeakyReLU: z for z > 0, else Alpha z. (Maas et al., 2013)
	LeakyReLU
	// Softplus: ln(1 + exp(z)).
	Softplus
	// Softsign: z / (1 + |z|). (Bergstra et al., 2009)
	Softsign
	// GELU: z times the probability that a standard normal number is below z. (Hendrycks and Gimpel, 2016)
	GELU
	// SiLU: z / (1 + exp(-z)). (Elfwing et al., 2017)
	SiLU
)

// SlopeNeedsSum reports whether the derivative is computed from the sum z, because two sums may have the same value.
// That of the other functions follows from the value: they can be inverted where their derivative is not constant.
// SLOPE_NEEDS_SUM of kinds.h is the same.
func (k ActivationKind) SlopeNeedsSum() bool { return k >= GELU }

// Activation is a function that a layer applies to its sums.
type Activation struct {
	Kind  ActivationKind
	Alpha float32 // of ELU and LeakyReLU, at least 0
}

// HasAlpha reports whether the function depends on Alpha.
func (a Activation) HasAlpha() bool { return a.Kind == ELU || a.Kind == LeakyReLU }

func (a Activation) String() string {
	if a.HasAlpha() {
		return fmt.Sprintf("%v(%g)", a.Kind, a.Alpha)
	}
	return a.Kind.String()
}

// SELUScale and SELUAlpha make mean 0 and variance 1 a stable fixed point from layer to layer.
const (
	SELUScale = 1.0507009873554804934
	SELUAlpha = 1.6732632423543772848
)

// Op is an operation with everything bound that does not change from step to step. A program is a list of them.
type Op interface {
	// Do does the operation on a rank.
	Do(Rank, *Step) error
	// String describes it in a line of the plan.
	String() string
}

// Rank is one of the devices that a program runs on, and its connection to the others: nil where there is only one.
type Rank struct {
	Device       Device
	Communicator Communicator
}

// Weights is a trainable matrix with the state of its optimizer. A bias is a matrix of one column.
type Weights struct {
	Name    string // for error messages: "hidden1.weight"
	Rows    int64
	Columns int64
	Value   Buffer    // [Rows, Columns]
	Storage Storage   // of Value; only the sources of a Scorer may have another than float32
	Skip    int64     // numbers in Value before the first, 0 or 1, see Storage.Slice
	State   [2]Buffer // Optimizer.States() of them, [Rows, Columns] each
	Last    Buffer    // int32 [Rows]: the row's last update, 0 = none yet; nil: every step updates every row
	// Gradient, if not nil, receives the whole gradient [Rows, Columns] instead of an update being made.
	Gradient Buffer
	// Rounded, if not nil, is a copy of Value as the device's products read it, see Rounder. Round makes it, and
	// operations that update the weight keep it.
	Rounded Buffer
	NoDecay bool // weight decay and L1 do not apply (biases)
	// Locked: DenseBackward and OutputStep leave the weight as it is, compute no gradient with respect to it, and need no
	// State. Operations whose only result is an update of the weight do not take it.
	Locked bool
}

func (w *Weights) String() string {
	text := fmt.Sprintf("%s[%d, %d]", w.Name, w.Rows, w.Columns)
	if w.Locked {
		text += " (locked)"
	}
	return text
}

// Step is what changes from one step to the next. All ops of a step read the same record.
type Step struct {
	Number  int64 // counts from 1; random numbers and optimizers depend on it
	Rows    int64 // B, examples in this batch
	MaxRows int64 // those of the largest batch, which buffers have room for; 0: Rows
	// A batch may be a part of a larger one: it begins at row First of it, and that has Whole rows, 0 for Rows. Dropout,
	// denoising and the weight of a row in the loss are those of the whole.
	First, Whole int64
	Training     bool // false: no dropout, and ops that update must not be called
	Seed         uint64
	Sparse       []*SparseBatch // by slot: the batch of each bound input or target layer
	Order        []int64        // the rows of the data that the batch is made of, where Assemble makes one
	// Rates[n - RatesFrom] are the rates of step n, up to this step; older steps are needed by replays. They
	// do not change but at the end, as long as RatesFrom does not.
	Rates     []Rates
	RatesFrom int64
	// TermFactors multiply the weights of the losses at this step, by output; nil: by 1.
	TermFactors []float32
	// RowWeights multiply the loss of each row of the batch, by output and row; nil, or nil for an output: by 1.
	RowWeights [][]float32
	Loss       []float64 // by output, then by penalty: what operations add of the loss
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

// TermWeight is the weight of a loss at this step.
func (s *Step) TermWeight(term int, l Loss) float32 {
	if s.TermFactors == nil {
		return l.Weight
	}
	return l.Weight * s.TermFactors[term]
}

// WeightsOfRows are those of an output, by row; nil: all are 1.
func (s *Step) WeightsOfRows(term int) []float32 {
	if s.RowWeights == nil {
		return nil
	}
	return s.RowWeights[term]
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
	// by item: Items are the distinct indices, ascending; the entries of Items[j] are ItemOffsets[j] .. ItemOffsets[j+1]
	// of ItemRows (ascending) and ItemValues
	Items       []int32
	ItemOffsets []int32
	ItemRows    []int32
	ItemValues  []float32
}

// FillKind names a distribution of initial numbers.
type FillKind int32

// With s for Fill.Scale and package random's functions at step 0: FillConstant is s; FillUniform is -s + 2s Uniform,
// which random.FillUniform computes; FillNormal has mean 0 and deviation s, by random.FillNormal.
const (
	FillConstant FillKind = iota
	FillUniform
	FillNormal
)

// Fill writes initial numbers into a matrix. They are defined to the bit: the number at a row and a column is a
// function of kind, scale, seed, stream, row and column.
type Fill struct {
	Kind    FillKind
	Scale   float32
	Seed    uint64
	Stream  uint32
	Rows    int64
	Columns int64
	Out     Buffer // [Rows, Columns]
}
