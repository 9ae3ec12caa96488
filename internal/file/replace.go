package file

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"dsstne/internal/fault"
)

// disk is the part of the file system that replacing a file uses; tests replace it by one that fails.
type disk struct {
	lstat      func(path string) (fs.FileInfo, error)
	readlink   func(path string) (string, error)
	writable   func(path string) error
	create     func(path string, mode fs.FileMode) (diskFile, error) // fails if the file exists
	rename     func(from, to string) error
	remove     func(path string) error
	syncFolder func(path string) error
	hold       func(path string) (release func()) // while a save writes the file, so that no other takes it for abandoned
}

// systemDisk is the file system of the process.
var systemDisk = disk{
	lstat: os.Lstat, readlink: os.Readlink, rename: os.Rename, remove: os.Remove,
	writable: func(path string) error {
		const writeOK = 2 // W_OK
		return syscall.Access(path, writeOK)
	},
	create: func(path string, mode fs.FileMode) (diskFile, error) {
		return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	},
	syncFolder: func(path string) error {
		folder, err := os.Open(path)
		if err != nil {
			return err
		}
		defer folder.Close()
		return folder.Sync()
	},
	hold: func(path string) func() {
		held, _ := locked(path)
		return func() { _ = held.Close() } // an error if there is none, on a system without locks
	},
}

// locked opens a file and takes its lock, which nobody else may have.
func locked(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// removeAbandoned removes the files of saves of the same file whose processes were killed: nobody has locked them, and
// they were not written for a minute, which is more than passes between the creation of a file and its lock.
func removeAbandoned(folder, prefix string) {
	entries, _ := os.ReadDir(folder)
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil || !strings.HasPrefix(entry.Name(), prefix) || len(entry.Name()) != len(prefix)+16 ||
			!info.Mode().IsRegular() || time.Since(info.ModTime()) < time.Minute {
			continue
		}
		path := folder + "/" + entry.Name() // see replace for why not filepath.Join
		if f, err := locked(path); err == nil {
			_ = os.Remove(path)
			_ = f.Close()
		}
	}
}

type diskFile interface {
	io.Writer
	Chmod(mode fs.FileMode) error
	Sync() error
	Close() error
}

// Replace lets write fill a file beside path and puts it in the place of path once it is on the disk. Whatever
// fails before that, the old file is as it was and the new one is gone.
//
// The new file has the mode of the old one, or what the umask leaves. Its name is that of the old one between a dot and
// ".saving-" with a random number: a process that is killed leaves it behind, and the next save removes it.
func Replace(path string, write func(io.Writer) error) error {
	return replace(&systemDisk, path, write)
}

func exists(d *disk, path string) bool {
	_, err := d.lstat(path)
	return err == nil
}

func replace(d *disk, path string, write func(io.Writer) error) error {
	target, old, err := resolve(d, path)
	if err != nil {
		return err
	}
	folder, base := filepath.Split(target)
	if len(base) > 200 {
		base = base[:200] // names have at most 255 bytes
	}
	// Not filepath.Join: it would cancel ".." against a folder that is itself a link.
	prefix := fmt.Sprintf(".%s.saving-", base)
	beside := folder + prefix + fmt.Sprintf("%016x", rand.Uint64())
	if folder == "" {
		folder = "."
	}
	mode := fs.FileMode(0o666)
	if old != nil {
		mode = old.Mode().Perm()
	}
	created, err := d.create(beside, mode)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !exists(d, folder): // /proc is there, and has no place for files
		return fault.Because(fault.IO, err, "cannot save %s: the folder %s does not exist", path, folder)
	case err != nil:
		return fault.From(fault.IO, Errno(err), "cannot save %s: no file can be made in the folder %s", path, folder)
	}
	defer d.hold(beside)()
	removeAbandoned(folder, prefix)
	renamed := false
	defer func() {
		if !renamed {
			_ = created.Close() // perhaps again; the error that brought us here is the one to report
			_ = d.remove(beside)
		}
	}()
	for _, step := range []struct {
		doing string
		do    func() error
	}{
		{"setting the mode of the new file", func() error {
			if old == nil {
				return nil
			}
			return created.Chmod(mode) // the umask may have taken away what the old file has
		}},
		{"writing", func() error { return write(created) }},
		{"bringing it to the disk", created.Sync},
		{"closing", created.Close},
		{"renaming the new file", func() error { return d.rename(beside, target) }},
	} {
		if err := step.do(); err != nil {
			return saveFailed(path, step.doing, err)
		}
	}
	renamed = true
	if err := d.syncFolder(folder); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOTSUP) {
		return fault.From(fault.IO, Errno(err), "%s is written and whole, but may be lost if the power fails now: "+
			"the folder %s could not be brought to the disk", path, folder)
	}
	return nil
}

// resolve follows links to the file that a save replaces; old is nil if there is none yet.
func resolve(d *disk, path string) (target string, old fs.FileInfo, err error) {
	if path == "" {
		return "", nil, fault.New(fault.InvalidArgument, "cannot save: the path is empty")
	}
	target = path
	for range 40 { // as many as Linux follows
		old, err = d.lstat(target)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return target, nil, nil
		case err != nil:
			return "", nil, saveFailed(path, "looking for the old file", err)
		case old.IsDir():
			return "", nil, fault.Because(fault.IO, syscall.EISDIR, "cannot save %s: it is a folder; add a file name", path)
		case old.Mode().IsRegular():
			if err := d.writable(target); err != nil {
				return "", nil, saveFailed(path, "replacing the old file", err)
			}
			return target, old, nil
		case old.Mode()&fs.ModeSymlink == 0:
			return "", nil, fault.New(fault.IO, "cannot save %s: it is not a regular file", path)
		}
		link, err := d.readlink(target)
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
	return fault.From(fault.IO, Errno(err), "cannot save %s: %s failed", path, doing)
}
