package model

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/internal/fault"
)

// itemNames are 40, one of them empty and one not of ASCII.
func itemNames() []string {
	names := make([]string, 40)
	for i := range names {
		names[i] = fmt.Sprintf("Film %d", i)
	}
	names[3], names[4] = "", "Amélie"
	return names
}

func itemText() string { return strings.Join(itemNames(), "") }

func itemCuts() []int64 {
	cuts := []int64{0}
	for _, name := range itemNames() {
		cuts = append(cuts, cuts[len(cuts)-1]+int64(len(name)))
	}
	return cuts
}

func nameItems(t testing.TB, m *Model) {
	require.NoError(t, m.SetTensor("items.bytes", []byte(itemText())))
	require.NoError(t, m.SetTensor("items.offsets", offsetBytes(itemCuts()...)))
}

// namedItems is the number of items that have names.
func namedItems(m *Model) int {
	t, err := m.Tensor(itemOffsets)
	if err != nil {
		return 0
	}
	return int(t.Elements() - 1)
}

func TestItemsWithoutNamesCountAsNone(t *testing.T) {
	require.Equal(t, 0, namedItems(create(t, smallDefinition, 1)))
}

func TestItemsWithoutNamesAreSaidToHaveNone(t *testing.T) {
	requireFault(t, create(t, smallDefinition, 1).GetTensor("items.bytes", nil), fault.NotFound, "have no names")
}

func TestItemsAreNamedByBytesAndThenOffsets(t *testing.T) {
	m := create(t, smallDefinition, 1)
	nameItems(t, m)
	require.Equal(t, 40, namedItems(m))
}

func TestNamesAreNotTheModelsBeforeTheyAreCut(t *testing.T) {
	m := create(t, smallDefinition, 1)
	require.NoError(t, m.SetTensor("items.bytes", []byte("text")))
	require.Len(t, m.Tensors(), 4)
}

func TestNamesCanBeReplaced(t *testing.T) {
	m := create(t, smallDefinition, 1)
	nameItems(t, m)
	require.NoError(t, m.SetTensor("items.bytes", []byte("x")))
	cuts := make([]int64, 41)
	cuts[40] = 1
	require.NoError(t, m.SetTensor("items.offsets", offsetBytes(cuts...)))
	require.Equal(t, "x", string(tensorBytes(t, m, "items.bytes")))
}

func TestNamesMayAllBeEmpty(t *testing.T) {
	m := create(t, smallDefinition, 1)
	require.NoError(t, m.SetTensor("items.bytes", nil))
	require.NoError(t, m.SetTensor("items.offsets", make([]byte, 8*41)))
	require.Equal(t, 40, namedItems(m))
}

func TestOffsetsWithoutBytesAreToldTheOrder(t *testing.T) {
	err := create(t, smallDefinition, 1).SetTensor("items.offsets", make([]byte, 8*41))
	requireFault(t, err, fault.InvalidState, `set "items.bytes" before`)
}

func TestOffsetsThatCannotBeNamesAreRefusedInWords(t *testing.T) {
	with := func(at int, value int64) []byte {
		cuts := itemCuts()
		cuts[at] = value
		return offsetBytes(cuts...)
	}
	end := itemCuts()[40]
	for name, c := range map[string]struct {
		offsets []byte
		words   string
	}{
		"not whole":       {make([]byte, 12), "multiple"},
		"empty":           {nil, "output has 40"},
		"too few":         {offsetBytes(0, end), "1 names were given, but output layer output has 40"},
		"begins late":     {with(0, 1), "begins with 1"},
		"ends early":      {with(40, end-1), "ends with"},
		"decreases":       {with(9, 2), "items.offsets[9] is 2 after"},
		"negative":        {with(9, -2), "items.offsets[9] is -2 after"},
		"beyond the end":  {with(9, 1<<40), "items.offsets[9]"},
		"cuts a letter":   {with(5, itemCuts()[5]-4), "the name of item 4"},
		"overflows a sum": {with(9, 1<<62), "items.offsets[9]"},
	} {
		t.Run(name, func(t *testing.T) {
			m := create(t, smallDefinition, 1)
			require.NoError(t, m.SetTensor("items.bytes", []byte(itemText())))
			requireFault(t, m.SetTensor("items.offsets", c.offsets), fault.InvalidArgument, c.words)
			require.Equal(t, 0, namedItems(m))
		})
	}
}
