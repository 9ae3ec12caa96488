package modelfile

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/engine/tensor"
	"dsstne/internal/fault"
)

// testBlock is small, so that small files have several.
const testBlock = 4096

// definition is the network that a file tells; this package does not read it.
const definition = `{"layers": []}`

// content has tensors of the names and shapes of a small network, with numbers that differ.
func content(t testing.TB, items int64) *Content {
	c := &Content{Definition: definition, IsNetwork: true}
	for _, spec := range []struct {
		name          string
		rows, columns int64
	}{{"hidden1.weight", items, 3}, {"hidden1.bias", 3, 1}, {"output.weight", items, 3}, {"output.bias", items, 1}} {
		numbers := add(t, c, spec.name, tensor.F32, []int64{spec.rows, spec.columns}).Float32()
		for i := range numbers {
			numbers[i] = float32(i)/64 - 1
		}
	}
	return c
}

func add(t testing.TB, c *Content, name string, dtype tensor.DType, shape []int64) *tensor.Tensor {
	added, err := tensor.New(name, dtype, shape, -1)
	require.NoError(t, err)
	t.Cleanup(added.Free)
	c.Tensors = append(c.Tensors, added)
	return added
}

// namedContent has everything that a file can hold.
func namedContent(t testing.TB) *Content {
	c := content(t, 40)
	offsets, text := add(t, c, "items.offsets", tensor.I64, []int64{41}), "a name"
	for i := range offsets.Int64()[1:] {
		offsets.Int64()[1+i] = int64(len(text))
	}
	copy(add(t, c, "items.bytes", tensor.U8, []int64{int64(len(text))}).Bytes(), text)
	c.Step, c.Attributes = 17, map[string]string{"note": "a \"quoted\" <text>\n"}
	return c
}

// fileOf is the content as a file.
func fileOf(t testing.TB, c *Content) []byte {
	l, err := layOut(c, testBlock)
	require.NoError(t, err)
	var b bytes.Buffer
	require.NoError(t, l.write(&b, 2))
	return b.Bytes()
}

func namedSmall(t testing.TB) []byte { return fileOf(t, namedContent(t)) }

// wideFile has 22 blocks.
func wideFile(t testing.TB) []byte { return fileOf(t, content(t, 3140)) }

// readAll reads all tensors of the types that models have.
func readAll(t testing.TB, source io.ReaderAt, size int64, threads int) (*Content, error) {
	f, err := Parse(source, size)
	if err != nil {
		return nil, err
	}
	c := &Content{Definition: f.Definition, IsNetwork: true, Step: f.Step, Attributes: f.Attributes}
	free := func() {
		for _, t := range c.Tensors {
			t.Free()
		}
	}
	for _, e := range f.header.entries {
		for _, dtype := range []tensor.DType{tensor.F32, tensor.U8, tensor.I64} {
			if e.DType == dtype.String() && e.Name != digestTensor {
				added, err := tensor.New(e.Name, dtype, e.Shape, -1)
				require.NoError(t, err)
				c.Tensors = append(c.Tensors, added)
			}
		}
	}
	if err := f.Read(c.Tensors, threads); err != nil {
		free()
		return nil, err
	}
	t.Cleanup(free)
	return c, nil
}

func readBytes(t testing.TB, file []byte) (*Content, error) {
	return readAll(t, bytes.NewReader(file), int64(len(file)), 2)
}

// requireFault wants an error of a kind whose text contains all of the words.
func requireFault(t testing.TB, err error, kind fault.Kind, words ...string) {
	t.Helper()
	require.Error(t, err)
	require.Equal(t, kind, fault.KindOf(err), err.Error())
	for _, word := range words {
		require.Contains(t, err.Error(), word)
	}
}

func requireUnreadable(t testing.TB, file []byte, kind fault.Kind, words ...string) {
	t.Helper()
	_, err := readBytes(t, file)
	requireFault(t, err, kind, words...)
}

// requireEqual wants two contents to be the same, with tensors in the order of the file.
func requireEqual(t testing.TB, want, got *Content) {
	t.Helper()
	require.Equal(t, []any{want.Definition, want.Step, want.Attributes}, []any{got.Definition, got.Step, got.Attributes})
	require.Len(t, got.Tensors, len(want.Tensors))
	for _, have := range got.Tensors {
		i := slices.IndexFunc(want.Tensors, func(t *tensor.Tensor) bool { return t.Name == have.Name })
		require.GreaterOrEqual(t, i, 0, have.Name)
		require.Equal(t, want.Tensors[i].Shape, have.Shape)
		require.Equal(t, want.Tensors[i].Bytes(), have.Bytes(), have.Name)
	}
}

// reseal changes the header's text and computes all digests anew, as somebody would who forges a file.
func reseal(file []byte, change func(header string) string) []byte {
	length := binary.LittleEndian.Uint64(file)
	text := change(string(file[8 : 8+length]))
	text += strings.Repeat(" ", (8-len(text)%8)%8)
	head := binary.LittleEndian.AppendUint64(nil, uint64(len(text)))
	head = append(head, text...)
	data := file[8+length:]
	if h, err := parseHeader(file[8 : 8+length]); err == nil {
		data = data[:h.entries[len(h.entries)-1].begin]
	}
	return seal(head, data)
}

func seal(head, data []byte) []byte {
	out := append(append([]byte{}, head...), data...)
	sum := sha256.Sum256(head)
	out = append(out, sum[:]...)
	for from := 0; from < len(data); from += testBlock {
		sum = sha256.Sum256(data[from:min(len(data), from+testBlock)])
		out = append(out, sum[:]...)
	}
	return out
}

func TestWhatIsReadIsWhatWasSaved(t *testing.T) {
	for _, c := range []*Content{namedContent(t), content(t, 3140)} {
		got, err := readBytes(t, fileOf(t, c))
		require.NoError(t, err)
		requireEqual(t, c, got)
	}
}

func TestEveryFlippedBitIsFound(t *testing.T) {
	file := namedSmall(t)
	for bit := range 8 * len(file) {
		file[bit/8] ^= 1 << (bit % 8)
		_, err := readBytes(t, file)
		require.Error(t, err, "bit %d of byte %d", bit%8, bit/8)
		require.Equal(t, fault.CorruptFile, fault.KindOf(err), "byte %d: %v", bit/8, err)
		file[bit/8] ^= 1 << (bit % 8)
	}
}

func TestEveryTruncationIsFound(t *testing.T) {
	file := namedSmall(t)
	for n := range file {
		_, err := readBytes(t, file[:n])
		require.Error(t, err, "%d bytes", n)
		require.Equal(t, fault.CorruptFile, fault.KindOf(err), "%d bytes: %v", n, err)
	}
}

func TestATruncatedFileSaysHowMuchIsThere(t *testing.T) {
	file := wideFile(t)
	requireUnreadable(t, file[:20000], fault.CorruptFile,
		"file ends after 20,000 of "+fault.Grouped(int64(len(file)))+" bytes",
		"was the copy interrupted?")
}

func TestAFileThatEndsInItsHeaderSaysSo(t *testing.T) {
	requireUnreadable(t, wideFile(t)[:100], fault.CorruptFile, "file ends after 100 bytes, within its header")
}

func TestAnAppendedByteIsFound(t *testing.T) {
	requireUnreadable(t, append(wideFile(t), 0), fault.CorruptFile, "1 more than the model", "appended")
}

func TestADamagedBlockIsNamedWithItsPlace(t *testing.T) {
	file := wideFile(t)
	start := 8 + int(binary.LittleEndian.Uint64(file))
	file[start+2*testBlock+5] ^= 1
	requireUnreadable(t, file, fault.CorruptFile, "block 3 of 22 of the weights",
		byteRange(int64(start+2*testBlock), int64(start+3*testBlock)))
}

func TestADamagedHeaderIsNamedWithItsPlace(t *testing.T) {
	file := wideFile(t)
	at := bytes.Index(file, []byte("hidden1.weight"))
	file[at] = 'H'
	requireUnreadable(t, file, fault.CorruptFile, "the header (bytes 0 to ", "does not match its digest")
}

func TestADamagedHeaderLengthIsNamed(t *testing.T) {
	file := wideFile(t)
	file[5] = 0xff
	requireUnreadable(t, file, fault.CorruptFile, "the length of the header (bytes 0 to 8) is damaged")
}

func TestTheLowestDamagedBlockIsReportedForAnyNumberOfThreads(t *testing.T) {
	file := wideFile(t)
	start := 8 + int(binary.LittleEndian.Uint64(file))
	for block := 4; block < 20; block++ {
		file[start+block*testBlock] ^= 1
	}
	for threads := 1; threads < 9; threads++ {
		_, err := readAll(t, bytes.NewReader(file), int64(len(file)), threads)
		requireFault(t, err, fault.CorruptFile, "block 5 of")
	}
}

func TestOtherFilesAreNotModelsAndAreNamed(t *testing.T) {
	foreignHeader := `{"__metadata__":{"format":"pt"},"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`
	foreignTensors := string(binary.LittleEndian.AppendUint64(nil, uint64(len(foreignHeader)))) + foreignHeader + "1234"
	for name, c := range map[string]struct{ file, words string }{
		"empty":                 {"", "empty"},
		"five bytes":            {"hello", "5 bytes"},
		"png":                   {"\x89PNG\r\n\x1a\n" + strings.Repeat("x", 100), "PNG image"},
		"pickle":                {"\x80\x04\x95" + strings.Repeat("x", 100), "pickles can run code"},
		"zip":                   {"PK\x03\x04" + strings.Repeat("x", 100), "PyTorch"},
		"original DSSTNE":       {"\x89HDF\r\n\x1a\n" + strings.Repeat("x", 100), "original DSSTNE"},
		"definition":            {definition, "network definition"},
		"lfs":                   {"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"},
		"zeros":                 {strings.Repeat("\x00", 100), "begins with the bytes 00"},
		"noise":                 {strings.Repeat("\xa7", 100), "begins with the bytes a7"},
		"safetensors":           {foreignTensors, "safetensors of another program"},
		"damaged foreign":       {"\x20" + strings.Repeat("\x00", 7) + "{not json" + strings.Repeat(" ", 100), "begins with"},
		"a huge foreign header": {"\xff\xff\xff\xff\xff\xff\xff\xff{" + strings.Repeat(" ", 100), "not a dsstne model file"},
	} {
		t.Run(name, func(t *testing.T) {
			requireUnreadable(t, []byte(c.file), fault.CorruptFile, "not a dsstne model file", c.words)
		})
	}
}

func TestAFileOfANewerVersionSaysWhatToDo(t *testing.T) {
	file := reseal(namedSmall(t), func(header string) string {
		return strings.Replace(header, `"minimum_reader_version":"1"`, `"minimum_reader_version":"3"`, 1)
	})
	requireUnreadable(t, file, fault.Unsupported, "written by a newer version of dsstne", "file format 3", "update dsstne")
}

func TestAFileOfANewerVersionThatKeepsToOldReadersIsRead(t *testing.T) {
	_, err := readBytes(t, reseal(namedSmall(t), func(header string) string {
		return strings.Replace(header, `"format_version":"1"`, `"format_version":"2","something_new":"x"`, 1)
	}))
	require.NoError(t, err)
}

func TestAnUnknownTensorIsPassedOver(t *testing.T) {
	file := namedSmall(t)
	length := int(binary.LittleEndian.Uint64(file))
	h, err := parseHeader(file[8 : 8+length])
	require.NoError(t, err)
	last := h.entries[len(h.entries)-1]
	data := append(append([]byte{}, file[8+length:8+length+int(last.begin)]...), make([]byte, 3000)...)
	entries := append([]Entry{}, h.entries[:len(h.entries)-1]...)
	entries = append(entries, Entry{"new", "I8", []int64{3, 1000}, last.begin, last.begin + 3000},
		Entry{digestTensor, "U8", []int64{32 * 3}, last.begin + 3000, last.begin + 3000 + 32*3})
	var metadata []string
	metadata = append(metadata, keyFormat, formatName)
	for key, value := range h.metadata {
		if key != keyFormat {
			metadata = append(metadata, key, value)
		}
	}
	c, err := readBytes(t, seal(headerText(metadata, entries), data))
	require.NoError(t, err)
	require.Len(t, c.Tensors, 6)
}

// Each change keeps the digests right: what is refused here is refused by the reader's own checks.
func TestAForgedHeaderIsRefused(t *testing.T) {
	for name, c := range map[string]struct{ old, new, words string }{
		"a tensor twice":       {`"hidden1.bias"`, `"hidden1.weight"`, "twice"},
		"metadata twice":       {`"step":"17"`, `"step":"17","step":"18"`, "twice"},
		"a member twice":       {`"dtype":"I64"`, `"dtype":"I64","dtype":"I64"`, "twice"},
		"an unknown member":    {`"dtype":"I64"`, `"dtype":"I64","x":1`, "unknown"},
		"an unknown dtype":     {`"dtype":"I64"`, `"dtype":"I63"`, "I63"},
		"a hole":               {`[328,808]`, `[332,812]`, "instead of"},
		"a negative offset":    {`[328,808]`, `[-328,808]`, "not a size"},
		"a fraction":           {`[328,808]`, `[328.5,808]`, "not a size"},
		"an exponent":          {`[328,808]`, `[3e2,808]`, "not a size"},
		"three offsets":        {`[328,808]`, `[328,808,900]`, "begin and an end"},
		"reversed offsets":     {`[328,808]`, `[808,328]`, "begin and an end"},
		"a product too large":  {`"shape":[40,3]`, `"shape":[4294967296,4294967296]`, "does not fit"},
		"a negative shape":     {`"shape":[40,3]`, `"shape":[-40,3]`, "not a size"},
		"a step that is not":   {`"step":"17"`, `"step":"-17"`, `"step"`},
		"no step":              {`"step":"17",`, ``, `"step" is missing`},
		"a tiny block":         {`"digest_block_bytes":"4096"`, `"digest_block_bytes":"8"`, "digest_block_bytes"},
		"a block that is odd":  {`"digest_block_bytes":"4096"`, `"digest_block_bytes":"4097"`, "multiple of 8"},
		"a number as metadata": {`"step":"17"`, `"step":17`, "not a string"},
		"no digests":           {`"dsstne.digests"`, `"dsstne.digestz"`, "does not end with its digests"},
		"another format":       {`"dsstne.model"`, `"dsstne.motel"`, "dsstne.motel"},
		"text after its end":   {`]}}`, `]}}{}`, "after its end"},
		"many dimensions":      {`"shape":[40,3]`, `"shape":[40,3` + strings.Repeat(",1", 15) + `]`, "more than 16 sizes"},
		"many attributes":      {`"step":"17"`, `"step":"17"` + manyNames(70_000), "more than 65,536 names"},
		"a NUL":                {`"step":"17"`, `"step":"17","attributes.a\u0000b":""`, "NUL character"},
		"a name in escapes":    {`"step":"17"`, `"step":"17","ste\u0070":"17"`, "twice"},
		"a list":               {`"__metadata__":{`, `"__metadata__":[`, "not a dsstne model file"},
	} {
		t.Run(name, func(t *testing.T) {
			file := reseal(namedSmall(t), func(header string) string {
				require.Contains(t, header, c.old)
				i := strings.LastIndex(header, c.old)
				if strings.HasPrefix(c.old, `"dsstne.model`) || strings.HasPrefix(c.old, `"shape":[40`) {
					i = strings.Index(header, c.old)
				}
				return header[:i] + c.new + header[i+len(c.old):]
			})
			requireUnreadable(t, file, fault.CorruptFile, c.words)
		})
	}
}

func manyNames(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"attributes.%d":""`, i)
	}
	return b.String()
}

func TestTheHeaderMayBeWrittenAsAnyJSON(t *testing.T) {
	want, err := readBytes(t, namedSmall(t))
	require.NoError(t, err)
	got, err := readBytes(t, reseal(namedSmall(t), func(header string) string {
		header = strings.ReplaceAll(header, `,"shape":[`, " \n,\t\"shape\" : [ ")
		header = strings.ReplaceAll(header, `:{"dtype":`, ":\r\n{ \"dtype\"\t:\n")
		header = strings.ReplaceAll(header, `]},`, " ] } ,")
		return strings.Replace(header, "\"step\"", `"st\u0065p"`, 1)
	}))
	require.NoError(t, err)
	requireEqual(t, want, got)
}

func TestAWeightThatIsNotFiniteIsNamed(t *testing.T) {
	file := fileOf(t, content(t, 40))
	length := int(binary.LittleEndian.Uint64(file))
	h, err := parseHeader(file[8 : 8+length])
	require.NoError(t, err)
	data := file[8+length : 8+length+int(h.entries[len(h.entries)-1].begin)]
	binary.LittleEndian.PutUint32(data[4*(3*20+1):], math.Float32bits(float32(math.NaN())))
	requireUnreadable(t, seal(file[:8+length], data), fault.CorruptFile, "hidden1.weight, row 20, column 1", "NaN")
}

func TestTheHeaderIsPaddedToAMultipleOfEight(t *testing.T) {
	for n := range 8 {
		c := content(t, 40)
		c.Attributes = map[string]string{"a": strings.Repeat("x", n)}
		file := fileOf(t, c)
		require.Zero(t, binary.LittleEndian.Uint64(file)%8)
	}
}

func TestEqualContentsMakeEqualFiles(t *testing.T) {
	attributes := map[string]string{}
	for i := range 20 {
		attributes[strconv.Itoa(i)] = "x"
	}
	one, other := content(t, 40), content(t, 40)
	one.Attributes, other.Attributes = attributes, maps.Clone(attributes)
	require.Equal(t, fileOf(t, one), fileOf(t, other))
}

func TestAMissingFileIsNotFound(t *testing.T) {
	_, err := Open(filepath.Join(t.TempDir(), "none.dsstne"))
	requireFault(t, err, fault.NotFound, "none.dsstne", "no such file")
}

func TestAFolderIsNotAFile(t *testing.T) {
	_, err := Open(t.TempDir())
	requireFault(t, err, fault.IO, "it is a folder")
}

func TestAPipeIsRefusedWithoutWaiting(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(path, 0o600))
	_, err := Open(path)
	requireFault(t, err, fault.IO, "not a regular file")
}

func TestAnErrorOfOpenNamesThePath(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.dsstne")
	require.NoError(t, os.WriteFile(path, wideFile(t)[:20000], 0o600))
	_, err := Open(path)
	requireFault(t, err, fault.CorruptFile, path+": file ends after 20,000 of")
}

// shrinking is a file that is cut while it is read.
type shrinking struct {
	*bytes.Reader
	size int64
}

func (s shrinking) ReadAt(p []byte, at int64) (int, error) {
	if at+int64(len(p)) > s.size-1000 && at < s.size-2000 {
		n, _ := s.Reader.ReadAt(p, at)
		return n / 2, syscall.EIO
	}
	return s.Reader.ReadAt(p, at)
}

func TestAReadErrorOfTheSystemIsReportedWithItsPlace(t *testing.T) {
	file := wideFile(t)
	_, err := readAll(t, shrinking{bytes.NewReader(file), int64(len(file))}, int64(len(file)), 1)
	requireFault(t, err, fault.IO, "cannot read byte", "input/output error")
}
