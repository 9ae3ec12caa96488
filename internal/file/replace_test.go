package file

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dsstne/internal/fault"
)

// failingDisk fails its n-th call with "no space left on device"; a write that fails has written half.
type failingDisk struct {
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

// failing is a call of the system that fails when the disk does.
func failing[T any](d *failingDisk, call string, do func(path string) (T, error)) func(path string) (T, error) {
	return func(path string) (none T, err error) {
		if err := d.fails(call); err != nil {
			return none, err
		}
		return do(path)
	}
}

// failingError is failing for calls that return nothing else.
func failingError(d *failingDisk, call string, do func(path string) error) func(path string) error {
	return func(path string) error {
		if err := d.fails(call); err != nil {
			return err
		}
		return do(path)
	}
}

func (d *failingDisk) disk() *disk {
	system := systemDisk
	system.lstat = failing(d, "lstat", os.Lstat)
	system.readlink = failing(d, "readlink", os.Readlink)
	system.writable = failingError(d, "access", systemDisk.writable)
	system.syncFolder = failingError(d, "sync folder", systemDisk.syncFolder)
	system.create = func(path string, mode fs.FileMode) (diskFile, error) {
		return failing(d, "create", func(path string) (diskFile, error) {
			file, err := systemDisk.create(path, mode)
			return &failingFile{diskFile: file, disk: d}, err
		})(path)
	}
	system.rename = func(from, to string) error {
		return failingError(d, "rename", func(from string) error { return os.Rename(from, to) })(from)
	}
	return &system
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

func writeNew(w io.Writer) error {
	_, err := w.Write([]byte("new"))
	return err
}

// saveFailingAt saves over an old file through a link, with the n-th call of the system failing. It gives the disk and
// what stands at the path afterwards.
func saveFailingAt(t *testing.T, n int) (*failingDisk, string, error) {
	folder := t.TempDir()
	path := filepath.Join(folder, "m.dsstne")
	require.NoError(t, os.WriteFile(path, []byte("old"), 0o600))
	require.NoError(t, os.Symlink("m.dsstne", filepath.Join(folder, "link")))
	d := &failingDisk{failAt: n}
	err := replace(d.disk(), filepath.Join(folder, "link"), writeNew)
	present, readErr := os.ReadFile(path)
	require.NoError(t, readErr)
	names, globErr := fs.Glob(os.DirFS(folder), "*")
	require.NoError(t, globErr)
	require.Equal(t, []string{"link", "m.dsstne"}, names, "after a failed %s", d.failed)
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
		require.Equal(t, fault.IO, fault.KindOf(err))
		require.ErrorContains(t, err, "link")
		require.ErrorContains(t, err, "no space left on device")
		require.Equal(t, syscall.ENOSPC, fault.Errno(err), "after a failed %s", d.failed)
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
		require.Equal(t, fault.IO, fault.KindOf(err))
		require.ErrorContains(t, err, "is written and whole")
		require.Equal(t, "new", present)
		return
	}
}

func TestAPanicWhileWritingLeavesTheOldFileAndNoOther(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "m.dsstne")
	require.NoError(t, os.WriteFile(path, []byte("old"), 0o600))
	require.Panics(t, func() {
		_ = Replace(path, func(io.Writer) error { panic("no luck") })
	})
	names, err := fs.Glob(os.DirFS(folder), "*")
	require.NoError(t, err)
	require.Equal(t, []string{"m.dsstne"}, names)
}

func TestASaveRemovesWhatKilledSavesLeft(t *testing.T) {
	folder := t.TempDir()
	target := filepath.Join(folder, "m")
	hourAgo := time.Now().Add(-time.Hour)
	names := map[string]bool{ // whether it stays
		".m.saving-0123456789abcdef":  false,
		".m.saving-1123456789abcdef":  true, // locked: another process is writing it
		".m.saving-2123456789abcdef":  true, // just made
		".m.saving-3":                 true,
		".mm.saving-0123456789abcdef": true,
	}
	for name := range names {
		path := filepath.Join(folder, name)
		require.NoError(t, os.WriteFile(path, []byte("x"), 0o600))
		if name != ".m.saving-2123456789abcdef" {
			require.NoError(t, os.Chtimes(path, hourAgo, hourAgo))
		}
	}
	release := systemDisk.hold(filepath.Join(folder, ".m.saving-1123456789abcdef"))
	save := func() {
		require.NoError(t, Replace(target, writeNew))
	}
	save()
	for name, stays := range names {
		_, err := os.Lstat(filepath.Join(folder, name))
		require.Equal(t, stays, err == nil, name)
	}
	release()
	save()
	require.NoFileExists(t, filepath.Join(folder, ".m.saving-1123456789abcdef"))
}
