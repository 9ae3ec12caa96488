package model

import (
	"bytes"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/engine/fault"
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

func TestSaveAndLoadGiveTheSameModel(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.dsstne")
	m := create(t, wideDefinition, 1)
	require.NoError(t, m.Save(path, map[string]string{"a": "b"}))
	loaded, err := Load(path, 2)
	require.NoError(t, err)
	defer loaded.Close()
	for i, tensor := range m.Tensors() {
		require.Equal(t, tensor.Bytes(), loaded.Tensors()[i].Bytes())
	}
}

func TestSavingLeavesNothingButTheFile(t *testing.T) {
	folder := t.TempDir()
	require.NoError(t, create(t, smallDefinition, 1).Save(filepath.Join(folder, "m.dsstne"), nil))
	require.Equal(t, []string{"m.dsstne"}, filesIn(t, folder))
}

func TestAModelCanBeSavedOverTheFileItWasLoadedFrom(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.dsstne")
	require.NoError(t, create(t, wideDefinition, 1).Save(path, nil))
	before, err := os.ReadFile(path)
	require.NoError(t, err)
	m, err := Load(path, 2)
	require.NoError(t, err)
	defer m.Close()
	require.NoError(t, m.Save(path, nil))
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, before, after)
}

func TestAttributesStayWithTheModelUnlessOthersAreGiven(t *testing.T) {
	m := create(t, smallDefinition, 1)
	path := filepath.Join(t.TempDir(), "m.dsstne")
	require.NoError(t, m.Save(path, map[string]string{"a": "b"}))
	require.NoError(t, m.Save(path, nil))
	loaded, err := Load(path, 1)
	require.NoError(t, err)
	defer loaded.Close()
	require.Equal(t, map[string]string{"a": "b"}, loaded.Attributes())
}

func TestAttributesThatAreNotTextAreRefused(t *testing.T) {
	err := create(t, smallDefinition, 1).Save(filepath.Join(t.TempDir(), "m"), map[string]string{"a": "\xff"})
	requireFault(t, err, fault.InvalidArgument, `"a"`, "UTF-8")
}

func TestAttributesBeyondTheHeadersLimitAreRefused(t *testing.T) {
	attributes := map[string]string{"a": strings.Repeat("x", headerLimit)}
	err := create(t, smallDefinition, 1).Save(filepath.Join(t.TempDir(), "m"), attributes)
	requireFault(t, err, fault.InvalidArgument, "attributes are too long")
}

func TestSaveIsRefusedWhileTheModelIsTrained(t *testing.T) {
	m := create(t, smallDefinition, 1)
	unlock, err := m.TryWrite()
	require.NoError(t, err)
	defer unlock()
	requireFault(t, m.Save(filepath.Join(t.TempDir(), "m"), nil), fault.Busy, "being trained")
}

func TestAModelThatIsNotFiniteDoesNotReplaceAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.dsstne")
	require.NoError(t, os.WriteFile(path, []byte("old"), 0o600))
	m := create(t, smallDefinition, 1)
	m.Tensors()[0].Float32()[4] = float32(math.Inf(1))
	requireFault(t, m.Save(path, nil), fault.NotFinite, path, "hidden1.weight, row 1, column 1")
	old, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "old", string(old))
}

func TestANewFileHasTheModeThatTheUmaskLeaves(t *testing.T) {
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "plain"), nil, 0o666))
	require.NoError(t, create(t, smallDefinition, 1).Save(filepath.Join(folder, "m"), nil))
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
		require.NoError(t, create(t, smallDefinition, 1).Save(path, nil))
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
	require.NoError(t, create(t, smallDefinition, 1).Save(link, nil))
	info, err := os.Lstat(link)
	require.NoError(t, err)
	require.NotZero(t, info.Mode()&fs.ModeSymlink)
	m, err := Load(real, 1)
	require.NoError(t, err)
	require.NoError(t, m.Close())
	require.Equal(t, []string{"m"}, filesIn(t, filepath.Join(folder, "real")))
}

func TestALinkToNoFileYetMakesIt(t *testing.T) {
	folder := t.TempDir()
	require.NoError(t, os.Symlink(filepath.Join(folder, "m"), filepath.Join(folder, "link")))
	require.NoError(t, create(t, smallDefinition, 1).Save(filepath.Join(folder, "link"), nil))
	require.Equal(t, []string{"link", "m"}, filesIn(t, folder))
}

func TestAPathThroughALinkedFolderMeansWhatItMeansToTheSystem(t *testing.T) {
	folder := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(folder, "real", "sub"), 0o755))
	require.NoError(t, os.Symlink("real/sub", filepath.Join(folder, "link")))
	require.NoError(t, create(t, smallDefinition, 1).Save(folder+"/link/../m", nil))
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
			requireFault(t, create(t, smallDefinition, 1).Save(c.path, nil), fault.IO, "cannot save "+c.path, c.words)
			require.Equal(t, before, filesIn(t, folder))
		})
	}
}

func TestAnEmptyPathIsRefused(t *testing.T) {
	requireFault(t, create(t, smallDefinition, 1).Save("", nil), fault.InvalidArgument, "path is empty")
}

func TestALongNameIsPossible(t *testing.T) {
	require.NoError(t, create(t, smallDefinition, 1).Save(filepath.Join(t.TempDir(), strings.Repeat("x", 255)), nil))
}

func TestAFileNameAloneIsInTheWorkingFolder(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, create(t, smallDefinition, 1).Save("m.dsstne", nil))
	require.Equal(t, []string{"m.dsstne"}, filesIn(t, "."))
}

func TestConcurrentSavesNeverMix(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "m.dsstne")
	models := make([]*Model, 4)
	for i := range models {
		models[i] = create(t, wideDefinition, uint64(i))
		models[i].SetStep(int64(i))
	}
	require.NoError(t, models[0].Save(path, nil))
	var wait sync.WaitGroup
	for _, m := range models {
		wait.Go(func() {
			for range 5 {
				if err := m.Save(path, nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 20 {
		loaded, err := Load(path, 1)
		require.NoError(t, err)
		want := models[loaded.Step()]
		require.True(t, bytes.Equal(want.Tensors()[0].Bytes(), loaded.Tensors()[0].Bytes()))
		require.NoError(t, loaded.Close())
	}
	wait.Wait()
	require.Equal(t, []string{"m.dsstne"}, filesIn(t, folder))
}
