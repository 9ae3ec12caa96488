package spectral

import (
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/engine/program"
	"dsstne/internal/fault"
)

const complete = `{"kind":"spectral","rows":2,"items":3,"entries":4,"rank":2,"sharpening":1.5}`

func TestADefinitionIsCompleteAndReadAgain(t *testing.T) {
	form, err := Parse([]byte(complete))
	require.NoError(t, err)
	require.JSONEq(t, complete, string(form.JSON()))
	again, err := Parse(form.JSON())
	require.NoError(t, err)
	require.Equal(t, form, again)
	rows, on := form.Bounds()
	require.Zero(t, rows%width)
	require.Equal(t, program.OneDevice, on)
}

func TestDefinitionsThatCannotBeAreRefusedByTheirKeys(t *testing.T) {
	for text, want := range map[string]string{
		`{"kind": "spectral", "items": 3, "entries": 0, "rank": 2, "sharpening": 1}`:             "rows",
		`{"kind": "spectral", "rows": 2, "items": 0, "entries": 0, "rank": 2, "sharpening": 1}`:  "items",
		`{"kind": "spectral", "rows": 2, "items": 3, "entries": 4, "rank": 0, "sharpening": 1}`:  "rank",
		`{"kind": "spectral", "rows": 2, "items": 3, "entries": 4, "rank": 2, "sharpening": -1}`: "sharpening",
		`{"kind": "spectral", "rows": 2, "items": 3, "entries": 4, "rank": 2, "sharp": 1}`:       "sharp",
	} {
		_, err := Parse([]byte(text))
		require.ErrorContains(t, err, want, text)
		require.Equal(t, fault.InvalidArgument, fault.KindOf(err), text)
	}
}
