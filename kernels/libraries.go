package kernels

import (
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
)

var libraryFolders atomic.Pointer[[]string]

// SetLibraryFolders names the folders where backends look for libraries that the system's loader does not find, in the
// layout of NVIDIA's packages: "nccl/lib/libnccl.so.2".
func SetLibraryFolders(folders []string) { libraryFolders.Store(&folders) }

// LibraryFile is a library that may be opened, and its folder within one of SetLibraryFolders.
type LibraryFile struct{ Name, Folder string }

// OpenLibrary tries files one after the other, where the system's loader looks and then in the folders of
// SetLibraryFolders, until open accepts a path: its reason to refuse is empty. OpenLibrary returns "" then; otherwise
// it returns a sentence that says why there is no such library, and that the package provider has it.
func OpenLibrary(files []LibraryFile, provider string, open func(path string) (reason string)) string {
	var paths []string
	for _, f := range files {
		paths = append(paths, f.Name)
	}
	var folders []string
	if set := libraryFolders.Load(); set != nil {
		folders = *set
	}
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
