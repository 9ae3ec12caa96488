package arrowfile

import (
	"strconv"
	"strings"
	"unsafe"

	"dsstne/engine/csr"
	"dsstne/internal/fault"
)

// Accepted names the types that are matrices.
const Accepted = "a matrix is list<struct<index, value>> or list<index>, list or large_list, " +
	"with index int32, int64 or uint32 (in a file also a dictionary of strings) and value float32 or float64 (in memory " +
	"also float16 or an integer); in memory also fixed_size_list<value>, a dense matrix of float32, float64 or integers"

// Type is the type of an Arrow array. Format is that of the Arrow C data interface.
type Type struct {
	Format     string
	Dictionary bool
	Coded      string // the format of the dictionary's values, if it is in a file
	Children   []*Type
}

// names are the words for formats in error messages, as pyarrow has them.
var names = map[string]string{
	"n": "null", "b": "bool", "c": "int8", "C": "uint8", "s": "int16", "S": "uint16", "i": "int32", "I": "uint32",
	"l": "int64", "L": "uint64", "e": "float16", "f": "float32", "g": "float64", "z": "binary", "Z": "large_binary",
	"vz": "binary_view", "u": "string", "U": "large_string", "vu": "string_view", "td": "date",
	"+l": "list", "+L": "large_list", "+vl": "list_view", "+vL": "large_list_view", "+s": "struct", "+m": "map",
	"+r": "run_end_encoded", "d": "decimal", "w": "fixed-size binary", "ts": "timestamp", "tt": "time", "tD": "duration",
	"ti": "interval", "+w": "fixed-size list", "+ud": "dense union", "+us": "sparse union",
}

// Name is the type in an error message.
func (t *Type) Name() string {
	kind, parameter, _ := strings.Cut(t.Format, ":")
	if len(kind) == 3 && kind[0] == 't' { // the third letter is a unit, as in "tsm:UTC"
		kind = kind[:2]
	}
	name, known := names[kind]
	switch {
	case !known:
		return strconv.Quote(t.Format)
	case parameter != "" && strings.HasSuffix(kind, "w"):
		return name + " of " + parameter
	}
	return name
}

// Layout is the type of an array that is a matrix.
type Layout struct {
	LongOffsets bool
	Pairs       bool // a row is a list of structs of index and value, else of indices alone
	LongIndices bool
	Unsigned    bool   // 32-bit indices are uint32
	Doubles     bool   // the values are float64
	Value       string // the format of the values
}

// LayoutOf checks that a type is a matrix, whose indices and values have one of the given formats of one letter each.
func LayoutOf(list *Type, indices, values string) (l Layout, err error) {
	if list.Format != "+l" && list.Format != "+L" {
		return l, fault.New(fault.InvalidData, "it is not a list: the array is of type %s: %s", list.Name(), Accepted)
	}
	if len(list.Children) != 1 {
		return l, fault.New(fault.InvalidData, "the list type has %d children instead of 1", len(list.Children))
	}
	l.LongOffsets = list.Format == "+L"
	index := list.Children[0]
	coded := list.Dictionary
	if l.Pairs = index.Format == "+s"; l.Pairs {
		if len(index.Children) != 2 {
			return l, fault.New(fault.InvalidData, "the struct type has %d fields instead of 2: %s", len(index.Children),
				Accepted)
		}
		value := index.Children[1]
		if len(value.Format) != 1 || !strings.Contains(values, value.Format) {
			return l, fault.New(fault.InvalidData, "the values are of type %s: %s", value.Name(), Accepted)
		}
		l.Value, l.Doubles = value.Format, value.Format == "g"
		coded = coded || index.Dictionary || value.Dictionary || len(value.Children) > 0
		index = index.Children[0]
	}
	if len(index.Format) != 1 || !strings.Contains(indices, index.Format) {
		return l, fault.New(fault.InvalidData, "the indices are of type %s: %s", index.Name(), Accepted)
	}
	l.LongIndices, l.Unsigned = index.Format == "l", index.Format == "I"
	if coded || index.Dictionary && !isText(index.Coded) || len(index.Children) > 0 {
		return l, fault.New(fault.InvalidData, "the numbers must be plain, without dictionary or children: %s", Accepted)
	}
	return l, nil
}

// isText reports whether a format is that of names.
func isText(format string) bool { return format == "u" || format == "U" }

// Parts points at the arrays of a matrix in memory; nil stands for an array without elements.
func (l Layout) Parts(offsetCount, entries int64, offsets, indices, values unsafe.Pointer) csr.Parts {
	p := csr.Parts{Unsigned: l.Unsigned}
	point(l.LongOffsets, &p.Offsets32, &p.Offsets64, offsets, offsetCount)
	point(l.LongIndices, &p.Indices32, &p.Indices64, indices, entries)
	if l.Value == "f" || l.Value == "g" {
		point(l.Doubles, &p.Values32, &p.Values64, values, entries)
	}
	return p
}

// point sets one of two slices. It is never nil, because csr.New takes the type from it.
func point[Short, Long any](long bool, short *[]Short, wide *[]Long, at unsafe.Pointer, n int64) {
	switch {
	case at == nil && long:
		*wide = []Long{}
	case at == nil:
		*short = []Short{}
	case long:
		*wide = unsafe.Slice((*Long)(at), n)
	default:
		*short = unsafe.Slice((*Short)(at), n)
	}
}
