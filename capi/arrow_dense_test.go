package main

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"dsstne/engine/arrowfile"
	"dsstne/internal/fault"
)

// grid is the schema and the array of fixed_size_list<float32>[2] with the rows (1, 2), (0, 4), (5, 6).
func grid() (*arrowfile.Type, *arrayNode) {
	schema := &arrowfile.Type{Format: "+w:2", Children: []*arrowfile.Type{{Format: "f"}}}
	return schema, &arrayNode{length: 3, buffers: pointers(nil), children: []*arrayNode{
		{length: 6, buffers: []unsafe.Pointer{nil, unsafe.Pointer(&[]float32{1, 2, 0, 4, 5, 6}[0])}},
	}}
}

func denseOf(schema *arrowfile.Type, array *arrayNode) (*denseLayout, error) {
	l, dense, err := denseType(schema)
	if err != nil || !dense {
		return nil, err
	}
	return l, l.find(array)
}

func TestAFixedSizeListOfNumbersIsADenseMatrix(t *testing.T) {
	for format, size := range map[string]int64{
		"c": 1, "C": 1, "s": 2, "S": 2, "i": 4, "I": 4, "l": 8, "L": 8, "f": 4, "g": 8,
	} {
		schema, array := grid()
		schema.Children[0].Format = format
		l, err := denseOf(schema, array)
		require.NoError(t, err)
		require.Equal(t, []int64{3, 2, size}, []int64{l.rows, l.columns, l.size})
	}
	schema, _ := pairs()
	_, dense, err := denseType(schema)
	require.NoError(t, err)
	require.False(t, dense)
}

func TestOffsetsOfBothLevelsCountInADenseMatrix(t *testing.T) {
	schema, array := grid()
	array.offset, array.length = 1, 1
	array.children[0].offset, array.children[0].length = 1, 4
	l, err := denseOf(schema, array)
	require.NoError(t, err)
	m, err := l.matrix(l.cells, 2, nil)
	require.NoError(t, err)
	require.Equal(t, unsafe.Add(array.children[0].buffers[1], 3*4), m.Layout().Values)
	require.EqualValues(t, 1, m.Rows())
}

func TestOtherCellsAreRefusedByName(t *testing.T) {
	for name, change := range map[string]struct {
		change func(*arrowfile.Type)
		want   string
	}{
		"bits":       {func(s *arrowfile.Type) { s.Children[0].Format = "b" }, "are of type bool: "},
		"half":       {func(s *arrowfile.Type) { s.Children[0].Format = "e" }, "are of type float16: "},
		"dictionary": {func(s *arrowfile.Type) { s.Children[0].Dictionary = true }, "are of type float32: "},
		"no child":   {func(s *arrowfile.Type) { s.Children = nil }, "0 children instead of 1"},
		"no size":    {func(s *arrowfile.Type) { s.Format = "+w:" }, `a fixed-size list of "" cells`},
		"negative":   {func(s *arrowfile.Type) { s.Format = "+w:-2" }, `a fixed-size list of "-2" cells`},
		"too wide":   {func(s *arrowfile.Type) { s.Format = "+w:2147483648" }, "it has 1 to 2147483647 columns"},
	} {
		schema, array := grid()
		change.change(schema)
		_, err := denseOf(schema, array)
		require.ErrorContains(t, err, change.want, name)
		require.Equal(t, fault.InvalidData, fault.KindOf(err), name)
	}
}

func TestDenseArraysThatAreNotWhatTheirTypeSaysAreRefused(t *testing.T) {
	for want, change := range map[string]func(list, cells *arrayNode){
		"has length 5, but the list":      func(_, cells *arrayNode) { cells.length = 5 },
		"has offset 1 and 3 rows of 2":    func(list, _ *arrayNode) { list.offset = 1 },
		"the list has length 1152921504":  func(list, _ *arrayNode) { list.length = 1 << 60 },
		"length 6 but no data":            func(_, cells *arrayNode) { cells.buffers[1] = nil },
		"has 2 buffers instead of 1":      func(list, cells *arrayNode) { list.buffers = cells.buffers },
		"the list has 0 children":         func(list, _ *arrayNode) { list.children = nil },
		"row 1 is null; use a row of":     func(list, _ *arrayNode) { list.buffers[0] = bitmap("101") },
		"row 2, column 1 is null; use 0 ": func(_, cells *arrayNode) { cells.buffers[0] = bitmap("111110") },
	} {
		schema, array := grid()
		change(array, array.children[0])
		_, err := denseOf(schema, array)
		require.ErrorContains(t, err, want)
		require.Equal(t, fault.InvalidData, fault.KindOf(err))
	}
}

func TestColumnsOfADenseMatrixAreThoseOfItsType(t *testing.T) {
	l, err := denseOf(grid())
	require.NoError(t, err)
	_, err = l.matrix(l.cells, 3, nil)
	require.ErrorContains(t, err, "the rows have 2 cells, but columns is 3")
	require.Equal(t, fault.InvalidArgument, fault.KindOf(err))
}

func TestADenseMatrixWithoutRowsNeedsNoCells(t *testing.T) {
	schema, array := grid()
	array.length, array.children[0].length, array.children[0].buffers[1] = 0, 0, nil
	l, err := denseOf(schema, array)
	require.NoError(t, err)
	m, err := l.matrix(nil, 2, nil)
	require.NoError(t, err)
	require.Zero(t, m.Rows())
}
