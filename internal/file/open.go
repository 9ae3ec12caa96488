// Package file opens and replaces files that somebody names, with errors that say what is wrong with them.
package file

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"dsstne/internal/fault"
)

// Open opens a regular file to read it, but no pipe, which would block, and returns its size. what begins its errors.
func Open(path, what string) (*os.File, int64, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, 0, fault.Because(fault.NotFound, err, "%s: no such file", what)
	case err != nil:
		return nil, 0, fault.From(fault.IO, Errno(err), "%s", what)
	}
	info, err := file.Stat()
	switch {
	case err != nil:
		err = fault.From(fault.IO, Errno(err), "%s", what)
	case info.IsDir():
		err = fault.Because(fault.IO, syscall.EISDIR, "%s: it is a folder, not a file", what)
	case !info.Mode().IsRegular():
		err = fault.New(fault.IO, "%s: it is not a regular file", what)
	}
	if err != nil {
		file.Close()
		return nil, 0, err
	}
	return file, info.Size(), nil
}

// Errno reduces an error of package os to the text of the system call's error; the path is said elsewhere.
func Errno(err error) error {
	if number := fault.Errno(err); number != 0 {
		return number
	}
	return err
}
