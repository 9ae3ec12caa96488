package kernels

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
)

var libraryFolders atomic.Pointer[[]string]

// SetLibraryFolders names the folders where backends look for libraries that the system's loader does not find, in the
// layout of NVIDIA's packages: "nccl/lib/libnccl.so.2". They follow those that the variable DSSTNE_LIBRARIES names.
func SetLibraryFolders(folders []string) { libraryFolders.Store(&folders) }

// LibraryVariable names folders like those of SetLibraryFolders, separated like those of PATH, for programs that do not
// call it. The word "none" turns these libraries off.
const LibraryVariable = "DSSTNE_LIBRARIES"

// LibraryFile is a library that may be opened, and its folder within one of SetLibraryFolders.
type LibraryFile struct{ Name, Folder string }

// OpenLibrary tries files one after the other, where the system's loader looks and then in the folders of
// LibraryVariable and SetLibraryFolders, until open accepts a path: its reason to refuse is empty. OpenLibrary returns
// "" then; otherwise it returns a sentence that says why there is no such library, where it was looked for, and that
// the package provider has it.
func OpenLibrary(files []LibraryFile, provider string, open func(path string) (reason string)) string {
	named := os.Getenv(LibraryVariable)
	if named == "none" {
		return files[0].Name + " is turned off by " + LibraryVariable + "=none"
	}
	var paths, looked []string // looked: what was looked for, also where there is no file
	for _, f := range files {
		paths, looked = append(paths, f.Name), append(looked, f.Name)
	}
	folders := filepath.SplitList(named)
	if set := libraryFolders.Load(); set != nil {
		folders = append(folders, *set...)
	}
	for _, folder := range folders {
		for _, f := range files {
			path := filepath.Join(folder, f.Folder, f.Name)
			if slices.Contains(looked, path) {
				continue
			}
			looked = append(looked, path)
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
		return fmt.Sprintf("%s was not found; the package %s has it (looked for %s)", files[0].Name, provider,
			strings.Join(looked, ", "))
	}
	return files[0].Name + " does not load: " + best
}
