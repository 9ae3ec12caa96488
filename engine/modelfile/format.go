package modelfile

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strconv"
	"strings"

	"dsstne/engine/tensor"
	"dsstne/internal/fault"
)

// The file: 8 bytes header length (little-endian), the header (JSON, padded with spaces to a multiple of 8), the data
// of all tensors without gaps, of which the last is the digests. docs/model-file.md is the full description.
const (
	formatName = "dsstne.model"
	// Save writes the oldest version that a reader of the file must have, 1 for a network and 2 for others; Open reads
	// both.
	networkVersion = 1
	formatVersion  = 2
	digestTensor   = "dsstne.digests"
	digestBytes    = 32          // SHA-256
	headerLimit    = 100_000_000 // of the safetensors format
	standardBlock  = 64 << 20    // bytes of data under one digest
	lengthBytes    = 8           // of the header length
	opening        = `{"__metadata__":{"format":"` + formatName + `"`
)

// Keys of the metadata; an attribute has its key behind the prefix.
const (
	keyFormat     = "format"
	keyVersion    = "format_version"
	keyReader     = "minimum_reader_version"
	keyBlock      = "digest_block_bytes"
	keyStep       = "step"
	keyNetwork    = "network"
	keyDefinition = "definition" // of a model that is not a network
	keyAttributes = "attributes."
)

// Content is what a file holds.
type Content struct {
	Definition string // JSON
	IsNetwork  bool   // the definition is a network's
	Step       int64
	Attributes map[string]string
	Tensors    []*tensor.Tensor
	// Pause, if not nil, is called while a file is written, every quarter of a megabyte, by two goroutines.
	Pause func()
}

// Entry is a tensor as the header describes it.
type Entry struct {
	Name       string
	DType      string
	Shape      []int64
	begin, end int64 // from the first byte of the data
}

// layout is the plan of a file that is about to be written.
type layout struct {
	head    []byte           // length and header
	entries []Entry          // in the order of the data, the digests last
	tensors []*tensor.Tensor // of all entries but the digests
	block   int64            // bytes under one digest
	data    int64            // bytes of data before the digests
	pause   func()           // may be nil
}

// blocks is the number of digests but the header's.
func (l *layout) blocks() int { return int(blocksOf(l.data, l.block)) }

func blocksOf(data, block int64) int64 { return (data + block - 1) / block }

// layOut plans a file. Types with wide elements come first, so that every tensor begins at a multiple of its element.
func layOut(c *Content, block int64) (*layout, error) {
	l := &layout{tensors: slices.Clone(c.Tensors), block: block, pause: c.Pause}
	sort.SliceStable(l.tensors, func(i, j int) bool { return l.tensors[i].DType.Size() > l.tensors[j].DType.Size() })
	for _, t := range l.tensors {
		l.entries = append(l.entries, Entry{t.Name, t.DType.String(), t.Shape, l.data, l.data + t.Size()})
		l.data += t.Size()
	}
	size := digestBytes * (1 + blocksOf(l.data, block))
	l.entries = append(l.entries, Entry{digestTensor, tensor.U8.String(), []int64{size}, l.data, l.data + size})

	version, key := formatVersion, keyDefinition
	if c.IsNetwork {
		version, key = networkVersion, keyNetwork
	}
	metadata := []string{
		keyFormat, formatName, keyVersion, strconv.Itoa(version), keyReader, strconv.Itoa(version),
		keyBlock, strconv.FormatInt(block, 10), keyStep, strconv.FormatInt(c.Step, 10),
		key, c.Definition,
	}
	for _, key := range slices.Sorted(maps.Keys(c.Attributes)) {
		metadata = append(metadata, keyAttributes+key, c.Attributes[key])
	}
	l.head = headerText(metadata, l.entries)
	if length := len(l.head) - lengthBytes; length > headerLimit {
		return nil, fault.New(fault.InvalidArgument, "the attributes are too long: the header would have %s bytes, %s are "+
			"allowed", fault.Grouped(int64(length)), fault.Grouped(headerLimit))
	}
	return l, nil
}

// headerText is the length and the JSON of a header; metadata are keys and values in turn.
func headerText(metadata []string, entries []Entry) []byte {
	var b bytes.Buffer
	b.Write(make([]byte, lengthBytes))
	b.WriteString(`{"__metadata__":{`)
	for i := 0; i < len(metadata); i += 2 {
		if i > 0 {
			b.WriteByte(',')
		}
		quote(&b, metadata[i])
		b.WriteByte(':')
		quote(&b, metadata[i+1])
	}
	b.WriteByte('}')
	for _, e := range entries {
		b.WriteByte(',')
		quote(&b, e.Name)
		shape := strings.ReplaceAll(fmt.Sprint(e.Shape), " ", ",")
		fmt.Fprintf(&b, `:{"dtype":"%s","shape":%s,"data_offsets":[%d,%d]}`, e.DType, shape, e.begin, e.end)
	}
	b.WriteByte('}')
	for b.Len()%8 != 0 {
		b.WriteByte(' ')
	}
	text := b.Bytes()
	binary.LittleEndian.PutUint64(text, uint64(len(text)-lengthBytes))
	return text
}

// quote writes a JSON string, leaving <, > and & readable.
func quote(b *bytes.Buffer, text string) {
	encoder := json.NewEncoder(b)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(text) // a string into memory cannot fail
	b.Truncate(b.Len() - 1)  // the line end that Encode adds
}

// digest hashes bytes from .. to of the data, chunk by chunk while it is in the cache, and finds the first number that
// is not finite. next gives bytes from .. to of a tensor; tensors, by entry, may be nil.
func digest(entries []Entry, tensors []*tensor.Tensor, from, to int64,
	next func(i int, from, to int64) ([]byte, error)) (sum []byte, notFinite, err error) {
	hash := sha256.New()
	first := sort.Search(len(entries), func(i int) bool { return entries[i].end > from })
	for i := first; i < len(entries) && entries[i].begin < to; i++ {
		e := entries[i]
		end := min(to, e.end) - e.begin
		for at := max(from, e.begin) - e.begin; at < end; at += readChunk {
			chunk, err := next(i, at, min(end, at+readChunk))
			if err != nil {
				return nil, nil, err
			}
			hash.Write(chunk)
			if t := tensors[i]; notFinite == nil && t != nil && t.DType.IsFloat() {
				notFinite = t.CheckFinite(at, chunk)
			}
		}
	}
	return hash.Sum(nil), notFinite, nil
}
