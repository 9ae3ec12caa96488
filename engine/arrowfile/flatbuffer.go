package arrowfile

import "encoding/binary"

// A flatbuffer is a tree of tables whose fields are found through offsets (https://flatbuffers.dev/internals). In a damaged
// file any offset may be wrong: a read outside the data gives 0 and sets outside, which callers check once they have read all
// that they need.
type flatbuffer struct {
	data    []byte
	outside bool
}

// bytes is n bytes from a place on.
func (f *flatbuffer) bytes(at, n int64) []byte {
	if at < 0 || n < 0 || at > int64(len(f.data))-n {
		f.outside = true
		return make([]byte, min(max(n, 0), 8))
	}
	return f.data[at : at+n]
}

func (f *flatbuffer) uint16(at int64) int64 { return int64(binary.LittleEndian.Uint16(f.bytes(at, 2))) }
func (f *flatbuffer) int32(at int64) int64 {
	return int64(int32(binary.LittleEndian.Uint32(f.bytes(at, 4))))
}
func (f *flatbuffer) int64(at int64) int64 { return int64(binary.LittleEndian.Uint64(f.bytes(at, 8))) }

// offset follows the offset that is stored at a place; it counts from that place.
func (f *flatbuffer) offset(at int64) int64 {
	return at + int64(binary.LittleEndian.Uint32(f.bytes(at, 4)))
}

// table is a table of a flatbuffer.
type table struct {
	*flatbuffer
	at int64
}

// rootOf is the table that a flatbuffer begins with.
func rootOf(data []byte) table {
	f := &flatbuffer{data: data}
	return table{f, f.offset(0)}
}

// field is the place of a field. Fields with the default value of their type are not stored.
func (t table) field(number int64) (at int64, stored bool) {
	places := t.at - t.int32(t.at) // of a list: its size, the table's size, and the places of the fields in the table
	if at := 4 + 2*number; at < t.uint16(places) {
		if at := t.uint16(places + at); at != 0 {
			return t.at + at, true
		}
	}
	return 0, false
}

func (t table) byte(number int64) byte {
	if at, stored := t.field(number); stored {
		return t.bytes(at, 1)[0]
	}
	return 0
}

func (t table) short(number int64) int64 {
	if at, stored := t.field(number); stored {
		return t.uint16(at)
	}
	return 0
}

func (t table) integer(number int64) int64 {
	if at, stored := t.field(number); stored {
		return t.int32(at)
	}
	return 0
}

func (t table) long(number int64) int64 {
	if at, stored := t.field(number); stored {
		return t.int64(at)
	}
	return 0
}

// table is the table that a field refers to; if there is none, a table without fields.
func (t table) table(number int64) table {
	if at, stored := t.field(number); stored {
		return table{t.flatbuffer, t.offset(at)}
	}
	return table{&flatbuffer{data: make([]byte, 8)}, 4}
}

// text is the string that a field refers to.
func (t table) text(number int64) string {
	at, n := t.vector(number, 1)
	return string(t.bytes(at, n))
}

// vector is the place of the first element of a list and the number of elements, all of which are inside the data.
func (t table) vector(number, elementSize int64) (at, n int64) {
	at, stored := t.field(number)
	if !stored {
		return 0, 0
	}
	at = t.offset(at)
	n = int64(uint32(t.int32(at)))
	if at+4 > int64(len(t.data))-n*elementSize {
		t.outside = true
		return 0, 0
	}
	return at + 4, n
}

// tables is a list of tables.
func (t table) tables(number int64) []table {
	at, n := t.vector(number, 4)
	list := make([]table, n)
	for i := range list {
		list[i] = table{t.flatbuffer, t.offset(at + 4*int64(i))}
	}
	return list
}
