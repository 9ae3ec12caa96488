package main

// #include "abi.h"
import "C"

import (
	"io"
	"sync/atomic"
	"unsafe"

	"github.com/klauspost/compress/gzip"

	"dsstne/engine/options"
	"dsstne/engine/textfile"
)

//export dsstne_dataset_read_text
func dsstne_dataset_read_text(paths *C.const_text, nPaths C.int64_t, optionText *C.const_char, nItems C.int64_t,
	itemOffsets *C.const_int64, itemText *C.const_void, nRows C.int64_t, rowOffsets *C.const_int64,
	rowText *C.const_void, out *C.dsstne_dataset, err *C.dsstne_error) C.dsstne_status {
	if out != nil {
		*out = 0
	}
	return guard("dsstne_dataset_read_text", err, func(c *call) error {
		notNull(c, out, "out")
		var names []string
		for _, path := range slice(c, paths, int64(nPaths), "paths", "n_paths") {
			names = append(names, c.pathIn((*C.const_char)(path)))
		}
		o := optionsIn(c, optionText, options.ReadText)
		o.Gunzip = gunzip
		o.Features = indexIn(c, itemOffsets, itemText, int64(nItems), "item")
		o.Samples = indexIn(c, rowOffsets, rowText, int64(nRows), "row")
		if c.err != nil {
			return c.err
		}
		return openBefore(c, out, func(cancelled *atomic.Bool) (matrix, error) {
			return textfile.ReadData(names, o, cancelled)
		})
	})
}

// gunzip decompresses in two thirds of the time of the standard library.
func gunzip(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) }

// openBefore is open for a dataset whose handle the caller gets before it is made.
func openBefore(c *call, out *C.dsstne_dataset, create func(*atomic.Bool) (matrix, error)) error {
	d := &dataset{}
	handle := handles.add(d)
	if _, err := handles.enter(handle, "out", c.name, changing, datasetKind); err != nil {
		return err
	}
	*out = C.dsstne_dataset(handle)
	var made matrix
	err := hop(func() (err error) {
		made, err = create(&d.cancelled)
		return err
	})
	if err != nil {
		*out = 0
		handles.abandon(handle)
		return err
	}
	handles.fill(handle, func() { d.matrix = made })
	return nil
}

// indexIn views n labels of the caller, if it gives any.
func indexIn(c *call, offsets *C.const_int64, text *C.const_void, n int64, what string) (index textfile.Index) {
	if offsets == nil {
		return index
	}
	count := n + 1
	if n < 0 {
		count = n
	}
	index.Offsets = slice(c, (*int64)(unsafe.Pointer(offsets)), count, what+"_offsets", "the number of its labels")
	if c.err == nil {
		size := index.Offsets[n]
		index.Text = slice(c, (*byte)(unsafe.Pointer(text)), size, what+"_text", "its size by "+what+"_offsets")
	}
	return index
}

//export dsstne_index_read
func dsstne_index_read(path *C.const_char, n, offsets *C.int64_t, length *C.size_t, text unsafe.Pointer,
	err *C.dsstne_error) C.dsstne_status {
	return guard("dsstne_index_read", err, func(c *call) error {
		file := c.pathIn(path)
		notNull(c, n, "n")
		notNull(c, length, "len")
		if c.err != nil {
			return c.err
		}
		return here(func() error {
			index, err := textfile.ReadIndex(file, gunzip)
			if err != nil {
				return err
			}
			labels, size := int64(len(index.Offsets)-1), len(index.Text)
			if offsets != nil && int64(*n) >= labels && int64(*length) >= int64(size) && (text != nil || size == 0) {
				copy(unsafe.Slice((*int64)(unsafe.Pointer(offsets)), labels+1), index.Offsets)
				copy(unsafe.Slice((*byte)(text), size), index.Text)
			}
			*n, *length = C.int64_t(labels), C.size_t(size)
			return nil
		})
	})
}

//export dsstne_index_write
func dsstne_index_write(path *C.const_char, n C.int64_t, offsets *C.const_int64, text *C.const_void,
	err *C.dsstne_error) C.dsstne_status {
	return guard("dsstne_index_write", err, func(c *call) error {
		file := c.pathIn(path)
		notNull(c, offsets, "offsets")
		index := indexIn(c, offsets, text, int64(n), "label")
		if c.err != nil {
			return c.err
		}
		return here(func() error { return textfile.WriteIndex(file, index) })
	})
}
