package kernels

import (
	"fmt"
	"sort"
)

// NotFiniteError says where a number stopped being finite.
type NotFiniteError struct {
	Tensor string // name of the weight or of the layer
	What   string // "the loss", "a logit", "the gradient", "the updated weight"
	Row    int64  // row of the tensor (item) or -1
}

func (e *NotFiniteError) Error() string {
	if e.Row >= 0 {
		return fmt.Sprintf("%s of %s, row %d, is not finite", e.What, e.Tensor, e.Row)
	}
	return fmt.Sprintf("%s of %s is not finite", e.What, e.Tensor)
}

var backends = map[string]Backend{}

// Register adds a backend; it is called from the init function of the backend's package.
func Register(b Backend) { backends[b.Name()] = b }

// Lookup finds a registered backend by name, or nil.
func Lookup(name string) Backend { return backends[name] }

// Registered lists the backends by name.
func Registered() []Backend {
	names := make([]string, 0, len(backends))
	for name := range backends {
		names = append(names, name)
	}
	sort.Strings(names)
	list := make([]Backend, len(names))
	for i, name := range names {
		list[i] = backends[name]
	}
	return list
}
