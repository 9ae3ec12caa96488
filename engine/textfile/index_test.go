package textfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/internal/fault"
)

func TestAnIndexIsReadInAnyOrder(t *testing.T) {
	for _, text := range []string{
		"b\t1\na\t0\nü\t2", "\uFEFFü\t2\r\n\r\na\t0\r\nb\t1\r\n", zipped(t, "a\t00\nb\t1\nü\t2\n"),
	} {
		index, err := ReadIndex(write(t, text)[0], gunzip)
		require.NoError(t, err)
		require.Equal(t, indexOf("a", "b", "ü"), index)
	}
	index, err := ReadIndex(write(t, "")[0], gunzip)
	require.NoError(t, err)
	require.Equal(t, indexOf(), index)
}

func TestAnIndexIsWrittenInTheOrderOfItsNumbers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "index")
	require.NoError(t, WriteIndex(path, indexOf("b", "a", "ü x")))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "b\t0\na\t1\nü x\t2\n", string(text))
	index, err := ReadIndex(path, gunzip)
	require.NoError(t, err)
	require.Equal(t, indexOf("b", "a", "ü x"), index)
}

func TestAnIndexThatCannotBeReadAgainIsNotWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "index")
	require.NoError(t, WriteIndex(path, indexOf("a")))
	for label, want := range map[string]string{
		"a": `entry 1 has the label "a", which entry 0 has already`, "": "the label of entry 1 is empty",
		"x\ty": "labels have no TAB", "x:y": "colon", "x,y": "comma", "x\n": "newline", "x\r": "carriage return",
		"\xff": "not valid UTF-8",
	} {
		err := WriteIndex(path, indexOf("a", label))
		require.ErrorContains(t, err, want, "%q", label)
		require.Equal(t, fault.InvalidArgument, fault.KindOf(err))
	}
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "a\t0\n", string(text))
}

func TestADamagedIndexIsAnErrorWithItsPlace(t *testing.T) {
	for text, want := range map[string]string{
		"a\t0\nb":                       ", line 2: the line has no TAB; a line of an index is a label, a TAB and its number",
		"\t0":                           ", line 1: the label is empty",
		"a:b\t0":                        `, line 1: the label is "a:b", but labels have no TAB, newline, colon or comma`,
		"\xff\t0":                       `, line 1: the label is "\xff", which is not valid UTF-8`,
		"a\t":                           `, line 1: "" is not a number of a label; labels are numbered from 0 to 2147483646`,
		"a\t-1":                         `, line 1: "-1" is not a number of a label`,
		"a\t+1":                         `, line 1: "+1" is not a number of a label`,
		"a\t1.0":                        `, line 1: "1.0" is not a number of a label`,
		"a\t1\t2":                       `, line 1: "1\t2" is not a number of a label`,
		"a\t99999999999999999999":       `, line 1: "99999999999999999999" is not a number of a label`,
		"a\t0\nb\t1\na\t2":              `, line 3: the label "a" is already in line 1; each label has one number`,
		"a\t0\nb\t1\nc\t1":              ", line 3: the number 1 is already in line 2; each label has a number of its own",
		"a\t0\nb\t2":                    ": no label has the number 1, but one has 2; the numbers of an index are 0 to 1",
		"a\t1":                          ": no label has the number 0, but one has 1; the numbers of an index are 0 to 0",
		strings.Repeat("x", 1<<20) + "": ", line 1: the line has no TAB",
		strings.Repeat("x", 1<<22):      ", line 1: the line has more than 1,048,576 bytes",
	} {
		path := write(t, text)[0]
		_, err := ReadIndex(path, gunzip)
		require.ErrorContains(t, err, path+want)
		require.Equal(t, fault.InvalidData, fault.KindOf(err))
	}
	_, err := ReadIndex(t.TempDir(), gunzip)
	require.ErrorContains(t, err, "it is a folder, not a file")
	_, err = ReadIndex("no-such-index", gunzip)
	require.Equal(t, fault.NotFound, fault.KindOf(err))
}
