package csr_test

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/engine/csr"
	"dsstne/internal/fault"
	"dsstne/kernels"
)

// FuzzMatrix reads any offsets, indices and values: validated or not, a matrix never gives an entry that is not in it.
func FuzzMatrix(f *testing.F) {
	f.Add(int64(10), byte(0), []byte{0, 2, 2, 5}, []byte{2, 5, 0, 2, 9}, []byte{1, 2, 3, 4, 5})
	f.Add(int64(3), byte(7), []byte{0, 3, 2}, []byte{2, 1, 255}, []byte{127, 0, 200})
	f.Add(int64(1), byte(5), []byte{}, []byte{}, []byte{})
	f.Fuzz(func(t *testing.T, columns int64, widths byte, offsets, indices, values []byte) {
		p := fuzzParts(columns, widths, offsets, indices, values)
		m, err := csr.New(p)
		if err != nil {
			return
		}
		invalid := m.Validate(csr.ValidateOptions{Threads: 1 + int(widths>>6)})
		readable := true
		for row := range m.Rows() {
			var e csr.Entries
			if err := m.AppendRow(&e, row); err != nil {
				require.Equal(t, fault.InvalidData, fault.KindOf(err))
				readable = false
				continue
			}
			previous := int32(-1)
			for i, column := range e.Indices {
				require.Greater(t, column, previous)
				require.Less(t, int64(column), m.Columns())
				require.NotZero(t, e.Values[i])
				require.False(t, math.IsInf(float64(e.Values[i]), 0) || math.IsNaN(float64(e.Values[i])))
				previous = column
			}
		}
		if invalid != nil {
			require.Equal(t, fault.InvalidData, fault.KindOf(invalid))
			require.False(t, readable, "a matrix whose rows can all be read is valid")
		}
		fuzzBatch(t, m, readable)
	})
}

// fuzzBatch reads the whole matrix as a batch.
func fuzzBatch(t *testing.T, m *csr.Matrix, readable bool) {
	rows := make([]int64, m.Rows())
	for i := range rows {
		rows[i] = int64(i)
	}
	r := csr.Reader{Source: m, Scaling: true, Denoising: 0.5}
	var out kernels.SparseBatch
	err := r.Batch(rows, 1, true, &out)
	require.Equal(t, readable, err == nil)
	requireOrdersAgree(t, &out)
	_, _, _, _ = csr.FirstOutside(m, 0, 1)
	require.LessOrEqual(t, csr.MaxBatchEntries(m, 1), csr.MaxBatchEntries(m, 2))
}

// fuzzParts makes numbers out of bytes; small ones are likely and extreme ones possible.
func fuzzParts(columns int64, widths byte, offsets, indices, values []byte) csr.Parts {
	p := csr.Parts{Columns: columns}
	if widths&1 == 0 {
		p.Offsets32 = numbers[int32](offsets)
	} else {
		p.Offsets64 = numbers[int64](offsets)
	}
	if widths&2 == 0 {
		p.Indices32 = numbers[int32](indices)
	} else {
		p.Indices64 = numbers[int64](indices)
	}
	entries := len(p.Indices32) + len(p.Indices64)
	all := make([]uint64, entries)
	for i := range entries {
		bits := uint64(i)
		if len(values) >= 8 {
			bits = binary.LittleEndian.Uint64(values[i%(len(values)-7):])
		}
		all[i] = bits
		switch widths >> 2 & 3 {
		case 0:
			p.Values32 = append(p.Values32, math.Float32frombits(uint32(bits)))
		case 1:
			p.Values64 = append(p.Values64, math.Float64frombits(bits))
		}
	}
	if widths>>2&3 == 2 {
		p.Others = []csr.Values{
			csr.HalvesOf(narrowed[uint16](all)), csr.ValuesOf(narrowed[int8](all)), csr.ValuesOf(narrowed[uint32](all)),
			csr.ValuesOf(narrowed[int64](all)),
		}[widths>>4&3]
	}
	return p
}

// FuzzIndexed reads rows by an index of any numbers, which then becomes one of any others.
func FuzzIndexed(f *testing.F) {
	f.Add([]byte{0, 2, 1, 2}, []byte{0, 1, 2, 0})
	f.Add([]byte{1, 1}, []byte{255, 3})
	f.Add([]byte{7}, []byte{})
	f.Fuzz(func(t *testing.T, before, after []byte) {
		m := opened(t, small())
		list := numbers[int64](before)
		valid := !slices.ContainsFunc(list, func(row int64) bool { return row < 0 || row >= m.Rows() })
		x, err := csr.NewIndexed(m, list, 1)
		require.Equal(t, valid, err == nil)
		if err != nil {
			require.Equal(t, fault.InvalidArgument, fault.KindOf(err))
			require.NoError(t, m.Close())
			return
		}
		most := csr.MaxBatchEntries(x, x.Rows())
		copy(list, numbers[int64](after))
		r := csr.Reader{Source: x, Limit: max(1, most)}
		var out kernels.SparseBatch
		if err := r.Batch(upTo(x.Rows()), 1, true, &out); err != nil {
			require.Equal(t, fault.InvalidData, fault.KindOf(err))
		}
		requireOrdersAgree(t, &out)
	})
}

func numbers[I int32 | int64](bytes []byte) []I {
	all := make([]I, len(bytes))
	for i, b := range bytes {
		switch {
		case b < 250:
			all[i] = I(b)
		case b < 253:
			all[i] = I(-int64(b))
		default:
			all[i] = I(1)<<31 + I(b)<<24
		}
	}
	return all
}
