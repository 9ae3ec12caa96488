package kernels

import (
	"fmt"
	"maps"
	"slices"
)

// NotFiniteError says where a number became NaN or infinite.
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
	list := make([]Backend, 0, len(backends))
	for _, name := range slices.Sorted(maps.Keys(backends)) {
		list = append(list, backends[name])
	}
	return list
}
