package textfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"dsstne/internal/fault"
	"dsstne/internal/file"
)

// filesOf lists the files of paths, in order. A folder stands for its files, in the order of the bytes of their names,
// without those whose names begin with a dot.
func filesOf(paths []string) ([]string, error) {
	if len(paths) == 0 {
		return nil, fault.New(fault.InvalidArgument, "there are no paths; give at least one file or folder")
	}
	var files []string
	for _, path := range paths {
		info, err := os.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, fault.Because(fault.NotFound, err, "%s: no such file or folder", path)
		case err != nil:
			return nil, fault.From(fault.IO, file.Errno(err), "%s", path)
		case !info.IsDir():
			files = append(files, path)
			continue
		}
		inside, err := filesIn(path)
		if err != nil {
			return nil, err
		}
		files = append(files, inside...)
	}
	return files, nil
}

func filesIn(folder string) (files []string, err error) {
	entries, err := os.ReadDir(folder) // sorted
	if err != nil {
		return nil, fault.From(fault.IO, file.Errno(err), "%s: the folder cannot be read", folder)
	}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), ".") {
			continue
		}
		path := filepath.Join(folder, entry.Name())
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			return nil, fault.New(fault.InvalidArgument, "%s: it is a folder inside a folder, and only the files of a folder "+
				"itself are read; move it away, or list the folders", path)
		}
		files = append(files, path)
	}
	if files == nil {
		return nil, fault.New(fault.InvalidArgument, "%s: the folder has no files (those whose names begin with a dot are "+
			"left out)", folder)
	}
	return files, nil
}
