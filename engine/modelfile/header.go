package modelfile

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

// parseHeader reads the JSON of any safetensors file, strictly: no name twice, sizes that agree, no gaps.
func parseHeader(text []byte) (*header, error) {
	if !utf8.Valid(text) {
		return nil, errors.New("it is not UTF-8 text")
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	h := &header{}
	err := readObject(decoder, func(name string) error {
		if name == "__metadata__" {
			return h.readMetadata(decoder)
		}
		e, err := readEntry(decoder)
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
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is text after its end")
	}
	return h, h.checkOrder()
}

// readMetadata reads strings by name.
func (h *header) readMetadata(decoder *json.Decoder) error {
	h.metadata = map[string]string{}
	return readObject(decoder, func(key string) error {
		token, err := decoder.Token()
		if err != nil {
			return err
		}
		value, ok := token.(string)
		if !ok {
			return fmt.Errorf("metadata %q is not a string", key)
		}
		h.metadata[key] = value
		return nil
	})
}

// readEntry reads {"dtype": ..., "shape": [...], "data_offsets": [begin, end]} and checks that the sizes agree.
func readEntry(decoder *json.Decoder) (Entry, error) {
	var e Entry
	var offsets []int64
	keys := 0
	err := readObject(decoder, func(key string) (err error) {
		keys++
		switch key {
		case "dtype":
			token, err := decoder.Token()
			e.DType, _ = token.(string)
			return err
		case "shape":
			e.Shape, err = readIntegers(decoder)
		case "data_offsets":
			offsets, err = readIntegers(decoder)
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

// readObject calls member for each key of the object that comes next, which has no key twice; member reads the value.
func readObject(decoder *json.Decoder, member func(key string) error) error {
	if err := expect(decoder, '{'); err != nil {
		return err
	}
	seen := map[string]bool{}
	for decoder.More() {
		token, err := decoder.Token()
		if err != nil {
			return err
		}
		key, _ := token.(string) // the decoder takes nothing else for a key
		if seen[key] {
			return fmt.Errorf("%q is given twice", key)
		}
		seen[key] = true
		if err := member(key); err != nil {
			return err
		}
	}
	return expect(decoder, '}')
}

// readIntegers reads a list of whole numbers that are not negative.
func readIntegers(decoder *json.Decoder) ([]int64, error) {
	if err := expect(decoder, '['); err != nil {
		return nil, err
	}
	list := []int64{}
	for decoder.More() {
		token, err := decoder.Token()
		if err != nil {
			return nil, err
		}
		number, _ := token.(json.Number)
		n, err := parseInteger(number.String())
		if err != nil {
			return nil, fmt.Errorf("%v is not a size", token)
		}
		list = append(list, n)
	}
	return list, expect(decoder, ']')
}

func expect(decoder *json.Decoder, want json.Delim) error {
	token, err := decoder.Token()
	if err != nil {
		return err
	}
	if token != want {
		return fmt.Errorf("%v stands where %v should", token, want)
	}
	return nil
}
