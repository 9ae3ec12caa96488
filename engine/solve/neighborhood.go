package solve

import (
	"math"

	"dsstne/engine/csr"
	"dsstne/engine/model"
	"dsstne/engine/program"
	"dsstne/kernels"
)

// Metric is how item-based neighbourhoods compare items.
type Metric int

// With x_i the column of item i, n_i the number of rows that have it, and h the shrink term:
//
//	Cosine   x_i x_j / (|x_i| |x_j| + h)
//	Jaccard  n_ij / (n_i + n_j - n_ij + h), where n_ij is the number of rows that have both
//	Dice     2 n_ij / (n_i + n_j + h)
//	Dot      x_i x_j
const (
	Cosine Metric = iota
	Jaccard
	Dice
	Dot
)

// MetricWords are the words of the options, by metric.
var MetricWords = []string{"cosine", "jaccard", "dice", "dot"}

// ItemKNN compares items by a metric.
type ItemKNN struct {
	Metric Metric
	Shrink float64
}

// RP3Beta compares items by the probability that a random walk goes from the one to a row and on to the other
// (Christoffel et al., "Blockbusters and Wallflowers", 2015; Paudel et al., 2017):
//
//	w_ij = sum over rows u of (x_ui / d_i)^Alpha (x_uj / d_u)^Alpha / n_j^Beta
//
// where d_i and d_u are the sums of the item's and the row's values, and n_j is the number of rows that have item j.
type RP3Beta struct {
	Alpha, Beta float64
}

// Similarities says how items are compared.
type Similarities interface {
	// least is the smallest value that the data may have.
	least() float64
	// compare fills the numbers by row and item, which are ones.
	compare(byRow, byItem *kernels.SparseMatrix, s *kernels.Similarity)
	// value is what then replaces a value of the matrix.
	value(float32) float32
}

// Neighbors is the method that gives each item the weights of the K items that are most similar to it.
type Neighbors struct {
	K   int64
	How Similarities
	op  *kernels.Neighborhood
}

// pairsOfAStep is about how many pairs of entries a step compares: some hundredths of a second.
const pairsOfAStep = 1 << 24

// Check refuses values that are not finite, or less than the method takes.
func (n *Neighbors) Check(data csr.Source) error { return checkValues(data, n.How.least()) }

// Build adds one operation, which has a block of the items in each step.
func (n *Neighbors) Build(b *program.Builder, data csr.Source) int64 {
	items := data.Columns()
	byRow, byItem := stored(b, data)
	n.op = newNeighborhood(b, data, byRow, byItem, n.K)
	b.Add(n.op)
	b.Note(program.Part{Name: "the model", Bytes: 8*items*n.op.K + 12*(items+1), Device: "host"})
	return parts(items, n.op.Block)
}

// newNeighborhood takes the memory of an operation that finds k neighbours.
func newNeighborhood(
	b *program.Builder, data csr.Source, byRow, byItem kernels.SparseMatrix, k int64,
) *kernels.Neighborhood {
	rows, items, statistics := data.Rows(), data.Columns(), data.Statistics()
	k = min(k, max(1, items-1))
	// An item of mean length whose rows have mean length.
	pairs := float64(statistics.NonZeros) / float64(items) * float64(statistics.NonZeros) / float64(max(1, rows))
	block := min(items, max(64, int64(pairsOfAStep/max(1, pairs))))
	doubles := func(of string, n int64) kernels.Buffer { return b.Alloc("similarity", of, 2*n) }
	op := &kernels.Neighborhood{
		ByRow: byRow, ByItem: byItem,
		Similarity: kernels.Similarity{
			RowWeights: doubles("weights of rows", rows), Left: doubles("factors of items", items),
			Right: doubles("factors of similar items", items), Norms: doubles("norms of items", items),
		},
		Block: block, K: k,
		IDs: b.Alloc("similar items", "numbers", items*k), Similarities: b.Alloc("similar items", "similarities", items*k),
	}
	b.Scratch(&op.Workspace, op)
	return op
}

// Load copies the data, and computes what the similarities are made of.
func (n *Neighbors) Load(data csr.Source) error {
	op := n.op
	if err := csr.Store(data, &op.ByRow, &op.ByItem); err != nil {
		return err
	}
	ones(op.Similarity.RowWeights)
	ones(op.Similarity.Left)
	ones(op.Similarity.Right)
	ones(op.Similarity.Norms)
	n.How.compare(&op.ByRow, &op.ByItem, &op.Similarity)
	for _, m := range []*kernels.SparseMatrix{&op.ByRow, &op.ByItem} {
		values := m.Values.Float32()
		for e, x := range values {
			values[e] = n.How.value(x)
		}
	}
	return nil
}

// Model puts the lists into a sparse matrix of weights between items.
func (n *Neighbors) Model() (*model.Model, error) {
	return itemWeights(&n.op.ByItem, n.op.K, n.op.IDs, n.op.Similarities, func(_, _ int64, similarity float32) float32 {
		return similarity
	})
}

func (ItemKNN) least() float64 { return -math.MaxFloat64 }

func (o ItemKNN) compare(_, byItem *kernels.SparseMatrix, s *kernels.Similarity) {
	norms := kernels.View[float64](s.Norms)
	switch o.Metric {
	case Cosine:
		s.Product, s.Constant = 1, o.Shrink
		sums(byItem, norms, func(x float64) float64 { return x * x })
		for i, square := range norms {
			norms[i] = math.Sqrt(square)
		}
	case Jaccard:
		s.Sum, s.Shared, s.Constant = 1, 1, o.Shrink
		sums(byItem, norms, one)
	case Dice:
		s.Sum, s.Constant = 0.5, o.Shrink/2
		sums(byItem, norms, one)
	case Dot:
		s.Constant = 1
	}
}

func (o ItemKNN) value(x float32) float32 {
	if o.Metric == Jaccard || o.Metric == Dice {
		return 1
	}
	return x
}

func (RP3Beta) least() float64 { return 0 }

func (o RP3Beta) compare(byRow, byItem *kernels.SparseMatrix, s *kernels.Similarity) {
	s.Constant = 1
	of := func(m *kernels.SparseMatrix, to kernels.Buffer, each func(float64) float64, power float64) {
		numbers := kernels.View[float64](to)
		sums(m, numbers, each)
		for i, x := range numbers {
			if x > 0 {
				numbers[i] = math.Pow(x, -power)
			}
		}
	}
	of(byRow, s.RowWeights, same, o.Alpha)
	of(byItem, s.Left, same, o.Alpha)
	of(byItem, s.Right, one, o.Beta)
}

func (o RP3Beta) value(x float32) float32 { return float32(math.Pow(float64(x), o.Alpha)) }

// ones fills a buffer of float64.
func ones(b kernels.Buffer) {
	numbers := kernels.View[float64](b)
	for i := range numbers {
		numbers[i] = 1
	}
}

func one(float64) float64 { return 1 }

func same(x float64) float64 { return x }
