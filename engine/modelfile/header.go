package modelfile

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"dsstne/engine/tensor"
	"dsstne/internal/fault"
)

// header is what the JSON of a file says: entries in the order of the data, which they cover from 0 without gaps.
type header struct {
	metadata map[string]string
	entries  []Entry
	end      int64 // bytes of all data
}

// elementSizes are the types of the safetensors format that have whole bytes. Open only checks tensors that it does not
// know.
var elementSizes = map[string]int64{
	"BOOL": 1, "U8": 1, "I8": 1, "F8_E5M2": 1, "F8_E4M3": 1, "U16": 2, "I16": 2, "F16": 2, "BF16": 2,
	"U32": 4, "I32": 4, "F32": 4, "U64": 8, "I64": 8, "F64": 8,
}

// The most that a header may hold. Reading one therefore takes little more memory than its text.
const (
	mostMembers    = 65_536 // tensors, and entries of the metadata
	mostAttributes = 65_000 // of the metadata
	mostDimensions = 16
)

// parseHeader reads the JSON of any safetensors file, strictly: no name twice, sizes that agree, no gaps.
func parseHeader(text []byte) (*header, error) {
	if !utf8.Valid(text) {
		return nil, errors.New("it is not UTF-8 text")
	}
	if err := checkSyntax(text); err != nil {
		return nil, err
	}
	h := &header{}
	err := readObject(text, func(name string, value []byte) error {
		if name == "__metadata__" {
			return h.readMetadata(value)
		}
		e, err := readEntry(value)
		if err != nil {
			return fmt.Errorf("tensor %q: %w", name, err)
		}
		e.Name = name
		h.entries = append(h.entries, e)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return h, h.checkOrder()
}

// checkSyntax returns an error if a text is not one JSON value.
func checkSyntax(text []byte) error {
	var nothing struct{} // the decoder looks at all of the text first, and then keeps none of it
	if err := json.Unmarshal(text, &nothing); err != nil && !json.Valid(text) {
		if strings.HasSuffix(err.Error(), "after top-level value") {
			return errors.New("there is text after its end")
		}
		return err
	}
	return nil
}

// readMetadata reads strings by name.
func (h *header) readMetadata(text []byte) error {
	h.metadata = map[string]string{}
	return readObject(text, func(key string, value []byte) (err error) {
		if strings.IndexByte(key, 0) >= 0 {
			return fmt.Errorf("the name %q contains a NUL character", key)
		}
		if h.metadata[key], err = readString(value); err != nil {
			return fmt.Errorf("metadata %q is not a string", key)
		}
		return nil
	})
}

// readEntry reads {"dtype": ..., "shape": [...], "data_offsets": [begin, end]} and checks that the sizes agree.
func readEntry(text []byte) (Entry, error) {
	var e Entry
	var offsets []int64
	keys := 0
	err := readObject(text, func(key string, value []byte) (err error) {
		keys++
		switch key {
		case "dtype":
			e.DType, err = readString(value)
		case "shape":
			e.Shape, err = readIntegers(value)
		case "data_offsets":
			offsets, err = readIntegers(value)
		default:
			return fmt.Errorf("%q is unknown", key)
		}
		return err
	})
	if err != nil {
		return e, err
	}
	element, known := elementSizes[e.DType]
	switch {
	case keys != 3:
		return e, errors.New("dtype, shape or data_offsets is missing")
	case !known:
		return e, fmt.Errorf("dtype %q is unknown", e.DType)
	case len(offsets) != 2 || offsets[0] > offsets[1]:
		return e, fmt.Errorf("data_offsets %v are not a begin and an end", offsets)
	}
	e.begin, e.end = offsets[0], offsets[1]
	if size, ok := tensor.ByteSize(element, e.Shape); !ok || size != e.end-e.begin {
		return e, fmt.Errorf("%s %s does not fit in the %s bytes from %s to %s", e.DType, tensor.ShapeText(e.Shape),
			fault.Grouped(e.end-e.begin), fault.Grouped(e.begin), fault.Grouped(e.end))
	}
	if e.begin%element != 0 {
		return e, fmt.Errorf("it begins at byte %s, between two elements", fault.Grouped(e.begin))
	}
	return e, nil
}

// checkOrder sorts the entries, checks that each begins where the one before ends, and finds the end.
func (h *header) checkOrder() error {
	slices.SortStableFunc(h.entries, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.end, b.end))
	})
	for _, e := range h.entries {
		if e.begin != h.end {
			return fmt.Errorf("tensor %q begins at byte %s of the data instead of %s", e.Name, fault.Grouped(e.begin),
				fault.Grouped(h.end))
		}
		h.end = e.end
	}
	return nil
}

// integer reads a metadata text that is a whole number from low to high, written without sign or leading zeros.
func (h *header) integer(key string, low, high int64) (int64, error) {
	text, ok := h.metadata[key]
	if !ok {
		return 0, fmt.Errorf("metadata %q is missing", key)
	}
	n, err := parseInteger(text)
	if err != nil || n < low || n > high {
		return 0, fmt.Errorf("metadata %q is %.40q, not a whole number from %d to %d", key, text, low, high)
	}
	return n, nil
}

// attributes are the strings that the caller of Save has given, nil if there are none.
func (h *header) attributes() map[string]string {
	attributes := map[string]string{}
	for key, value := range h.metadata {
		if name, ok := strings.CutPrefix(key, keyAttributes); ok && name != "" {
			attributes[name] = value
		}
	}
	if len(attributes) == 0 {
		return nil
	}
	return attributes
}

func parseInteger(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err == nil && (n < 0 || strconv.FormatInt(n, 10) != text) {
		err = strconv.ErrSyntax
	}
	return n, err
}

// readObject calls member for each member of an object, which has no key twice; text is JSON.
func readObject(text []byte, member func(key string, value []byte) error) error {
	seen := map[string]bool{}
	return readEach(text, '{', func(token, rest []byte) ([]byte, error) {
		key, err := readString(token)
		if err != nil {
			return nil, err
		}
		if seen[key] {
			return nil, fmt.Errorf("%q is given twice", key)
		}
		if len(seen) == mostMembers {
			return nil, fmt.Errorf("there are more than %s names in one object", fault.Grouped(mostMembers))
		}
		seen[key] = true
		value, rest := cutValue(afterSpace(rest)[1:]) // behind the colon
		return rest, member(key, value)
	})
}

// readIntegers reads a list of whole numbers that are not negative; text is JSON.
func readIntegers(text []byte) ([]int64, error) {
	list := []int64{}
	return list, readEach(text, '[', func(token, rest []byte) ([]byte, error) {
		n, err := parseInteger(string(token[:min(len(token), 30)]))
		if err != nil {
			return nil, fmt.Errorf("%.40s is not a size", token)
		}
		if list = append(list, n); len(list) > mostDimensions {
			return nil, fmt.Errorf("there are more than %d sizes", mostDimensions)
		}
		return rest, nil
	})
}

// readEach calls element for each element of a list, or for each key of an object; element returns what it left over.
func readEach(text []byte, bracket byte, element func(token, rest []byte) ([]byte, error)) error {
	if text = afterSpace(text); text[0] != bracket {
		return fmt.Errorf("%.40s stands where %c should", text, bracket)
	}
	// ']' and '}' are the second after their bracket.
	for text = afterSpace(text[1:]); text[0] != bracket+2; text = afterSpace(text) {
		token, rest := cutValue(text)
		rest, err := element(token, rest)
		if err != nil {
			return err
		}
		if text = afterSpace(rest); text[0] == ',' {
			text = text[1:]
		}
	}
	return nil
}

func readString(text []byte) (value string, err error) {
	if text[0] != '"' {
		return "", fmt.Errorf("%.40s stands where a string should", text)
	}
	if bytes.IndexByte(text, '\\') < 0 {
		return string(text[1 : len(text)-1]), nil
	}
	err = json.Unmarshal(text, &value)
	return value, err
}

// cutValue cuts the value that a JSON text begins with from what follows it.
func cutValue(text []byte) (value, rest []byte) {
	text = afterSpace(text)
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
		case (c == '}' || c == ']') && depth > 0:
			depth--
		case depth == 0 && strings.IndexByte(",:]} \t\r\n", c) >= 0: // the end of a number or word
			return text[:i], text[i:]
		default:
			continue
		}
		if depth == 0 && !quoted {
			return text[:i+1], text[i+1:]
		}
	}
	return text, nil
}

func afterSpace(text []byte) []byte { return bytes.TrimLeft(text, " \t\r\n") }
