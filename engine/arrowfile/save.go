package arrowfile

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"io"
	"math"
	"slices"
	"unsafe"

	"dsstne/engine/csr"
	"dsstne/internal/fault"
	"dsstne/internal/file"
	"dsstne/internal/parallel"
)

// batchBytes is the most that the arrays of a record batch have, unless a single row has more.
const batchBytes = 64 << 20

// alignment is that of the arrays in the file.
const alignment = 64

// Save writes rows and a record of them, as readers see the rows: ascending columns, no duplicates, no zeros, float32.
// Reading, digests and checks use up to threads goroutines (0: one a processor). Memory does not grow with the rows,
// apart from 8 bytes for each column and 1 for each row. The old file, if there is one, stays whole until the new one
// is on the disk.
//
// It is fault.IO when the system refuses to write, and fault.InvalidData when a value is not finite.
func Save(path string, s csr.Source, items, rows Names, threads int) error {
	return save(path, s, items, rows, threads, batchBytes)
}

func save(path string, s csr.Source, items, rows Names, threads int, limit int64) error {
	if err := cmp.Or(items.check("item", s.Columns()), rows.check("row", s.Rows())); err != nil {
		return fault.Wrap(err, "cannot save %s", path)
	}
	return file.Replace(path, func(to io.Writer) error {
		w := &saver{
			out: bufio.NewWriterSize(to, 1<<20), source: s, items: items, rows: rows, threads: threads, limit: limit,
			lengths: map[int64]int64{}, counts: make([]int64, s.Columns()), low: math.Inf(1), high: math.Inf(-1),
		}
		w.writeAll()
		return cmp.Or(w.err, w.out.Flush())
	})
}

// saver writes a file from its beginning to its end. After an error it does nothing.
type saver struct {
	out         *bufio.Writer
	at          int64 // how much was written
	err         error
	source      csr.Source
	items, rows Names
	threads     int
	limit       int64

	groups               []csr.Entries // those of a batch
	dictionaries, places structs       // of the footer
	entries              int64
	lengths              map[int64]int64 // number of rows by their length
	counts               []int64         // number of entries by column
	low, high            float64
	digests              []byte
}

func (w *saver) writeAll() {
	w.write([]byte(magic + "\x00\x00"))
	w.message(schemaMessage, w.schema(nil), 0)
	if w.items.Offsets != nil {
		offsets, text, err := w.items.part(0, w.source.Columns())
		w.fail(err)
		w.batch(&w.dictionaries, func(arrays object) (int64, object) {
			return dictionaryBatch, object{{dictionaryID, int64(0)}, {dictionaryData, arrays}}
		}, w.source.Columns(), []int64{w.source.Columns()}, [][][]byte{nil, {offsets}, {text}})
	}
	for first := int64(0); first < w.source.Rows() && w.err == nil; {
		first = w.writeGroups(first)
	}
	w.write([]byte("\xff\xff\xff\xff\x00\x00\x00\x00")) // the end of the stream of messages
	footer := flatten(object{
		{footerVersion, int16(version5)}, {footerSchema, w.schema(w.record())},
		{footerDictionaries, w.dictionaries}, {footerBatches, w.places},
	})
	w.write(footer)
	w.write(append(binary.LittleEndian.AppendUint32(nil, uint32(len(footer))), magic...))
	if len(footer) > maxMetadata {
		w.fail(fault.New(fault.Unsupported, "there are too many record batches to list them"))
	}
}

func (w *saver) fail(err error) { w.err = cmp.Or(w.err, err) }

func (w *saver) write(data []byte) {
	if w.err == nil {
		_, w.err = w.out.Write(data)
		w.at += int64(len(data))
	}
}

// align writes zeros up to the next place for an array.
func (w *saver) align() { w.write(make([]byte, -w.at&(alignment-1))) }

// message writes a message without its arrays, which begin where it ends.
func (w *saver) message(kind int64, header object, size int64) {
	data := flatten(object{
		{messageVersion, int16(version5)}, {messageKind, uint8(kind)}, {messageHeader, header}, {messageBody, size},
	})
	padding := -(w.at + 8 + int64(len(data))) & (alignment - 1)
	w.write(binary.LittleEndian.AppendUint32([]byte("\xff\xff\xff\xff"), uint32(int64(len(data))+padding)))
	w.write(data)
	w.write(make([]byte, padding))
}

// batch writes a message with arrays; each is a list of pieces. lengths are those of the fields, in Arrow's order.
func (w *saver) batch(list *structs, wrap func(arrays object) (kind int64, header object), rows int64,
	lengths []int64, arrays [][][]byte) {
	if w.err != nil {
		return
	}
	nodes, buffers, size := structs{n: len(lengths)}, structs{n: len(arrays)}, int64(0)
	for _, length := range lengths {
		nodes.data = appendNumbers(nodes.data, length, 0) // no nulls
	}
	for _, array := range arrays {
		n := int64(0)
		for _, piece := range array {
			n += int64(len(piece))
		}
		buffers.data = appendNumbers(buffers.data, size, n)
		size += n + -n&(alignment-1)
	}
	kind, header := wrap(object{{batchLength, rows}, {batchNodes, nodes}, {batchBuffers, buffers}})
	begin := w.at
	w.message(kind, header, size)
	list.n++
	list.data = appendNumbers(list.data, begin, w.at-begin, size)
	for _, array := range arrays {
		for _, piece := range array {
			w.write(piece)
		}
		w.align()
	}
}

func appendNumbers(data []byte, numbers ...int64) []byte {
	for _, n := range numbers {
		data = binary.LittleEndian.AppendUint64(data, uint64(n))
	}
	return data
}

// writeGroups writes a batch of the groups from row first on that fit into it, or a group that does not fit in several
// batches; it returns the row behind them.
func (w *saver) writeGroups(first int64) int64 {
	end, n, size := first, 0, int64(0)
	for rows := w.source.Rows(); end < rows; n++ {
		next := min(end+csr.GroupRows, rows)
		if size += w.size(end, next); size > w.limit && n > 0 {
			break
		}
		end = next
	}
	if n > len(w.groups) {
		w.groups = append(w.groups, make([]csr.Entries, n-len(w.groups))...)
	}
	groups := w.groups[:n]
	w.fail(w.read(first, groups))
	if w.err != nil {
		return end
	}
	w.count(groups)
	if size <= w.limit || n > 1 {
		w.rowBatch(first, groups)
		return end
	}
	for row := first; row < end; { // one group, in pieces
		next := row + 1
		for next < end && w.size(row, next+1) <= w.limit {
			next++
		}
		w.rowBatch(row, []csr.Entries{part(&groups[0], int(row-first), int(next-first))})
		row = next
	}
	return end
}

// size is the number of bytes that rows take in a batch, or more.
func (w *saver) size(first, end int64) (bytes int64) {
	for row := first; row < end; row++ {
		bytes += 8 + 8*w.source.RowLength(row)
	}
	if w.rows.Offsets != nil {
		bytes += w.rows.Offsets[end] - w.rows.Offsets[first]
	}
	return bytes
}

// part is some of the rows.
func part(e *csr.Entries, first, end int) csr.Entries {
	begin := 0
	if first > 0 {
		begin = e.Ends[first-1]
	}
	p := csr.Entries{Indices: e.Indices[begin:e.Ends[end-1]], Values: e.Values[begin:e.Ends[end-1]]}
	for _, stop := range e.Ends[first:end] {
		p.Ends = append(p.Ends, stop-begin)
	}
	return p
}

// read reads groups from row first on, checks their values, and appends their digests.
func (w *saver) read(first int64, groups []csr.Entries) error {
	at := len(w.digests)
	w.digests = append(w.digests, make([]byte, csr.GroupBytes*len(groups))...)
	return parallel.Do(w.threads, len(groups), func(n int) error {
		var rows []int64
		begin := first + int64(n)*csr.GroupRows
		for row := begin; row < min(begin+csr.GroupRows, w.source.Rows()); row++ {
			rows = append(rows, row)
		}
		group := &groups[n]
		group.Reset()
		if err := w.source.Read(rows, group); err != nil {
			return err
		}
		if i := slices.IndexFunc(group.Values, func(v float32) bool { return v-v != 0 }); i >= 0 {
			row, _ := slices.BinarySearch(group.Ends, i+1)
			return fault.New(fault.InvalidData, "row %d, column %d holds %v; a saved dataset has finite values only",
				begin+int64(row), group.Indices[i], group.Values[i])
		}
		copy(w.digests[at+n*csr.GroupBytes:], group.Digest())
		return nil
	})
}

// count adds groups to the record.
func (w *saver) count(groups []csr.Entries) {
	for i := range groups {
		g, begin := &groups[i], 0
		for _, end := range g.Ends {
			w.lengths[int64(end-begin)]++
			begin = end
		}
		for _, column := range g.Indices {
			w.counts[column]++
		}
		for _, value := range g.Values {
			w.low, w.high = min(w.low, float64(value)), max(w.high, float64(value))
		}
		w.entries += int64(len(g.Indices))
	}
}

// rowBatch writes a record batch.
func (w *saver) rowBatch(first int64, groups []csr.Entries) {
	offsets := binary.LittleEndian.AppendUint32(nil, 0)
	var indices, values [][]byte
	rows, entries := int64(0), 0
	for i := range groups {
		g := &groups[i]
		for _, end := range g.Ends {
			offsets = binary.LittleEndian.AppendUint32(offsets, uint32(entries+end))
		}
		indices, values = append(indices, bytesOf(g.Indices)), append(values, bytesOf(g.Values))
		rows, entries = rows+int64(len(g.Ends)), entries+len(g.Indices)
	}
	n := int64(entries)
	lengths, arrays := []int64{rows, n, n, n}, [][][]byte{nil, {offsets}, nil, nil, indices, nil, values}
	if w.rows.Offsets != nil {
		offsets, text, err := w.rows.part(first, first+rows)
		w.fail(err)
		lengths, arrays = append([]int64{rows}, lengths...), append([][][]byte{nil, {offsets}, {text}}, arrays...)
	}
	w.batch(&w.places, func(arrays object) (int64, object) { return recordBatch, arrays }, rows, lengths, arrays)
}

// bytesOf views numbers as they are in memory, which has the least significant byte first, as Arrow's files.
func bytesOf[T int32 | float32](numbers []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(numbers))), 4*len(numbers))
}

// record writes the arrays that are not Arrow's, and returns the record as metadata of the schema.
func (w *saver) record() []object {
	found := record{
		Version: recordVersion, Rows: w.source.Rows(), Columns: w.source.Columns(), Entries: w.entries,
		Digest: csr.DigestOf(w.source.Rows(), w.source.Columns(), w.digests),
		Items:  w.items.section(), Names: w.rows.section(),
	}
	if w.entries > 0 {
		found.Minimum, found.Maximum = w.low, w.high
	}
	var lengths []byte
	different := make([]int64, 0, len(w.lengths))
	for length := range w.lengths {
		different = append(different, length)
	}
	slices.SortFunc(different, func(a, b int64) int { return cmp.Compare(b, a) })
	for _, length := range different {
		lengths = appendNumbers(lengths, length, w.lengths[length])
	}
	if len(different) > 0 {
		found.Longest = different[0]
	}
	found.Digests, found.Lengths = w.section(w.digests), w.section(lengths)
	found.Digests.SHA256 = "" // which would only cost time
	found.Counts = w.section(appendNumbers(nil, w.counts...))
	w.align()
	text, err := json.Marshal(found)
	w.fail(err)
	return []object{
		{{metadataKey, recordKey}, {metadataValue, string(text)}},
		{{metadataKey, recordSum}, {metadataValue, sum(text)}},
	}
}

func (w *saver) section(data []byte) section {
	w.align()
	s := section{Offset: w.at, Bytes: int64(len(data)), SHA256: sum(data)}
	w.write(data)
	return s
}

// section describes names, which are in arrays of Arrow.
func (n Names) section() *section {
	if n.Offsets == nil {
		return nil
	}
	hash := sha256.New()
	hash.Write(appendNumbers(nil, n.Offsets...))
	hash.Write(n.Text)
	return &section{Bytes: int64(8*len(n.Offsets) + len(n.Text)), SHA256: hex.EncodeToString(hash.Sum(nil))}
}

// schema is the schema of the file. The one at its beginning is written before there is a record.
func (w *saver) schema(metadata []object) object {
	number := object{{integerBits, int32(32)}, {integerSigned, uint8(1)}}
	index := object{
		{fieldName, "index"}, {fieldKind, uint8(typeInteger)}, {fieldType, number}, {fieldChildren, []object{}},
	}
	if w.items.Offsets != nil {
		index = object{
			{fieldName, "index"}, {fieldKind, uint8(typeText)}, {fieldType, object{}}, {fieldChildren, []object{}},
			{fieldDictionary, object{{dictionaryID, int64(0)}, {dictionaryIndex, number}}},
		}
	}
	value := object{
		{fieldName, "value"}, {fieldKind, uint8(typeFloat)}, {fieldType, object{{floatPrecision, int16(1)}}},
		{fieldChildren, []object{}},
	}
	entry := object{
		{fieldName, "item"}, {fieldKind, uint8(typeStruct)}, {fieldType, object{}}, {fieldChildren, []object{index, value}},
	}
	fields := []object{{
		{fieldName, "items"}, {fieldKind, uint8(typeList)}, {fieldType, object{}}, {fieldChildren, []object{entry}},
	}}
	if w.rows.Offsets != nil {
		fields = append([]object{{
			{fieldName, "row"}, {fieldKind, uint8(typeText)}, {fieldType, object{}}, {fieldChildren, []object{}},
		}}, fields...)
	}
	schema := object{{schemaFields, fields}}
	if metadata != nil {
		schema = append(schema, member{schemaMetadata, metadata})
	}
	return schema
}
