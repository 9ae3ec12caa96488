package arrowfile

import (
	"encoding/binary"
	"slices"

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
	list, err := blocksIn(footer, footerBatches)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		none := batch{reader: r}
		return []csr.Parts{none.parts()}, nil
	}
	pieces := make([]csr.Parts, 0, len(list))
	for i, at := range list {
		b := batch{reader: r}
		err := b.readRows(at)
		if err == nil {
			pieces = append(pieces, b.parts())
			err = b.err
		}
		if err != nil {
			return nil, fault.Wrap(err, "record batch %d", i)
		}
		if r.hasNames {
			r.names = append(r.names, b.names)
		}
	}
	return pieces, nil
}

// place is where a message is in the file: its metadata, and behind them its arrays.
type place struct{ offset, metadata, arrays int64 }

// blocksIn is a list of places of the footer.
func blocksIn(footer table, field int64) ([]place, error) {
	at, n := footer.vector(field, blockSize)
	if footer.outside {
		return nil, damaged("its footer is not whole")
	}
	list := make([]place, n)
	for i := range list {
		block := at + int64(i)*blockSize
		list[i] = place{footer.integer(block, 8), footer.integer(block+8, 4), footer.integer(block+16, 8)}
	}
	return list, nil
}

// batch is a record batch, or a dictionary batch, which has a record batch in it.
type batch struct {
	*reader
	first   int64     // where its arrays begin in the file
	size    int64     // of its arrays
	rows    int64     // length of the list
	lengths []int64   // of its arrays: list, struct if there is one, index, value if there is one
	buffers []buffer  // of those, one after the other
	names   textArray // of the rows
	err     error     // of the first buffer that is not as it has to be
}

type buffer struct{ offset, size int64 }

// read reads the metadata of a batch of a kind, which stand in front of its arrays.
func (b *batch) read(at place, kind int64) error {
	metadata, err := b.copyOf(at.offset, at.metadata, "its metadata")
	if err != nil {
		return err
	}
	b.first, b.size = at.offset+at.metadata, at.arrays
	if b.size < 0 || b.size > b.reader.size-b.first {
		return damaged("its arrays have %d bytes from byte %d on, in a file of %d bytes", b.size, b.first, b.reader.size)
	}
	// The size of the flatbuffer stands in front of it, and before that 4 bytes of ones, which versions before 0.15 did
	// not write.
	prefix := 4
	if len(metadata) >= 8 && binary.LittleEndian.Uint32(metadata) == 0xffffffff {
		prefix = 8
	}
	if len(metadata) < prefix {
		return damaged("its metadata have %d bytes", len(metadata))
	}
	message := rootOf(metadata[prefix:])
	if found := message.number(messageKind, 1); found != kind || message.outside {
		return damaged("it is not a batch of the kind that the footer says")
	}
	header := message.table(messageHeader)
	if kind == dictionaryBatch {
		header = header.table(dictionaryData)
	}
	return b.readHeader(header)
}

func (b *batch) readHeader(header table) error {
	b.rows = header.number(batchLength, 8)
	nodes, n := header.vector(batchNodes, nodeSize)
	nulls := int64(0)
	for i := range n {
		b.lengths = append(b.lengths, header.integer(nodes+i*nodeSize, 8))
		nulls |= header.integer(nodes+i*nodeSize+8, 8)
	}
	buffers, n := header.vector(batchBuffers, bufferSize)
	for i := range n {
		at := buffers + i*bufferSize
		b.buffers = append(b.buffers, buffer{header.integer(at, 8), header.integer(at+8, 8)})
	}
	_, compressed := header.field(batchCompression)
	switch {
	case header.outside:
		return damaged("its metadata are not whole")
	case compressed:
		return fault.New(fault.Unsupported,
			"it is compressed, which a mapped file must not be; write it without compression "+
				`(in pyarrow: ipc.new_file, or feather.write_feather with compression="uncompressed")`)
	case nulls != 0:
		return fault.New(fault.InvalidData,
			"it has null rows or entries; leave null entries out, and write empty rows as empty lists")
	}
	return nil
}

// readRows reads the metadata of a record batch, and puts those of the names of its rows apart.
func (b *batch) readRows(at place) error {
	if err := b.read(at, recordBatch); err != nil {
		return err
	}
	wantNodes, wantBuffers := 2, 4 // list and index
	if b.layout.Pairs {
		wantNodes, wantBuffers = 4, 7 // and struct, which has one buffer, and value
	}
	nameNodes, nameBuffers := 0, 0
	if b.hasNames {
		nameNodes, nameBuffers = 1, 3
	}
	if len(b.lengths) != wantNodes+nameNodes || len(b.buffers) != wantBuffers+nameBuffers {
		return damaged("it has %d arrays with %d buffers instead of %d with %d", len(b.lengths), len(b.buffers),
			wantNodes+nameNodes, wantBuffers+nameBuffers)
	}
	if b.hasNames {
		nodeAt, bufferAt := 0, 0
		if b.column == 0 {
			nodeAt, bufferAt = wantNodes, wantBuffers
		}
		b.names = textArray{b.first, b.size, b.lengths[nodeAt], b.buffers[bufferAt+1], b.buffers[bufferAt+2]}
		b.lengths = slices.Delete(b.lengths, nodeAt, nodeAt+nameNodes)
		b.buffers = slices.Delete(b.buffers, bufferAt, bufferAt+nameBuffers)
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

// parts are the arrays of the batch, where they lie in the file; the batch's err says if one is not inside it.
func (b *batch) parts() csr.Parts {
	offsets, entries := int64(0), int64(0)
	if b.rows > 0 {
		offsets, entries = b.rows+1, b.lengths[1]
	}
	// Each array has a buffer that tells which elements are null; those of the list and of numbers have another one
	// behind it.
	listAt, indexAt, valueAt := 1, 3, 0
	if b.layout.Pairs {
		indexAt, valueAt = 4, 6
	}
	p := b.layout.Parts(0, 0, nil, nil, nil)
	p.Columns = b.columns
	p.InFile = &csr.InFile{
		File: b.data, Rows: b.rows, Entries: entries, Offsets: b.place(listAt, offsets, b.layout.LongOffsets),
		Indices: b.place(indexAt, entries, b.layout.LongIndices), Values: b.place(valueAt, entries, b.layout.Doubles),
	}
	return p
}

// place is where a buffer begins in the file; it must hold n numbers of 32 or 64 bits.
func (b *batch) place(number int, n int64, long bool) int64 {
	if n == 0 || number == 0 {
		return 0
	}
	width, at := int64(4), b.buffers[number]
	if long {
		width = 8
	}
	switch {
	case at.offset < 0 || at.size < 0 || at.offset > b.size-at.size || n > at.size/width:
		b.err = damaged("buffer %d has %d bytes from byte %d on, but is to have %d numbers of %d bytes in %d bytes",
			number, at.size, at.offset, n, width, b.size)
	case (b.first+at.offset)%width != 0:
		b.err = damaged("buffer %d begins at byte %d, which is not a multiple of %d", number, b.first+at.offset, width)
	}
	return b.first + at.offset
}
