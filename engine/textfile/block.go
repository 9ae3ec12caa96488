package textfile

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// block is some whole lines of a file, and what parsing them finds.
type block struct {
	text      list[byte] // each line ends with a newline
	name      string     // of the file
	firstLine int64      // its number in the file, from 1
	before    int64      // lines of the text before it, over all files
	number    int64      // of the block
	err       error      // why the text does not go on; there are no lines then

	// What follows is the result of parse. Features have numbers of the block.
	rows     list[row]
	features list[span]
	slots    list[slot]
	entries  list[uint32]  // numbers of features, row after row
	values   list[float32] // as many as entries, or none
	lines    int64
	mistakes []mistake // the first of each kind
	skipped  [kinds]int64

	numbers list[int32] // by feature of the block: its number in the text
}

// span is a label in the text of a block.
type span struct {
	begin, length uint32
	hash          uint64
}

// key is the hash of a label again.
func (s span) key() hash {
	if s.length > shortLabel {
		return hash{s.hash, isLong}
	}
	return hash{s.hash, 0}
}

// row is the label of a sample, and where its entries end in those of the block.
type row struct {
	sample span
	end    uint32
	line   uint32 // in the block, from 0
}

func newBlock(b *budget) *block {
	return &block{
		text: list[byte]{budget: b}, rows: list[row]{budget: b}, features: list[span]{budget: b},
		slots: list[slot]{budget: b}, entries: list[uint32]{budget: b}, values: list[float32]{budget: b},
		numbers: list[int32]{budget: b},
	}
}

func (b *block) free() {
	b.text.free()
	b.rows.free()
	b.features.free()
	b.slots.free()
	b.entries.free()
	b.values.free()
	b.numbers.free()
}

// stops are the bytes that end a label or a value.
var stops = [256]bool{'\t': true, '\n': true, ':': true, ',': true}

// parse reads the lines. It notes malformed lines and goes on, until the first of them if the options say so.
func (b *block) parse(o *Options) error {
	b.rows.items, b.features.items = b.rows.items[:0], b.features.items[:0]
	b.entries.items, b.values.items = b.entries.items[:0], b.values.items[:0]
	b.lines, b.mistakes, b.skipped = 0, b.mistakes[:0], [kinds]int64{}
	clear(b.slots.items)
	if len(b.slots.items) == 0 {
		if err := b.slots.zeros(1 << 12); err != nil {
			return err
		}
	}
	valid := utf8.Valid(b.text.items)
	for begin := 0; begin < len(b.text.items); b.lines++ {
		next := begin + bytes.IndexByte(b.text.items[begin:], '\n') + 1
		end := next - 1
		if end > begin && b.text.items[end-1] == '\r' {
			end--
			b.text.items[end] = '\n' // so that labels and values end there
		}
		if int64(end-begin) > o.LongestLine {
			return tooLong(b.name, b.firstLine+b.lines, o.LongestLine)
		}
		if end > begin {
			entries := len(b.entries.items)
			m, err := b.parseLine(begin, end, valid, o)
			if err != nil {
				return err
			}
			if m.kind != kinds {
				m.line, m.begin, m.end = b.lines, begin, end
				b.entries.items, b.values.items = b.entries.items[:entries], b.values.items[:min(entries, len(b.values.items))]
				b.skip(m)
				if !o.SkipMalformed {
					return nil
				}
			}
		}
		begin = next
	}
	return nil
}

// skip notes a malformed line.
func (b *block) skip(m mistake) {
	if b.skipped[m.kind] == 0 {
		b.mistakes = append(b.mistakes, m)
	}
	b.skipped[m.kind]++
}

// parseLine reads a line; the kind of the mistake is kinds if there is none.
func (b *block) parseLine(begin, end int, valid bool, o *Options) (mistake, error) {
	text := b.text.items[: end+1 : end+1]
	if !valid && !utf8.Valid(text[begin:end]) {
		return mistake{kind: NotUTF8, at: begin + validBytes(text[begin:end])}, nil
	}
	tab := begin
	for !stops[text[tab]] {
		tab++
	}
	if text[tab] != '\t' {
		length := bytes.IndexByte(text[tab:end], '\t')
		if length < 0 {
			return mistake{kind: NoTab, at: begin}, nil
		}
		return mistake{kind: SampleCharacter, at: begin, length: tab + length - begin}, nil
	}
	if tab == begin {
		return mistake{kind: EmptySample, at: begin}, nil
	}
	sample := span{uint32(begin), uint32(tab - begin), hashOf(text[begin:tab]).bits}
	entries := bytes.Count(text[tab:end], []byte{':'}) + 1 // at most, and enough room
	if err := b.entries.reserve(entries); err != nil {
		return mistake{}, err
	}
	if o.Analog {
		if err := b.values.reserve(entries); err != nil {
			return mistake{}, err
		}
	}
	if m, err := b.parseFeatures(text, tab+1, end, o); err != nil || m.kind != kinds {
		return m, err
	}
	err := b.rows.push(row{sample, uint32(len(b.entries.items)), uint32(b.lines)})
	return mistake{kind: kinds}, err
}

// parseFeatures reads the features of a line, which begin at i. There is room for their entries.
func (b *block) parseFeatures(text []byte, i, end int, o *Options) (mistake, error) {
	entries, values := b.entries.items, b.values.items
	analog, missing := o.Analog, o.DefaultValue
	for i < end {
		begin := i
		word, n := label(text, i)
		i += n
		if text[i] == ':' && n == 0 {
			i++
			continue
		}
		value, given := float32(0), text[i] == ','
		if given {
			m := mistake{kind: kinds}
			if value, i, m = b.parseValue(text, begin, i+1, end); m.kind != kinds {
				return m, nil
			}
		}
		switch {
		case text[i] == '\t':
			return mistake{kind: FeatureTab, at: i}, nil
		case !given && n == 0:
			i++ // the line ends
			continue
		case !given && analog && missing == nil:
			return mistake{kind: NoValue, at: begin, length: n}, nil
		}
		key := hash{}
		if n <= shortLabel {
			key.bits = hashWord(word, n)
		} else {
			key = hashOf(text[begin : begin+n])
		}
		number, err := b.feature(begin, n, key)
		if err != nil {
			return mistake{}, err
		}
		entries = append(entries, number)
		if analog {
			if !given {
				value = *missing
			}
			values = append(values, value)
		}
		i++
	}
	b.entries.items, b.values.items = entries, values
	return mistake{kind: kinds}, nil
}

// label measures the label or value at i. If it has up to shortLabel bytes, they are those of the word.
func label(text []byte, i int) (word uint64, n int) {
	for i+8 <= len(text) {
		const ones = 0x0101010101010101
		w := binary.LittleEndian.Uint64(text[i:])
		// A byte of one of these words is 0 where the text has a TAB, newline, colon or comma. Subtracting ones sets the
		// highest bit of such a byte; in bytes above the first of them it may be set for another reason.
		tab, line, colon, comma := w^'\t'*ones, w^'\n'*ones, w^':'*ones, w^','*ones
		const tops = 0x80 * ones
		found := ((tab-ones)&^tab | (line-ones)&^line | (colon-ones)&^colon | (comma-ones)&^comma) & tops
		if found != 0 {
			at := bits.TrailingZeros64(found) / 8
			return w & (1<<(8*at) - 1), n + at
		}
		i, n = i+8, n+8
	}
	first := n
	for ; !stops[text[i]]; i++ {
		word |= uint64(text[i]) << (8 * (n - first))
		n++
	}
	return word, n
}

// parseValue reads the value of a feature; it begins at i, and its piece of the line at begin.
func (b *block) parseValue(text []byte, begin, i, end int) (value float32, next int, m mistake) {
	first := i
	digits := uint64(0)
	for ; text[i]-'0' <= 9; i++ {
		digits = digits*10 + uint64(text[i]-'0')
	}
	const mostDigits = 19 // more may not fit in 64 bits
	if n := i - first; stops[text[i]] && 0 < n && n <= mostDigits && text[i] != ',' && first-1 > begin {
		return float32(digits), i, mistake{kind: kinds}
	}
	_, n := label(text, first)
	i = first + n
	kind := kinds
	switch {
	case text[i] == ',':
		return 0, i, mistake{kind: SeveralValues, at: begin, length: pieceLength(text[begin:end])}
	case text[i] == '\t':
	case first-1 == begin:
		return 0, i, mistake{kind: EmptyFeature, at: begin, length: i - begin}
	default:
		value, kind = parseNumber(text[first:i])
	}
	return value, i, mistake{kind: kind, at: first, length: n}
}

// pieceLength is the length of the piece that a text begins with.
func pieceLength(text []byte) int {
	if n := bytes.IndexByte(text, ':'); n >= 0 {
		return n
	}
	return len(text)
}

// validBytes is the number of bytes before the first that is not UTF-8.
func validBytes(text []byte) (n int) {
	for n < len(text) {
		r, size := utf8.DecodeRune(text[n:])
		if r == utf8.RuneError && size <= 1 {
			break
		}
		n += size
	}
	return n
}

// feature is the number of a feature in the block.
func (b *block) feature(begin, length int, key hash) (uint32, error) {
	slots := b.slots.items
	mask := uint32(len(slots) - 1)
	at := uint32(key.bits>>32) & mask
	for ; slots[at&mask].number != 0; at++ {
		s := slots[at&mask]
		if !s.has(key) {
			continue
		}
		n := s.index()
		if key.mark == 0 || string(b.labelOf(b.features.items[n])) == string(b.text.items[begin:begin+length]) {
			return uint32(n), nil
		}
	}
	number := uint32(len(b.features.items))
	if err := b.features.push(span{uint32(begin), uint32(length), key.bits}); err != nil {
		return 0, err
	}
	slots[at&mask] = newSlot(key, number)
	if number > mask/4*3 {
		return number, grow(&b.slots)
	}
	return number, nil
}
