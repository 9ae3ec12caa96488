//go:build !nocuda && linux && amd64

package cuda

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheImagesAreThoseOfTheSources(t *testing.T) {
	// As scripts/compile_kernels.py computes it: the script itself, with its flags and versions, and the sources by name.
	sources, err := filepath.Glob("src/*.cu*")
	require.NoError(t, err)
	require.NotEmpty(t, sources)
	slices.Sort(sources)
	total := sha256.New()
	for _, path := range append([]string{"../../scripts/compile_kernels.py", "../kinds.h"}, sources...) {
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		fmt.Fprintf(total, "%s %d\n%s", filepath.Base(path), len(content), content)
	}
	embedded, err := images.ReadFile("images/digest")
	require.NoError(t, err)
	require.Equal(t, hex.EncodeToString(total.Sum(nil)), strings.TrimSpace(string(embedded)),
		"the kernels have changed since they were compiled; run make build")
}

func TestEveryDeviceFromCapability8OnHasAnImage(t *testing.T) {
	for capability, want := range map[int]string{
		80: "sm_80.cubin", 86: "sm_80.cubin", 89: "sm_80.cubin", 90: "sm_90a.cubin", 100: "sm_100a.cubin",
		103: "compute_80.ptx", 110: "compute_80.ptx", 120: "sm_120.cubin", 121: "sm_120.cubin", 130: "compute_80.ptx",
	} {
		name, image := imageFor(capability)
		require.Equal(t, want, name, capability)
		require.True(t, bytes.HasPrefix(image, []byte("\x7fELF")) || bytes.Contains(image, []byte(".entry fill(")), name)
	}
}

func TestPTXIsOfTheOldestCapability(t *testing.T) {
	_, image := imageFor(130)
	require.Contains(t, string(image), ".target sm_80\n")
}

func TestNothingIsFusedUnlessTheSourceSaysSo(t *testing.T) {
	_, image := imageFor(130)
	_, fill, found := strings.Cut(string(image), ".entry fill(") // which has many products and sums, and fuses none
	require.True(t, found)
	fill, _, _ = strings.Cut(fill, ".entry ")
	require.NotRegexp(t, `(mad|fma)\.[a-z.]*f(32|64)`, fill)
}
