package arrowfile

import "encoding/binary"

// object is a table of a flatbuffer that is to be written. The type of a value is that of the field: a number of its
// size, or a string, an object, a list of objects or structs, to which the table refers.
type object []member

type member struct {
	number int64
	value  any
}

// structs are structs of 8-byte numbers, one after the other.
type structs struct {
	n    int
	data []byte
}

// flatten writes a flatbuffer. What a table refers to comes after it.
func flatten(root object) []byte {
	w := &flatWriter{data: make([]byte, 4)}
	w.refer(0, root)
	return w.data
}

type flatWriter struct{ data []byte }

// align makes the position, plus what comes before the aligned number, a multiple of n.
func (w *flatWriter) align(n, before int) {
	for (len(w.data)+before)%n != 0 {
		w.data = append(w.data, 0)
	}
}

// refer writes a value and the reference to it at a place.
func (w *flatWriter) refer(at int, value any) {
	var to int
	switch value := value.(type) {
	case object:
		to = w.object(value)
	case string:
		to = w.length(4, len(value))
		w.data = append(append(w.data, value...), 0)
	case structs:
		to = w.length(8, value.n)
		w.data = append(w.data, value.data...)
	case []object:
		to = w.length(4, len(value))
		w.data = append(w.data, make([]byte, 4*len(value))...)
		for i, element := range value {
			w.refer(to+4+4*i, element)
		}
	}
	binary.LittleEndian.PutUint32(w.data[at:], uint32(to-at))
}

// length begins a list whose elements are aligned.
func (w *flatWriter) length(alignment, n int) (at int) {
	w.align(alignment, 4)
	w.data = binary.LittleEndian.AppendUint32(w.data, uint32(n))
	return len(w.data) - 4
}

// object writes the places of the fields, and then the table.
func (w *flatWriter) object(o object) (at int) {
	places, size, slots := make([]int, len(o)), 4, 0
	for i, m := range o {
		width := widthOf(m.value)
		places[i] = (size + width - 1) / width * width
		size, slots = places[i]+width, max(slots, int(m.number)+1)
	}
	w.align(2, 0)
	list := len(w.data)
	w.data = append(w.data, make([]byte, 4+2*slots)...)
	binary.LittleEndian.PutUint16(w.data[list:], uint16(4+2*slots))
	binary.LittleEndian.PutUint16(w.data[list+2:], uint16(size))
	w.align(8, 0)
	at = len(w.data)
	w.data = append(w.data, make([]byte, size)...)
	binary.LittleEndian.PutUint32(w.data[at:], uint32(at-list))
	for i, m := range o {
		binary.LittleEndian.PutUint16(w.data[list+4+2*int(m.number):], uint16(places[i]))
		place := at + places[i]
		switch value := m.value.(type) {
		case uint8:
			w.data[place] = value
		case int16:
			binary.LittleEndian.PutUint16(w.data[place:], uint16(value))
		case int32:
			binary.LittleEndian.PutUint32(w.data[place:], uint32(value))
		case int64:
			binary.LittleEndian.PutUint64(w.data[place:], uint64(value))
		default:
			w.refer(place, value)
		}
	}
	return at
}

// widthOf is the size of a number, or of a reference.
func widthOf(value any) int {
	switch value.(type) {
	case uint8:
		return 1
	case int16:
		return 2
	case int64:
		return 8
	}
	return 4
}
