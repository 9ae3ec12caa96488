package architecture

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	// A kernel, also one in a macro that makes several.
	kernelDefinition = regexp.MustCompile(`(?m)^ *KERNEL(?:_BOUNDS)?\(([\w#]+),[^{]*\{(?:\s*(\w+)<[^>]*>\(a\);)?`)
	// What the first comment has to have, in this order.
	kernelComment = regexp.MustCompile(`^// [^\n]*\n(// [^\n]*\n)*//\n// Mapping: .*\n(// .*\n)*// Bytes: .*\n(// .*\n)*// Source: .*\n(// .*\n)*$`)
)

func TestTheCommentOfEveryKernelHasItsMathematicsMappingBytesAndSource(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(root, "kernels/cuda/src/*.cu"))
	require.NoError(t, err)
	kernels := 0
	for _, path := range paths {
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		text := strings.ReplaceAll(string(content), "\\\n", "\n") // macros in one piece
		require.Equal(t, strings.Count("\n"+text, "\nKERNEL")+strings.Count(text, "\n  KERNEL"), len(kernelDefinition.FindAllString(text, -1)), path)
		for _, found := range kernelDefinition.FindAllStringSubmatchIndex(text, -1) {
			kernels++
			name, begin := text[found[2]:found[3]], found[0]
			if found[4] >= 0 { // made from a template
				template := regexp.MustCompile(`(?m)^template <[^\n]*>\nDEVICE void ` + text[found[4]:found[5]] + `\(`)
				at := template.FindStringIndex(text)
				require.NotNil(t, at, "%s: %s is made from a template of another file", path, name)
				begin = at[0]
			}
			require.Regexp(t, kernelComment, commentAbove(text[:begin]), "%s: kernel %s", path, name)
		}
	}
	require.Greater(t, kernels, 40)
}

// commentAbove is the comment that a text ends with.
func commentAbove(text string) string {
	lines := strings.SplitAfter(text, "\n")
	first := len(lines) - 1
	for first > 0 && strings.HasPrefix(lines[first-1], "//") {
		first--
	}
	return strings.Join(lines[first:], "")
}
