package program

import "dsstne/kernels"

// Port is a layer of a model as its users see it.
type Port struct {
	Name   string
	Kind   string // input, hidden or output, or another word of the model's definition
	Size   int64  // units; those of a layer that reads or scores are items
	Reads  bool   // it takes the rows of a dataset in training and inference
	Scores bool   // it scores items; in training it takes targets
	Scaled bool   // the rows that it reads are divided by their L2 norm
	// Weights are the names of the matrices that a layer that scores has.
	Weights []string
}

// ScoreBytes is about how much memory the scores of a batch take, [rows, items], where operations write them: forms
// that do so bound the rows of a batch.
const ScoreBytes = 1 << 26

// Reach is the devices that can compute what a model scores.
type Reach int

// Several devices each compute their share of the items, one device all of them, or only the host can.
const (
	SeveralDevices Reach = iota
	OneDevice
	HostOnly
)

// String says it in a plan.
func (r Reach) String() string {
	return [...]string{
		"Devices share the items", "One device computes all scores of this model",
		"Only the CPU computes the scores of this model, whatever the devices",
	}[r]
}

// Matrix is a matrix among a model's tensors.
type Matrix struct {
	Name          string
	Rows, Columns int64
	// Sparse: tensors Name + ".offsets", ".indices" and ".values" are the matrix in compressed rows; otherwise Name is.
	Sparse bool
	// ByItems: row j has the scores that having item j gives to all items.
	ByItems bool
	Storage kernels.Storage // of a dense one
}

// Names of the tensors of a sparse matrix, behind that of the matrix.
const (
	offsetsOf = ".offsets" // int64 [Rows + 1]
	indicesOf = ".indices" // int32, ascending in each row
	valuesOf  = ".values"
)

// Tensors are the tensors of a matrix; entries counts those of a sparse one. Columns count numbers of 4 bytes, or of
// the storage.
func (m Matrix) Tensors(entries int64) []Tensor {
	if !m.Sparse {
		return []Tensor{{Name: m.Name, Rows: m.Rows, Columns: m.Columns, Storage: m.Storage}}
	}
	return []Tensor{
		{Name: m.Name + offsetsOf, Rows: m.Rows + 1, Columns: 2}, {Name: m.Name + indicesOf, Rows: entries, Columns: 1},
		{Name: m.Name + valuesOf, Rows: entries, Columns: 1},
	}
}

// Source is what scores by the matrix and the rows of a slot, from a column on; buffer finds the tensors.
func (m Matrix) Source(slot int, first int64, buffer func(name string) kernels.Buffer) *kernels.SparseSource {
	s := &kernels.SparseSource{Name: m.Name, Input: slot, Rows: m.Rows, Columns: m.Columns, First: first}
	if !m.Sparse {
		s.Values = buffer(m.Name)
		return s
	}
	s.Offsets, s.Indices, s.Values = buffer(m.Name+offsetsOf), buffer(m.Name+indicesOf), buffer(m.Name+valuesOf)
	return s
}
