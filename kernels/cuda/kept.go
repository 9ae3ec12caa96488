//go:build !nocuda && linux && amd64

package cuda

import (
	"sync"

	"dsstne/internal/fault"
	"dsstne/kernels"
)

// Several programs may compute on one CUDA device, each with a device of its own in this package, with its own stream,
// in the context that they share. Equal data are on the CUDA device once: the first program copies them, and the last
// frees them.

// keptData is a dataset in a CUDA device's memory.
type keptData struct {
	key         keptKey
	device      *device // in whose memory it is
	rows, first int64   // as a batch names rows, and a column
	whole       bool
	parts       [partCount]*buffer // nil where there is nothing
	copied      chan struct{}      // closed when the copying has ended
	err         error              // of the copying
	users       int                // guarded by kept
}

// keptKey is what equal data on a CUDA device have in common. Data of nothing known are equal to no other.
type keptKey struct {
	device         int
	of             any
	first, columns int64
	scaled         bool
}

var kept struct {
	sync.Mutex
	data map[keptKey]*keptData
}

// keyOf is the key of data on a device.
func (d *device) keyOf(data *kernels.Data) keptKey {
	return keptKey{d.hardware.ID, data.Of, data.First, data.Columns, data.Scaled}
}

// Keeps reports whether equal data are on the CUDA device already, or on their way to it.
func (d *device) Keeps(data *kernels.Data) bool {
	kept.Lock()
	defer kept.Unlock()
	return data.Of != nil && kept.data[d.keyOf(data)] != nil
}

// Keep copies a dataset to the device, unless equal data are there. If another goroutine is copying them, it waits for
// it, and tries itself if the other fails.
func (d *device) Keep(data *kernels.Data) (kernels.Resident, error) {
	for {
		k, mine := d.claim(data)
		if mine {
			k.fill(data)
		}
		<-k.copied
		if k.err == nil {
			return &resident{k, d}, nil
		}
		if mine {
			return nil, k.err
		}
	}
}

// claim counts a user of equal data. If there are none, the caller is to fill those that are returned.
func (d *device) claim(data *kernels.Data) (k *keptData, mine bool) {
	kept.Lock()
	defer kept.Unlock()
	key := d.keyOf(data)
	if k := kept.data[key]; k != nil && data.Of != nil {
		k.users++
		return k, false
	}
	k = &keptData{
		key: key, device: d, rows: data.Listed, first: data.First, whole: data.Whole, copied: make(chan struct{}), users: 1,
	}
	if data.Of != nil {
		if kept.data == nil {
			kept.data = map[keptKey]*keptData{}
		}
		kept.data[key] = k
	}
	return k, true
}

// fill copies the data, and tells those who wait, also after a panic.
func (k *keptData) fill(data *kernels.Data) {
	k.err = fault.New(fault.Internal, "%s: copying a dataset was interrupted", k.device.info.Name)
	defer func() {
		if k.err != nil {
			kept.Lock()
			k.forget()
			kept.Unlock()
			k.free(false)
		}
		close(k.copied)
	}()
	k.err = k.copy(data)
}

// forget makes the data those of nobody else. The caller holds kept.
func (k *keptData) forget() {
	if kept.data[k.key] == k {
		delete(kept.data, k.key)
	}
}

func (k *keptData) free(elsewhere bool) {
	for _, b := range k.parts {
		if b != nil {
			b.free(elsewhere)
		}
	}
}

// Free ends the use of the data; the last user frees them.
func (r *resident) Free() {
	k := r.keptData
	if k == nil {
		return
	}
	r.keptData = nil
	elsewhere := r.reader != k.device
	kept.Lock()
	if k.users > 1 || elsewhere { // the order of one stream is not enough: what this one has begun may still read the data
		kept.Unlock()
		_ = r.reader.do("waiting for the readers of a dataset", r.reader.stream.Synchronize)
		kept.Lock()
	}
	k.users--
	last := k.users == 0
	if last {
		k.forget()
	}
	kept.Unlock()
	if last {
		k.free(elsewhere)
	}
}
