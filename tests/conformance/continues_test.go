package conformance

import (
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/kernels"
)

// continuing are outputs with soft-max, whose step may use what the statistics left; and a layer with more logits than a
// backend will keep.
func continuing(p kernels.Precision) (cases []*outputCase) {
	for _, c := range outputCases(false, p) {
		if c := c.(*outputCase); c.loss.NeedsStats() {
			cases = append(cases, c)
		}
	}
	s := newSampler(31)
	o := kernels.Optimizer{Kind: kernels.SGD}
	const rows, items, units = 300, 6001, 2
	target := s.batch(rows, items, "sparse", false)
	return append(cases, &outputCase{
		title: "many logits", loss: kernels.Loss{Kind: kernels.Softmax, Weight: 1}, optimizer: o, precision: p, items: items,
		step: s.step(o, rows, s.batch(rows, items, "sparse", true), target),
		sources: []hiddenSource{{
			h: s.normal(rows*units, 1), dh: s.normal(rows*units, 1), weight: s.weight("w0", items, units, 1, o),
		}},
	})
}

func TestAStepThatContinuesFromItsStatisticsGivesTheSameBits(t *testing.T) {
	t.Parallel()
	for _, p := range []kernels.Precision{kernels.Float32, kernels.BFloat16} {
		cases := continuing(p)
		forEveryBackendAt(t, p, func(t *testing.T, open opener) {
			t.Parallel()
			devices := []kernels.Device{open(1)}
			if devices[0].Info().Threads > 0 {
				devices = append(devices, open(2), open(3))
			}
			for n, c := range cases {
				if n < len(cases)-1 && spares(open, n) {
					continue
				}
				anew := *c
				anew.both = true
				continued := anew
				continued.continues = true
				kept := continued
				kept.keeps = true
				want, err := anew.run(devices[0])
				require.NoError(t, err, c.title)
				for n, device := range devices {
					for _, again := range []outputCase{continued, kept} {
						got, err := again.run(device)
						require.NoError(t, err, c.title)
						require.NoError(t, compare(got, want, nil), "%s, %d threads, keeps: %t", c.title, n+1, again.keeps)
					}
				}
			}
		})
	}
}
