package conformance

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/kernels"
)

// sparseMatrix is the host-side content of a kernels.SparseSource.
type sparseMatrix struct {
	rows, columns, first int64
	dense                []float32 // [rows, columns]
	isStored             bool      // by rows, without the zeros
}

// place puts the matrix on a device.
func (m *sparseMatrix) place(p *place) *kernels.SparseSource {
	s := &kernels.SparseSource{Name: "w", Input: 2, Rows: m.rows, Columns: m.columns, First: m.first}
	if !m.isStored {
		s.Values = p.floats(m.dense)
		return s
	}
	offsets, indices, values := []uint64{0}, []int32{}, []float32{}
	for j := range m.rows {
		for i := range m.columns {
			if x := m.dense[j*m.columns+i]; x != 0 {
				indices, values = append(indices, int32(i)), append(values, x)
			}
		}
		offsets = append(offsets, uint64(len(indices)))
	}
	s.Offsets, s.Indices, s.Values = p.floats(kernels.Bits(offsets)), p.floats(kernels.Bits(indices)), p.floats(values)
	return s
}

// sparseSourceCases are scorers with matrices of several shapes, whole and sharded, of which some columns are empty
// and all rows may be.
func sparseSourceCases(topK bool) (cases []opCase) {
	s := newSampler(37)
	shapes := [][3]int64{{1, 1, 1}, {2, 13, 5}, {7, 1003, 40}, {33, 100, 100}, {5, 4099, 9}, {1, 9001, 17}, {70, 64, 300}}
	for range 90 {
		shape := pick(s, "shape", shapes...)
		m := &sparseMatrix{rows: shape[2], first: pick(s, "first column", int64(0), 3)}
		m.columns = shape[1] + m.first + pick(s, "columns behind", int64(0), 7)
		c := &rankingCase{rows: shape[0], items: shape[1], sparse: m}
		m.dense = s.normal(m.rows*m.columns, 1)
		switch pick(s, "numbers", "normal", "ties", "huge", "tiny", "no entries") {
		case "ties":
			for i := range m.dense {
				m.dense[i] = float32(s.IntN(3) - 1)
			}
		case "huge":
			scaleBy(m.dense, 1e38)
		case "tiny":
			scaleBy(m.dense, 1e-44)
		case "no entries":
			clear(m.dense)
		}
		if m.isStored = pick(s, "matrix", "dense", "stored") == "stored"; m.isStored {
			for i := range m.dense {
				if s.IntN(4) > 0 || i%int(m.columns) == 1 {
					m.dense[i] = 0
				}
			}
		}
		c.rowsOf = s.batch(c.rows, m.rows, pick(s, "rows", "sparse", "gaps", "full", "empty"), false)
		if bias := pick(s, "bias", "none", "normal", "for empty rows"); bias != "none" {
			c.bias, c.ifEmpty = s.normal(c.items, 1), bias == "for empty rows"
		}
		if topK {
			c.draw(s)
		}
		c.title = s.title()
		cases = append(cases, c)
	}
	s.covered()
	return cases
}

// givenCases are scorers whose scores are there already.
func givenCases(topK bool) (cases []opCase) {
	s := newSampler(41)
	for range 30 {
		shape := pick(s, "shape", [2]int64{1, 1}, [2]int64{7, 1003}, [2]int64{33, 100}, [2]int64{2, 9001})
		c := &rankingCase{rows: shape[0], items: shape[1]}
		c.given = s.normal(c.rows*c.items, 1)
		if pick(s, "numbers", "normal", "ties and NaN") != "normal" {
			for i := range c.given {
				c.given[i] = []float32{0, 1, -1, float32(math.NaN())}[s.IntN(4)]
			}
		}
		if topK {
			c.draw(s)
		}
		c.title = s.title()
		cases = append(cases, c)
	}
	s.covered()
	return cases
}

func TestAMatrixHasTheSameScoresDenseAndStored(t *testing.T) {
	forEveryBackend(t, func(t *testing.T, open opener) {
		open = open.reusing()
		for n, each := range sparseSourceCases(false) {
			if spares(open, n) {
				continue
			}
			c := *each.(*rankingCase)
			want, err := c.run(open(2))
			require.NoError(t, err)
			other := *c.sparse
			other.isStored, c.sparse = !other.isStored, &other
			got, err := c.run(open(2))
			require.NoError(t, err)
			require.NoError(t, compare(got, want, nil), c.title)
		}
	})
}

// The sum is 2^25 + 1 - 2^25, which float32 would make 0. The bias is added before rounding.
func TestASparseSourceAddsInFloat64InRisingOrder(t *testing.T) {
	forEveryBackend(t, func(t *testing.T, open opener) {
		c := &rankingCase{
			rows: 1, items: 1, sparse: &sparseMatrix{rows: 4, columns: 1, dense: []float32{1 << 25, 1, -(1 << 25), math.MaxFloat32}},
			rowsOf: &kernels.SparseBatch{Columns: 4, Offsets: []int32{0, 3}, Indices: []int32{0, 1, 2}, Values: []float32{1, 1, 1}},
			bias:   []float32{1.0 / (1 << 20)},
		}
		r, err := c.run(open(1))
		require.NoError(t, err)
		require.Equal(t, float64(1+float32(1.0/(1<<20))), r[0].data[0], fmt.Sprint(r[0].data))
	})
}
