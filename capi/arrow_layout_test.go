package main

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"dsstne/engine/arrowfile"
	"dsstne/internal/fault"
)

// pairs is the schema and the array of list<struct<int32, float32>> with the rows [(1, 0.5), (2, 1)], [], [(0, 2)].
func pairs() (*arrowfile.Type, *arrayNode) {
	schema := &arrowfile.Type{Format: "+l", Children: []*arrowfile.Type{
		{Format: "+s", Children: []*arrowfile.Type{{Format: "i"}, {Format: "f"}}},
	}}
	array := &arrayNode{length: 3, buffers: pointers(nil, &[]int32{0, 2, 2, 3}[0]), children: []*arrayNode{
		{length: 3, buffers: pointers(nil), children: []*arrayNode{
			{length: 3, buffers: pointers(nil, &[]int32{1, 2, 0}[0])},
			{length: 3, buffers: pointers(nil, (*int32)(unsafe.Pointer(&[]float32{0.5, 1, 2}[0])))},
		}},
	}}
	return schema, array
}

// bare is the schema and the array of large_list<int64> with the rows [1, 2], [].
func bare() (*arrowfile.Type, *arrayNode) {
	schema := &arrowfile.Type{Format: "+L", Children: []*arrowfile.Type{{Format: "l"}}}
	offsets, indices := []int64{0, 2, 2}, []int64{1, 2}
	array := &arrayNode{length: 2, buffers: []unsafe.Pointer{nil, unsafe.Pointer(&offsets[0])}, children: []*arrayNode{
		{length: 2, buffers: []unsafe.Pointer{nil, unsafe.Pointer(&indices[0])}},
	}}
	return schema, array
}

func pointers(buffers ...*int32) []unsafe.Pointer {
	var all []unsafe.Pointer
	for _, buffer := range buffers {
		all = append(all, unsafe.Pointer(buffer))
	}
	return all
}

// bitmap has the bits of text, in which 1 is valid.
func bitmap(text string) unsafe.Pointer {
	bits := make([]byte, len(text)/8+1)
	for i, c := range text {
		bits[i/8] |= byte(c-'0') << (i % 8)
	}
	return unsafe.Pointer(&bits[0])
}

func TestAListOfPairsIsAMatrix(t *testing.T) {
	layout, err := layoutOf(pairs())
	require.NoError(t, err)
	require.Equal(t, []bool{false, false, false, true}, []bool{layout.LongOffsets, layout.LongIndices, layout.Doubles,
		layout.Pairs && layout.values != nil})
}

func TestALargeListOfIndicesIsAMatrix(t *testing.T) {
	layout, err := layoutOf(bare())
	require.NoError(t, err)
	require.Equal(t, []bool{true, true, true}, []bool{layout.LongOffsets, layout.LongIndices,
		!layout.Pairs && layout.values == nil})
}

func TestOtherTypesAreRefusedByName(t *testing.T) {
	for name, change := range map[string]struct {
		change func(*arrowfile.Type)
		want   string
	}{
		"not a list":   {func(s *arrowfile.Type) { s.Format = "+vl" }, "the array is of type list_view: a matrix is"},
		"empty format": {func(s *arrowfile.Type) { s.Format = "" }, `the array is of type "": `},
		"no child":     {func(s *arrowfile.Type) { s.Children = nil }, "0 children instead of 1"},
		"short index": {func(s *arrowfile.Type) { s.Children[0].Children[0].Format = "S" },
			"the indices are of type uint16: "},
		"text index": {func(s *arrowfile.Type) { s.Children[0].Format = "u" }, "the indices are of type string: "},
		"logical value": {func(s *arrowfile.Type) { s.Children[0].Children[1].Format = "b" },
			"the values are of type bool: "},
		"three fields": {func(s *arrowfile.Type) { s.Children[0].Children = make([]*arrowfile.Type, 3) },
			"3 fields instead of 2"},
		"fixed-size list": {func(s *arrowfile.Type) { s.Children[0].Format = "+w:2" },
			"the indices are of type fixed-size list of 2: "},
		"a timestamp": {func(s *arrowfile.Type) { s.Children[0].Format = "tsm:UTC" },
			"the indices are of type timestamp: "},
		"dictionary":      {func(s *arrowfile.Type) { s.Children[0].Children[0].Dictionary = true }, "without dictionary"},
		"list dictionary": {func(s *arrowfile.Type) { s.Dictionary = true }, "without dictionary"},
	} {
		t.Run(name, func(t *testing.T) {
			schema, array := pairs()
			change.change(schema)
			_, err := layoutOf(schema, array)
			require.ErrorContains(t, err, change.want)
			require.Equal(t, fault.InvalidData, fault.KindOf(err))
		})
	}
}

func TestArraysThatAreNotWhatTheirTypeSaysAreRefused(t *testing.T) {
	for name, change := range map[string]func(list, entry, indices, values *arrayNode){
		"negative length":         func(list, _, _, _ *arrayNode) { list.length = -1 },
		"negative offset":         func(list, _, _, _ *arrayNode) { list.offset = -1 },
		"huge length":             func(list, _, _, _ *arrayNode) { list.length = 1 << 62 },
		"huge offset":             func(_, entry, _, _ *arrayNode) { entry.offset = 1<<63 - 1 },
		"too many nulls":          func(list, _, _, _ *arrayNode) { list.nullCount = 4 },
		"null count below -1":     func(_, _, _, values *arrayNode) { values.nullCount = -2 },
		"nulls without bitmap":    func(_, _, indices, _ *arrayNode) { indices.nullCount = 1 },
		"list without offsets":    func(list, _, _, _ *arrayNode) { list.buffers[1] = nil },
		"no index data":           func(_, _, indices, _ *arrayNode) { indices.buffers[1] = nil },
		"no value data":           func(_, _, _, values *arrayNode) { values.buffers[1] = nil },
		"list with one buffer":    func(list, _, _, _ *arrayNode) { list.buffers = list.buffers[:1] },
		"struct without buffers":  func(_, entry, _, _ *arrayNode) { entry.buffers = nil },
		"struct with one child":   func(_, entry, _, _ *arrayNode) { entry.children = entry.children[:1] },
		"indices with a child":    func(list, _, indices, _ *arrayNode) { indices.children = list.children },
		"list without child":      func(list, _, _, _ *arrayNode) { list.children = nil },
		"dictionary":              func(_, _, indices, _ *arrayNode) { indices.dictionary = true },
		"indices too short":       func(_, _, indices, _ *arrayNode) { indices.length = 2 },
		"values too short":        func(_, entry, _, _ *arrayNode) { entry.offset = 1 },
		"last offset too large":   func(list, _, _, _ *arrayNode) { list.buffers = pointers(nil, &[]int32{0, 1, 2, 4}[0]) },
		"first offset negative":   func(list, _, _, _ *arrayNode) { list.buffers = pointers(nil, &[]int32{-1, 1, 2, 3}[0]) },
		"last offset below first": func(list, _, _, _ *arrayNode) { list.buffers = pointers(nil, &[]int32{2, 3, 3, 1}[0]) },
	} {
		t.Run(name, func(t *testing.T) {
			schema, list := pairs()
			entry := list.children[0]
			change(list, entry, entry.children[0], entry.children[1])
			_, err := layoutOf(schema, list)
			require.Equal(t, fault.InvalidData, fault.KindOf(err), "%v", err)
		})
	}
}

func TestNullsAreNamedByTheirRow(t *testing.T) {
	for name, null := range map[string]struct {
		set  func(list, entry, indices, values *arrayNode)
		want string
	}{
		"row":   {func(list, _, _, _ *arrayNode) { list.buffers[0] = bitmap("101") }, "row 1 is null"},
		"entry": {func(_, entry, _, _ *arrayNode) { entry.buffers[0] = bitmap("110") }, "row 2 holds an entry that is null"},
		"index": {func(_, _, indices, _ *arrayNode) { indices.buffers[0] = bitmap("101") },
			"row 0 holds a column that is null"},
		"value": {func(_, _, _, values *arrayNode) { values.buffers[0] = bitmap("110") }, "row 2 holds a value that is null"},
	} {
		t.Run(name, func(t *testing.T) {
			schema, list := pairs()
			entry := list.children[0]
			null.set(list, entry, entry.children[0], entry.children[1])
			_, err := layoutOf(schema, list)
			require.ErrorContains(t, err, null.want)
		})
	}
}

func TestNullsAreCountedWhateverTheNullCountSays(t *testing.T) {
	for _, count := range []int64{-1, 0, 1} {
		schema, list := pairs()
		list.nullCount, list.buffers[0] = count, bitmap("110")
		_, err := layoutOf(schema, list)
		require.ErrorContains(t, err, "row 2 is null")
	}
}

func TestNullsOutsideOfASliceDoNotMatter(t *testing.T) {
	schema, list := pairs()
	list.offset, list.length = 2, 1 // the entry 2 only
	list.buffers[0] = bitmap("001")
	entry := list.children[0]
	entry.buffers[0], entry.children[0].buffers[0] = bitmap("001"), bitmap("001")
	entry.nullCount = 2
	_, err := layoutOf(schema, list)
	require.NoError(t, err)
}

func TestBitmapsAreReadAtTheOffsetsOfAllLevels(t *testing.T) {
	schema, list := pairs()
	// entry 1 of the struct, 2 of its fields, 3 of the buffers
	list.length, list.buffers = 1, pointers(nil, &[]int32{1, 2}[0])
	entry := list.children[0]
	entry.offset, entry.length = 1, 2
	for _, column := range entry.children {
		column.offset, column.buffers[0] = 1, bitmap("0001")
	}
	_, err := layoutOf(schema, list)
	require.NoError(t, err)
	entry.children[1].buffers[0] = bitmap("1110")
	_, err = layoutOf(schema, list)
	require.ErrorContains(t, err, "row 0 holds a value that is null")
}

func TestAnUnknownNullCountWithoutBitmapIsNone(t *testing.T) {
	schema, list := pairs()
	list.nullCount = -1
	_, err := layoutOf(schema, list)
	require.NoError(t, err)
}

func TestZeroRowsNeedNoBuffers(t *testing.T) {
	schema, list := pairs()
	entry := list.children[0]
	for _, node := range []*arrayNode{list, entry, entry.children[0], entry.children[1]} {
		node.length = 0
		clear(node.buffers)
	}
	_, err := layoutOf(schema, list)
	require.NoError(t, err)
}

func TestTheFirstNullIsFound(t *testing.T) {
	const n = 70
	for null := range int64(n) {
		text := make([]byte, n)
		for i := range text {
			text[i] = '1'
		}
		text[null] = '0'
		for begin := range null + 1 {
			at, found := firstNull(bitmap(string(text)), begin, n-begin)
			require.True(t, found)
			require.Equal(t, null-begin, at)
		}
		_, found := firstNull(bitmap(string(text)), null+1, n-null-1)
		require.False(t, found)
	}
}
