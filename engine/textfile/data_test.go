package textfile

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/stretchr/testify/require"

	"dsstne/internal/fault"
	"dsstne/kernels"
)

// write writes files and returns their paths.
func write(t testing.TB, texts ...string) (paths []string) {
	folder := t.TempDir()
	for n, text := range texts {
		paths = append(paths, filepath.Join(folder, fmt.Sprintf("%d.txt", n)))
		require.NoError(t, os.WriteFile(paths[n], []byte(text), 0o600))
	}
	return paths
}

// gunzip is that of the library.
func gunzip(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) }

// withDefaults are options with a limit for lines.
func withDefaults(o Options) Options {
	o.Gunzip = gunzip
	if o.LongestLine == 0 {
		o.LongestLine = 1 << 20
	}
	return o
}

func read(t testing.TB, paths []string, o Options) (*Data, error) {
	d, err := ReadData(paths, withDefaults(o), new(atomic.Bool))
	if err == nil {
		t.Cleanup(func() { require.NoError(t, d.Close()) })
	}
	return d, err
}

// requirePlain compares a reading with that of a plain reader.
func requirePlain(t testing.TB, texts []string, paths []string, o Options) {
	t.Helper()
	d, err := read(t, paths, o)
	want := readPlainly(texts, o)
	if len(want.features) == 0 {
		require.ErrorContains(t, err, "the text has no features")
		return
	}
	require.NoError(t, err)
	require.Equal(t, want, asPlain(t, d))
}

func TestATextIsNumberedAsItsLabelsAppear(t *testing.T) {
	text := "ann\ttea,5:milk,1.5:\nbob\tbread,-2:tea,1e1\n"
	for _, analog := range []bool{false, true} {
		requirePlain(t, []string{text}, write(t, text), Options{Analog: analog})
	}
}

func TestFeaturesWithoutValuesHaveTheDefault(t *testing.T) {
	text := "ann\ttea,5:milk:\nbob\tbread:bread,0:tea\nbad\t,1\ncid\ttea,:x\neve\tmilk"
	for _, value := range []float32{0, -0.5, 1e30} {
		for _, size := range []int{1, 1 << 20} {
			o := Options{Analog: true, SkipMalformed: true, DefaultValue: &value, blockSize: size}
			requirePlain(t, []string{text}, write(t, text), o)
		}
	}
}

func TestLinesMayEndInAnyWay(t *testing.T) {
	for _, text := range []string{
		"a\tx:y\nb\tz", "a\tx:y\r\nb\tz\r\n", "\uFEFFa\tx\n", "\n\r\n\na\tx\n\n", "a\tx\nb\t\nc\ty\n", "a\t::x::y:\n",
		"\uFEFF", "a\tx\r", "a\tx\ry:z\r\r\n", "a\tx:x:y:x\n", "", "\n", "a\t\n", "ä€😀\tü: ,1: \n", "a\t\x00:\x01\n",
	} {
		requirePlain(t, []string{text}, write(t, text), Options{})
	}
}

func TestAnyNumberOfThreadsAndAnyBlocksGiveTheSame(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for round := range 60 {
		texts := []string{randomText(random), randomText(random), randomText(random)}
		paths := write(t, texts...)
		o := Options{Analog: round%2 > 0, SkipMalformed: true, Repeated: Repeated(round / 2 % 2)}
		if value := float32(round); round%4 == 1 {
			o.DefaultValue = &value
		}
		if round%3 > 0 {
			o.Features, o.ExtendFeatures = indexOf("f3", "f1", "f99"), round%3 == 1
		}
		if round%5 > 2 {
			o.Samples, o.ExtendSamples = indexOf("s9", "s2", "s5"), round%5 == 4
		}
		for _, o.Threads = range []int{1, 2, 5} {
			for _, o.blockSize = range []int{1, 7, 64, 1 << 20} {
				requirePlain(t, texts, paths, o)
			}
		}
	}
}

// randomText has repeated samples and features, and malformed lines of every kind.
func randomText(random *rand.Rand) string {
	var text strings.Builder
	for range random.IntN(30) {
		switch random.IntN(12) {
		case 0:
			bad := []string{
				"x", "\tf1", "s,1\tf1", "s1\t,2", "s1\tf1\tf2", "s1\tf1,1,2", "s1\tf7", "s1\tf1,x", "s1\tf9,nan", "s\xff\tf1",
			}
			text.WriteString(bad[random.IntN(len(bad))])
		default:
			fmt.Fprintf(&text, "s%d\t", random.IntN(12))
			for range random.IntN(6) {
				fmt.Fprintf(&text, "f%d,%g:", random.IntN(20), float32(random.IntN(1000))/8)
			}
		}
		text.WriteString([]string{"\n", "\r\n", "\n\n"}[random.IntN(3)])
	}
	return text.String()
}

func TestSamplesOfTheIndexThatTheTextLacksAreEmptyRows(t *testing.T) {
	for text, ascending := range map[string]bool{"b\tx:y\nd\ty\n": true, "d\ty\nb\tx:y\n": false} {
		d, err := read(t, write(t, text), Options{Samples: indexOf("a", "b", "c", "d", "e"), Features: indexOf("x", "y")})
		require.NoError(t, err)
		require.Equal(t, [][]entry{nil, {{0, 1}, {1, 1}}, nil, {{1, 1}}, nil}, asPlain(t, d).rows, ascending)
	}
}

func TestAFolderIsItsFilesInTheOrderOfTheirNames(t *testing.T) {
	folder := t.TempDir()
	for name, text := range map[string]string{
		"b": "s1\tx\n", "B": "s0\tw", "a.gz": zipped(t, "s2\ty\n"), ".c": "s3\tz",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
	d, err := read(t, []string{folder}, Options{})
	require.NoError(t, err)
	require.Equal(t, []string{"s0", "s2", "s1"}, labelsOf(t, d, "rows"))
	require.Equal(t, Report{
		Files: 3, Bytes: 14, Lines: 3, Samples: 3, NewSamples: 3, NewFeatures: 3, Malformed: map[string]Malformed{},
	}, d.Report())
}

func zipped(t testing.TB, members ...string) string {
	var out bytes.Buffer
	for _, text := range members {
		w := gzip.NewWriter(&out)
		_, err := w.Write([]byte(text))
		require.NoError(t, err)
		require.NoError(t, w.Close())
	}
	return out.String()
}

func TestACompressedFileIsToldByItsContentAndMayHaveMembers(t *testing.T) {
	text := "a\tx:y\nb\tz:x"
	requirePlain(t, []string{text}, write(t, zipped(t, text[:3], text[3:])), Options{blockSize: 4})
}

func TestALastLineWithoutNewlineMayFillItsBlock(t *testing.T) {
	for _, size := range []int{4095, 4096, 4097, 5120} { // lists have room for 4096 bytes or more
		text := "a\t" + strings.Repeat("x", size-2)
		for _, file := range []string{text, zipped(t, text)} {
			for _, block := range []int{1, 512, 1024, 4096} {
				requirePlain(t, []string{text}, write(t, file), Options{blockSize: block, LongestLine: 1 << 20})
			}
		}
	}
}

func TestReadingEndsInBoundedMemory(t *testing.T) {
	bomb := zipped(t, strings.Repeat("0", 1<<24))
	require.Less(t, len(bomb), 1<<16)
	before := kernels.ReadMemory(kernels.DeviceInfo{}).Allocated
	_, err := read(t, write(t, bomb), Options{})
	require.ErrorContains(t, err, "0.txt, line 1: the line has more than 1,048,576 bytes")
	_, err = read(t, write(t, bomb), Options{LongestLine: 1 << 30, MemoryLimit: 4 << 20, blockSize: 1 << 16})
	require.Equal(t, fault.OutOfMemory, fault.KindOf(err))
	require.ErrorContains(t, err, "more memory than memory_limit, 4,194,304 bytes")
	require.Equal(t, before, kernels.ReadMemory(kernels.DeviceInfo{}).Allocated, "everything is free again")
}

func TestAReadingCanBeCancelled(t *testing.T) {
	cancelled := new(atomic.Bool)
	cancelled.Store(true)
	_, err := ReadData(write(t, "a\tx\n"), withDefaults(Options{}), cancelled)
	require.Equal(t, fault.Cancelled, fault.KindOf(err))
}

func TestMalformedLinesAreErrorsWithTheirPlaces(t *testing.T) {
	const (
		noTab     = "the line has no TAB; a line is a sample's label, a TAB, and its features between colons"
		secondTab = "there is a second TAB; features are separated by colons, and labels have no TAB"
	)
	for _, c := range []struct {
		text   string
		analog bool
		want   string
	}{
		{"x", false, "line 1, column 1: " + noTab},
		{"a\tx\n \n", false, "line 2, column 1: " + noTab},
		{"\tx", false, "line 1, column 1: there is no label before the TAB"},
		{"a,b\tx", false, `line 1, column 1: the sample's label "a,b" has a colon or a comma; labels have neither`},
		{"a:b\tx", false, `line 1, column 1: the sample's label "a:b" has a colon or a comma; labels have neither`},
		{"a\tx:,3:y", false, `line 1, column 5: there is no label before the comma of ",3"`},
		{"a\tx\ty", false, "line 1, column 4: " + secondTab},
		{"ä\tü,1\ty", false, "line 1, column 6: " + secondTab},
		{"a\tx,1,2:y", false, `line 1, column 3: "x,1,2" has more than one comma; write a feature as label or label,value`},
		{"a\tx,1:y", true, `line 1, column 7: the feature "y" has no value; write label,value, give default_value, ` +
			`or read the text with values "indicator"`},
		{"a\tx,1:y,", false, `line 1, column 9: the value "" is not a number; write it as 3, 0.5 or 1e-3`},
		{"a\tx,abc", false, `line 1, column 5: the value "abc" is not a number; write it as 3, 0.5 or 1e-3`},
		{"a\tx,1 ", true, `line 1, column 5: the value "1 " is not a number; write it as 3, 0.5 or 1e-3`},
		{"a\tx,0x10", true, `line 1, column 5: the value "0x10" is not a number; write it as 3, 0.5 or 1e-3`},
		{"a\tx,1_0", true, `line 1, column 5: the value "1_0" is not a number; write it as 3, 0.5 or 1e-3`},
		{"a\tx,.", true, `line 1, column 5: the value "." is not a number; write it as 3, 0.5 or 1e-3`},
		{"a\tx,1e", true, `line 1, column 5: the value "1e" is not a number; write it as 3, 0.5 or 1e-3`},
		{"a\tx,nan", true, `line 1, column 5: the value "nan" is not finite or too large for float32`},
		{"a\tx,-Infinity", false, `line 1, column 5: the value "-Infinity" is not finite or too large for float32`},
		{"a\tx,3.5e38", true, `line 1, column 5: the value "3.5e38" is not finite or too large for float32`},
		{"a\tx\nb\tä\xff", false, "line 2, column 4: the line is not valid UTF-8; convert the file to UTF-8"},
		{"a\tx\n\xc3\tx", false, "line 2, column 1: the line is not valid UTF-8; convert the file to UTF-8"},
		{"\n\r\n\uFEFFb", false, "line 3, column 1: " + noTab},
		{strings.Repeat("ä", 99) + ":\tx", false, `line 1, column 1: the sample's label "` + strings.Repeat("ä", 30) +
			`..." has a colon or a comma; labels have neither`},
	} {
		for _, size := range []int{1, 1 << 20} {
			path := write(t, c.text)
			_, err := read(t, path, Options{Analog: c.analog, blockSize: size})
			require.EqualError(t, err, path[0]+", "+c.want, "%q", c.text)
			require.Equal(t, fault.InvalidData, fault.KindOf(err))
		}
	}
}

func TestTheFirstMalformedLineIsTheError(t *testing.T) {
	text := strings.Repeat("a\tx\n", 50) + "bad\n" + strings.Repeat("a\ty\n", 50) + "worse\n"
	for range 100 {
		_, err := read(t, write(t, text), Options{Threads: 4, blockSize: 8})
		require.ErrorContains(t, err, "line 51, column 1")
	}
}

func TestSkippedLinesAreCountedByKindWithTheFirstPlace(t *testing.T) {
	paths := write(t, "a\tx\nbad\nb\tx,y\n", "bad\n")
	d, err := read(t, paths, Options{SkipMalformed: true})
	require.NoError(t, err)
	require.Equal(t, map[string]Malformed{
		"no_tab":       {2, Place{paths[0], 2, 1}},
		"not_a_number": {1, Place{paths[0], 3, 5}},
	}, d.Report().Malformed)
}

func TestRepeatedSamplesCanBeErrorsThatNameBothLines(t *testing.T) {
	paths := write(t, "\na\tx\n", "b\tx\n\n", "c\tx\nb\ty\n")
	for _, size := range []int{1, 1 << 20} {
		_, err := read(t, paths, Options{Repeated: RefuseRepeated, blockSize: size})
		require.EqualError(t, err, fmt.Sprintf("%s, line 2: the sample \"b\" is already in %s, line 1; choose what "+
			"happens to repeated samples with on_repeated, \"replace\" or \"merge\"", paths[2], paths[1]))
	}
	d, err := read(t, paths[:2], Options{Repeated: RefuseRepeated})
	require.NoError(t, err)
	require.Equal(t, int64(2), d.Rows())
}

func TestPathsThatCannotBeReadAreErrors(t *testing.T) {
	folder := t.TempDir()
	path := func(name string) string { return filepath.Join(folder, name) }
	for _, name := range []string{"empty", "nested", "nested/in", "hidden"} {
		require.NoError(t, os.Mkdir(path(name), 0o700))
	}
	require.NoError(t, os.WriteFile(path("hidden/.x"), []byte("a\tx"), 0o600))
	whole := zipped(t, "a\tx:y\n")
	require.NoError(t, os.WriteFile(path("cut.gz"), []byte(whole[:len(whole)-9]), 0o600))
	require.NoError(t, os.WriteFile(path("begin.gz"), []byte(whole[:5]), 0o600))
	require.NoError(t, os.WriteFile(path("damaged.gz"), []byte(whole[:len(whole)-8]+"12345678"), 0o600))
	require.NoError(t, os.WriteFile(path("empty.txt"), nil, 0o600))
	for name, want := range map[string]string{
		"none":       ": no such file or folder",
		"empty":      ": the folder has no files (those whose names begin with a dot are left out)",
		"hidden":     ": the folder has no files (those whose names begin with a dot are left out)",
		"nested":     "/in: it is a folder inside a folder, and only the files of a folder itself are read",
		"cut.gz":     ": the compressed file ends early; it was not copied completely, or is damaged",
		"begin.gz":   ": the compressed file ends early; it was not copied completely, or is damaged",
		"damaged.gz": ": the compressed file is damaged: gzip: invalid checksum",
		"empty.txt":  "the text has no features (0 lines)",
	} {
		_, err := read(t, []string{path(name)}, Options{})
		require.ErrorContains(t, err, want, name)
		require.NotEqual(t, fault.Internal, fault.KindOf(err))
	}
	_, err := read(t, nil, Options{})
	require.ErrorContains(t, err, "there are no paths")
	_, err = read(t, []string{"/dev/null"}, Options{})
	require.ErrorContains(t, err, "/dev/null: it is not a regular file")
}

func TestAGivenIndexMustHaveDifferentLabels(t *testing.T) {
	for want, index := range map[string]Index{
		`feature 2 has the label "x", which feature 0 has already`:                         indexOf("x", "y", "x"),
		`the label of feature 1 is empty`:                                                  indexOf("x", ""),
		`the label of feature 0 is "a,b", but labels have no TAB, newline, colon or comma`: indexOf("a,b"),
		`the offsets of the feature labels are not valid at label 0`:                       {Offsets: []int64{0, 2}},
	} {
		_, err := read(t, write(t, "a\tx\n"), Options{Features: index})
		require.ErrorContains(t, err, want)
	}
}

func TestAnEmptyIndexThatIsFixedLeavesNothing(t *testing.T) {
	_, err := read(t, write(t, "a\tx\n"), Options{Features: indexOf()})
	require.ErrorContains(t, err, "the text has no features")
}
