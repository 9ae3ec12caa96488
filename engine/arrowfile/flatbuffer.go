package arrowfile

import "encoding/binary"

// A flatbuffer is a tree of tables whose fields are found through offsets (https://flatbuffers.dev/internals). In a
// damaged file any offset may be wrong: a read outside the data gives 0 and sets outside, which callers check once they
// have read all that they need.
type flatbuffer struct {
	data    []byte
	outside bool
}

// integer reads a signed integer of width bytes. Valid metadata hold no offset or size that a signed one lacks.
func (f *flatbuffer) integer(at, width int64) int64 {
	if at < 0 || at > int64(len(f.data))-width {
		f.outside = true
		return 0
	}
	var number [8]byte
	copy(number[8-width:], f.data[at:at+width])
	return int64(binary.LittleEndian.Uint64(number[:])) >> (64 - 8*width)
}

// offset follows the offset that is stored at a place; it counts from that place.
func (f *flatbuffer) offset(at int64) int64 { return at + f.integer(at, 4) }

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
	places := t.at - t.integer(t.at, 4) // its size, the table's size, and the places of the fields in the table
	if at := 4 + 2*number; at < t.integer(places, 2) {
		if at := t.integer(places+at, 2); at != 0 {
			return t.at + at, true
		}
	}
	return 0, false
}

// number is the integer of width bytes in a field.
func (t table) number(number, width int64) int64 {
	if at, stored := t.field(number); stored {
		return t.integer(at, width)
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
	return string(t.data[at : at+n])
}

// vector is the place of the first element of a list and the number of elements, all of which are inside the data.
func (t table) vector(number, elementSize int64) (at, n int64) {
	at, stored := t.field(number)
	if !stored {
		return 0, 0
	}
	at = t.offset(at)
	n = t.integer(at, 4)
	if at < 0 || n < 0 || at+4 > int64(len(t.data))-n*elementSize {
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
