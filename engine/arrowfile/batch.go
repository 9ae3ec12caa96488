package arrowfile

import (
	"encoding/binary"
	"unsafe"

	"dsstne/engine/csr"
	"dsstne/internal/fault"
)

// Sizes of the structs that lists hold.
const (
	blockSize  = 24 // where a record batch is: offset int64, size of its metadata int32, 4 bytes, size of its arrays int64
	nodeSize   = 16 // an array: length int64, nulls int64
	bufferSize = 16 // where numbers are, counted from the batch's first: offset int64, size int64
)

// pieces finds the arrays of each record batch.
func (r *reader) pieces(footer table) ([]csr.Parts, error) {
	at, n := footer.vector(footerBatches, blockSize)
	if footer.outside {
		return nil, damaged("its footer is not whole")
	}
	if n == 0 {
		none := batch{reader: r}
		return []csr.Parts{none.parts()}, nil
	}
	pieces := make([]csr.Parts, 0, n)
	for i := range n {
		b := batch{reader: r}
		block := at + i*blockSize
		err := b.read(footer.int64(block), footer.int32(block+8), footer.int64(block+16))
		if err == nil {
			pieces = append(pieces, b.parts())
			err = b.err
		}
		if err != nil {
			return nil, fault.Wrap(err, "record batch %d", i)
		}
	}
	return pieces, nil
}

// batch is a record batch.
type batch struct {
	*reader
	first   int64    // where its arrays begin in the file
	size    int64    // of its arrays
	rows    int64    // length of the list
	lengths []int64  // of its arrays: list, struct if there is one, index, value if there is one
	buffers []buffer // of those, one after the other
	err     error    // of the first buffer that is not as it has to be
}

type buffer struct{ offset, size int64 }

// read reads the metadata of a batch, which stand in front of its arrays.
func (b *batch) read(offset, metadataSize, size int64) error {
	metadata, err := b.copyOf(offset, metadataSize, "its metadata")
	if err != nil {
		return err
	}
	b.first, b.size = offset+metadataSize, size
	if size < 0 || size > b.reader.size-b.first {
		return damaged("its arrays have %d bytes from byte %d on, in a file of %d bytes", size, b.first, b.reader.size)
	}
	// The size of the flatbuffer stands in front of it, and before that 4 bytes of ones, which versions before 0.15 did not write.
	prefix := 4
	if len(metadata) >= 8 && binary.LittleEndian.Uint32(metadata) == 0xffffffff {
		prefix = 8
	}
	if len(metadata) < prefix {
		return damaged("its metadata have %d bytes", len(metadata))
	}
	message := rootOf(metadata[prefix:])
	if kind := message.byte(messageKind); kind != recordBatch || message.outside {
		return damaged("it is not a record batch")
	}
	return b.readHeader(message.table(messageHeader))
}

func (b *batch) readHeader(header table) error {
	b.rows = header.long(batchLength)
	nodes, n := header.vector(batchNodes, nodeSize)
	nulls := int64(0)
	for i := range n {
		b.lengths = append(b.lengths, header.int64(nodes+i*nodeSize))
		if header.int64(nodes+i*nodeSize+8) != 0 {
			nulls++
		}
	}
	buffers, n := header.vector(batchBuffers, bufferSize)
	for i := range n {
		b.buffers = append(b.buffers, buffer{header.int64(buffers + i*bufferSize), header.int64(buffers + i*bufferSize + 8)})
	}
	_, compressed := header.field(batchCompression)
	wantNodes, wantBuffers := 2, 4 // list and index
	if b.layout.entries {
		wantNodes, wantBuffers = 4, 7 // and struct, which has one buffer, and value
	}
	switch {
	case header.outside:
		return damaged("its metadata are not whole")
	case compressed:
		return fault.New(fault.Unsupported, "it is compressed, which a mapped file must not be; write it without compression "+
			`(in pyarrow: ipc.new_file, or feather.write_feather with compression="uncompressed")`)
	case len(b.lengths) != wantNodes || len(b.buffers) != wantBuffers:
		return damaged("it has %d arrays with %d buffers instead of %d with %d", len(b.lengths), len(b.buffers), wantNodes, wantBuffers)
	case nulls > 0:
		return fault.New(fault.InvalidData, "it has null rows or entries; leave null entries out, and write empty rows as empty lists")
	}
	return b.checkLengths()
}

// checkLengths compares the lengths of the arrays; those of fields may be longer than the struct.
func (b *batch) checkLengths() error {
	if b.rows < 0 || b.rows > b.size || b.lengths[0] != b.rows {
		return damaged("it has %d rows, a list of %d, and arrays of %d bytes", b.rows, b.lengths[0], b.size)
	}
	for _, length := range b.lengths[1:] {
		if length < 0 || length < b.lengths[1] {
			return damaged("its arrays have lengths %d", b.lengths[1:])
		}
	}
	return nil
}

// parts are the arrays of the batch, where they lie in the mapped file; the batch's err says if one is not inside it.
func (b *batch) parts() csr.Parts {
	p := csr.Parts{Columns: b.columns, Unsigned: b.layout.unsigned, Mapped: true}
	offsets, entries := int64(0), int64(0)
	if b.rows > 0 {
		offsets, entries = b.rows+1, b.lengths[1]
	}
	// Each array has a buffer that tells which elements are null; those of the list and of numbers have another one behind it.
	const listAt = 1
	indexAt := 3
	if b.layout.entries {
		indexAt = 4
	}
	if b.layout.longOffsets {
		p.Offsets64 = numbers[int64](b, listAt, offsets)
	} else {
		p.Offsets32 = numbers[int32](b, listAt, offsets)
	}
	if b.layout.longIndices {
		p.Indices64 = numbers[int64](b, indexAt, entries)
	} else {
		p.Indices32 = numbers[int32](b, indexAt, entries)
	}
	switch {
	case b.layout.doubles:
		p.Values64 = numbers[float64](b, indexAt+2, entries)
	case b.layout.entries:
		p.Values32 = numbers[float32](b, indexAt+2, entries)
	}
	return p
}

// numbers is n numbers of a buffer.
func numbers[T int32 | int64 | float32 | float64](b *batch, number int, n int64) []T {
	if n == 0 {
		return []T{} // not nil: csr.New takes the type from it
	}
	width, at := int64(unsafe.Sizeof(T(0))), b.buffers[number]
	switch {
	case at.offset < 0 || at.size < 0 || at.offset > b.size-at.size || n > at.size/width:
		b.err = damaged("buffer %d has %d bytes from byte %d on, but is to have %d numbers of %d bytes in %d bytes",
			number, at.size, at.offset, n, width, b.size)
	case (b.first+at.offset)%width != 0:
		b.err = damaged("buffer %d begins at byte %d, which is no multiple of %d", number, b.first+at.offset, width)
	}
	if b.err != nil {
		return []T{}
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&b.memory[b.first+at.offset])), n)
}
