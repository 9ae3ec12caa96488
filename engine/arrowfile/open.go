// Package arrowfile opens a matrix that is stored in an Arrow IPC file (Feather version 2). No array is copied: rows
// are read from the file whenever they are needed, and the system keeps its pages in memory as long as there is room.
//
// The file has one column, list<struct<index, value>> or list<index>, perhaps another one of row names, and is not
// compressed. Each of its record batches becomes a piece of a csr.Blocks. The package reads and writes the metadata
// that say where the arrays are (flatbuffers, see https://arrow.apache.org/docs/format/Columnar.html) itself: Arrow Go
// would copy the arrays, and it panics or asks for any amount of memory if a file is damaged.
//
// Open checks all of any such file. Save writes files with a record of their rows (docs/dataset-file.md), with which
// OpenSaved need not read the rows; they are checked when they are read for the first time.
package arrowfile

import (
	"encoding/binary"
	"os"

	"dsstne/engine/csr"
	"dsstne/internal/fault"
	"dsstne/internal/file"
)

// magic begins and ends a file.
const magic = "ARROW1"

// The end of a file is the size of the footer (int32) and the magic.
const ending = 4 + len(magic)

// maxMetadata is the size of the largest footer, or metadata of a record batch, that is read. A footer of this size
// lists 700,000 record batches.
const maxMetadata = 16 << 20

// Open opens a file and checks every entry. Closing the matrix closes the file. columns is the number of columns, which
// the file need not say.
//
// A damaged file, or one of another format, is fault.CorruptFile; one with another type of column, or with entries that
// are not valid, is fault.InvalidData; a compressed one is fault.Unsupported; a path without a file is fault.NotFound.
func Open(path string, columns int64, check csr.ValidateOptions) (*csr.Blocks, error) {
	return open(path, func(r *reader) (*csr.Blocks, error) {
		r.columns = columns
		blocks, err := r.findRows()
		if err == nil {
			err = blocks.Validate(check)
		}
		return blocks, err
	})
}

// open opens a file and reads its footer and its schema before body goes on. What body returns has the file.
func open[T any](path string, body func(r *reader) (T, error)) (opened T, err error) {
	f, size, err := file.Open(path, path)
	if err != nil {
		return opened, err
	}
	r := &reader{file: f, size: size, data: csr.NewFile(f)}
	if r.footer, err = r.readFooter(); err == nil {
		if err = r.readSchema(r.footer.table(footerSchema)); err == nil {
			opened, err = body(r)
		}
	}
	if err != nil {
		var none T
		f.Close()
		return none, fault.Wrap(err, "%s", path)
	}
	return opened, nil
}

// findRows finds the rows in the file.
func (r *reader) findRows() (*csr.Blocks, error) {
	pieces, err := r.pieces(r.footer)
	if err != nil {
		return nil, err
	}
	return csr.NewBlocks(pieces, func() { r.file.Close() })
}

// reader reads the metadata of a file. It copies them first, so that nobody changes them between a check and their use.
type reader struct {
	file    *os.File
	size    int64
	footer  table
	columns int64
	data    *csr.File // the file, for matrices
	layout  Layout
	column  int // the number of the matrix among the file's columns

	hasNames, longNames bool        // of rows, in the other column; with offsets of 64 bits
	names               []textArray // by record batch
}

// copyOf reads n bytes of the file.
func (r *reader) copyOf(at, n int64, what string) ([]byte, error) {
	if at < 0 || n < 0 || n > maxMetadata || at > r.size-n {
		return nil, damaged("%s has %d bytes from byte %d on, in a file of %d bytes", what, n, at, r.size)
	}
	data := make([]byte, n)
	if _, err := r.file.ReadAt(data, at); err != nil {
		return nil, fault.From(fault.IO, err, "cannot read %s", what)
	}
	return data, nil
}

// readFooter checks both ends of the file and reads the table before its end, which says where the record batches are.
func (r *reader) readFooter() (table, error) {
	if r.size < int64(len(magic)+2+ending) {
		return table{}, fault.New(fault.CorruptFile, "it has %d bytes, too few for an Arrow file", r.size)
	}
	head, err := r.copyOf(0, int64(len(magic)), "the beginning")
	if err != nil {
		return table{}, err
	}
	tail, err := r.copyOf(r.size-int64(ending), int64(ending), "the end")
	switch {
	case err != nil:
		return table{}, err
	case string(head[:4]) == "FEA1":
		return table{}, fault.New(fault.Unsupported,
			"it is a Feather file of version 1; write version 2, which is the Arrow file format")
	case string(head[:4]) == "\xff\xff\xff\xff":
		return table{}, fault.New(fault.Unsupported,
			"it is an Arrow stream; write the Arrow file format (in pyarrow: ipc.new_file)")
	case string(head) != magic:
		return table{}, fault.New(fault.CorruptFile,
			"it is not an Arrow file (Feather version 2): it does not begin with %s", magic)
	case string(tail[4:]) != magic:
		return table{}, fault.New(fault.CorruptFile, "the file is not whole: it does not end with %s", magic)
	}
	size := int64(int32(binary.LittleEndian.Uint32(tail)))
	data, err := r.copyOf(r.size-int64(ending)-size, size, "the footer")
	if err != nil {
		return table{}, err
	}
	return rootOf(data), nil
}

// damaged is the error for a file that contradicts itself.
func damaged(format string, args ...any) error {
	return fault.Wrap(fault.New(fault.CorruptFile, format, args...), "the file is damaged")
}
