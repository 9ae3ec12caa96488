package arrowfile

import "dsstne/internal/fault"

// The numbers of the fields that are read, and of the types, in Arrow's Schema.fbs, Message.fbs and File.fbs.
const (
	footerSchema, footerBatches = 1, 3

	schemaEndianness, schemaFields                                  = 0, 1
	fieldName, fieldKind, fieldType, fieldDictionary, fieldChildren = 0, 2, 3, 4, 5
	typeInteger, typeFloat, typeList, typeStruct, typeLargeList     = 2, 3, 12, 13, 21
	integerBits, integerSigned                                      = 0, 1
	floatPrecision                                                  = 0
	single, double                                                  = 1, 2 // floatPrecision
	messageKind, messageHeader                                      = 1, 2
	recordBatch                                                     = 3 // messageKind
	batchLength, batchNodes, batchBuffers, batchCompression         = 0, 1, 2, 3
)

const accepted = "a matrix is one column list<struct<index, value>> or list<index>, list or large_list, with index int32, int64 or " +
	"uint32 and value float32 or float64"

// layout is the type of the column.
type layout struct {
	longOffsets bool
	entries     bool // of structs of index and value; else of indices alone
	longIndices bool
	unsigned    bool // 32-bit indices are uint32
	doubles     bool
}

// readSchema reads the type of the file's column.
func (r *reader) readSchema(schema table) error {
	fields := schema.tables(schemaFields)
	endianness := schema.short(schemaEndianness)
	if schema.outside {
		return damaged("its schema is not whole")
	}
	if endianness != 0 {
		return fault.New(fault.Unsupported, "its numbers have the most significant byte first; write it on another machine")
	}
	if len(fields) != 1 {
		return fault.New(fault.InvalidData, "it has %d columns: %s", len(fields), accepted)
	}
	err := r.layout.read(fields[0])
	if fields[0].outside {
		return damaged("its schema is not whole")
	}
	return fault.Wrap(err, "column %q", fields[0].text(fieldName))
}

func (l *layout) read(list table) error {
	entry := list.tables(fieldChildren)
	switch kind := list.byte(fieldKind); {
	case kind != typeList && kind != typeLargeList || len(entry) != 1:
		return fault.New(fault.InvalidData, "it is not a list: %s", accepted)
	case hasDictionary(list, entry[0]):
		return dictionary()
	default:
		l.longOffsets = kind == typeLargeList
	}
	index := entry[0]
	if index.byte(fieldKind) == typeStruct {
		children := index.tables(fieldChildren)
		if len(children) != 2 {
			return fault.New(fault.InvalidData, "its structs have %d fields: %s", len(children), accepted)
		}
		index, l.entries = children[0], true
		if err := l.readValue(children[1]); err != nil {
			return err
		}
	}
	return l.readIndex(index)
}

func (l *layout) readIndex(index table) error {
	number := index.table(fieldType)
	bits, signed := number.integer(integerBits), number.byte(integerSigned) != 0
	switch {
	case hasDictionary(index):
		return dictionary()
	case index.byte(fieldKind) != typeInteger || !(bits == 32 || bits == 64 && signed):
		return fault.New(fault.InvalidData, "its indices have another type: %s", accepted)
	}
	l.longIndices, l.unsigned = bits == 64, !signed
	return nil
}

func (l *layout) readValue(value table) error {
	precision := value.table(fieldType).short(floatPrecision)
	switch {
	case hasDictionary(value):
		return dictionary()
	case value.byte(fieldKind) != typeFloat || precision != single && precision != double:
		return fault.New(fault.InvalidData, "its values have another type: %s", accepted)
	}
	l.doubles = precision == double
	return nil
}

func hasDictionary(fields ...table) bool {
	for _, f := range fields {
		if _, stored := f.field(fieldDictionary); stored {
			return true
		}
	}
	return false
}

func dictionary() error {
	return fault.New(fault.InvalidData, "it is dictionary-encoded: %s", accepted)
}
