package kernels

import "fmt"

// Scorer is how a model scores items. Its scores are defined to the bit: float64 dot products of the float32 numbers
// in the order of Dot, or the float64 sums of a SparseSource; the bias is added in float64, and the sum rounded to
// float32 once.
type Scorer struct {
	Items       int64
	Sources     []OutputSource // DH unused
	Sparse      *SparseSource  // instead of Sources
	IsGiven     bool           // instead of both: operations have computed the scores; there is no bias
	Given       Buffer         // [B, Items]: these scores
	Bias        *Weights
	Temperature float32 // 0 with Sparse and Given
}

// SparseSource scores items by the stored entries of a row x of a batch and a matrix W that has a row for each of its
// columns:
//
//	z_ui = sum over the stored j of row u, ascending, of x_uj W[j, First + i]
//
// in float64. Products of two float32 are exact there, so fused and separate multiply-add give the same bits; and
// since the sum begins with +0, entries of W that are 0 change nothing: stored or not, the bits are the same.
type SparseSource struct {
	Name    string
	Input   int   // slot of the rows
	Rows    int64 // of W
	Columns int64
	First   int64  // the column of W that is the scorer's first item
	Values  Buffer // [Rows, Columns] or, with Offsets, one for each entry
	// Offsets, if not nil, say that W is in compressed row form: int64 [Rows + 1], from 0 to the number of entries.
	// Indices are the columns of the entries, int32, ascending in each row.
	Offsets, Indices Buffer
	BiasIfEmpty      bool // the scorer's bias counts for rows without stored entries only
}

// Scores writes the scores of every item: Out[u*Stride + i]. As an operation of a list it has a Name, and writes to a
// buffer of the device instead: To[u, i].
type Scores struct {
	Scorer
	Out       []float32
	Stride    int64
	Name      string // of what has the scores
	To        Buffer // [B, Items]
	Workspace Buffer
}

// InList reports whether the operation stands in a list. To itself is nil in a plan.
func (o *Scores) InList() bool { return o.Name != "" }

// Matrix is where the scores go, on a device that computes in the host's memory.
func (o *Scores) Matrix() (out []float32, stride int64) {
	if o.InList() {
		return o.To.Float32(), o.Items
	}
	return o.Out, o.Stride
}

func (o *Scores) Do(r Rank, s *Step) error { return r.Device.Scores(o, s) }
func (o *Scores) String() string           { return fmt.Sprintf("Scores of %s for %d items", o.Name, o.Items) }

// TopK finds the K best items of each row, best first; of equal scores the lower item is better. NaN scores lose.
// IDs are -1 and scores -Inf where nothing is left. Items may be 0, where a device has no share of them.
type TopK struct {
	Scorer
	K     int64
	First int64 // what IDs count the items from: the number that the first one has among those of all devices
	// Exclude, if >= 0, is the slot whose stored items are left out, row by row.
	Exclude int
	// Allowed, if not nil, has a bit per item (bit i%64 of word i/64, of uint64): only items whose bit is set take part.
	Allowed Buffer
	// Screening, if not nil, is what Screener.Screen has made of the weights: it makes the ranking faster.
	Screening Buffer
	IDs       Buffer // int32 [B, K]
	Scores    Buffer // [B, K]
	Workspace Buffer
}

// Screener is a Device that ranks faster with a copy of a scorer's weights in a form of its own, which tells it cheaply
// which items need no score. The copy stays from step to step.
type Screener interface {
	// ScreeningSize is how many elements of 4 bytes the copy takes for rankings of batches of some rows, 0 if the device
	// has no use for one.
	ScreeningSize(s *Scorer, rows int64) int64
	// Screen makes the copy. It is to be made again when the weights or the bias have changed.
	Screen(s *Scorer, to Buffer) error
}

func (o *TopK) Do(r Rank, s *Step) error { return r.Device.TopK(o, s) }
func (o *TopK) String() string {
	text := fmt.Sprintf("TopK %d of %d items", o.K, o.Items)
	if s := o.Sparse; s != nil {
		text += fmt.Sprintf(" <- %s[%d, %d]", s.Name, s.Rows, s.Columns)
	}
	return text
}

// MergeTopK makes the K best items of all out of those of shards of them, each in the order of TopK and of IDs that no
// other has: best first, of equal scores the lower item, -1 and -Inf where nothing is left. It is what TopK finds on
// one device, to the bit.
type MergeTopK struct {
	Shards int64
	Each   int64  // how many a shard's lists have
	Stride int64  // rows of a shard's part, at least B
	Parts  Buffer // [Shards, 2, Stride, Each]: int32 IDs, then scores
	K      int64
	IDs    Buffer // int32 [B, K]
	Scores Buffer // [B, K]
}

func (o *MergeTopK) Do(r Rank, s *Step) error { return r.Device.MergeTopK(o, s) }
func (o *MergeTopK) String() string {
	return fmt.Sprintf("MergeTopK %d of %d x %d", o.K, o.Shards, o.Each)
}

// RankingMetrics compares the first recommendations of each row with the row's targets, which are the stored items of
// slot Target. Values are defined to the bit: see MetricKind for the formulas, in float64, sums in the order of the
// ranks.
//
//	Values[u, m] = Metrics[m] of row u; NaN without targets, and for coverage
//	Totals      += over the rows with targets, as MetricTotals lays them out: their number, the sums of Values as
//	               FixedPoint, and for coverage the items recommended
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

func (o *RankingMetrics) Do(r Rank, s *Step) error { return r.Device.RankingMetrics(o, s) }
func (o *RankingMetrics) String() string {
	return fmt.Sprintf("RankingMetrics, %d of them", len(o.Metrics))
}
