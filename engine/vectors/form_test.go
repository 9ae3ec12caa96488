package vectors

import (
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/internal/fault"
)

func TestADefinitionIsCompleteAndReadAgain(t *testing.T) {
	for text, want := range map[string]string{
		`{"kind": "vectors", "items": 3, "size": 2}`: `{"kind":"vectors","items":3,"size":2,"metric":"dot"}`,
		`{"metric": "cosine", "size": 16384, "items": 2147483647, "kind": "vectors"}`: `{"kind":"vectors",` +
			`"items":2147483647,"size":16384,"metric":"cosine"}`,
		`{"kind": "vectors", "items": 3, "size": 2, "storage": "float32"}`: `{"kind":"vectors","items":3,"size":2,` +
			`"metric":"dot"}`,
		`{"kind": "vectors", "items": 3, "size": 2, "storage": "bfloat16"}`: `{"kind":"vectors","items":3,"size":2,` +
			`"metric":"dot","storage":"bfloat16"}`,
	} {
		form, err := Parse([]byte(text))
		require.NoError(t, err)
		require.Equal(t, want, string(form.JSON()))
		again, err := Parse(form.JSON())
		require.NoError(t, err)
		require.Equal(t, form, again)
	}
}

func TestDefinitionsThatCannotBeAreRefusedByTheirKeys(t *testing.T) {
	for text, want := range map[string]string{
		`{"kind": "vectors", "size": 2}`:                                  "items",
		`{"kind": "vectors", "items": 3}`:                                 "size",
		`{"kind": "vectors", "items": 0, "size": 2}`:                      "items is 0",
		`{"kind": "vectors", "items": 2147483648, "size": 2}`:             "items is 2147483648",
		`{"kind": "vectors", "items": 3, "size": 16385}`:                  "size is 16385",
		`{"kind": "vectors", "items": 3, "size": 2, "metric": "cosin"}`:   `did you mean "cosine"`,
		`{"kind": "vectors", "items": 3, "size": 2, "metrik": "cosine"}`:  `did you mean "metric"`,
		`{"kind": "vectors", "items": 3, "size": 2, "storage": "float8"}`: "one of float32, float16, bfloat16",
	} {
		_, err := Parse([]byte(text))
		require.ErrorContains(t, err, want, text)
		require.Equal(t, fault.InvalidArgument, fault.KindOf(err), text)
	}
}
