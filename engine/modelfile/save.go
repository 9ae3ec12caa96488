package modelfile

import (
	"cmp"
	"crypto/sha256"
	"io"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"dsstne/internal/fault"
	"dsstne/internal/file"
	"dsstne/internal/parallel"
)

// Save writes a model file with up to threads goroutines (0: as many as the process may use). The old file, if there is
// one, stays whole until the new one is on the disk, and stays as it is if anything fails; a link is followed to the
// file it names.
//
// It is fault.IO when the system refuses to write, and fault.NotFinite when a weight is, as Open refuses such a file.
func Save(path string, c *Content, threads int) error {
	return save(path, c, threads, standardBlock)
}

func save(path string, c *Content, threads int, block int64) error {
	if err := checkAttributes(c.Attributes); err != nil {
		return err
	}
	l, err := layOut(c, block)
	if err != nil {
		return fault.Wrap(err, "cannot save %s", path)
	}
	return file.Replace(path, func(w io.Writer) error { return l.write(w, threads) })
}

func checkAttributes(attributes map[string]string) error {
	if len(attributes) > mostAttributes {
		return fault.New(fault.InvalidArgument, "there are %s attributes; a model file can hold %s",
			fault.Grouped(int64(len(attributes))), fault.Grouped(mostAttributes))
	}
	for key, value := range attributes {
		if key == "" {
			return fault.New(fault.InvalidArgument, "an attribute has an empty name")
		}
		if !utf8.ValidString(key) || !utf8.ValidString(value) {
			return fault.New(fault.InvalidArgument, "attribute %q is not UTF-8 text", key)
		}
		if strings.IndexByte(key, 0) >= 0 {
			return fault.New(fault.InvalidArgument, "the name of attribute %q contains a NUL character", key)
		}
	}
	return nil
}

// write writes the whole file in order. Digests are computed by other goroutines meanwhile and go last.
func (l *layout) write(w io.Writer, threads int) error {
	digests := make([]byte, digestBytes*(1+l.blocks()))
	sum := sha256.Sum256(l.head)
	copy(digests, sum[:])

	var stop atomic.Bool
	digested := make(chan error, 1)
	go func() {
		digested <- parallel.Do(threads, l.blocks(), func(block int) error {
			return l.digestBlock(block, digests[digestBytes*(1+block):][:digestBytes], &stop)
		})
	}()
	err := l.writeData(w)
	stop.Store(err != nil)
	if err = cmp.Or(err, <-digested); err == nil {
		_, err = w.Write(digests)
	}
	return err
}

func (l *layout) writeData(w io.Writer) error {
	if _, err := w.Write(l.head); err != nil {
		return err
	}
	piece := int64(standardBlock)
	if l.pause != nil {
		piece = readChunk
	}
	for _, t := range l.tensors {
		memory := t.Bytes()
		for at := int64(0); at < t.Size(); at += piece {
			if _, err := w.Write(memory[at:min(t.Size(), at+piece)]); err != nil {
				return err
			}
			l.rest()
		}
	}
	return nil
}

// digestBlock computes one digest and checks that the weights under it are finite.
func (l *layout) digestBlock(block int, out []byte, stop *atomic.Bool) error {
	from := int64(block) * l.block
	to := min(from+l.block, l.data)
	sum, notFinite, err := digest(l.entries, l.tensors, from, to, func(i int, at, end int64) ([]byte, error) {
		if stop.Load() {
			return nil, io.ErrClosedPipe // write reports its own error
		}
		l.rest()
		return l.tensors[i].Bytes()[at:end], nil
	})
	copy(out, sum)
	return cmp.Or(err, notFinite)
}

// rest leaves time to others.
func (l *layout) rest() {
	if l.pause != nil {
		l.pause()
	}
}
