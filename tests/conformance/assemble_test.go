package conformance

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/engine/csr"
	"dsstne/internal/fault"
	"dsstne/kernels"
)

// assembleCase is a batch of a matrix.
type assembleCase struct {
	name      string
	parts     csr.Parts
	index     []uint32 // that chooses rows of the parts; nil: all, in order
	order     []int64
	before    int64 // rows of a larger batch that come before these
	scaled    bool
	denoising float32
	shards    int64
	rowsOnly  bool
}

// matrixOf draws a matrix of rows that are not sorted, with duplicates, stored zeros and empty rows, in 32 or 64 bits.
func matrixOf(seed uint64, rows int, columns int64, perRow int, wide bool) csr.Parts {
	rng := rand.New(rand.NewPCG(seed, 7))
	p := csr.Parts{Columns: columns}
	offsets, indices, values := []int64{0}, []int64{}, []float64{}
	for u := range rows {
		for range perRow * min(u%4, 2) / 2 { // some rows are empty, others have half or all of it
			indices = append(indices, rng.Int64N(columns))
			values = append(values, float64(rng.IntN(9)-3)/8+float64(rng.IntN(2))*rng.Float64())
		}
		offsets = append(offsets, int64(len(indices)))
	}
	if wide {
		p.Offsets64, p.Indices64, p.Values64 = offsets, indices, values
		return p
	}
	p.Offsets32, p.Indices32, p.Values32 = narrow[int32](offsets), narrow[int32](indices), narrow[float32](values)
	return p
}

func narrow[To, From int32 | int64 | float32 | float64](x []From) []To {
	y := make([]To, len(x))
	for i := range x {
		y[i] = To(x[i])
	}
	return y
}

// withoutValues is a matrix that only says what is there.
func withoutValues(p csr.Parts) csr.Parts {
	p.Values32, p.Values64 = nil, nil
	return p
}

// allOnes has the value 1 everywhere, in rows without duplicates.
func allOnes(rows, columns int) csr.Parts {
	p := csr.Parts{Columns: int64(columns), Offsets32: []int32{0}, Indices32: []int32{}, Values32: []float32{}}
	for u := range rows {
		for i := u % 3; i < columns; i += 3 {
			p.Indices32, p.Values32 = append(p.Indices32, int32(i)), append(p.Values32, 1)
		}
		p.Offsets32 = append(p.Offsets32, int32(len(p.Indices32)))
	}
	return p
}

func upTo(n int64) (rows []int64) {
	for i := range n {
		rows = append(rows, (i*7+3)%n)
	}
	return rows
}

// repeats is n numbers of rows, in no order.
func repeats(rows, n int) (index []uint32) {
	rng := rand.New(rand.NewPCG(5, 5))
	for range n {
		index = append(index, uint32(rng.IntN(rows)))
	}
	return index
}

func assembleCases() (cases []assembleCase) {
	s := newSampler(51)
	// Beside a value that is 1e38 times as large the others underflow when the row is scaled.
	uneven := csr.Parts{Columns: 4, Offsets32: []int32{0, 3, 4}, Indices32: []int32{0, 1, 3, 2}, Values32: []float32{1e-20, 1e30, -1e-30, 3}}
	matrices := []assembleCase{
		{name: "unsorted, duplicates, zeros", parts: matrixOf(1, 40, 60, 30, false), order: upTo(37)},
		{name: "64 bits", parts: matrixOf(2, 40, 300, 30, true), order: upTo(37)},
		{name: "without values", parts: withoutValues(matrixOf(3, 30, 50, 40, true)), order: upTo(23)},
		{name: "ones", parts: allOnes(19, 40), order: upTo(19)},
		{name: "rows that repeat", parts: matrixOf(4, 9, 20, 10, false), order: []int64{3, 3, 2, 8, 3, 0, 2, 2, 3, 7}},
		{name: "all rows empty", parts: csr.Parts{Columns: 9, Offsets32: []int32{0, 0, 0, 0}, Indices32: []int32{}}, order: upTo(3)},
		{name: "one item", parts: matrixOf(5, 12, 1, 3, false), order: upTo(11)},
		{name: "one row", parts: matrixOf(6, 4, 500, 200, false), order: []int64{2}},
		{name: "more items than 2^24", parts: matrixOf(7, 12, 1<<25+11, 50, true), order: upTo(11)},
		{name: "several tiles of the sort", parts: matrixOf(8, 30, 5000, 400, false), order: upTo(29)},
		{name: "rows longer than a tile", parts: matrixOf(9, 4, 1<<20, 3000, false), order: upTo(4)},
		{name: "more rows than threads scan", parts: matrixOf(10, 1100, 70, 2, false), order: upTo(1091)},
		{name: "an index", parts: matrixOf(11, 9, 40, 20, false), index: repeats(9, 300), order: upTo(299)},
		{name: "an index of few rows", parts: matrixOf(12, 90, 40, 20, true), index: repeats(90, 30), order: upTo(30)},
		{name: "underflow", parts: uneven, order: []int64{1, 0, 0}},
	}
	for _, c := range matrices {
		for range 2 {
			c.scaled, c.denoising = pick(s, "scaled", false, true), pick(s, "denoising", float32(0), 0.5)
			c.shards, c.rowsOnly = pick(s, "shards", int64(1), 1, 3), pick(s, "rows only", false, false, true)
			d := c
			d.name = c.name + ": " + s.title()
			cases = append(cases, d)
		}
	}
	s.covered()
	return cases
}

// forEveryKeepingBackend runs a test on the backends whose devices keep data.
func forEveryKeepingBackend(t *testing.T, test func(t *testing.T, d kernels.Keeper)) {
	forEveryBackend(t, func(t *testing.T, open opener) {
		d, keeps := open(1).(kernels.Keeper)
		if !keeps {
			t.Skip("its ops read the host's memory")
		}
		test(t, d)
	})
}

func TestABatchMadeOnTheDeviceHasTheBitsOfTheReader(t *testing.T) {
	t.Parallel()
	forEveryKeepingBackend(t, func(t *testing.T, d kernels.Keeper) {
		for _, c := range assembleCases() {
			m := source(t, c)
			reader := &csr.Reader{
				Source: m, Scaling: c.scaled, Denoising: c.denoising, Seed: 0x1234567890abcdef, Stream: 77, RowsOnly: c.rowsOnly,
			}
			whole := &kernels.SparseBatch{}
			require.NoError(t, reader.Batch(c.order, 5, true, whole), c.name)
			entries := int64(0)
			for _, row := range c.order {
				entries += m.RowLength(row)
			}
			for shard := range c.shards {
				first, end := m.Columns()*shard/c.shards, m.Columns()*(shard+1)/c.shards
				want := &kernels.SparseBatch{}
				if c.rowsOnly {
					csr.ShardRows(whole, first, end, want)
				} else {
					csr.Shard(whole, first, end, want)
				}
				if c.denoising > 0 && c.shards > 1 {
					want.RowSum = make([]float32, len(c.order)) // which shards of denoised batches have not
				}
				got, err := assembled(d, m, c, first, end, entries)
				require.NoError(t, err, c.name)
				requireSameBatch(t, want, got, fmt.Sprintf("%s, items %d to %d", c.name, first, end))
			}
			if c.rowsOnly {
				continue
			}
			part, from, to := c, int64(len(c.order))/3, int64(len(c.order))-1
			part.order, part.before = c.order[from:to], from
			want := &kernels.SparseBatch{}
			csr.PartOf(whole, from, to, want)
			got, err := assembled(d, m, part, 0, m.Columns(), entries)
			require.NoError(t, err, c.name)
			requireSameBatch(t, want, got, fmt.Sprintf("%s, rows %d to %d", c.name, from, to))
		}
	})
}

// source is the rows of a case.
func source(t *testing.T, c assembleCase) csr.Source {
	t.Helper()
	m := open(t, c.parts)
	if c.index == nil {
		return m
	}
	x, err := csr.NewIndexed(m, c.index, 1)
	require.NoError(t, err)
	return x
}

func open(t *testing.T, p csr.Parts) *csr.Matrix {
	t.Helper()
	m, err := csr.New(p)
	require.NoError(t, err)
	require.NoError(t, m.Validate(csr.ValidateOptions{Threads: 1}))
	return m
}

// assembled makes the batch on a device, with room for the given number of entries, and reads it back.
func assembled(d kernels.Keeper, m csr.Source, c assembleCase, first, end, entries int64) (*kernels.SparseBatch, error) {
	p := &place{device: d}
	defer p.free()
	data, err := csr.DeviceData(m, first, end, c.scaled)
	if err != nil {
		return nil, err
	}
	kept, err := d.Keep(&data)
	if err != nil {
		return nil, err
	}
	defer kept.Free()
	op := &kernels.Assemble{
		Name: "input", Slots: []int{1}, Data: kept, Scaled: c.scaled, Denoising: c.denoising, Stream: 77,
		Places: kernels.PlacesOf(int64(len(c.order))+2, entries, end-first, c.rowsOnly),
	}
	op.Batch = p.floats(make([]float32, op.Places.Total))
	op.Workspace = p.workspace(op, op.Places.Rows)
	step := &kernels.Step{
		Number: 5, Rows: int64(len(c.order)), MaxRows: op.Places.Rows, First: c.before, Training: true, Seed: 0x1234567890abcdef, RatesFrom: 5,
		Order: c.order, Sparse: []*kernels.SparseBatch{nil, {}},
	}
	if err := d.Assemble(op, step); err != nil {
		return nil, err
	}
	return fetched(op, end-first, len(c.order)), nil
}

// fetched reads a batch that a device has made.
func fetched(op *kernels.Assemble, columns int64, rows int) *kernels.SparseBatch {
	all := contents(op.Batch)
	p := op.Places
	whole := func(at int64, n int) []int32 { return integers(all[at : at+int64(n)]) }
	counts := whole(p.Counts, 2)
	n, items := int(counts[0]), int(counts[1])
	b := &kernels.SparseBatch{
		Columns: columns, Offsets: whole(p.Offsets, rows+1), Indices: whole(p.Indices, n), Values: all[p.Values:][:n], RowSum: all[p.RowSum:][:rows],
	}
	if !p.RowsOnly {
		b.Items, b.ItemOffsets = whole(p.Items, items), whole(p.ItemOffsets, items+1)
		b.ItemRows, b.ItemValues = whole(p.ItemRows, n), all[p.ItemValues:][:n]
	}
	return b
}

// integers are the bits of numbers.
func integers(x []float32) []int32 {
	bits := make([]int32, len(x))
	for i := range x {
		bits[i] = int32(math.Float32bits(x[i]))
	}
	return bits
}

func requireSameBatch(t *testing.T, want, got *kernels.SparseBatch, name string) {
	t.Helper()
	require.Equal(t, want.Columns, got.Columns, name)
	require.Equal(t, want.Offsets, got.Offsets, name)
	for part, pair := range map[string][2][]int32{
		"indices": {want.Indices, got.Indices}, "items": {want.Items, got.Items}, "item offsets": {want.ItemOffsets, got.ItemOffsets},
		"item rows": {want.ItemRows, got.ItemRows}, "values": {integers(want.Values), integers(got.Values)},
		"item values": {integers(want.ItemValues), integers(got.ItemValues)}, "sums": {integers(want.RowSum), integers(got.RowSum)},
	} {
		require.Equal(t, append([]int32{}, pair[0]...), append([]int32{}, pair[1]...), "%s: %s", name, part)
	}
}

func TestABatchWithMoreEntriesThanPlannedIsAnError(t *testing.T) {
	forEveryKeepingBackend(t, func(t *testing.T, d kernels.Keeper) {
		m := open(t, allOnes(6, 30))
		c := assembleCase{order: []int64{0, 1, 2, 3}}
		_, err := assembled(d, m, c, 0, 30, 40)
		require.NoError(t, err)
		_, err = assembled(d, m, c, 0, 30, 39)
		require.Equal(t, fault.InvalidData, fault.KindOf(err))
		require.ErrorContains(t, err, `layer "input": a batch holds more than the 39 entries`)
	})
}

func TestARowThatTheDataHaveNotIsAnError(t *testing.T) {
	forEveryKeepingBackend(t, func(t *testing.T, d kernels.Keeper) {
		for _, row := range []int64{-1, 6, 1 << 40} {
			_, err := assembled(d, open(t, allOnes(6, 30)), assembleCase{order: []int64{0, row}}, 0, 30, 40)
			require.Equal(t, fault.InvalidArgument, fault.KindOf(err))
		}
	})
}

func TestAnIndexThatChangesNeverReachesADevice(t *testing.T) {
	forEveryKeepingBackend(t, func(t *testing.T, d kernels.Keeper) {
		for _, row := range []int32{-1, 6, 1 << 30} {
			list := make([]int32, 70)
			x, err := csr.NewIndexed(open(t, allOnes(6, 30)), list, 1)
			require.NoError(t, err)
			data, err := csr.DeviceData(x, 0, 30, false)
			require.NoError(t, err)
			list[33] = row
			_, err = d.Keep(&data)
			require.Equal(t, fault.InvalidData, fault.KindOf(err))
			require.ErrorContains(t, err, "index[33] became ")
		}
	})
}

func TestAnIndexOutOfRangeNeverReachesADevice(t *testing.T) {
	forEveryKeepingBackend(t, func(t *testing.T, d kernels.Keeper) {
		for _, change := range []func(*csr.Parts){
			func(p *csr.Parts) { p.Indices32[17] = 30 },
			func(p *csr.Parts) { p.Indices32[17] = -5 },
			func(p *csr.Parts) { p.Offsets32[3] = 1000 },
			func(p *csr.Parts) { p.Values32[4] = 2 },
		} {
			p := allOnes(6, 30)
			m := open(t, p)
			data, err := csr.DeviceData(m, 0, 30, false)
			require.NoError(t, err)
			change(&p) // after the check
			_, err = d.Keep(&data)
			require.Equal(t, fault.InvalidData, fault.KindOf(err))
			require.ErrorContains(t, err, "row ")
		}
	})
}
