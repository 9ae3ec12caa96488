package arrowfile

import (
	"encoding/binary"

	"dsstne/engine/csr"
	"dsstne/internal/fault"
)

// Saved is a matrix in a file that Save has written.
type Saved struct {
	*csr.Attested
	reader *reader
	record record
	sum    string
	items  textArray
}

// OpenSaved opens a file of Save. It reads the record of the rows, not the rows: those are checked when they are read
// for the first time. Its errors are those of Open; a file without a record is fault.InvalidData.
func OpenSaved(path string) (*Saved, error) {
	return open(path, func(r *reader) (*Saved, error) {
		known, sum, err := r.readRecord()
		if err != nil {
			return nil, err
		}
		r.columns = known.Columns
		blocks, err := r.findRows()
		if err != nil {
			return nil, err
		}
		s := &Saved{reader: r, record: known, sum: sum}
		if s.Attested, err = r.attest(blocks, path, known); err == nil && known.Items != nil {
			err = s.findItems()
		}
		return s, err
	})
}

// findItems finds the dictionary of the items.
func (s *Saved) findItems() error {
	list, err := blocksIn(s.reader.footer, footerDictionaries)
	if err != nil {
		return err
	}
	if len(list) != 1 {
		return damaged("it has %d dictionaries instead of one", len(list))
	}
	b := batch{reader: s.reader}
	if err := b.read(list[0], dictionaryBatch); err != nil {
		return fault.Wrap(err, "the dictionary")
	}
	if len(b.lengths) != 1 || len(b.buffers) != 3 || b.lengths[0] != s.Columns() {
		return damaged("its dictionary does not have the %d items", s.Columns())
	}
	s.items = textArray{b.first, b.size, b.lengths[0], b.buffers[1], b.buffers[2]}
	return nil
}

// Digest identifies the file: its rows, its columns and all names.
func (s *Saved) Digest() string { return s.sum }

// Arrays are the arrays beside the rows, with their sizes in bytes: "column_counts" has the number of entries of each
// column (int64); "items" and "rows", if there are names, have one more offset (int64) than names, and then the text.
func (s *Saved) Arrays() map[string]int64 {
	sizes := map[string]int64{"column_counts": s.record.Counts.Bytes}
	if s.record.Items != nil {
		sizes["items"] = s.record.Items.Bytes
	}
	if s.record.Names != nil {
		sizes["rows"] = s.record.Names.Bytes
	}
	return sizes
}

// Array reads an array into dst, which has its size, and compares it with its digest.
func (s *Saved) Array(name string, dst []byte) error {
	size, found := s.Arrays()[name]
	switch {
	case !found:
		return fault.New(fault.NotFound, "the dataset has no array %q", name)
	case int64(len(dst)) != size:
		return fault.New(fault.InvalidArgument, "array %q has %d bytes, not %d", name, size, len(dst))
	}
	var at section
	var err error
	switch name {
	case "items":
		at = *s.record.Items
		err = s.copyNames([]textArray{s.items}, false, s.Columns(), dst)
	case "rows":
		at = *s.record.Names
		err = s.copyNames(s.reader.names, s.reader.longNames, s.Rows(), dst)
	default:
		if at = s.record.Counts; at.Offset < 0 || at.Offset > s.reader.size-at.Bytes {
			err = errForeign
		} else {
			err = s.reader.data.Read(dst, at.Offset)
		}
	}
	if err == nil && !at.isOf(dst) {
		err = damaged("it is not the array that was saved")
	}
	return fault.Wrap(err, "array %q", name)
}

// copyNames copies n names, which may be in several arrays.
func (s *Saved) copyNames(list []textArray, long bool, n int64, dst []byte) (err error) {
	if int64(len(dst)) < 8*(n+1) {
		return damaged("its record has too few bytes of names")
	}
	offsets, text := dst[:8*(n+1)], dst[8*(n+1):]
	done, end := int64(0), int64(0)
	for _, part := range list {
		if end, err = s.reader.readNames(part, long, offsets[8*done:], text, end); err != nil {
			return err
		}
		done += part.length
	}
	binary.LittleEndian.PutUint64(offsets[8*done:], uint64(end))
	return nil
}
