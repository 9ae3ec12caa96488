//go:build !nocuda && linux && amd64

package cuda

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheFormIsThatOfTheNearestMeasuredShape(t *testing.T) {
	table := readForms("# a comment\n90 bfloat16 64 512 fused\n90 bfloat16 1024 512 chunked\n\n80 bfloat16 64 512 simple\n")
	require.Equal(t, "fused", fastest(table, 90, "bfloat16", 1, 1))
	require.Equal(t, "fused", fastest(table, 90, "bfloat16", 200, 4096))
	require.Equal(t, "chunked", fastest(table, 90, "bfloat16", 300, 512))
	require.Equal(t, "simple", fastest(table, 80, "bfloat16", 4096, 512))
	require.Empty(t, fastest(table, 90, "float32", 64, 512))
	require.Panics(t, func() { readForms("90 bfloat16 64 fused") })
}

func TestTheTableOfFormsIsReadable(t *testing.T) {
	for _, m := range measuredForms() {
		require.Contains(t, []string{formSimple, formFused, formChunked}, m.form)
	}
}
