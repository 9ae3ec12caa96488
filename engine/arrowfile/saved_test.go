package arrowfile_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/stretchr/testify/require"

	"dsstne/engine/arrowfile"
	"dsstne/engine/csr"
	"dsstne/internal/fault"
)

// namesOf are n names, some of them empty or of several bytes a character.
func namesOf(n int64) arrowfile.Names {
	names := arrowfile.Names{Offsets: []int64{0}}
	for i := range n {
		if i%5 > 0 {
			names.Text = fmt.Appendf(names.Text, "né%d", i)
		}
		names.Offsets = append(names.Offsets, int64(len(names.Text)))
	}
	return names
}

// saved is the path of a file with the rows; a record batch has up to limit bytes.
func saved(t testing.TB, s csr.Source, items, rows arrowfile.Names, limit int64) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "saved.arrow")
	require.NoError(t, arrowfile.SaveInBatches(path, s, items, rows, 2, limit))
	return path
}

func openedSaved(t testing.TB, path string) *arrowfile.Saved {
	t.Helper()
	s, err := arrowfile.OpenSaved(path)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// arrayOf reads an array beside the rows.
func arrayOf(t testing.TB, s *arrowfile.Saved, name string) []byte {
	t.Helper()
	data := make([]byte, s.Arrays()[name])
	require.NoError(t, s.Array(name, data))
	return data
}

func asArray(n arrowfile.Names) (data []byte) {
	for _, offset := range n.Offsets {
		data = binary.LittleEndian.AppendUint64(data, uint64(offset))
	}
	return append(data, n.Text...)
}

const most = 64 << 20

// manyRows is random rows, with duplicates, zeros and empty rows.
func manyRows(t testing.TB, seed uint64, columns, rows, longest int64) *csr.Matrix {
	rng := rand.New(rand.NewPCG(seed, 9))
	batch := make([][]entry, rows)
	for i := range batch {
		batch[i] = make([]entry, rng.Int64N(longest+1))
		for n := range batch[i] {
			batch[i][n] = entry{rng.Int64N(columns), float64(rng.IntN(7) - 2)}
		}
	}
	return matrixOf(t, columns, true, [][][]entry{batch})
}

func TestWhatWasSavedIsWhatReadersSawBefore(t *testing.T) {
	for name, c := range map[string]struct{ columns, rows, longest, limit int64 }{
		"usual":           {40, 300, 9, most},
		"many batches":    {40, 300, 9, 1000},
		"a batch a row":   {40, 100, 9, 1},
		"no rows":         {40, 0, 9, most},
		"empty rows":      {40, 70, 0, most},
		"one item":        {1, 33, 3, most},
		"a million items": {1 << 20, 20, 5, most},
		"long rows":       {5000, 40, 4000, 20_000},
	} {
		for _, named := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, names: %v", name, named), func(t *testing.T) {
				m := manyRows(t, 1, c.columns, c.rows, c.longest)
				var items, rows arrowfile.Names
				if named {
					items, rows = namesOf(c.columns), namesOf(c.rows)
				}
				path := saved(t, m, items, rows, c.limit)
				s := openedSaved(t, path)
				require.Equal(t, []int64{c.rows, c.columns}, []int64{s.Rows(), s.Columns()})
				require.Equal(t, batchOf(t, m), batchOf(t, s))
				for name, want := range map[string]arrowfile.Names{"items": items, "rows": rows} {
					if named {
						require.Equal(t, asArray(want), arrayOf(t, s, name))
					} else {
						require.NotContains(t, s.Arrays(), name)
					}
				}
				any := opened(t, path, c.columns)
				require.Equal(t, batchOf(t, m), batchOf(t, any))
				got, want := s.Statistics(), any.Statistics()
				require.Equal(t, want, got)
				require.NoError(t, any.Close())
			})
		}
	}
}

func TestARecordSaysWhatReadingAllRowsWouldSay(t *testing.T) {
	m := manyRows(t, 3, 40, 500, 12)
	s := openedSaved(t, saved(t, m, arrowfile.Names{}, arrowfile.Names{}, 2000))
	all := opened(t, saved(t, m, arrowfile.Names{}, arrowfile.Names{}, most), 40)
	defer all.Close()
	for _, rows := range []int64{0, 1, 2, 17, 499, 500, 600} {
		require.Equal(t, csr.MaxBatchEntries(all, rows), csr.MaxBatchEntries(s, rows))
	}
	for _, source := range []csr.Source{m, all} {
		want, err := csr.Digest(source, 1)
		require.NoError(t, err)
		got, err := csr.Digest(s, 1)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	counts := make([]int64, 40)
	batch := batchRows(t, m)
	for _, column := range batch.Indices {
		counts[column]++
	}
	var want []byte
	for _, n := range counts {
		want = binary.LittleEndian.AppendUint64(want, uint64(n))
	}
	require.Equal(t, want, arrayOf(t, s, "column_counts"))
}

// batchRows is all rows.
func batchRows(t testing.TB, s csr.Source) *csr.Entries {
	t.Helper()
	rows := make([]int64, s.Rows())
	for i := range rows {
		rows[i] = int64(i)
	}
	e := new(csr.Entries)
	require.NoError(t, s.Read(rows, e))
	return e
}

func TestSavedFilesAreAscendingAndHaveTheirBatchesWithinTheLimit(t *testing.T) {
	m := manyRows(t, 4, 40, 64, 9)
	row, err := os.ReadFile(saved(t, m, namesOf(40), namesOf(64), 1500))
	require.NoError(t, err)
	reader, err := ipc.NewFileReader(bytes.NewReader(row))
	require.NoError(t, err)
	require.Greater(t, reader.NumRecords(), 2)
	rows := 0
	for i := range reader.NumRecords() {
		record, err := reader.Record(i)
		require.NoError(t, err)
		list := record.Column(1).(*array.List)
		entries := list.ListValues().(*array.Struct)
		require.LessOrEqual(t, entries.Len()*8, 1500)
		names := record.Column(0).(*array.String)
		for n := range int(record.NumRows()) {
			if rows%5 > 0 {
				require.Equal(t, fmt.Sprintf("né%d", rows), names.Value(n))
			}
			rows++
		}
		coded := entries.Field(0).(*array.Dictionary)
		require.Equal(t, "né39", coded.Dictionary().(*array.String).Value(39))
	}
	require.Equal(t, 64, rows)
}

func TestTheSameDataMakeTheSameFile(t *testing.T) {
	m := manyRows(t, 5, 40, 300, 9)
	first, err := os.ReadFile(saved(t, m, namesOf(40), namesOf(300), most))
	require.NoError(t, err)
	again := openedSaved(t, stored(t, first))
	second, err := os.ReadFile(saved(t, again, namesOf(40), namesOf(300), most))
	require.NoError(t, err)
	require.True(t, bytes.Equal(first, second))
}

func TestOpeningReadsNoRow(t *testing.T) {
	m := manyRows(t, 6, 4000, 900, 40)
	path := saved(t, m, arrowfile.Names{}, arrowfile.Names{}, most)
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	indices := binary.LittleEndian.AppendUint32(nil, uint32(batchRows(t, m).Indices[5000]))
	at := bytes.Index(content, binary.LittleEndian.AppendUint32(indices, uint32(batchRows(t, m).Indices[5001])))
	require.Positive(t, at)
	content[at] ^= 1
	s := openedSaved(t, stored(t, content))
	damaged := 0
	for group := int64(0); group*csr.GroupRows < 900; group++ {
		err := s.Read([]int64{group * csr.GroupRows}, new(csr.Entries))
		if err != nil {
			damaged++
			require.Equal(t, fault.CorruptFile, fault.KindOf(err))
			require.ErrorContains(t, err, "are not those that were saved")
			require.ErrorContains(t, err, "data.arrow")
		}
	}
	require.Equal(t, 1, damaged)
}

// readAll opens a file and reads all of it.
func readAll(path string) (*csr.Entries, error) {
	s, err := arrowfile.OpenSaved(path)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	for name, size := range s.Arrays() {
		if err := s.Array(name, make([]byte, size)); err != nil {
			return nil, err
		}
	}
	rows := make([]int64, s.Rows())
	for i := range rows {
		rows[i] = int64(i)
	}
	e := new(csr.Entries)
	return e, s.Read(rows, e)
}

func TestADamagedByteOfASavedFileIsFoundOrHarmless(t *testing.T) {
	m := manyRows(t, 7, 12, 40, 5)
	content, err := os.ReadFile(saved(t, m, namesOf(12), namesOf(40), 500))
	require.NoError(t, err)
	path := stored(t, content)
	want := batchRows(t, m)
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	defer file.Close()
	found := 0
	for at := range content {
		for _, number := range []byte{content[at] ^ 1, content[at] ^ 0x80} {
			_, err := file.WriteAt([]byte{number}, int64(at))
			require.NoError(t, err)
			got, err := readAll(path)
			if err != nil {
				kinds := []fault.Kind{fault.CorruptFile, fault.InvalidData, fault.Unsupported, fault.InvalidArgument}
				require.Contains(t, kinds, fault.KindOf(err), err)
				found++
				continue
			}
			require.Equal(t, want.Indices, got.Indices, "byte %d", at)
			require.Equal(t, want.Values, got.Values, "byte %d", at)
			require.Equal(t, want.Ends, got.Ends, "byte %d", at)
		}
		_, err := file.WriteAt(content[at:at+1], int64(at))
		require.NoError(t, err)
	}
	require.Greater(t, found, len(content)) // of twice as many; the others are padding, or what nobody reads
}

func TestASavedFileThatIsCutOffAnywhereIsRefused(t *testing.T) {
	content, err := os.ReadFile(saved(t, manyRows(t, 8, 12, 40, 5), namesOf(12), namesOf(40), 500))
	require.NoError(t, err)
	path := stored(t, content)
	for size := len(content) - 1; size >= 0; size-- {
		require.NoError(t, os.Truncate(path, int64(size)))
		_, err := arrowfile.OpenSaved(path)
		require.Equal(t, fault.CorruptFile, fault.KindOf(err), "%d bytes: %v", size, err)
	}
}

func TestAFileThatIsShortenedWhileItIsReadIsInvalidData(t *testing.T) {
	path := saved(t, manyRows(t, 9, 4000, 900, 40), namesOf(4000), arrowfile.Names{}, most)
	s := openedSaved(t, path)
	require.NoError(t, s.Read([]int64{3}, new(csr.Entries)))
	require.NoError(t, os.Truncate(path, 0))
	for _, row := range []int64{3, 700} {
		err := s.Read([]int64{row}, new(csr.Entries))
		require.Equal(t, fault.InvalidData, fault.KindOf(err))
		require.ErrorContains(t, err, "it was shortened while it was in use")
	}
	for name, size := range s.Arrays() {
		require.ErrorContains(t, s.Array(name, make([]byte, size)), "it was shortened while it was in use")
	}
}

func TestAFileWithoutARecordIsRefusedWithWhatToDo(t *testing.T) {
	_, err := arrowfile.OpenSaved(stored(t, write(t, usual, randomBatches(1, 9))))
	require.Equal(t, fault.InvalidData, fault.KindOf(err))
	require.ErrorContains(t, err, "dsstne.Dataset.from_file")
}

func TestARecordThatAnotherProgramCopiedToOtherRowsIsRefusedWithWhatToDo(t *testing.T) {
	content, err := os.ReadFile(saved(t, manyRows(t, 2, 9, 50, 5), arrowfile.Names{}, arrowfile.Names{}, most))
	require.NoError(t, err)
	reader, err := ipc.NewFileReader(bytes.NewReader(content))
	require.NoError(t, err)
	record, err := reader.Record(0)
	require.NoError(t, err)
	file, err := os.Create(filepath.Join(t.TempDir(), "copy"))
	require.NoError(t, err)
	writer, err := ipc.NewFileWriter(file, ipc.WithSchema(reader.Schema()))
	require.NoError(t, err)
	require.NoError(t, writer.Write(record.NewSlice(0, 49)))
	require.NoError(t, writer.Close())
	_, err = arrowfile.OpenSaved(file.Name())
	require.Equal(t, fault.CorruptFile, fault.KindOf(err))
	require.ErrorContains(t, err, "dsstne.Dataset.from_file opens it without the record")
	blocks := opened(t, file.Name(), 9)
	require.EqualValues(t, 49, blocks.Rows())
}

func TestWhatCannotBeSavedLeavesTheOldFile(t *testing.T) {
	p := csr.Parts{Columns: 9, Offsets64: []int64{0, 0, 2}, Indices32: []int32{3, 7},
		Values32: []float32{1, float32(math.NaN())}}
	m, err := csr.New(p)
	require.NoError(t, err)
	require.NoError(t, m.Validate(csr.ValidateOptions{AllowNotFinite: true}))
	good := manyRows(t, 1, 9, 2, 3)
	none := arrowfile.Names{}
	for words, save := range map[string]func(path string) error{
		"row 1, column 7 holds NaN": func(path string) error { return arrowfile.Save(path, m, none, none, 0) },
		"there are 8 item names":    func(path string) error { return arrowfile.Save(path, good, namesOf(8), none, 0) },
		"there are 3 row names":     func(path string) error { return arrowfile.Save(path, good, none, namesOf(3), 0) },
		"row 1 is not valid UTF-8": func(path string) error {
			return arrowfile.Save(path, good, none, arrowfile.Names{Offsets: []int64{0, 1, 2}, Text: []byte("a\xff")}, 0)
		},
		"decrease at name 0": func(path string) error {
			return arrowfile.Save(path, good, none, arrowfile.Names{Offsets: []int64{0, 2, 1}, Text: []byte("a")}, 0)
		},
	} {
		path := stored(t, []byte("old"))
		err := save(path)
		require.ErrorContains(t, err, words)
		require.ErrorContains(t, err, "cannot save "+path)
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, "old", string(content))
	}
}

func TestARecordBatchHasAtMost64MB(t *testing.T) {
	const rows, each = 9_000, 1_000
	offsets, indices := make([]int32, rows+1), make([]int32, rows*each)
	for n := range indices {
		indices[n] = int32(n % each)
		offsets[n/each+1] = int32(n + 1)
	}
	m, err := csr.New(csr.Parts{Columns: each, Offsets32: offsets, Indices32: indices})
	require.NoError(t, err)
	require.NoError(t, m.Validate(csr.ValidateOptions{}))
	path := filepath.Join(t.TempDir(), "saved.arrow")
	require.NoError(t, arrowfile.Save(path, m, arrowfile.Names{}, arrowfile.Names{}, 0))
	file, err := os.Open(path)
	require.NoError(t, err)
	defer file.Close()
	reader, err := ipc.NewFileReader(file)
	require.NoError(t, err)
	require.Equal(t, 2, reader.NumRecords(), "72 MB of indices and values")
	for n := range reader.NumRecords() {
		record, err := reader.Record(n)
		require.NoError(t, err)
		list := record.Column(0).(*array.List)
		require.LessOrEqual(t, 4*(list.Len()+1)+8*list.ListValues().Len(), 64<<20)
	}
}

func TestAFileOfALaterVersionOfTheFormatIsUnsupported(t *testing.T) {
	path := saved(t, manyRows(t, 1, 9, 20, 4), arrowfile.Names{}, arrowfile.Names{}, most)
	text, err := arrowfile.RecordOf(path)
	require.NoError(t, err)
	later := strings.Replace(text, `"version":1`, `"version":2`, 1)
	require.NotEqual(t, text, later)
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	for old, changed := range map[string]string{text: later, sumOf(text): sumOf(later)} {
		content = bytes.ReplaceAll(content, []byte(old), []byte(changed))
	}
	_, err = arrowfile.OpenSaved(stored(t, content))
	require.Equal(t, fault.Unsupported, fault.KindOf(err))
	require.ErrorContains(t, err, "it has version 2 of the format; this release reads version 1")
	require.EqualValues(t, 20, opened(t, stored(t, content), 9).Rows(), "as an Arrow file it is as good as before")
}

func sumOf(text string) string {
	digest := sha256.Sum256([]byte(text))
	return hex.EncodeToString(digest[:])
}

func TestALargeListIsSaved(t *testing.T) {
	numbers := arrow.PrimitiveTypes
	column := listOf(true, numbers.Int32, numbers.Float32)
	rows := [][][]entry{{{{1, 1}, {4, 2}}, {}, {{0, 3}}}}
	m := matrixOf(t, 9, true, rows)
	plain := opened(t, stored(t, write(t, column, rows)), 9)
	s := openedSaved(t, saved(t, plain, arrowfile.Names{}, arrowfile.Names{}, most))
	require.Equal(t, batchOf(t, m), batchOf(t, s))
	require.NoError(t, plain.Close())
}

func FuzzOpenSaved(f *testing.F) {
	for seed := range uint64(3) {
		content, err := os.ReadFile(saved(f, manyRows(f, seed, 12, 40, 5), namesOf(12), namesOf(40), 500))
		require.NoError(f, err)
		f.Add(content)
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		if _, err := readAll(stored(t, content)); err != nil {
			require.NotEqual(t, fault.Internal, fault.KindOf(err), err)
		}
	})
}
