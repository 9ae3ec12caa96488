package modelfile

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/internal/fault"
)

// failingDisk fails its n-th call with "no space left on device"; a write that fails has written half.
type failingDisk struct {
	systemDisk
	failAt int
	calls  int
	failed string
}

func (d *failingDisk) fails(call string) error {
	d.calls++
	if d.calls != d.failAt {
		return nil
	}
	d.failed = call
	return &fs.PathError{Op: call, Path: "x", Err: syscall.ENOSPC}
}

func (d *failingDisk) Lstat(path string) (fs.FileInfo, error) {
	if err := d.fails("lstat"); err != nil {
		return nil, err
	}
	return d.systemDisk.Lstat(path)
}

func (d *failingDisk) Readlink(path string) (string, error) {
	if err := d.fails("readlink"); err != nil {
		return "", err
	}
	return d.systemDisk.Readlink(path)
}

func (d *failingDisk) Writable(path string) error {
	if err := d.fails("access"); err != nil {
		return err
	}
	return d.systemDisk.Writable(path)
}

func (d *failingDisk) Create(path string, mode fs.FileMode) (diskFile, error) {
	if err := d.fails("create"); err != nil {
		return nil, err
	}
	file, err := d.systemDisk.Create(path, mode)
	if err != nil {
		return nil, err
	}
	return &failingFile{diskFile: file, disk: d}, nil
}

func (d *failingDisk) Rename(from, to string) error {
	if err := d.fails("rename"); err != nil {
		return err
	}
	return d.systemDisk.Rename(from, to)
}

func (d *failingDisk) SyncFolder(path string) error {
	if err := d.fails("sync folder"); err != nil {
		return err
	}
	return d.systemDisk.SyncFolder(path)
}

type failingFile struct {
	diskFile
	disk *failingDisk
}

func (f *failingFile) Write(p []byte) (int, error) {
	if err := f.disk.fails("write"); err != nil {
		n, _ := f.diskFile.Write(p[:len(p)/2])
		return n, err
	}
	return f.diskFile.Write(p)
}

func (f *failingFile) Chmod(mode fs.FileMode) error {
	if err := f.disk.fails("chmod"); err != nil {
		return err
	}
	return f.diskFile.Chmod(mode)
}

func (f *failingFile) Sync() error {
	if err := f.disk.fails("sync"); err != nil {
		return err
	}
	return f.diskFile.Sync()
}

func (f *failingFile) Close() error {
	closeErr := f.diskFile.Close()
	if err := f.disk.fails("close"); err != nil {
		return err
	}
	return closeErr
}

// saveFailingAt saves over an old file through a link, with the n-th call of the system failing. It gives the disk and
// what stands at the path afterwards.
func saveFailingAt(t *testing.T, n int) (*failingDisk, string, error) {
	folder := t.TempDir()
	path := filepath.Join(folder, "m.dsstne")
	require.NoError(t, os.WriteFile(path, []byte("old"), 0o600))
	require.NoError(t, os.Symlink("m.dsstne", filepath.Join(folder, "link")))
	d := &failingDisk{failAt: n}
	err := save(d, filepath.Join(folder, "link"), content(t, 40), 2, testBlock)
	present, readErr := os.ReadFile(path)
	require.NoError(t, readErr)
	require.Equal(t, []string{"link", "m.dsstne"}, filesIn(t, folder), "after a failed %s", d.failed)
	return d, string(present), err
}

func TestWhateverFailsTheOldFileStandsAndNoOtherIsLeft(t *testing.T) {
	seen := map[string]bool{}
	for n := 1; ; n++ {
		d, present, err := saveFailingAt(t, n)
		if err == nil {
			break
		}
		seen[d.failed] = true
		requireFault(t, err, fault.IO, "link", "no space left on device")
		if d.failed == "sync folder" {
			continue // the new file is in place: the next test
		}
		require.Equal(t, "old", present, "after a failed %s", d.failed)
	}
	for _, call := range []string{"lstat", "readlink", "access", "create", "chmod", "write", "sync", "close", "rename",
		"sync folder"} {
		require.Contains(t, seen, call)
	}
}

func TestAFolderThatCannotBeSyncedLeavesTheNewFileAndSaysSo(t *testing.T) {
	for n := 1; ; n++ {
		d, present, err := saveFailingAt(t, n)
		require.Error(t, err)
		if d.failed != "sync folder" {
			continue
		}
		requireFault(t, err, fault.IO, "is written and whole")
		require.Equal(t, string(fileOf(t, content(t, 40))), present)
		return
	}
}

func TestAPanicWhileWritingLeavesTheOldFileAndNoOther(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "m.dsstne")
	require.NoError(t, os.WriteFile(path, []byte("old"), 0o600))
	require.Panics(t, func() {
		_ = replaceFile(systemDisk{}, path, func(io.Writer) error { panic("no luck") })
	})
	require.Equal(t, []string{"m.dsstne"}, filesIn(t, folder))
}
