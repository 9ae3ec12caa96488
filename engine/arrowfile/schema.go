package arrowfile

import (
	"fmt"

	"dsstne/internal/fault"
)

// The numbers of the fields that are read, and of the types, in Arrow's Schema.fbs, Message.fbs and File.fbs.
const (
	footerVersion, footerSchema, footerDictionaries, footerBatches = 0, 1, 2, 3

	schemaEndianness, schemaFields, schemaMetadata                  = 0, 1, 2
	metadataKey, metadataValue                                      = 0, 1
	fieldName, fieldKind, fieldType, fieldDictionary, fieldChildren = 0, 2, 3, 4, 5
	dictionaryID, dictionaryIndex                                   = 0, 1
	typeInteger, typeFloat, typeText, typeList, typeStruct          = 2, 3, 5, 12, 13
	integerBits, integerSigned                                      = 0, 1
	floatPrecision                                                  = 0
	messageVersion, messageKind, messageHeader, messageBody         = 0, 1, 2, 3
	schemaMessage, dictionaryBatch, recordBatch                     = 1, 2, 3 // messageKind
	version5                                                        = 4       // messageVersion, footerVersion
	dictionaryData                                                  = 1       // of a dictionary batch
	batchLength, batchNodes, batchBuffers, batchCompression         = 0, 1, 2, 3
)

// formats are those of the C data interface for types, integers by their bits, and floats by their precision.
var (
	formats = map[int64]string{
		1: "n", 4: "z", 5: "u", 6: "b", 7: "d", 8: "td", 9: "tt", 10: "ts", 11: "ti", 12: "+l", 13: "+s", 15: "w", 16: "+w",
		17: "+m", 18: "tD", 19: "Z", 20: "U", 21: "+L", 22: "+r", 23: "vz", 24: "vu", 25: "+vl", 26: "+vL",
	}
	integers = map[int64]string{8: "c", 16: "s", 32: "i", 64: "l"}
	unsigned = map[int64]string{8: "C", 16: "S", 32: "I", 64: "L"}
	floats   = map[int64]string{0: "e", 1: "f", 2: "g"}
)

// readSchema reads the type of the file's column, and finds the column of row names if there is one.
func (r *reader) readSchema(schema table) error {
	fields := schema.tables(schemaFields)
	endianness := schema.number(schemaEndianness, 2)
	switch {
	case schema.outside:
		return damaged("its schema is not whole")
	case endianness != 0:
		return fault.New(fault.Unsupported,
			"its numbers have the most significant byte first; write it on another machine")
	}
	r.column = 0
	if len(fields) == 2 {
		for i, field := range fields {
			if kind := typeOf(field, 0); isText(kind.Format) && !kind.Dictionary {
				r.hasNames, r.column, r.longNames = true, 1-i, kind.Format == "U"
			}
		}
	}
	if len(fields) != 1 && !r.hasNames {
		return fault.New(fault.InvalidData, "it has %d columns instead of one: %s; beside it, a file may have a column of "+
			"row names (string)", len(fields), Accepted)
	}
	column, name := typeOf(fields[r.column], 0), fields[r.column].text(fieldName)
	if schema.outside {
		return damaged("its schema is not whole")
	}
	var err error
	r.layout, err = LayoutOf(column, "ilI", "fg")
	return fault.Wrap(err, "column %q", name)
}

// typeOf reads the type of a field that is depth levels below the column. Of more children than a matrix has it only
// keeps the number: a damaged file may claim any.
func typeOf(field table, depth int) *Type {
	const deepest, most = 2, 2 // the fields of the struct
	t := &Type{Format: formatOf(field.number(fieldKind, 1), field.table(fieldType))}
	if _, t.Dictionary = field.field(fieldDictionary); t.Dictionary {
		coding := field.table(fieldDictionary)
		t.Coded, t.Format = t.Format, "i"
		if _, stored := coding.field(dictionaryIndex); stored {
			t.Format = formatOf(typeInteger, coding.table(dictionaryIndex))
		}
	}
	children := field.tables(fieldChildren)
	t.Children = make([]*Type, len(children))
	if depth < deepest && len(children) <= most {
		for i, child := range children {
			t.Children[i] = typeOf(child, depth+1)
		}
	}
	return t
}

func formatOf(kind int64, numbers table) string {
	format := formats[kind]
	switch {
	case kind == typeFloat:
		format = floats[numbers.number(floatPrecision, 2)]
	case kind == typeInteger && numbers.number(integerSigned, 1) != 0:
		format = integers[numbers.number(integerBits, 4)]
	case kind == typeInteger:
		format = unsigned[numbers.number(integerBits, 4)]
	}
	if format == "" {
		return fmt.Sprintf("type %d", kind)
	}
	return format
}
