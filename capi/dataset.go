package main

// #include "abi.h"
import "C"

import (
	"encoding/json"
	"sync/atomic"
	"unsafe"

	"dsstne/engine/arrowfile"
	"dsstne/engine/csr"
	"dsstne/engine/options"
	"dsstne/engine/textfile"
	"dsstne/internal/fault"
)

// matrix is what a dataset can be: arrays of the caller, a file, a product of others, or chosen rows of another.
type matrix interface {
	csr.Source
	Layout() csr.Layout
	Close() error
}

type dataset struct {
	matrix
	cancelled atomic.Bool // ends the reading of a text
}

func (*dataset) kind() kind     { return datasetKind }
func (d *dataset) close() error { return d.Close() }

// Cancel ends the reading of a text; others are not read for long.
func (d *dataset) Cancel() { d.cancelled.Store(true) }

// beside is a matrix with arrays beside its rows.
type beside interface {
	Digest() string // of the file that has the rows; empty if none has
	Arrays() map[string]int64
	Array(name string, dst []byte) error
}

//export dsstne_dataset_open
func dsstne_dataset_open(schema *C.struct_ArrowSchema, array *C.struct_ArrowArray, optionText *C.const_char,
	out *C.dsstne_dataset, err *C.dsstne_error) C.dsstne_status {
	// Whatever happens, both structs end up released; after a success there is nothing left for this to do.
	defer discardArrow(schema, array)
	return guard("dsstne_dataset_open", err, func(c *call) error {
		notNull(c, out, "out")
		o := optionsIn(c, optionText, func(text []byte) (options.Dataset, error) { return options.ReadDataset(text, false) })
		return open(c, out, here, func() (object, error) {
			m, err := openMatrix(schema, array, o)
			return &dataset{matrix: m}, err
		})
	})
}

//export dsstne_dataset_open_file
func dsstne_dataset_open_file(path, optionText *C.const_char, out *C.dsstne_dataset,
	err *C.dsstne_error) C.dsstne_status {
	return guard("dsstne_dataset_open_file", err, func(c *call) error {
		file := c.pathIn(path)
		notNull(c, out, "out")
		o := optionsIn(c, optionText, func(text []byte) (options.Dataset, error) { return options.ReadDataset(text, true) })
		return open(c, out, here, func() (object, error) {
			if o.Columns == 0 {
				m, err := arrowfile.OpenSaved(file)
				return &dataset{matrix: m}, err
			}
			m, err := arrowfile.Open(file, o.Columns, o.Check)
			return &dataset{matrix: m}, err
		})
	})
}

// openMatrix takes over the array and checks every entry.
func openMatrix(schema *C.struct_ArrowSchema, array *C.struct_ArrowArray, o options.Dataset) (imported, error) {
	matrix, err := importMatrix(schema, array, o.Columns)
	if err != nil {
		return nil, err
	}
	valid := false
	defer func() { // also when the check panics
		if !valid {
			_ = matrix.Close() // nobody uses it yet, so nothing refuses
		}
	}()
	if o.Scaling != nil {
		if err := matrix.Scale(o.Scaling.Scale, o.Scaling.Offset); err != nil {
			return nil, err
		}
	}
	err = matrix.Validate(o.Check)
	valid = err == nil
	return matrix, err
}

//export dsstne_dataset_product
func dsstne_dataset_product(left, right C.dsstne_dataset, optionText *C.const_char, out *C.dsstne_dataset,
	err *C.dsstne_error) C.dsstne_status {
	return guard("dsstne_dataset_product", err, func(c *call) error {
		notNull(c, out, "out")
		threads := optionsIn(c, optionText, options.ReadLoad)
		return with(c, left, sharing, func(a *dataset) error {
			return withNamed(c, right, "right", sharing, func(b *dataset) error {
				return open(c, out, hop, func() (object, error) {
					p, err := csr.NewProduct(a.matrix, b.matrix, threads)
					return &dataset{matrix: p}, err
				})
			})
		})
	})
}

//export dsstne_dataset_index
func dsstne_dataset_index(handle C.dsstne_dataset, index *C.const_void, nRows C.int64_t, optionText *C.const_char,
	out *C.dsstne_dataset, err *C.dsstne_error) C.dsstne_status {
	return guard("dsstne_dataset_index", err, func(c *call) error {
		notNull(c, out, "out")
		o := optionsIn(c, optionText, options.ReadIndex)
		at, n := unsafe.Pointer(index), int64(nRows)
		switch o.Type {
		case options.Int32:
			return openIndexed(c, handle, slice(c, (*int32)(at), n, "index", "n_rows"), o.Threads, out)
		case options.Uint32:
			return openIndexed(c, handle, slice(c, (*uint32)(at), n, "index", "n_rows"), o.Threads, out)
		}
		return openIndexed(c, handle, slice(c, (*int64)(at), n, "index", "n_rows"), o.Threads, out)
	})
}

func openIndexed[T csr.RowNumber](c *call, handle C.dsstne_dataset, list []T, threads int,
	out *C.dsstne_dataset) error {
	return with(c, handle, sharing, func(d *dataset) error {
		return open(c, out, hop, func() (object, error) {
			x, err := csr.NewIndexed(d.matrix, list, threads)
			return &dataset{matrix: x}, err
		})
	})
}

//export dsstne_dataset_get_info
func dsstne_dataset_get_info(handle C.dsstne_dataset, info *C.dsstne_dataset_info,
	err *C.dsstne_error) C.dsstne_status {
	return guard("dsstne_dataset_get_info", err, func(c *call) error {
		checkStruct(c, info, "info")
		return with(c, handle, sharing, func(d *dataset) error {
			layout, statistics := d.Layout(), d.Statistics()
			structOut(info, &C.dsstne_dataset_info{
				index_bits:  C.uint32_t(layout.IndexBits),
				offset_bits: C.uint32_t(layout.OffsetBits),
				value_bits:  C.uint32_t(layout.ValueBits),
				rows:        C.int64_t(d.Rows()),
				columns:     C.int64_t(d.Columns()),
				non_zeros:   C.int64_t(statistics.NonZeros),
				bytes:       C.int64_t(statistics.Bytes),
				minimum:     C.double(statistics.Minimum),
				maximum:     C.double(statistics.Maximum),
				offsets:     layout.Offsets,
				indices:     layout.Indices,
				values:      layout.Values,
			}, info.struct_size)
			return nil
		})
	})
}

//export dsstne_dataset_save
func dsstne_dataset_save(handle C.dsstne_dataset, path, optionText *C.const_char, itemOffsets *C.const_int64,
	itemText *C.const_void, rowOffsets *C.const_int64, rowText *C.const_void, err *C.dsstne_error) C.dsstne_status {
	return guard("dsstne_dataset_save", err, func(c *call) error {
		file := c.pathIn(path)
		threads := optionsIn(c, optionText, options.ReadLoad)
		return with(c, handle, sharing, func(d *dataset) error {
			items := namesIn(c, itemOffsets, itemText, d.Columns(), "item")
			rows := namesIn(c, rowOffsets, rowText, d.Rows(), "row")
			if c.err != nil {
				return c.err
			}
			return hop(func() error { return arrowfile.Save(file, d.matrix, items, rows, threads) })
		})
	})
}

// namesIn views n names of the caller, if it gives any.
func namesIn(c *call, offsets *C.const_int64, text *C.const_void, n int64, what string) (names arrowfile.Names) {
	if offsets == nil {
		return names
	}
	names.Offsets = unsafe.Slice((*int64)(unsafe.Pointer(offsets)), n+1)
	names.Text = slice(c, (*byte)(unsafe.Pointer(text)), names.Offsets[n], what+"_text", "its size by "+what+"_offsets")
	return names
}

//export dsstne_dataset_describe
func dsstne_dataset_describe(handle C.dsstne_dataset, buf *C.char, length *C.size_t,
	err *C.dsstne_error) C.dsstne_status {
	return guard("dsstne_dataset_describe", err, func(c *call) error {
		return with(c, handle, watching, func(d *dataset) error {
			return textOut(c, buf, length, func() ([]byte, error) {
				return json.Marshal(describeDataset(d.matrix))
			})
		})
	})
}

// describeDataset is the text of dsstne_dataset_describe. There is no matrix while a text is read.
func describeDataset(m matrix) jsonObject {
	described := jsonObject{"sha256": nil, "arrays": jsonObject{}}
	if of, is := m.(beside); is {
		described["arrays"] = of.Arrays()
		if digest := of.Digest(); digest != "" {
			described["sha256"] = digest
		}
	}
	if read, is := m.(*textfile.Data); is {
		described["text"] = read.Report()
	}
	return described
}

//export dsstne_dataset_get_array
func dsstne_dataset_get_array(handle C.dsstne_dataset, name *C.const_char, dst unsafe.Pointer, bytes C.size_t,
	err *C.dsstne_error) C.dsstne_status {
	return guard("dsstne_dataset_get_array", err, func(c *call) error {
		array := c.requiredText(name, "name")
		memory := slice(c, (*byte)(dst), int64(bytes), "dst", "bytes")
		return with(c, handle, sharing, func(d *dataset) error {
			if array == "digest" {
				return hop(func() error { return digestOf(d.matrix, memory) })
			}
			of, is := d.matrix.(beside)
			if !is {
				return fault.New(fault.NotFound, "the dataset has no array %q: it was neither read from a text nor opened from a "+
					"file with a record", array)
			}
			return hop(func() error { return of.Array(array, memory) })
		})
	})
}

//export dsstne_dataset_get_rows
func dsstne_dataset_get_rows(handle C.dsstne_dataset, rows *C.const_int64, nRows C.int64_t, offsets *C.int64_t,
	indices *C.int32_t, values *C.float, capacity C.int64_t, err *C.dsstne_error) C.dsstne_status {
	return guard("dsstne_dataset_get_rows", err, func(c *call) error {
		wanted := slice(c, (*int64)(unsafe.Pointer(rows)), int64(nRows), "rows", "n_rows")
		ends := slice(c, (*int64)(unsafe.Pointer(offsets)), int64(nRows)+1, "offsets", "n_rows + 1")
		return with(c, handle, sharing, func(d *dataset) error {
			if indices == nil {
				return hop(func() error { return csr.BoundRows(d.matrix, wanted, ends) })
			}
			columns := slice(c, (*int32)(unsafe.Pointer(indices)), int64(capacity), "indices", "capacity")
			numbers := slice(c, (*float32)(unsafe.Pointer(values)), int64(capacity), "values", "capacity")
			if c.err != nil {
				return c.err
			}
			return hop(func() error { return csr.CopyRows(d.matrix, wanted, ends, columns, numbers) })
		})
	})
}

// digestOf writes the digest of the rows.
func digestOf(m matrix, dst []byte) error {
	text, err := csr.Digest(m, 0)
	if err == nil && len(dst) != len(text) {
		err = fault.New(fault.InvalidArgument, `array "digest" has %d bytes, not %d`, len(text), len(dst))
	}
	copy(dst, text)
	return err
}

//export dsstne_dataset_close
func dsstne_dataset_close(handle C.dsstne_dataset, err *C.dsstne_error) C.dsstne_status {
	return guard("dsstne_dataset_close", err, func(c *call) error {
		return handles.close(uint64(handle), datasetKind, c.name)
	})
}
