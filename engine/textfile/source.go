package textfile

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"sync/atomic"

	"dsstne/internal/fault"
	"dsstne/internal/file"
)

// source cuts files into blocks of whole lines. One goroutine at a time uses it.
type source struct {
	o         *Options
	files     []string // that are not open yet
	cancelled *atomic.Bool

	open    *os.File // nil: none
	reader  io.Reader
	name    string
	line    int64 // of the next block in the file
	ended   bool
	rest    list[byte] // what has been read of the line that begins the next block
	isFirst bool       // the next block begins the file

	blocks, lines, bytes int64 // so far
}

// next fills a block with lines; false means that there are no more. If the text cannot be read, the block has the
// error instead, and the text ends.
func (s *source) next(b *block) bool {
	b.err, b.text.items = nil, b.text.items[:0]
	for len(b.text.items) == 0 && b.err == nil && (s.open != nil || len(s.files) > 0) {
		b.err = s.fill(b)
	}
	if b.err != nil {
		s.stop()
		b.text.items = b.text.items[:0]
	} else if len(b.text.items) == 0 {
		return false
	}
	b.number = s.blocks
	s.blocks++
	return true
}

// stop ends the text.
func (s *source) stop() {
	s.files = nil
	s.close()
}

// fill reads a block of the file that is open, or of the next. The block is empty at the end of a file.
func (s *source) fill(b *block) error {
	if s.open == nil {
		if err := s.openNext(); err != nil {
			return err
		}
	}
	b.text.items = b.text.items[:0]
	if err := b.text.extend(s.rest.items...); err != nil {
		return err
	}
	s.rest.items = s.rest.items[:0]
	end, err := s.readLines(b)
	if err != nil {
		return err
	}
	if s.isFirst {
		s.isFirst = false
		if mark := []byte("\uFEFF"); bytes.HasPrefix(b.text.items, mark) {
			b.text.items = b.text.items[:copy(b.text.items, b.text.items[len(mark):])]
			end -= len(mark)
		}
	}
	if err := s.rest.extend(b.text.items[end:]...); err != nil {
		return err
	}
	b.text.items = b.text.items[:end]
	b.name, b.firstLine, b.before = s.name, s.line, s.lines
	lines := int64(bytes.Count(b.text.items, []byte{'\n'}))
	s.line, s.lines = s.line+lines, s.lines+lines
	if s.ended {
		s.close()
	}
	return nil
}

// readLines reads until the block has enough bytes, of which end are whole lines, or the file ends. The last line of a
// file gets a newline if it has none.
func (s *source) readLines(b *block) (end int, err error) {
	searched := 0
	for {
		if s.cancelled.Load() {
			return 0, errCancelled
		}
		if err := b.text.reserve(s.o.blockSize); err != nil {
			return 0, err
		}
		at := len(b.text.items)
		n, err := s.reader.Read(b.text.items[at : at+s.o.blockSize])
		b.text.items = b.text.items[:at+n]
		s.bytes += int64(n)
		if last := bytes.LastIndexByte(b.text.items[searched:], '\n'); last >= 0 {
			end = searched + last + 1
		}
		searched = len(b.text.items)
		switch {
		case errors.Is(err, io.EOF):
			s.ended = true
			if end < searched {
				end = searched + 1
				return end, b.text.push('\n')
			}
			return end, nil
		case err != nil:
			return 0, s.readError(err)
		case end > 0 && searched >= s.o.blockSize:
			return end, nil
		case int64(searched-end) > s.o.LongestLine:
			return 0, tooLong(s.name, s.line+int64(bytes.Count(b.text.items, []byte{'\n'})), s.o.LongestLine)
		}
	}
}

// openNext opens the next file.
func (s *source) openNext() error {
	s.name, s.files = s.files[0], s.files[1:]
	f, _, err := file.Open(s.name, s.name)
	if err != nil {
		return err
	}
	s.open, s.reader, s.line, s.ended, s.isFirst = f, f, 1, false, true
	var begin [2]byte
	n, err := f.ReadAt(begin[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return s.readError(err)
	}
	if n == len(begin) && begin == [2]byte{0x1f, 0x8b} {
		if s.reader, err = s.o.Gunzip(bufio.NewReaderSize(f, 1<<16)); err != nil {
			return s.readError(err)
		}
	}
	return nil
}

// readError explains an error of reading a file.
func (s *source) readError(err error) error {
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fault.New(fault.CorruptFile, "%s: the compressed file ends early; it was not copied completely, or is damaged",
			s.name)
	case fault.Errno(err) != 0:
		return fault.From(fault.IO, file.Errno(err), "%s: reading failed", s.name)
	}
	return fault.New(fault.CorruptFile, "%s: the compressed file is damaged: %v", s.name, err)
}

func (s *source) close() {
	if s.open != nil {
		_ = s.open.Close() // it was only read
		s.open = nil
	}
}

func tooLong(name string, line, limit int64) error {
	return fault.New(fault.InvalidData, "%s, line %d: the line has more than %s bytes; is the file a text? "+
		"(the limit is longest_line)", name, line, fault.Grouped(limit))
}

// byteOrderMark may be the beginning of a text.
var byteOrderMark = []byte("\uFEFF")

var errCancelled = fault.New(fault.Cancelled, "reading the text was cancelled")
