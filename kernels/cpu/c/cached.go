package c

import "C"

// An export that nobody calls. Where a package exports nothing, Go does not find what it has compiled of it before when
// it builds a shared library (cmd/go, loadCachedCgoHdr), and all kernels would be compiled again, for a minute,
// whenever a Go file has changed.
//
//export dsstne_cached
func dsstne_cached() {}
