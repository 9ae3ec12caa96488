package csr_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/engine/csr"
	"dsstne/internal/fault"
)

// sickDisk is a file whose disk fails while sick is true.
type sickDisk struct {
	bytes.Reader
	sick bool
}

func (d *sickDisk) ReadAt(p []byte, at int64) (int, error) {
	if d.sick {
		return 0, errors.New("input/output error")
	}
	return d.Reader.ReadAt(p, at)
}

// onDisk is 3,000 rows, of which row n has the entries n % 5 and 5 with value n, and the disk that has them.
func onDisk(t *testing.T) (*csr.Matrix, *sickDisk) {
	t.Helper()
	const rows = 3000
	offsets, indices, values := []int32{0}, []int64{}, []float64{}
	for n := range rows {
		indices, values = append(indices, int64(n%5), 5), append(values, float64(n+1), float64(n+1))
		offsets = append(offsets, int32(len(indices)))
	}
	var file bytes.Buffer
	for _, list := range []any{offsets, indices, values} {
		require.NoError(t, binary.Write(&file, binary.LittleEndian, list))
	}
	disk := &sickDisk{Reader: *bytes.NewReader(file.Bytes())}
	at := &csr.InFile{File: csr.NewFile(disk), Rows: rows, Entries: 2 * rows, Indices: 4 * (rows + 1)}
	at.Values = at.Indices + 8*at.Entries
	m, err := csr.New(csr.Parts{
		Columns: 7, Offsets32: []int32{}, Indices64: []int64{}, Values64: []float64{}, InFile: at,
	})
	require.NoError(t, err)
	return m, disk
}

func TestRowsOfAFileAreThoseOfItsArrays(t *testing.T) {
	m, _ := onDisk(t)
	require.NoError(t, m.Validate(csr.ValidateOptions{}))
	statistics := m.Statistics()
	require.Equal(t, []float64{1, 3000, 6000}, []float64{statistics.Minimum, statistics.Maximum, float64(statistics.NonZeros)})
	var e csr.Entries
	require.NoError(t, m.Read([]int64{2999, 7, 8, 9, 7}, &e))
	require.Equal(t, []int32{4, 5, 2, 5, 3, 5, 4, 5, 2, 5}, e.Indices)
	require.Equal(t, []float32{3000, 3000, 8, 8, 9, 9, 10, 10, 8, 8}, e.Values)
	require.Equal(t, []int{2, 4, 6, 8, 10}, e.Ends)
	refusal(t, fault.InvalidArgument, m.Read([]int64{3000}, &e))
}

func TestAReadThatFailsIsInvalidDataAndTheNextOneTriesAgain(t *testing.T) {
	m, disk := onDisk(t)
	require.NoError(t, m.Read([]int64{0}, new(csr.Entries)))
	disk.sick = true
	for _, row := range []int64{0, 2000} { // whose offset is known, and is not
		require.Contains(t, refusal(t, fault.InvalidData, m.Read([]int64{row}, new(csr.Entries))), "its disk has failed")
	}
	refusal(t, fault.InvalidData, m.Validate(csr.ValidateOptions{}))
	require.EqualValues(t, 1, m.RowLength(1500), "not 0, so that somebody reads the row")
	disk.sick = false
	require.NoError(t, m.Read([]int64{0, 1500, 2000}, new(csr.Entries)))
	require.EqualValues(t, 2, m.RowLength(1500))
}
