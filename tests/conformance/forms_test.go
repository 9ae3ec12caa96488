package conformance

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/internal/fault"
	"dsstne/kernels"
)

// A CUDA device has several forms of the output op, see kernels.Options.Form, and takes the one that is known to be best. The
// tests here ask for each of them; an op that a form does not serve is refused, which the log says.

// forms are those that a precision has.
func forms(p kernels.Precision) []string {
	if p == kernels.Float32 {
		return []string{"simple", "chunked"}
	}
	return []string{"simple", "fused", "chunked"}
}

// forEveryForm runs a test with devices of each form at each precision.
func forEveryForm(t *testing.T, test func(t *testing.T, p kernels.Precision, open opener)) {
	b := kernels.Lookup("cuda")
	if b == nil {
		t.Skip("CUDA is left out")
	}
	if devices := b.Devices(); len(devices) == 0 || devices[0].Missing != "" {
		t.Skipf("CUDA cannot be used here: %+v", devices)
	}
	for _, p := range []kernels.Precision{kernels.Float32, kernels.BFloat16, kernels.TensorFloat32} {
		for _, form := range forms(p) {
			t.Run(p.String()+" "+form, func(t *testing.T) {
				test(t, p, func(threads int) kernels.Device {
					d, err := b.Open(0, kernels.Options{Threads: threads, Precision: p, Form: form})
					if fault.KindOf(err) == fault.DeviceUnavailable {
						t.Skipf("the form %q: %v", form, err)
					}
					require.NoError(t, err)
					t.Cleanup(func() { _ = d.Close() })
					return d
				})
			})
		}
	}
}

// served counts the cases that a form serves.
type served int

// require fails for an error, unless it says that the form does not serve the case.
func (n *served) require(t *testing.T, err error) {
	if fault.KindOf(err) == fault.Unsupported && strings.Contains(err.Error(), "does not serve") {
		t.Log(err)
		return
	}
	require.NoError(t, err)
	*n++
}

// demand fails unless the form serves cases, except where an emulated cuBLASLt was told to support no product of the precision.
func (n served) demand(t *testing.T, p kernels.Precision) {
	modes := strings.Split(os.Getenv("DSSTNE_CUDAEMU_CUBLASLT"), ",")
	if refuses := slices.Contains(modes, "refuse") || slices.Contains(modes, "half") && p == kernels.BFloat16; refuses && n == 0 {
		t.Skip("the library supports no product")
	}
	require.NotZero(t, n)
}

func TestEveryFormOfTheOutputAgreesWithTheReference(t *testing.T) {
	t.Parallel()
	forEveryForm(t, func(t *testing.T, p kernels.Precision, open opener) {
		t.Parallel()
		var cases served
		d, reference := open(1), oracle(t)
		for _, c := range some(d, casesOf(p, "OutputStep", "OutputStats"), int(p)) {
			cases.require(t, agree(c, d, reference))
		}
		cases.demand(t, p)
	})
}

func TestAFormThatDoesNotServeAnOutputRefusesIt(t *testing.T) {
	forEveryForm(t, func(t *testing.T, _ kernels.Precision, open opener) {
		d := open(1)
		text := d.(kernels.Explainer).Explain(kernels.OutputStep{Output: &kernels.Output{Items: 10}}, 1)
		if strings.HasSuffix(t.Name(), "simple") {
			require.Equal(t, "simple", text)
		} else {
			require.Contains(t, text, "does not serve")
		}
	})
}

// Where the chunked form is asked for, the library makes the products of dense layers of all sizes, too.
func TestDenseLayersAgreeWithTheReferenceInEveryForm(t *testing.T) {
	t.Parallel()
	forEveryForm(t, func(t *testing.T, p kernels.Precision, open opener) {
		t.Parallel()
		var cases served
		d, reference := open(1), oracle(t)
		for _, c := range some(d, casesOf(p, "Dense", "DenseBackward"), int(p)) {
			cases.require(t, agree(c, d, reference))
		}
		cases.demand(t, p)
	})
}

func TestEveryFormOfTheOutputGivesTheSameBitsTwice(t *testing.T) {
	t.Parallel()
	forEveryForm(t, func(t *testing.T, p kernels.Precision, open opener) {
		t.Parallel()
		var cases served
		for n, c := range some(open(1), casesOf(p, "OutputStep"), int(p)) {
			if n%4 == 0 {
				cases.require(t, sameBits(c, open))
			}
		}
		cases.demand(t, p)
	})
}

func TestANumberThatIsNotFiniteStopsEveryFormOfTheOutput(t *testing.T) {
	t.Parallel()
	forEveryForm(t, func(t *testing.T, p kernels.Precision, open opener) {
		t.Parallel()
		d := open(1)
		var cases served
		for _, c := range some(d, everyPlanted(), int(p)) {
			cases.require(t, stops(c, d))
		}
		cases.demand(t, p)
	})
}

// The batch may be smaller than the largest one: nothing of it may show, and bits follow from the largest.
func TestRowsThatABatchHasNotGotChangeNoBitInAnyForm(t *testing.T) {
	forEveryForm(t, func(t *testing.T, p kernels.Precision, open opener) {
		t.Parallel()
		d := open(1)
		c := plainOutput(kernels.Loss{Kind: kernels.Softmax, Weight: 1}, 0)
		c.both = true
		large := *c
		step := *c.step
		step.MaxRows = 3 * plantedRows
		large.step = &step
		want, err := c.run(d)
		require.NoError(t, err)
		got, err := large.run(d)
		require.NoError(t, err)
		o := *c
		o.precision = p
		bounds := o.bounds()
		bounds["stats"] = o.statsBounds(o.logits())
		require.NoError(t, compare(got, want, bounds))
		again, err := large.run(d)
		require.NoError(t, err)
		require.NoError(t, compare(again, got, nil))
	})
}

func TestNoFormHasRoomForTheLogitsOfAllItems(t *testing.T) {
	const rows, items = 512, 1 << 20
	forEveryForm(t, func(t *testing.T, p kernels.Precision, open opener) {
		d := open(1)
		for _, units := range []int64{1, 64, 100, 256, 1024} {
			op := &kernels.Output{Items: items, Loss: kernels.Loss{Kind: kernels.Softmax, Weight: 1}, TiedInput: -1,
				Sources: []kernels.OutputSource{{Weight: &kernels.Weights{Rows: items, Columns: units}}}}
			require.Less(t, d.WorkspaceSize(op, rows), int64(rows*items/16), "%d units", units)
		}
	})
}
