package textfile

import (
	"io"
	"sync"
	"sync/atomic"
	"unsafe"

	"dsstne/engine/csr"
	"dsstne/internal/fault"
	"dsstne/internal/parallel"
)

// Repeated is what happens to a sample that a text has several times.
type Repeated int

// The choices of Options.Repeated.
const (
	ReplaceRepeated Repeated = iota // the last row counts
	MergeRepeated                   // the entries of all rows
	RefuseRepeated                  // it is an error
)

// Gunzip returns what decompresses a gzip file of one or several members. That the file ends early is
// io.ErrUnexpectedEOF.
type Gunzip func(io.Reader) (io.Reader, error)

// Options choose how a text is read.
type Options struct {
	Analog        bool     // entries have the values of the text; otherwise all have the value 1
	DefaultValue  *float32 // of a feature without a value, if Analog; nil: such a line is malformed
	SkipMalformed bool     // malformed lines are counted; otherwise they are errors
	Repeated      Repeated // what happens to repeated samples
	LongestLine   int64    // no line has more bytes
	MemoryLimit   int64    // most bytes that the reading may use together with its result; 0: any
	Threads       int      // 0: as many as the process may use
	Gunzip        Gunzip

	// The numbers that labels have already. Labels that are not in a given index are left out, unless the index is to be
	// extended; without an index all are numbered.
	Features, Samples             Index
	ExtendFeatures, ExtendSamples bool

	blockSize int // bytes that a thread reads at a time; only tests change it
}

const defaultBlock = 1 << 20

// mostThreads is how many threads read on any machine. More than twice its processors would only need memory, because
// each has a block.
const mostThreads = 16

// LongestLine is the largest Options.LongestLine.
const LongestLine = 1_000_000_000

// Report counts what a reading found.
type Report struct {
	Files   int   `json:"files"`
	Bytes   int64 `json:"bytes"` // of the text, after decompression
	Lines   int64 `json:"lines"`
	Samples int64 `json:"samples"` // rows of the text that were read, repeated ones included

	RepeatedSamples int64                `json:"repeated_samples"` // rows whose sample had one already
	NewSamples      int64                `json:"new_samples"`      // labels that were not in the index
	NewFeatures     int64                `json:"new_features"`
	UnknownSamples  int64                `json:"unknown_samples"`  // rows whose labels are not in the index; left out
	UnknownFeatures int64                `json:"unknown_features"` // entries left out likewise
	Malformed       map[string]Malformed `json:"malformed"`        // skipped lines by kind
}

// Data is the matrix of a text, whose arrays belong to it, with the labels of its rows and columns.
type Data struct {
	*csr.Matrix
	samples, features *labels
	report            Report
}

// ReadData reads the text of files and folders. It stops soon after cancelled is set.
func ReadData(paths []string, o Options, cancelled *atomic.Bool) (*Data, error) {
	files, err := filesOf(paths)
	if err != nil {
		return nil, err
	}
	if o.blockSize == 0 {
		o.blockSize = defaultBlock
	}
	b := &budget{limit: o.MemoryLimit}
	u, err := newBuilder(&o, b)
	defer func() { u.free() }() // what the result has taken is not there any more
	if err != nil {
		return nil, err
	}
	if err := u.samples.add(o.Samples); err != nil {
		return nil, err
	}
	if err := u.features.add(o.Features); err != nil {
		return nil, err
	}
	u.samples.fixed = o.Samples.Offsets != nil && !o.ExtendSamples
	u.features.fixed = o.Features.Offsets != nil && !o.ExtendFeatures
	s := &source{o: &o, files: files, cancelled: cancelled, rest: list[byte]{budget: b}}
	defer s.rest.free()
	defer s.close()
	if err := readAll(s, u); err != nil {
		return nil, err
	}
	u.report.Files, u.report.Bytes, u.report.Lines = len(files), s.bytes, s.lines
	d, err := u.finish()
	if err == nil && cancelled.Load() {
		_ = d.Close() // nobody uses it yet
		return nil, errCancelled
	}
	return d, err
}

// readAll reads, parses and appends all blocks.
func readAll(s *source, u *builder) error {
	threads := min(parallel.Threads(u.o.Threads), max(mostThreads, 2*parallel.Threads(0)))
	var reading sync.Mutex // guards the source
	err := parallel.Do(threads, threads, func(int) error {
		b := newBlock(u.budget)
		defer b.free()
		for !u.failed() {
			reading.Lock()
			more := false
			err := guarded(func() error {
				more = s.next(b)
				return nil
			})
			if err != nil {
				s.stop()
			}
			reading.Unlock()
			if err != nil || !more {
				return err
			}
			if err = b.err; err == nil {
				err = guarded(func() error { return b.parse(u.o) })
			}
			u.take(b, err)
		}
		return nil
	})
	if u.error != nil {
		return u.error
	}
	return err
}

// guarded turns a panic into an error.
func guarded(do func() error) error { return parallel.Guarded(func(int) error { return do() }, 0) }

// finish makes the data of what has been appended.
func (u *builder) finish() (*Data, error) {
	u.samples.slots.free()
	u.features.slots.free()
	columns := int64(u.features.count())
	if columns == 0 {
		return nil, fault.New(fault.InvalidData, "the text has no features (%s lines); a line is a sample's label, a TAB, "+
			"and its features between colons", fault.Grouped(u.report.Lines))
	}
	err := u.offsets()
	u.rowOf.free()
	u.rowNow.free()
	u.lineOf.free()
	for _, fit := range []func() error{
		u.entries.fit, u.values.fit, u.samples.text.fit, u.samples.ends.fit, u.features.text.fit, u.features.ends.fit,
	} {
		if err == nil {
			err = fit()
		}
	}
	if err != nil {
		return nil, err
	}
	parts := csr.Parts{Columns: columns, Indices32: notNil(u.entries.items)}
	if u.o.Analog {
		parts.Values32 = notNil(u.values.items)
	}
	short, is := narrow(&u.ends)
	if is {
		if err := short.fit(); err != nil {
			short.free()
			return nil, err
		}
		parts.Offsets32 = short.items
	} else {
		short = &list[int32]{budget: u.budget}
		parts.Offsets64 = u.ends.items
	}
	d := &Data{samples: u.samples, features: u.features, report: u.report}
	entries, values, ends := u.entries, u.values, u.ends
	parts.Release = func() {
		for _, free := range []func(){entries.free, values.free, ends.free, short.free, d.samples.free, d.features.free} {
			free()
		}
	}
	u.entries, u.values = list[int32]{budget: u.budget}, list[float32]{budget: u.budget}
	u.ends = list[int64]{budget: u.budget}
	u.samples, u.features = nil, nil
	if d.Matrix, err = csr.New(parts); err != nil {
		parts.Release()
		return nil, err
	}
	if err = d.Validate(csr.ValidateOptions{Threads: u.o.Threads}); err != nil {
		_ = d.Close() // nobody uses it yet
		return nil, err
	}
	return d, nil
}

// notNil makes an empty slice of nil: a matrix without entries has them, too.
func notNil[T any](items []T) []T {
	if items == nil {
		return []T{}
	}
	return items
}

// Report counts what the reading found.
func (d *Data) Report() Report { return d.report }

// Digest is empty: no file has the rows.
func (d *Data) Digest() string { return "" }

// Arrays are the arrays beside the rows, with their sizes in bytes: "items" and "rows" have one more offset (int64)
// than labels, and then their text.
func (d *Data) Arrays() map[string]int64 {
	return map[string]int64{"items": d.features.bytes(), "rows": d.samples.bytes()}
}

// Array copies an array to dst, which has its size.
func (d *Data) Array(name string, dst []byte) error {
	size, found := d.Arrays()[name]
	switch {
	case !found:
		return fault.New(fault.NotFound, "the dataset has no array %q", name)
	case int64(len(dst)) != size:
		return fault.New(fault.InvalidArgument, "array %q has %d bytes, not %d", name, size, len(dst))
	case name == "items":
		d.features.copyTo(dst)
	default:
		d.samples.copyTo(dst)
	}
	return nil
}

func (l *labels) bytes() int64 { return 8*int64(len(l.ends.items)) + int64(len(l.text.items)) }

func (l *labels) copyTo(dst []byte) {
	ends := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(l.ends.items))), 8*len(l.ends.items))
	copy(dst[copy(dst, ends):], l.text.items)
}
