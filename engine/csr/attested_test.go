package csr_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/engine/csr"
	"dsstne/internal/fault"
)

// recordOf is a matrix of 40 rows, whose row n has n%3 entries, and its record.
func recordOf(t *testing.T) (*csr.Blocks, csr.Record) {
	p := csr.Parts{Columns: 5, Offsets64: []int64{0}, Indices32: []int32{}, Values32: []float32{}}
	for row := range 40 {
		for n := range row % 3 {
			p.Indices32, p.Values32 = append(p.Indices32, int32(n)), append(p.Values32, float32(row+n))
		}
		p.Offsets64 = append(p.Offsets64, int64(len(p.Indices32)))
	}
	blocks := joined(t, []csr.Parts{p}, nil)
	r := csr.Record{Name: "data", Minimum: 1, Maximum: 39, Lengths: []csr.Lengths{{2, 13}, {1, 13}, {0, 14}}}
	for first := int64(0); first < 40; first += csr.GroupRows {
		var e csr.Entries
		require.NoError(t, blocks.Read(upTo(min(first+csr.GroupRows, 40))[first:], &e))
		r.Digests = append(r.Digests, e.Digest()...)
	}
	return blocks, r
}

func TestARecordMustBeOfTheRows(t *testing.T) {
	blocks, r := recordOf(t)
	a := csr.Attest(blocks, r)
	require.NotNil(t, a)
	want, got := blocks.Statistics(), a.Statistics()
	require.Equal(t, want, got)
	require.NoError(t, a.Read(upTo(40), new(csr.Entries)))
	for name, lengths := range map[string][]csr.Lengths{
		"too few rows":     {{2, 13}, {1, 13}},
		"too many rows":    {{2, 13}, {1, 13}, {0, 15}},
		"other entries":    {{2, 14}, {1, 12}, {0, 14}},
		"not descending":   {{1, 13}, {2, 13}, {0, 14}},
		"negative lengths": {{3, 13}, {0, 14}, {-1, 13}},
		"no rows":          {{2, 13}, {1, 13}, {0, 0}},
		"an overflow":      {{1 << 62, 4}, {2, 13}, {1, 13}, {0, 10}},
	} {
		bad := r
		bad.Lengths = lengths
		require.Nil(t, csr.Attest(blocks, bad), name)
	}
	r.Digests = r.Digests[1:]
	require.Nil(t, csr.Attest(blocks, r))
}

func TestRowsThatTheirRecordDoesNotDescribeAreFoundWhenTheyAreRead(t *testing.T) {
	for name, change := range map[string]func(r *csr.Record){
		"a digest":  func(r *csr.Record) { r.Digests[0] ^= 1 },
		"a minimum": func(r *csr.Record) { r.Minimum = 2 },
		"a maximum": func(r *csr.Record) { r.Maximum = 10 },
		"a length":  func(r *csr.Record) { r.Lengths = []csr.Lengths{{1, 39}, {0, 1}} },
	} {
		blocks, r := recordOf(t)
		change(&r)
		a := csr.Attest(blocks, r)
		require.NotNil(t, a, name)
		var e csr.Entries
		err := a.Read([]int64{1}, &e)
		require.Contains(t, refusal(t, fault.CorruptFile, err), "data: rows 0 to 15 are not those that were saved", name)
		require.Empty(t, e.Indices)
	}
}
