package modelfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"

	"dsstne/internal/fault"
	"dsstne/internal/file"
)

// disk is what replacing a file asks of the system; tests put one in its place that fails when told.
type disk interface {
	Lstat(path string) (fs.FileInfo, error)
	Readlink(path string) (string, error)
	Writable(path string) error
	Create(path string, mode fs.FileMode) (diskFile, error) // fails if it is there
	Rename(from, to string) error
	Remove(path string) error
	SyncFolder(path string) error
}

type diskFile interface {
	io.Writer
	Chmod(mode fs.FileMode) error
	Sync() error
	Close() error
}

// replaceFile lets write fill a file beside path and puts it in the place of path once it is on the disk. Whatever
// fails before that, the old file is as it was and the new one is gone.
//
// The new file has the mode of the old one, or what the umask leaves. Its name is that of the old one between a dot and
// ".saving-" with a random number: a process that is killed leaves it behind, and it may be deleted.
func replaceFile(d disk, path string, write func(io.Writer) error) error {
	target, old, err := resolve(d, path)
	if err != nil {
		return err
	}
	folder, base := filepath.Split(target)
	if len(base) > 200 {
		base = base[:200] // names have at most 255 bytes
	}
	// Not filepath.Join: it would cancel ".." against a folder that is itself a link.
	beside := folder + fmt.Sprintf(".%s.saving-%016x", base, rand.Uint64())
	if folder == "" {
		folder = "."
	}
	mode := fs.FileMode(0o666)
	if old != nil {
		mode = old.Mode().Perm()
	}
	created, err := d.Create(beside, mode)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fault.New(fault.IO, "cannot save %s: the folder %s does not exist", path, folder)
	case err != nil:
		return fault.From(fault.IO, file.Errno(err), "cannot save %s: no file can be made in the folder %s", path, folder)
	}
	closed, renamed := false, false
	defer func() {
		if !closed {
			_ = created.Close() // the error that brought us here is the one to report
		}
		if !renamed {
			_ = d.Remove(beside)
		}
	}()
	if old != nil {
		// The umask may have taken away what the old file has.
		if err := created.Chmod(mode); err != nil {
			return saveFailed(path, "setting the mode of the new file", err)
		}
	}
	if err := write(created); err != nil {
		return saveFailed(path, "writing", err)
	}
	if err := created.Sync(); err != nil {
		return saveFailed(path, "bringing it to the disk", err)
	}
	closed = true
	if err := created.Close(); err != nil {
		return saveFailed(path, "closing", err)
	}
	if err := d.Rename(beside, target); err != nil {
		return saveFailed(path, "renaming the new file", err)
	}
	renamed = true
	if err := d.SyncFolder(folder); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOTSUP) {
		return fault.From(fault.IO, file.Errno(err),
			"%s is written and whole, but may be lost if the power fails now: the folder "+
				"%s could not be brought to the disk", path, folder)
	}
	return nil
}

// resolve follows links to the file that a save replaces; old is nil if there is none yet.
func resolve(d disk, path string) (target string, old fs.FileInfo, err error) {
	if path == "" {
		return "", nil, fault.New(fault.InvalidArgument, "cannot save: the path is empty")
	}
	target = path
	for range 40 { // as many as Linux follows
		old, err = d.Lstat(target)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return target, nil, nil
		case err != nil:
			return "", nil, saveFailed(path, "looking for the old file", err)
		case old.IsDir():
			return "", nil, fault.New(fault.IO, "cannot save %s: it is a folder; add a file name", path)
		case old.Mode().IsRegular():
			if err := d.Writable(target); err != nil {
				return "", nil, saveFailed(path, "replacing the old file", err)
			}
			return target, old, nil
		case old.Mode()&fs.ModeSymlink == 0:
			return "", nil, fault.New(fault.IO, "cannot save %s: it is not a regular file", path)
		}
		link, err := d.Readlink(target)
		if err != nil {
			return "", nil, saveFailed(path, "following the link", err)
		}
		if !filepath.IsAbs(link) {
			folder, _ := filepath.Split(target)
			link = folder + link
		}
		target = link
	}
	return "", nil, saveFailed(path, "following the link", syscall.ELOOP)
}

// saveFailed keeps an error of ours as it is, and names path and errno for one of the system.
func saveFailed(path, doing string, err error) error {
	var ours *fault.Error
	if errors.As(err, &ours) {
		return fault.Wrap(err, "cannot save %s", path)
	}
	return fault.From(fault.IO, file.Errno(err), "cannot save %s: %s failed", path, doing)
}

// systemDisk is the file system of the process.
type systemDisk struct{}

func (systemDisk) Lstat(path string) (fs.FileInfo, error) { return os.Lstat(path) }

func (systemDisk) Readlink(path string) (string, error) { return os.Readlink(path) }

func (systemDisk) Writable(path string) error {
	const writeOK = 2 // W_OK
	return syscall.Access(path, writeOK)
}

func (systemDisk) Create(path string, mode fs.FileMode) (diskFile, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
}

func (systemDisk) Rename(from, to string) error { return os.Rename(from, to) }

func (systemDisk) Remove(path string) error { return os.Remove(path) }

func (systemDisk) SyncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	defer folder.Close()
	return folder.Sync()
}
