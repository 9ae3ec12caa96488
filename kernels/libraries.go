package kernels

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
)

var libraries struct {
	sync.Mutex
	folders []string
}

// SetLibraryFolders names the folders where backends look for libraries that the system's loader does not find, in the
// layout of NVIDIA's packages: "nccl/lib/libnccl.so.2".
func SetLibraryFolders(folders []string) {
	libraries.Lock()
	defer libraries.Unlock()
	libraries.folders = folders
}

// LibraryFile is a library that may be opened, and its folder within one of SetLibraryFolders.
type LibraryFile struct{ Name, Folder string }

// OpenLibrary tries files one after the other, where the system's loader looks and then in the folders of SetLibraryFolders,
// until open, which gets a path, has no reason to refuse it. What it returns is empty then, and else says in a sentence why
// there is no such library; provider has it.
func OpenLibrary(files []LibraryFile, provider string, open func(path string) (reason string)) string {
	var paths []string
	for _, f := range files {
		paths = append(paths, f.Name)
	}
	libraries.Lock()
	folders := libraries.folders
	libraries.Unlock()
	for _, folder := range folders {
		for _, f := range files {
			path := filepath.Join(folder, f.Folder, f.Name)
			if _, err := os.Stat(path); err == nil {
				paths = append(paths, path)
			}
		}
	}
	const missing = "No such file" // what the loader says of one
	best := missing
	for _, path := range paths {
		reason := open(path)
		if reason == "" {
			return ""
		}
		if !strings.Contains(reason, missing) {
			best = reason
		}
	}
	if best == missing {
		return files[0].Name + " was not found; the package " + provider + " has it"
	}
	return files[0].Name + " does not load: " + best
}
