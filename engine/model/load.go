package model

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"syscall"

	"dsstne/engine/fault"
	"dsstne/engine/network"
)

// Load reads a model file with up to threads goroutines (0: as many as the process may use). Every byte is compared with
// its digest and every weight checked to be finite. The weights are read to where they stay, off the Go heap.
//
// A damaged file, or one that is not a model, is fault.CorruptFile; one that a later version wrote in a way that this
// version cannot read is fault.Unsupported; a path without a file is fault.NotFound.
func Load(path string, threads int) (*Model, error) {
	file, size, err := open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	m, err := read(file, size, threads)
	if err != nil {
		return nil, fault.Wrap(err, "%s", path)
	}
	return m, nil
}

// open wants a regular file: a pipe would block, and a folder has nothing to read.
func open(path string) (*os.File, int64, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, 0, fault.New(fault.NotFound, "cannot load %s: there is no such file", path)
	case err != nil:
		return nil, 0, fault.From(fault.IO, errno(err), "cannot load %s", path)
	}
	info, err := file.Stat()
	switch {
	case err != nil:
		err = fault.From(fault.IO, errno(err), "cannot load %s", path)
	case info.IsDir():
		err = fault.New(fault.IO, "cannot load %s: it is a folder, not a file", path)
	case !info.Mode().IsRegular():
		err = fault.New(fault.IO, "cannot load %s: it is not a regular file", path)
	}
	if err != nil {
		file.Close()
		return nil, 0, err
	}
	return file, info.Size(), nil
}

// read makes a model from a file of that many bytes.
func read(file io.ReaderAt, size int64, threads int) (*Model, error) {
	r := &reader{file: file, size: size}
	if err := r.readHeader(); err != nil {
		return nil, err
	}
	net, err := r.readMetadata()
	if err != nil {
		return nil, err
	}
	if err := r.checkWeights(net); err != nil {
		return nil, err
	}
	m, _, err := allocate(net, threads, 0)
	if err != nil {
		return nil, err
	}
	m.attributes = r.attributes()
	m.SetStep(r.step)
	if err = r.place(m); err == nil {
		err = inParallel(threads, int(blocksOf(r.data, r.block)), r.readBlock)
	}
	if err == nil {
		err = m.checkLoadedItems()
	}
	if err != nil {
		m.free()
		return nil, err
	}
	return m, nil
}

// checkWeights wants the file to have every weight of the network in its shape, before any memory is asked for.
func (r *reader) checkWeights(net *network.Network) error {
	specs, err := net.Tensors()
	if err != nil {
		return fault.New(fault.CorruptFile, "the network in the header: %v", err)
	}
	for _, spec := range specs {
		i, ok := r.places[spec.Name]
		if !ok {
			return fault.New(fault.CorruptFile, "tensor %q of the network is missing", spec.Name)
		}
		e, want := r.header.entries[i], []int64{spec.Rows, spec.Columns}
		if e.dtype != F32.String() || !slices.Equal(e.shape, want) {
			return fault.New(fault.CorruptFile, "tensor %q is %s %s, but the network wants %s %s", e.name, e.dtype,
				shapeText(e.shape), F32, shapeText(want))
		}
	}
	return nil
}

// place gives every entry of the file its tensor and allocates the names of items.
func (r *reader) place(m *Model) error {
	for _, t := range m.tensors {
		r.tensors[r.places[t.Name]] = t
	}
	offsets, hasOffsets := r.places[itemOffsets]
	text, hasText := r.places[itemBytes]
	if hasOffsets != hasText {
		return fault.New(fault.CorruptFile, "of the tensors %q and %q one is missing", itemOffsets, itemBytes)
	}
	if !hasText {
		return nil
	}
	if err := r.placeItems(m, offsets, I64); err != nil {
		return err
	}
	return r.placeItems(m, text, U8)
}

// placeItems allocates a tensor of the names as large as the file says, which is no more than the file itself.
func (r *reader) placeItems(m *Model, i int, dtype DType) error {
	e := r.header.entries[i]
	if e.dtype != dtype.String() || len(e.shape) != 1 {
		return fault.New(fault.CorruptFile, "tensor %q is %s %s instead of a list of %s", e.name, e.dtype, shapeText(e.shape),
			dtype)
	}
	t, err := newTensor(e.name, dtype, e.shape, -1)
	if err != nil {
		return err
	}
	m.tensors = append(m.tensors, t)
	r.tensors[i] = t
	return nil
}

// checkLoadedItems is checkItems for names that came from a file.
func (m *Model) checkLoadedItems() error {
	offsets, err := m.Tensor(itemOffsets)
	if err != nil {
		return nil
	}
	text, err := m.Tensor(itemBytes)
	if err != nil {
		return err
	}
	if err := checkItems(m.network, offsets.Int64(), text.Bytes()); err != nil {
		return fault.New(fault.CorruptFile, "%v", err)
	}
	return nil
}

// errno reduces an error of package os to the text of the system call's error; the path is said elsewhere.
func errno(err error) error {
	var number syscall.Errno
	if errors.As(err, &number) {
		return number
	}
	return err
}
