package modelfile

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"dsstne/internal/fault"
)

// signatures are the first bytes of files that people have passed for a model, and a helpful word for each.
var signatures = []struct {
	what   string
	starts []string
}{
	{"a Git LFS pointer; run `git lfs pull` to get the file itself", []string{"version https://git-lfs"}},
	{"a PNG image", []string{"\x89PNG"}},
	{"a JPEG image", []string{"\xff\xd8\xff"}},
	{"a PDF document", []string{"%PDF"}},
	{"an HDF5 or NetCDF-4 file; networks of the original DSSTNE and of Keras look like that",
		[]string{"\x89HDF\r\n\x1a\n"}},
	{"a NetCDF file", []string{"CDF\x01", "CDF\x02", "CDF\x05"}},
	{"a zip archive; checkpoints of PyTorch, .npz and .keras files look like that", []string{"PK\x03\x04"}},
	{"a gzip archive; unpack it first", []string{"\x1f\x8b"}},
	{"an xz archive; unpack it first", []string{"\xfd7zXZ"}},
	{"a zstd archive; unpack it first", []string{"\x28\xb5\x2f\xfd"}},
	{"a bzip2 archive; unpack it first", []string{"BZh"}},
	{"a NumPy array", []string{"\x93NUMPY"}},
	{"a Parquet table", []string{"PAR1"}},
	{"an Arrow table", []string{"ARROW1"}},
	{"a Python pickle; pickles can run code when they are read, so they are never opened",
		[]string{"\x80\x02", "\x80\x03", "\x80\x04", "\x80\x05"}},
	{"a web page; was the download redirected to a login?", []string{"<!DOCTYPE", "<!doctype", "<html"}},
	{"JSON text; a network definition is what models are made from, not a model", []string{"{"}},
	{"a program or library", []string{"\x7fELF"}},
}

// foreign says, of a file that does not begin like a model, what it probably is.
func foreign(start []byte, size int64) error {
	if size == 0 {
		return fault.New(fault.CorruptFile, "the file is empty, so it is not a dsstne model file; was a copy interrupted?")
	}
	for _, s := range signatures {
		if slices.ContainsFunc(s.starts, func(first string) bool { return strings.HasPrefix(string(start), first) }) {
			return fault.New(fault.CorruptFile, "not a dsstne model file, but %s", s.what)
		}
	}
	if size < lengthBytes {
		return fault.New(fault.CorruptFile, "not a dsstne model file: it ends after %d bytes; was a copy interrupted?", size)
	}
	return fault.New(fault.CorruptFile,
		"not a dsstne model file: it begins with the bytes % x", start[:min(len(start), 8)])
}

// foreignTensors is about a sound safetensors file without our metadata.
func foreignTensors(h *header) error {
	for _, e := range h.entries {
		if e.Name == digestTensor {
			return fault.New(fault.CorruptFile, "the header names the format %.40q instead of %q; the file is damaged, or "+
				"another program has rewritten it", h.metadata[keyFormat], formatName)
		}
	}
	return fault.New(fault.CorruptFile, "not a dsstne model file, but safetensors of another program: "+
		"there is no network definition in its metadata")
}

// beginsLikeModel reports whether the bytes after the header length are those of a model, as far as there are any.
func beginsLikeModel(start []byte) bool {
	if len(start) <= lengthBytes {
		return false
	}
	rest := start[lengthBytes:]
	n := min(len(rest), len(opening))
	return string(rest[:n]) == opening[:n] && n > 1
}

// headerLength checks the first bytes of a file and gives the length of its header.
func headerLength(start []byte, size int64) (int64, error) {
	ours := beginsLikeModel(start)
	if size <= lengthBytes || !ours && start[lengthBytes] != '{' {
		return 0, foreign(start, size)
	}
	length := binary.LittleEndian.Uint64(start)
	switch fits := length <= headerLimit && int64(length) <= size-lengthBytes; {
	case fits && length >= 2:
		return int64(length), nil
	case !ours:
		return 0, foreign(start, size)
	case length > headerLimit || length < 2:
		return 0, fault.New(fault.CorruptFile, "the length of the header (bytes 0 to 8) is damaged: it says %d, at most %s "+
			"bytes are allowed", length, fault.Grouped(headerLimit))
	}
	return 0, fault.New(fault.CorruptFile, "file ends after %s bytes, within its header of %s bytes; "+
		"was the copy interrupted?", fault.Grouped(size), fault.Grouped(int64(length)))
}

// damagedHeader is about a header that cannot be read.
func damagedHeader(start []byte, size, length int64, problem error) error {
	if !beginsLikeModel(start) {
		return foreign(start, size)
	}
	return fault.New(fault.CorruptFile, "the header (%s) is damaged: %v", byteRange(0, lengthBytes+length), problem)
}

// byteRange names a part of a file; to is the first byte after it.
func byteRange(from, to int64) string {
	return fmt.Sprintf("bytes %s to %s", fault.Grouped(from), fault.Grouped(to))
}
