//go:build !nocuda && linux && amd64

package cuda

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/internal/fault"
	"dsstne/kernels"
)

func TestAFormServesWhatItCan(t *testing.T) {
	if os.Getenv("DSSTNE_TEST_DRIVER") == "" {
		t.Skip("neither the emulator (make test-go builds it) nor devices that were asked for (DSSTNE_TEST_DRIVER=real)")
	}
	source := func(units int64) kernels.OutputSource {
		return kernels.OutputSource{Weight: &kernels.Weights{Rows: 5000, Columns: units}}
	}
	form := func(asked string, p kernels.Precision, sources ...kernels.OutputSource) string {
		opened, err := backend{}.Open(0, kernels.Options{Precision: p, Form: asked})
		if asked == formChunked && fault.KindOf(err) == fault.DeviceUnavailable {
			t.Skip(err)
		}
		require.NoError(t, err)
		defer func() { require.NoError(t, opened.Close()) }()
		op := &kernels.Output{Name: "out", Items: 5000, Sources: sources}
		return opened.(*device).Explain(kernels.OutputStep{Output: op}, 100)
	}
	require.Equal(t, formFused, form(formFused, kernels.BFloat16, source(256)))
	require.Equal(t, formFused, form(formFused, kernels.TensorFloat32, source(1)))
	require.Equal(t, formSimple, form(formSimple, kernels.BFloat16, source(64)))
	require.Contains(t, form(formFused, kernels.Float32, source(64)), `the form "fused" does not serve out`)
	require.Contains(t, form(formFused, kernels.BFloat16, source(257)), `the form "fused" does not serve out`)
	require.Contains(t, form(formFused, kernels.BFloat16, source(8), source(8)), `the form "fused" does not serve out`)
	_, err := backend{}.Open(0, kernels.Options{Form: "fast"})
	require.ErrorContains(t, err, "there are simple, fused, chunked")
	chunked := formChunked + ", cuBLASLt "
	require.Contains(t, form(formChunked, kernels.Float32), `the form "chunked" does not serve out`)
	require.Contains(t, form(formChunked, kernels.Float32, source(1000), source(3)), chunked)
	require.Contains(t, form("", kernels.Float32, source(1000)), chunked)
}

func TestAnOutputThatWasPlannedForAnotherFormIsRefused(t *testing.T) {
	if os.Getenv("DSSTNE_TEST_DRIVER") == "" {
		t.Skip("neither the emulator (make test-go builds it) nor devices that were asked for (DSSTNE_TEST_DRIVER=real)")
	}
	computed := func(form string, rows, room int64, change func(*kernels.Output)) error {
		opened, err := backend{}.Open(0, kernels.Options{Precision: kernels.BFloat16, Form: form})
		require.NoError(t, err)
		defer func() { require.NoError(t, opened.Close()) }()
		d := opened.(*device)
		op := &kernels.Output{Name: "out", Items: 5, Target: -1, TiedInput: -1, Sources: []kernels.OutputSource{
			{Weight: &kernels.Weights{Rows: 5, Columns: 8}},
		}}
		op.Workspace = &buffer{device: d, n: room}
		change(op)
		return d.OutputStats(op, &kernels.Step{Number: 1, Rows: 1, MaxRows: rows, Training: true})
	}
	const enough = 1 << 50
	for form, change := range map[string]func(*kernels.Output){
		formFused:  func(op *kernels.Output) { op.ByRow = true },
		formSimple: func(op *kernels.Output) { op.Sources[0].Weight.Rounded = &buffer{n: 20} },
	} {
		text := "was planned for another form than \"" + form + "\""
		require.ErrorContains(t, computed(form, 2, enough, change), text)
		require.ErrorContains(t, computed(form, 2, 1, func(*kernels.Output) {}), text, "too little room")
		logits := func(op *kernels.Output) { op.Logits = &buffer{n: 3} }
		require.ErrorContains(t, computed(form, 2, enough, logits), text)
	}
	tooMany := computed(formSimple, 1<<32, enough, func(*kernels.Output) {})
	require.ErrorContains(t, tooMany, "a batch of 4294967296 rows is too large for soft-max")
}

func TestTheFormIsThatOfTheNearestMeasuredShape(t *testing.T) {
	table := readForms("# a comment\n90 bfloat16 64 512 1000 fused\n90 bfloat16 1024 512 1000 chunked\n\n" +
		"80 bfloat16 64 512 1000 simple\n80 bfloat16 64 512 1000000 chunked\n")
	require.Equal(t, "fused", fastest(table, 90, "bfloat16", 1, 1, 1000))
	require.Equal(t, "fused", fastest(table, 90, "bfloat16", 200, 4096, 1000))
	require.Equal(t, "chunked", fastest(table, 90, "bfloat16", 300, 512, 1000))
	require.Equal(t, "simple", fastest(table, 80, "bfloat16", 4096, 512, 1000))
	require.Equal(t, "chunked", fastest(table, 80, "bfloat16", 4096, 512, 50_000))
	require.Empty(t, fastest(table, 90, "float32", 64, 512, 1000))
	require.Panics(t, func() { readForms("90 bfloat16 64 512 fused") })
}

func TestTheTableOfFormsIsReadable(t *testing.T) {
	for _, m := range measuredForms() {
		require.Contains(t, []string{formSimple, formFused, formChunked}, m.form)
	}
}
