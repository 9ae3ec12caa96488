package model

import (
	"crypto/sha256"
	"io"
	"maps"
	"sync/atomic"
	"unicode/utf8"

	"dsstne/engine/fault"
)

// Save writes a model file. The old file, if there is one, stays whole until the new one is on the disk, and keeps standing
// if anything fails; a link is followed to the file it names. Attributes are kept in the file; nil keeps those that the
// model has, and otherwise they are the model's from then on.
//
// It is fault.Busy while the model is trained, fault.IO when the system refuses to write, and fault.NotFinite when a weight
// is: such a file could not be loaded.
func (m *Model) Save(path string, attributes map[string]string) error {
	return m.save(systemDisk{}, path, attributes, standardBlock)
}

func (m *Model) save(d disk, path string, attributes map[string]string, block int64) error {
	unlock, err := m.TryRead()
	if err != nil {
		return fault.Wrap(err, "cannot save %s", path)
	}
	defer unlock()
	if attributes == nil {
		attributes = m.Attributes()
	}
	if err := checkAttributes(attributes); err != nil {
		return err
	}
	l, err := m.layOut(attributes, block)
	if err != nil {
		return fault.Wrap(err, "cannot save %s", path)
	}
	if err := replaceFile(d, path, func(w io.Writer) error { return l.write(w, m.threads) }); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.attributes = maps.Clone(attributes)
	return nil
}

func checkAttributes(attributes map[string]string) error {
	for key, value := range attributes {
		if key == "" {
			return fault.New(fault.InvalidArgument, "an attribute has an empty name")
		}
		if !utf8.ValidString(key) || !utf8.ValidString(value) {
			return fault.New(fault.InvalidArgument, "attribute %q is not UTF-8 text", key)
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
		digested <- inParallel(threads, l.blocks(), func(block int) error {
			return l.digestBlock(block, digests[digestBytes*(1+block):][:digestBytes], &stop)
		})
	}()
	err := l.writeData(w)
	if err != nil {
		stop.Store(true)
	}
	if digestErr := <-digested; err == nil {
		err = digestErr
	}
	if err != nil {
		return err
	}
	_, err = w.Write(digests)
	return err
}

func (l *layout) writeData(w io.Writer) error {
	if _, err := w.Write(l.head); err != nil {
		return err
	}
	for _, t := range l.tensors {
		memory := t.Bytes()
		for at := int64(0); at < t.size; at += standardBlock {
			if _, err := w.Write(memory[at:min(t.size, at+standardBlock)]); err != nil {
				return err
			}
		}
	}
	return nil
}

// digestBlock computes one digest and checks that the weights under it are finite.
func (l *layout) digestBlock(block int, digest []byte, stop *atomic.Bool) error {
	from := int64(block) * l.block
	hash := sha256.New()
	err := overlaps(l.entries[:len(l.tensors)], from, min(from+l.block, l.data), func(i int, begin, end int64) error {
		t := l.tensors[i]
		for at := begin; at < end && !stop.Load(); at += readChunk {
			chunk := t.Bytes()[at:min(end, at+readChunk)]
			hash.Write(chunk)
			if t.DType == F32 {
				if err := checkFinite(t, at, chunk); err != nil {
					return err
				}
			}
		}
		return nil
	})
	copy(digest, hash.Sum(nil))
	return err
}
