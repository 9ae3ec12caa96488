package modelfile

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"dsstne/internal/fault"
)

// open wants a regular file: a pipe would block, and a folder has nothing to read.
func open(path string) (*os.File, int64, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, 0, fault.New(fault.NotFound, "cannot load %s: there is no such file", path)
	case err != nil:
		return nil, 0, fault.From(fault.IO, errno(err), "cannot load %s", path)
	}
	info, err := file.Stat()
	switch {
	case err != nil:
		err = fault.From(fault.IO, errno(err), "cannot load %s", path)
	case info.IsDir():
		err = fault.New(fault.IO, "cannot load %s: it is a folder, not a file", path)
	case !info.Mode().IsRegular():
		err = fault.New(fault.IO, "cannot load %s: it is not a regular file", path)
	}
	if err != nil {
		file.Close()
		return nil, 0, err
	}
	return file, info.Size(), nil
}

// errno reduces an error of package os to the text of the system call's error; the path is said elsewhere.
func errno(err error) error {
	var number syscall.Errno
	if errors.As(err, &number) {
		return number
	}
	return err
}
