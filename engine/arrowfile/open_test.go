package arrowfile_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/stretchr/testify/require"

	"dsstne/engine/arrowfile"
	"dsstne/engine/csr"
	"dsstne/internal/fault"
	"dsstne/kernels"
)

// listOf is the type of a column.
func listOf(long bool, index, value arrow.DataType) arrow.DataType {
	element := index
	if value != nil {
		element = arrow.StructOf(arrow.Field{Name: "index", Type: index}, arrow.Field{Name: "value", Type: value})
	}
	if long {
		return arrow.LargeListOf(element)
	}
	return arrow.ListOf(element)
}

var usual = listOf(false, arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Float32)

// entry is a stored entry; a negative column stands for null.
type entry struct {
	column int64
	value  float64
}

// appendRow appends a row to a column of any accepted type; nil is null.
func appendRow(t testing.TB, list array.Builder, row []entry) {
	t.Helper()
	var entries array.Builder
	switch list := list.(type) {
	case *array.ListBuilder:
		list.Append(row != nil)
		entries = list.ValueBuilder()
	case *array.LargeListBuilder:
		list.Append(row != nil)
		entries = list.ValueBuilder()
	default:
		require.Fail(t, "no list")
	}
	for _, e := range row {
		index := entries
		if pair, ok := entries.(*array.StructBuilder); ok {
			pair.Append(true)
			index = pair.FieldBuilder(0)
			switch value := pair.FieldBuilder(1).(type) {
			case *array.Float32Builder:
				value.Append(float32(e.value))
			case *array.Float64Builder:
				value.Append(e.value)
			case *array.Int32Builder:
				value.Append(int32(e.value))
			}
		}
		switch index := index.(type) {
		case *array.Int32Builder:
			if e.column < 0 {
				index.AppendNull()
			} else {
				index.Append(int32(e.column))
			}
		case *array.Int64Builder:
			index.Append(e.column)
		case *array.Uint32Builder:
			index.Append(uint32(e.column))
		case *array.Int16Builder:
			index.Append(int16(e.column))
		}
	}
}

// write makes a file of one column, with a record batch for each list of rows.
func write(t testing.TB, column arrow.DataType, batches [][][]entry, options ...ipc.Option) []byte {
	t.Helper()
	return writeColumns(t, []arrow.Field{{Name: "items", Type: column, Nullable: true}}, batches, options...)
}

// writeColumns is write for any columns; the batches are those of the first.
func writeColumns(t testing.TB, columns []arrow.Field, batches [][][]entry, options ...ipc.Option) []byte {
	t.Helper()
	schema := arrow.NewSchema(columns, nil)
	file, err := os.Create(filepath.Join(t.TempDir(), "written"))
	require.NoError(t, err)
	defer file.Close()
	writer, err := ipc.NewFileWriter(file, append(options, ipc.WithSchema(schema))...)
	require.NoError(t, err)
	for _, rows := range batches {
		builder := array.NewRecordBuilder(memory.DefaultAllocator, schema)
		for _, row := range rows {
			appendRow(t, builder.Field(0), row)
		}
		require.NoError(t, writer.Write(builder.NewRecord()))
	}
	require.NoError(t, writer.Close())
	content, err := os.ReadFile(file.Name())
	require.NoError(t, err)
	return content
}

// stored is the path of a file with that content.
func stored(t testing.TB, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "data.arrow")
	require.NoError(t, os.WriteFile(path, content, 0o600))
	return path
}

func opened(t testing.TB, path string, columns int64) *csr.Blocks {
	t.Helper()
	blocks, err := arrowfile.Open(path, columns, csr.ValidateOptions{})
	require.NoError(t, err)
	return blocks
}

// randomBatches is rows in random order with duplicates, zeros and empty rows; some batches have no rows.
func randomBatches(seed uint64, columns int64) [][][]entry {
	rng := rand.New(rand.NewPCG(seed, 8))
	batches := make([][][]entry, 1+rng.IntN(4))
	for i := range batches {
		for range rng.IntN(20) {
			row := make([]entry, rng.IntN(10))
			for n := range row {
				row[n] = entry{rng.Int64N(columns), float64(rng.IntN(7) - 2)}
			}
			batches[i] = append(batches[i], row)
		}
	}
	return batches
}

// matrixOf holds the rows of all batches in memory.
func matrixOf(t testing.TB, columns int64, values bool, batches [][][]entry) *csr.Matrix {
	t.Helper()
	p := csr.Parts{Columns: columns, Offsets64: []int64{0}, Indices64: []int64{}}
	if values {
		p.Values64 = []float64{}
	}
	for _, row := range slices.Concat(batches...) {
		for _, e := range row {
			p.Indices64 = append(p.Indices64, e.column)
			if values {
				p.Values64 = append(p.Values64, e.value)
			}
		}
		p.Offsets64 = append(p.Offsets64, int64(len(p.Indices64)))
	}
	m, err := csr.New(p)
	require.NoError(t, err)
	require.NoError(t, m.Validate(csr.ValidateOptions{}))
	return m
}

func batchOf(t testing.TB, s csr.Source) *kernels.SparseBatch {
	t.Helper()
	rows := make([]int64, s.Rows())
	for i := range rows {
		rows[i] = int64(i)
	}
	rand.New(rand.NewPCG(1, 1)).Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
	out := new(kernels.SparseBatch)
	require.NoError(t, (&csr.Reader{Source: s, Scaling: true, Denoising: 0.3, Seed: 3}).Batch(rows, 4, true, out))
	return out
}

func TestAFileHasTheRowsThatWereWritten(t *testing.T) {
	const columns = 40
	numbers := arrow.PrimitiveTypes
	for _, long := range []bool{false, true} {
		for _, index := range []arrow.DataType{numbers.Int32, numbers.Int64, numbers.Uint32} {
			for _, value := range []arrow.DataType{nil, numbers.Float32, numbers.Float64} {
				column := listOf(long, index, value)
				t.Run(fmt.Sprint(column), func(t *testing.T) {
					for seed := range uint64(8) {
						batches := randomBatches(seed, columns)
						blocks := opened(t, stored(t, write(t, column, batches)), columns)
						want := matrixOf(t, columns, value != nil, batches)
						require.Equal(t, want.Rows(), blocks.Rows())
						require.Equal(t, batchOf(t, want), batchOf(t, blocks))
						got, expected := blocks.Statistics(), want.Statistics()
						got.Bytes = expected.Bytes
						require.Equal(t, expected, got)
						require.NoError(t, blocks.Close())
					}
				})
			}
		}
	}
}

func TestTheArraysAreThoseOfTheFileAndNotCopies(t *testing.T) {
	path := stored(t, write(t, usual, [][][]entry{{{{3, 7.5}}}}))
	blocks := opened(t, path, 5)
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	value := []byte{0, 0, 0xf0, 0x40} // 7.5
	require.Equal(t, 1, bytes.Count(content, value))
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = file.WriteAt([]byte{0, 0, 0, 0x41}, int64(bytes.Index(content, value))) // 8
	require.NoError(t, err)
	require.NoError(t, file.Close())
	var e csr.Entries
	require.NoError(t, blocks.Read([]int64{0}, &e))
	require.Equal(t, []float32{8}, e.Values)
}

func TestAFileWithoutRecordBatchesHasNoRows(t *testing.T) {
	blocks := opened(t, stored(t, write(t, usual, nil)), 5)
	require.Zero(t, blocks.Rows())
	require.Equal(t, 32, blocks.Layout().ValueBits)
}

func TestRowsAreNumberedThroughAllBatches(t *testing.T) {
	batches := [][][]entry{{{{1, 1}}, {{2, 1}}}, {{{1, 1}}, {{9, 1}}}}
	refused(t, write(t, usual, batches), fault.InvalidData, "row 3 holds column 9")
	batches[1][1][0] = entry{4, math.Inf(1)}
	refused(t, write(t, usual, batches), fault.InvalidData, "row 3, column 4 holds +Inf")
}

// refused opens what cannot be a matrix of 9 columns.
func refused(t *testing.T, content []byte, kind fault.Kind, message string) {
	t.Helper()
	path := stored(t, content)
	_, err := arrowfile.Open(path, 9, csr.ValidateOptions{})
	require.ErrorContains(t, err, message)
	require.Equal(t, kind, fault.KindOf(err), err)
	require.ErrorContains(t, err, path)
}

func TestOtherColumnsAreRefused(t *testing.T) {
	numbers := arrow.PrimitiveTypes
	rows := [][][]entry{{{{1, 1}}}}
	refused(t, write(t, listOf(false, numbers.Int16, nil), rows), fault.InvalidData,
		`column "items": the indices are of type int16: a matrix is`)
	refused(t, write(t, listOf(false, numbers.Int32, numbers.Int32), rows), fault.InvalidData,
		"the values are of type int32: a matrix is")
	triple := arrow.ListOf(arrow.StructOf(arrow.Field{Name: "a", Type: numbers.Int32}))
	refused(t, write(t, triple, nil), fault.InvalidData, "the struct type has 1 fields instead of 2")
	refused(t, write(t, numbers.Int32, nil), fault.InvalidData,
		"it is not a list: the array is of type int32: a matrix is")
	pair := arrow.FixedSizeListOf(2, numbers.Int32)
	refused(t, write(t, pair, nil), fault.InvalidData, "the array is of type fixed-size list: a matrix is")
	coded := &arrow.DictionaryType{IndexType: numbers.Int32, ValueType: numbers.Int32}
	refused(t, write(t, arrow.ListOf(coded), nil), fault.InvalidData, "without dictionary")
	two := writeColumns(t, []arrow.Field{{Name: "a", Type: usual}, {Name: "b", Type: usual}}, nil)
	refused(t, two, fault.InvalidData, "it has 2 columns instead of one: a matrix is list<struct<index, value>>")
}

func TestCompressedFilesAndOtherFormatsAreRefusedWithWhatToDo(t *testing.T) {
	rows := randomBatches(1, 9)
	for _, option := range []ipc.Option{ipc.WithZstd(), ipc.WithLZ4()} {
		refused(t, write(t, usual, rows, option), fault.Unsupported, "write it without compression")
	}
	var stream bytes.Buffer
	writer := ipc.NewWriter(&stream, ipc.WithSchema(arrow.NewSchema([]arrow.Field{{Name: "a", Type: usual}}, nil)))
	require.NoError(t, writer.Close())
	refused(t, append(stream.Bytes(), make([]byte, 20)...), fault.Unsupported, "it is an Arrow stream")
	refused(t, []byte("FEA1 and a lot of other things FEA1"), fault.Unsupported, "a Feather file of version 1")
	refused(t, []byte("PAR1 and a lot of other things PAR1"), fault.CorruptFile, "it does not begin with ARROW1")
	refused(t, nil, fault.CorruptFile, "it has 0 bytes, too few for an Arrow file")
	refused(t, []byte("ARROW1\x00\x00 and the rest is gone"), fault.CorruptFile, "the file is not whole")
}

func TestNullsAreRefused(t *testing.T) {
	refused(t, write(t, usual, [][][]entry{{{{1, 1}}, nil}}), fault.InvalidData,
		"record batch 0: it has null rows or entries")
	refused(t, write(t, usual, [][][]entry{{{{1, 1}}}, {{{-1, 1}}}}), fault.InvalidData,
		"record batch 1: it has null rows or entries")
}

func TestPathsThatAreNotRegularFilesAreRefused(t *testing.T) {
	folder := t.TempDir()
	_, err := arrowfile.Open(filepath.Join(folder, "missing"), 3, csr.ValidateOptions{})
	require.Equal(t, fault.NotFound, fault.KindOf(err))
	_, err = arrowfile.Open(folder, 3, csr.ValidateOptions{})
	require.Equal(t, fault.IO, fault.KindOf(err))
	pipe := filepath.Join(folder, "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	_, err = arrowfile.Open(pipe, 3, csr.ValidateOptions{})
	require.ErrorContains(t, err, "not a regular file")
	_, err = arrowfile.Open(stored(t, write(t, usual, nil)), 0, csr.ValidateOptions{})
	require.Equal(t, fault.InvalidArgument, fault.KindOf(err))
}

// openAny opens anything: it gives valid rows or an error that fits.
func openAny(t testing.TB, path string) {
	t.Helper()
	blocks, err := arrowfile.Open(path, 40, csr.ValidateOptions{Threads: 1})
	if err != nil {
		kinds := []fault.Kind{fault.CorruptFile, fault.InvalidData, fault.Unsupported}
		require.Contains(t, kinds, fault.KindOf(err), err)
		return
	}
	for _, column := range batchOf(t, blocks).Indices {
		require.True(t, column >= 0 && column < 40)
	}
	require.NoError(t, blocks.Close())
}

func TestAFileThatIsCutOffAnywhereIsRefused(t *testing.T) {
	content := write(t, usual, randomBatches(5, 40))
	path := stored(t, content)
	for size := len(content) - 1; size >= 0; size-- {
		require.NoError(t, os.Truncate(path, int64(size)))
		_, err := arrowfile.Open(path, 40, csr.ValidateOptions{})
		require.Equal(t, fault.CorruptFile, fault.KindOf(err), "%d bytes: %v", size, err)
	}
}

func TestADamagedNumberAnywhereIsFoundOrHarmless(t *testing.T) {
	content := write(t, usual, randomBatches(7, 40)[:1])
	path := stored(t, content)
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	defer file.Close()
	for at := range content {
		for _, number := range []byte{0, 1, 0x7f, 0x80, 0xff, content[at] ^ 1} {
			_, err := file.WriteAt([]byte{number}, int64(at))
			require.NoError(t, err)
			openAny(t, path)
		}
		_, err := file.WriteAt(content[at:at+1], int64(at))
		require.NoError(t, err)
	}
}

func FuzzOpen(f *testing.F) {
	numbers := arrow.PrimitiveTypes
	f.Add(write(f, usual, randomBatches(3, 40)))
	f.Add(write(f, listOf(true, numbers.Uint32, numbers.Float64), randomBatches(4, 40)))
	f.Add(write(f, listOf(false, numbers.Int64, nil), randomBatches(6, 40)))
	f.Fuzz(func(t *testing.T, content []byte) { openAny(t, stored(t, content)) })
}

func TestAFileThatIsShortenedWhileItIsOpenIsInvalidData(t *testing.T) {
	rows := [][]entry{}
	for n := range int64(3000) { // of more than a page
		rows = append(rows, []entry{{n % 40, 1}})
	}
	path := stored(t, write(t, usual, [][][]entry{rows}))
	blocks := opened(t, path, 40)
	require.NoError(t, os.Truncate(path, 0))
	err := blocks.Read([]int64{2000}, new(csr.Entries))
	require.Equal(t, fault.InvalidData, fault.KindOf(err))
	require.NoError(t, blocks.Close())
}

func TestTheFileIsClosedWithTheMatrixOrWithTheFailureToOpenIt(t *testing.T) {
	isOpen := func(path string) bool {
		open, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skip("this system does not list open files")
		}
		return slices.ContainsFunc(open, func(entry os.DirEntry) bool {
			target, err := os.Readlink("/proc/self/fd/" + entry.Name())
			return err == nil && target == path
		})
	}
	path := stored(t, write(t, usual, randomBatches(2, 40)))
	blocks := opened(t, path, 40)
	require.True(t, isOpen(path))
	require.NoError(t, blocks.Close())
	require.False(t, isOpen(path))
	for _, bad := range [][]entry{nil, {{40, 1}}} {
		path = stored(t, write(t, usual, [][][]entry{{bad}}))
		_, err := arrowfile.Open(path, 40, csr.ValidateOptions{})
		require.Error(t, err)
		require.False(t, isOpen(path))
	}
}
