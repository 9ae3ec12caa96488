package ridge

import (
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/engine/program"
	"dsstne/internal/fault"
)

const complete = `{"kind":"ridge","rows":2,"items":3,"entries":4,"tolerance":0.001,"iterations":20}`

func TestADefinitionIsCompleteAndReadAgain(t *testing.T) {
	form, err := Parse([]byte(complete))
	require.NoError(t, err)
	require.JSONEq(t, complete, string(form.JSON()))
	again, err := Parse(form.JSON())
	require.NoError(t, err)
	require.Equal(t, form, again)
	rows, on := form.Bounds()
	require.Zero(t, rows%panelWidth)
	require.Equal(t, program.OneDevice, on)
}

func TestDefinitionsThatCannotBeAreRefusedByTheirKeys(t *testing.T) {
	for text, want := range map[string]string{
		`{"kind": "ridge", "items": 3, "entries": 0, "tolerance": 0, "iterations": 1}`:                 "rows",
		`{"kind": "ridge", "rows": 2, "items": 3, "entries": 7, "tolerance": 0.001, "iterations": 20}`: "entries",
		`{"kind": "ridge", "rows": 2, "items": 3, "entries": 4, "tolerance": 2, "iterations": 20}`:     "tolerance",
		`{"kind": "ridge", "rows": 2, "items": 3, "entries": 4, "tolerance": 0, "iterations": 0}`:      "iterations",
		`{"kind": "ridge", "rows": 2, "items": 3, "entries": 4, "tolerance": 0}`:                       "iterations",
	} {
		_, err := Parse([]byte(text))
		require.ErrorContains(t, err, want, text)
		require.Equal(t, fault.InvalidArgument, fault.KindOf(err), text)
	}
}
