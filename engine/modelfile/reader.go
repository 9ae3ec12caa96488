package modelfile

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"dsstne/engine/tensor"
	"dsstne/internal/fault"
	"dsstne/internal/file"
	"dsstne/internal/parallel"
)

// readChunk is how much is read, digested and checked at a time, while it is in the cache.
const readChunk = 1 << 18

// File is a model file that is open for reading, whose header was compared with its digest.
type File struct {
	Definition string // JSON
	Step       int64
	Attributes map[string]string // nil if there are none

	source  io.ReaderAt
	size    int64
	start   int64 // of the data
	data    int64 // bytes of data before the digests
	header  *header
	block   int64
	digests []byte         // the header's, then one a block
	places  map[string]int // entries by name
	closer  io.Closer      // may be nil
}

// Open opens a file and reads its header. A damaged file, or one that is not a model, is fault.CorruptFile; one that
// only a later version can read is fault.Unsupported; a path without a file is fault.NotFound.
func Open(path string) (*File, error) {
	source, size, err := file.Open(path, "cannot load "+path)
	if err != nil {
		return nil, err
	}
	f, err := Parse(source, size)
	if err != nil {
		source.Close()
		return nil, fault.Wrap(err, "%s", path)
	}
	f.closer = source
	return f, nil
}

// Parse reads the header of a file of size bytes, which stays the caller's to close.
func Parse(source io.ReaderAt, size int64) (*File, error) {
	f := &File{source: source, size: size}
	if err := f.readHeader(); err != nil {
		return nil, err
	}
	if err := f.readMetadata(); err != nil {
		return nil, err
	}
	return f, nil
}

// Close closes what Open opened.
func (f *File) Close() error {
	if f.closer == nil {
		return nil
	}
	return f.closer.Close()
}

// Entry finds a tensor by name.
func (f *File) Entry(name string) (Entry, bool) {
	i, found := f.places[name]
	if !found {
		return Entry{}, false
	}
	return f.header.entries[i], true
}

// Read fills tensors, by name, with up to threads goroutines (0: as many as the process may use). Each must have the
// type and the shape of its entry. Every byte of the file is compared with its digest, also of the entries that have no
// tensor here, and every weight is checked to be finite.
func (f *File) Read(tensors []*tensor.Tensor, threads int) error {
	into := make([]*tensor.Tensor, len(f.header.entries)) // nil: checked and passed over
	for _, t := range tensors {
		e, found := f.Entry(t.Name)
		if !found || e.DType != t.DType.String() || !slices.Equal(e.Shape, t.Shape) {
			return fault.New(fault.Internal, "%s %s %s does not fit its entry of the file", t.Name, t.DType,
				tensor.ShapeText(t.Shape))
		}
		into[f.places[t.Name]] = t
	}
	return parallel.Do(threads, int(blocksOf(f.data, f.block)), func(block int) error { return f.readBlock(block, into) })
}

// readHeader reads and checks header and digests, so far that every byte of the header can be trusted.
func (f *File) readHeader() error {
	start := make([]byte, min(f.size, lengthBytes+int64(len(opening))))
	if err := f.readAt(start, 0); err != nil {
		return err
	}
	length, err := headerLength(start, f.size)
	if err != nil {
		return err
	}
	head := make([]byte, lengthBytes+length)
	if err := f.readAt(head, 0); err != nil {
		return err
	}
	f.header, err = parseHeader(head[lengthBytes:])
	if err != nil {
		return damagedHeader(start, f.size, length, err)
	}
	if f.header.metadata[keyFormat] != formatName {
		return foreignTensors(f.header)
	}
	f.start = int64(len(head))
	f.places = make(map[string]int, len(f.header.entries))
	for i, e := range f.header.entries {
		f.places[e.Name] = i
	}
	return f.readDigests(head)
}

// readDigests finds the last tensor and compares the header with its digest.
func (f *File) readDigests(head []byte) error {
	end := f.start + f.header.end
	switch {
	case end > f.size:
		return fault.New(fault.CorruptFile, "file ends after %s of %s bytes; was the copy interrupted?",
			fault.Grouped(f.size), fault.Grouped(end))
	case end < f.size:
		return fault.New(fault.CorruptFile, "file has %s bytes, %s more than the model, which ends at byte %s; "+
			"was something appended?", fault.Grouped(f.size), fault.Grouped(f.size-end), fault.Grouped(end))
	}
	entries := f.header.entries
	last := len(entries) - 1
	if last < 0 || entries[last].Name != digestTensor || entries[last].DType != tensor.U8.String() ||
		(entries[last].end-entries[last].begin)%digestBytes != 0 || entries[last].begin == entries[last].end {
		return fault.New(fault.CorruptFile, "file does not end with its digests (tensor %q); "+
			"has another program rewritten it?", digestTensor)
	}
	f.data = entries[last].begin
	f.digests = make([]byte, entries[last].end-f.data)
	if err := f.readAt(f.digests, f.start+f.data); err != nil {
		return err
	}
	if sum := sha256.Sum256(head); !bytes.Equal(sum[:], f.digests[:digestBytes]) {
		return fault.New(fault.CorruptFile, "the header (%s) does not match its digest; the file is damaged, or another "+
			"program has rewritten it", byteRange(0, f.start))
	}
	return nil
}

// readMetadata reads what the header says besides tensors.
func (f *File) readMetadata() (err error) {
	damaged := func(err error) error {
		return fault.New(fault.CorruptFile, "the header (%s) is not that of a model: %v", byteRange(0, f.start), err)
	}
	version, err := f.header.integer(keyReader, 1, math.MaxInt64)
	if err != nil {
		return damaged(err)
	}
	if version > formatVersion {
		return fault.New(fault.Unsupported, "written by a newer version of dsstne: reading it needs file format %d, and "+
			"this version reads up to %d; update dsstne", version, formatVersion)
	}
	if f.block, err = f.header.integer(keyBlock, 1<<12, 1<<30); err != nil {
		return damaged(err)
	}
	if f.block%8 != 0 {
		return damaged(fmt.Errorf("metadata %q is %d, not a multiple of 8", keyBlock, f.block))
	}
	if want := 1 + blocksOf(f.data, f.block); int64(len(f.digests)) != want*digestBytes {
		return damaged(fmt.Errorf("there are %d digests, %s bytes of data need %d", len(f.digests)/digestBytes,
			fault.Grouped(f.data), want))
	}
	if f.Step, err = f.header.integer(keyStep, 0, math.MaxInt64); err != nil {
		return damaged(err)
	}
	definition, found := f.header.metadata[keyDefinition]
	if !found {
		definition = f.header.metadata[keyNetwork]
	}
	f.Definition, f.Attributes = definition, f.header.attributes()
	return nil
}

// readBlock reads what lies under one digest to where it belongs. A wrong digest is reported before a wrong number.
func (f *File) readBlock(block int, into []*tensor.Tensor) error {
	from := int64(block) * f.block
	to := min(from+f.block, f.data)
	var scratch []byte
	sum, wrong, err := digest(f.header.entries, into, from, to, func(i int, at, end int64) ([]byte, error) {
		var chunk []byte
		if t := into[i]; t != nil {
			chunk = t.Bytes()[at:end]
		} else {
			scratch = slices.Grow(scratch[:0], int(end-at))
			chunk = scratch[:end-at]
		}
		return chunk, f.readAt(chunk, f.start+f.header.entries[i].begin+at)
	})
	if err != nil {
		return err
	}
	if !bytes.Equal(sum, f.digests[digestBytes*(1+block):][:digestBytes]) {
		return fault.New(fault.CorruptFile, "block %d of %d of the weights (%s of the file) does not match its digest; the "+
			"file is damaged", block+1, blocksOf(f.data, f.block), byteRange(f.start+from, f.start+to))
	}
	if wrong != nil {
		return fault.New(fault.CorruptFile, "%v", wrong)
	}
	return nil
}

// readAt fills dst from a place in the file.
func (f *File) readAt(dst []byte, at int64) error {
	n, err := f.source.ReadAt(dst, at)
	switch {
	case n == len(dst):
		return nil
	case errors.Is(err, io.EOF):
		return fault.New(fault.CorruptFile, "file ends after %s of %s bytes, while it is read; is somebody writing it?",
			fault.Grouped(at+int64(n)), fault.Grouped(f.size))
	}
	return fault.From(fault.IO, file.Errno(err), "cannot read byte %s", fault.Grouped(at+int64(n)))
}
