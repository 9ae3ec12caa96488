package modelfile

import (
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/internal/fault"
)

// filesIn lists the names in a folder.
func filesIn(t testing.TB, folder string) []string {
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestSavingLeavesNothingButTheFile(t *testing.T) {
	folder := t.TempDir()
	require.NoError(t, Save(filepath.Join(folder, "m.dsstne"), content(t, 40), 2))
	require.Equal(t, []string{"m.dsstne"}, filesIn(t, folder))
}

func TestAttributesThatAreNotTextAreRefused(t *testing.T) {
	err := Save(filepath.Join(t.TempDir(), "m"), &Content{Attributes: map[string]string{"a": "\xff"}}, 2)
	requireFault(t, err, fault.InvalidArgument, `"a"`, "UTF-8")
}

func TestAttributesBeyondTheHeadersLimitAreRefused(t *testing.T) {
	attributes := map[string]string{"a": strings.Repeat("x", headerLimit)}
	err := Save(filepath.Join(t.TempDir(), "m"), &Content{Attributes: attributes}, 2)
	requireFault(t, err, fault.InvalidArgument, "attributes are too long")
}

func TestAContentThatIsNotFiniteDoesNotReplaceAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.dsstne")
	require.NoError(t, os.WriteFile(path, []byte("old"), 0o600))
	c := content(t, 40)
	c.Tensors[0].Float32()[4] = float32(math.Inf(1))
	requireFault(t, Save(path, c, 2), fault.NotFinite, path, "hidden1.weight, row 1, column 1")
	old, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "old", string(old))
}

func TestANewFileHasTheModeThatTheUmaskLeaves(t *testing.T) {
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "plain"), nil, 0o666))
	require.NoError(t, Save(filepath.Join(folder, "m"), content(t, 40), 2))
	plain, err := os.Stat(filepath.Join(folder, "plain"))
	require.NoError(t, err)
	saved, err := os.Stat(filepath.Join(folder, "m"))
	require.NoError(t, err)
	require.Equal(t, plain.Mode(), saved.Mode())
}

func TestAReplacedFileKeepsItsMode(t *testing.T) {
	for _, mode := range []fs.FileMode{0o600, 0o640, 0o666, 0o777} {
		path := filepath.Join(t.TempDir(), "m")
		require.NoError(t, os.WriteFile(path, nil, 0o600))
		require.NoError(t, os.Chmod(path, mode))
		require.NoError(t, Save(path, content(t, 40), 2))
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, mode, info.Mode())
	}
}

func TestALinkIsFollowedToTheRealFile(t *testing.T) {
	folder := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(folder, "real"), 0o755))
	real, link := filepath.Join(folder, "real", "m"), filepath.Join(folder, "link")
	require.NoError(t, os.WriteFile(real, []byte("old"), 0o600))
	require.NoError(t, os.Symlink("real/m", link))
	require.NoError(t, Save(link, content(t, 40), 2))
	info, err := os.Lstat(link)
	require.NoError(t, err)
	require.NotZero(t, info.Mode()&fs.ModeSymlink)
	f, err := Open(real)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.Equal(t, []string{"m"}, filesIn(t, filepath.Join(folder, "real")))
}

func TestALinkToNoFileYetMakesIt(t *testing.T) {
	folder := t.TempDir()
	require.NoError(t, os.Symlink(filepath.Join(folder, "m"), filepath.Join(folder, "link")))
	require.NoError(t, Save(filepath.Join(folder, "link"), content(t, 40), 2))
	require.Equal(t, []string{"link", "m"}, filesIn(t, folder))
}

func TestAPathThroughALinkedFolderMeansWhatItMeansToTheSystem(t *testing.T) {
	folder := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(folder, "real", "sub"), 0o755))
	require.NoError(t, os.Symlink("real/sub", filepath.Join(folder, "link")))
	require.NoError(t, Save(folder+"/link/../m", content(t, 40), 2))
	require.Equal(t, []string{"m", "sub"}, filesIn(t, filepath.Join(folder, "real")))
}

func TestTargetsThatCannotBeWrittenAreRefusedInWords(t *testing.T) {
	folder := t.TempDir()
	require.NoError(t, os.Symlink("loop", filepath.Join(folder, "loop")))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "file"), nil, 0o600))
	require.NoError(t, syscall.Mkfifo(filepath.Join(folder, "pipe"), 0o600))
	before := filesIn(t, folder)
	for name, c := range map[string]struct{ path, words string }{
		"a folder":              {folder, "it is a folder; add a file name"},
		"a missing folder":      {filepath.Join(folder, "none", "m"), "none/ does not exist"},
		"a file as folder":      {filepath.Join(folder, "file", "m"), "not a directory"},
		"a link to itself":      {filepath.Join(folder, "loop"), "too many levels of symbolic links"},
		"a pipe":                {filepath.Join(folder, "pipe"), "not a regular file"},
		"a name that is a mile": {filepath.Join(folder, strings.Repeat("x", 300)), "file name too long"},
		"a zero in the name":    {filepath.Join(folder, "a\x00b"), "invalid argument"},
	} {
		t.Run(name, func(t *testing.T) {
			requireFault(t, Save(c.path, content(t, 40), 2), fault.IO, "cannot save "+c.path, c.words)
			require.Equal(t, before, filesIn(t, folder))
		})
	}
}

func TestAFolderThatIsThereIsNotSaidToBeMissing(t *testing.T) {
	if _, err := os.Stat("/proc/self"); err != nil {
		t.Skip("this system has no /proc, a folder in which no file can be made")
	}
	requireFault(t, Save("/proc/m", content(t, 40), 2), fault.IO, "no file can be made in the folder /proc/")
}

func TestAnEmptyPathIsRefused(t *testing.T) {
	requireFault(t, Save("", content(t, 40), 2), fault.InvalidArgument, "path is empty")
}

func TestALongNameIsPossible(t *testing.T) {
	require.NoError(t, Save(filepath.Join(t.TempDir(), strings.Repeat("x", 255)), content(t, 40), 2))
}

func TestAFileNameAloneIsInTheWorkingFolder(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, Save("m.dsstne", content(t, 40), 2))
	require.Equal(t, []string{"m.dsstne"}, filesIn(t, "."))
}

func TestConcurrentSavesNeverMix(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "m.dsstne")
	contents := make([]*Content, 4)
	for i := range contents {
		contents[i] = content(t, 3140)
		contents[i].Step = int64(i)
		for n := range contents[i].Tensors[0].Float32() {
			contents[i].Tensors[0].Float32()[n] = float32(i)
		}
	}
	require.NoError(t, Save(path, contents[0], 2))
	var wait sync.WaitGroup
	for _, c := range contents {
		wait.Go(func() {
			for range 5 {
				if err := Save(path, c, 2); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 20 {
		file, err := os.ReadFile(path)
		require.NoError(t, err)
		got, err := readBytes(t, file)
		require.NoError(t, err)
		requireEqual(t, contents[got.Step], got)
	}
	wait.Wait()
	require.Equal(t, []string{"m.dsstne"}, filesIn(t, folder))
}
