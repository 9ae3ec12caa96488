package textfile

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math"
	"sort"
	"strconv"
	"sync/atomic"

	"dsstne/internal/fault"
	"dsstne/internal/file"
)

// mostLabel is the size of the longest line of an index file.
const mostLabel = 1 << 20

// ReadIndex reads an index file: a label, a TAB and its number on each line, in any order. The numbers are 0, 1, 2
// and so on, each once. The file may be compressed.
func ReadIndex(path string, gunzip Gunzip) (Index, error) {
	b := &budget{}
	block := newBlock(b)
	defer block.free()
	s := &source{
		o:     &Options{LongestLine: mostLabel, Gunzip: gunzip, blockSize: defaultBlock},
		files: []string{path}, cancelled: new(atomic.Bool), rest: list[byte]{budget: b},
	}
	defer s.rest.free()
	defer s.close()
	found, err := newLabels("entry", b)
	defer found.free()
	if err != nil {
		return Index{}, err
	}
	r := &indexReader{labels: found}
	for s.next(block) {
		if block.err != nil {
			return Index{}, block.err
		}
		if err := r.read(block); err != nil {
			return Index{}, err
		}
	}
	return r.index(path)
}

// indexReader collects the lines of an index file.
type indexReader struct {
	labels *labels
	lines  []numbered // by label, in the order of the file
}

// numbered is a line of an index file.
type numbered struct {
	number int32
	label  int32 // number in the order of the file
	line   int64
}

func (r *indexReader) read(b *block) error {
	line := b.firstLine
	for text := b.text.items; len(text) > 0; line++ {
		end := bytes.IndexByte(text, '\n')
		whole := bytes.TrimSuffix(text[:end], []byte{'\r'})
		text = text[end+1:]
		if len(whole) == 0 {
			continue
		}
		if err := r.add(whole, line); err != nil {
			return fault.Wrap(err, "%s, line %d", b.name, line)
		}
	}
	return nil
}

func (r *indexReader) add(whole []byte, line int64) error {
	tab := bytes.IndexByte(whole, '\t')
	if tab < 0 {
		return fault.New(fault.InvalidData, "the line has no TAB; a line of an index is a label, a TAB and its number")
	}
	label, number := whole[:tab], whole[tab+1:]
	if problem := labelProblem(label); problem != "" {
		return fault.New(fault.InvalidData, "the label %s", problem)
	}
	n, err := strconv.ParseInt(string(number), 10, 64)
	if err != nil || n < 0 || n >= math.MaxInt32 || number[0] == '+' || number[0] == '-' {
		return fault.New(fault.InvalidData, "%q is not a number of a label; labels are numbered from 0 to %d", shown(number),
			math.MaxInt32-1)
	}
	at, added, err := r.labels.number(label, hashOf(label))
	if err != nil {
		return err
	}
	if !added {
		return fault.New(fault.InvalidData, "the label %q is already in line %d; each label has one number", shown(label),
			r.lines[at].line)
	}
	r.lines = append(r.lines, numbered{int32(n), at, line})
	return nil
}

// index brings the labels into the order of their numbers.
func (r *indexReader) index(path string) (Index, error) {
	lines := r.lines
	sort.SliceStable(lines, func(i, j int) bool { return lines[i].number < lines[j].number })
	index := Index{Offsets: make([]int64, 1, len(lines)+1)}
	var twice *numbered // the first line, in the order of the file, whose number another has
	var once numbered
	for n, l := range lines {
		if n > 0 && lines[n-1].number == l.number && (twice == nil || l.line < twice.line) {
			twice, once = &lines[n], lines[n-1]
		}
		index.Text = append(index.Text, r.labels.label(int(l.label))...)
		index.Offsets = append(index.Offsets, int64(len(index.Text)))
	}
	if twice != nil {
		return Index{}, fault.New(fault.InvalidData, "%s, line %d: the number %d is already in line %d; each label has a "+
			"number of its own", path, twice.line, twice.number, once.line)
	}
	for n, l := range lines {
		if int(l.number) != n {
			return Index{}, fault.New(fault.InvalidData, "%s: no label has the number %d, but one has %d; the numbers of an "+
				"index are 0 to %d, one for each of its labels", path, n, lines[len(lines)-1].number, len(lines)-1)
		}
	}
	return index, nil
}

// WriteIndex writes an index file, in the order of the numbers. The old file, if there is one, stays complete until the
// new one is on the disk.
func WriteIndex(path string, index Index) error {
	b := &budget{}
	known, err := newLabels("entry", b)
	defer known.free()
	if err == nil {
		err = known.add(index)
	}
	if err != nil {
		return err
	}
	for n := range known.count() {
		if size := len(known.label(n)); size > mostLabel-32 {
			return fault.New(fault.InvalidArgument, "label %d has %s bytes; labels of an index file have up to %s", n,
				fault.Grouped(int64(size)), fault.Grouped(mostLabel-32))
		}
	}
	return file.Replace(path, func(to io.Writer) error {
		w := bufio.NewWriterSize(to, 1<<16)
		if known.count() > 0 && bytes.HasPrefix(known.label(0), byteOrderMark) {
			_, _ = w.Write(byteOrderMark) // which the reader takes off
		}
		for n := range known.count() {
			_, _ = w.Write(known.label(n))
			_, _ = fmt.Fprintf(w, "\t%d\n", n)
		}
		return w.Flush() // has the first error
	})
}
