package kernels

import "sync"

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

// LibraryFolders are those of SetLibraryFolders.
func LibraryFolders() []string {
	libraries.Lock()
	defer libraries.Unlock()
	return libraries.folders
}
