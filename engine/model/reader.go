package model

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"dsstne/engine/fault"
	"dsstne/engine/network"
)

// readChunk is how much is read, digested and checked at a time, while it is in the cache.
const readChunk = 1 << 18

// reader is a file that is being read.
type reader struct {
	file    io.ReaderAt
	size    int64
	start   int64 // of the data
	data    int64 // bytes of data before the digests
	header  *header
	block   int64
	step    int64
	digests []byte         // the header's, then one a block
	places  map[string]int // entries by name
	tensors []*Tensor      // by entry; nil for a tensor that this version does not know
}

// readHeader reads and checks header and digests, so far that every byte of the header can be trusted.
func (r *reader) readHeader() error {
	start := make([]byte, min(r.size, lengthBytes+int64(len(opening))))
	if err := r.readAt(start, 0); err != nil {
		return err
	}
	length, err := headerLength(start, r.size)
	if err != nil {
		return err
	}
	head := make([]byte, lengthBytes+length)
	if err := r.readAt(head, 0); err != nil {
		return err
	}
	r.header, err = parseHeader(head[lengthBytes:])
	if err != nil {
		return damagedHeader(start, r.size, length, err)
	}
	if r.header.metadata[keyFormat] != formatName {
		return foreignTensors(r.header)
	}
	r.start = int64(len(head))
	r.tensors = make([]*Tensor, len(r.header.entries))
	r.places = make(map[string]int, len(r.header.entries))
	for i, e := range r.header.entries {
		r.places[e.name] = i
	}
	return r.readDigests(head)
}

// readDigests finds the last tensor and compares the header with its digest.
func (r *reader) readDigests(head []byte) error {
	end := r.start + r.header.end()
	switch {
	case end > r.size:
		return fault.New(fault.CorruptFile, "file ends after %s of %s bytes; was the copy interrupted?",
			grouped(r.size), grouped(end))
	case end < r.size:
		return fault.New(fault.CorruptFile, "file has %s bytes, %s more than the model, which ends at byte %s; was something "+
			"appended?", grouped(r.size), grouped(r.size-end), grouped(end))
	}
	entries := r.header.entries
	last := len(entries) - 1
	if last < 0 || entries[last].name != digestTensor || entries[last].dtype != U8.String() ||
		(entries[last].end-entries[last].begin)%digestBytes != 0 || entries[last].begin == entries[last].end {
		return fault.New(fault.CorruptFile, "file does not end with its digests (tensor %q); has another program rewritten it?",
			digestTensor)
	}
	r.data = entries[last].begin
	r.digests = make([]byte, entries[last].end-r.data)
	if err := r.readAt(r.digests, r.start+r.data); err != nil {
		return err
	}
	if sum := sha256.Sum256(head); !bytes.Equal(sum[:], r.digests[:digestBytes]) {
		return fault.New(fault.CorruptFile, "the header (%s) does not match its digest; the file is damaged, or another "+
			"program has rewritten it", byteRange(0, r.start))
	}
	return nil
}

// readMetadata reads what the header says besides tensors.
func (r *reader) readMetadata() (*network.Network, error) {
	damaged := func(err error) error {
		return fault.New(fault.CorruptFile, "the header (%s) is not that of a model: %v", byteRange(0, r.start), err)
	}
	version, err := r.header.integer(keyReader, 1, math.MaxInt64)
	if err != nil {
		return nil, damaged(err)
	}
	if version > formatVersion {
		return nil, fault.New(fault.Unsupported, "written by a newer version of dsstne: reading it needs file format %d, and "+
			"this version reads up to %d; update dsstne", version, formatVersion)
	}
	if r.block, err = r.header.integer(keyBlock, 1<<12, 1<<30); err != nil {
		return nil, damaged(err)
	}
	if r.block%8 != 0 {
		return nil, damaged(fmt.Errorf("metadata %q is %d, not a multiple of 8", keyBlock, r.block))
	}
	if want := 1 + blocksOf(r.data, r.block); int64(len(r.digests)) != want*digestBytes {
		return nil, damaged(fmt.Errorf("there are %d digests, %s bytes of data need %d", len(r.digests)/digestBytes,
			grouped(r.data), want))
	}
	if r.step, err = r.header.integer(keyStep, 0, math.MaxInt64); err != nil {
		return nil, damaged(err)
	}
	net, err := network.Parse([]byte(r.header.metadata[keyNetwork]))
	if err != nil {
		return nil, damaged(err)
	}
	return net, nil
}

func (r *reader) attributes() map[string]string {
	var attributes map[string]string
	for key, value := range r.header.metadata {
		if name, ok := strings.CutPrefix(key, keyAttributes); ok && name != "" {
			if attributes == nil {
				attributes = map[string]string{}
			}
			attributes[name] = value
		}
	}
	return attributes
}

// readBlock reads what lies under one digest to where it belongs. A wrong digest is reported before a wrong number.
func (r *reader) readBlock(block int) error {
	from := int64(block) * r.block
	to := min(from+r.block, r.data)
	hash := sha256.New()
	var wrong error
	err := overlaps(r.header.entries, from, to, func(i int, begin, end int64) error {
		t := r.tensors[i]
		var scratch []byte
		if t == nil {
			scratch = make([]byte, min(readChunk, end-begin))
		}
		for at := begin; at < end; at += readChunk {
			chunk := scratch
			if t == nil {
				chunk = scratch[:min(readChunk, end-at)]
			} else {
				chunk = t.Bytes()[at:min(end, at+readChunk)]
			}
			if err := r.readAt(chunk, r.start+r.header.entries[i].begin+at); err != nil {
				return err
			}
			hash.Write(chunk)
			if wrong == nil && t != nil && t.DType == F32 {
				wrong = checkFinite(t, at, chunk)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	digest := r.digests[digestBytes*(1+block):][:digestBytes]
	if !bytes.Equal(hash.Sum(nil), digest) {
		return fault.New(fault.CorruptFile, "block %d of %d of the weights (%s of the file) does not match its digest; the "+
			"file is damaged", block+1, blocksOf(r.data, r.block), byteRange(r.start+from, r.start+to))
	}
	if wrong != nil {
		return fault.New(fault.CorruptFile, "%v", wrong)
	}
	return nil
}

// checkFinite checks a piece of an F32 tensor that begins at a byte of it.
func checkFinite(t *Tensor, at int64, piece []byte) error {
	if i := firstNotFinite(piece); i >= 0 {
		return notFinite(t, at/4+i, piece[4*i:])
	}
	return nil
}

// readAt fills dst from a place in the file.
func (r *reader) readAt(dst []byte, at int64) error {
	n, err := r.file.ReadAt(dst, at)
	switch {
	case n == len(dst):
		return nil
	case errors.Is(err, io.EOF):
		return fault.New(fault.CorruptFile, "file ends after %s of %s bytes, while it is read; is somebody writing it?",
			grouped(at+int64(n)), grouped(r.size))
	}
	return fault.From(fault.IO, errno(err), "cannot read byte %s", grouped(at+int64(n)))
}
