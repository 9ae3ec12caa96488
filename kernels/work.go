package kernels

// Work is what an operation has to do in a step, by its definition. An implementation may do more, and less memory is
// moved where numbers are still in a cache.
type Work struct {
	MultiplyAdds float64
	// Products: the multiply-adds are those of matrix products, in the device's precision; others are in float32.
	Products bool
	// Bytes counts each number that is read or written once, and twice if it is updated. A weight that is updated moves
	// with its states. Offsets, random numbers and the steps of last updates are not counted.
	Bytes float64
	// Updated are those of Bytes that are read and written again in the same place.
	Updated float64
}

// Sizes are those of the batch of a step, or their means over several steps, of which Work is a linear function.
type Sizes struct {
	Rows    float64
	Batches []BatchSizes // by slot
}

// BatchSizes are how many stored entries and how many distinct items a sparse batch has.
type BatchSizes struct{ Entries, Items float64 }

// Counted is an operation whose work follows from its shapes and the sizes of the batch.
type Counted interface {
	Work(*Sizes) Work
}

// Limits are what a device can do at best, measured: multiply-adds a second on registers, in float32 and in the
// device's precision; and bytes of memory a second where it only reads, and where it updates in place.
type Limits struct{ Float32, Products, Read, Update float64 }

// Least is the shortest time for some work, in seconds, and whether arithmetic takes it, or else memory.
func (l *Limits) Least(w *Work) (seconds float64, arithmetic bool) {
	peak := l.Float32
	if w.Products {
		peak = l.Products
	}
	computing, moving := w.MultiplyAdds/peak, (w.Bytes-w.Updated)/l.Read+w.Updated/l.Update
	return max(computing, moving), computing > moving
}

// Limited is a device that measures its limits, in less than a tenth of a second each. It is one of several devices
// that do so at the same time, in memory that they share.
type Limited interface {
	Limits(devices int) (Limits, error)
}

// numbers is how many bytes rows of float32 take.
func numbers(rows float64, columns int64) float64 { return 4 * rows * float64(columns) }

// update adds the update of some rows: value and states are read and written; a gradient that is wanted instead is
// written only.
func (w Work) update(of *Weights, rows float64, o Optimizer) Work {
	switch {
	case of == nil:
	case of.Locked:
		w.Bytes += numbers(rows, of.Columns)
	case of.Gradient != nil:
		w.Bytes += numbers(rows, of.Columns)
	default:
		moved := float64(2*(1+o.States())) * numbers(rows, of.Columns)
		w.Bytes, w.Updated = w.Bytes+moved, w.Updated+moved
	}
	return w
}

// times is 2 if an operation adds to what is there, which it reads and writes, and 1 if it writes only.
func times(accumulate bool) float64 {
	if accumulate {
		return 2
	}
	return 1
}
