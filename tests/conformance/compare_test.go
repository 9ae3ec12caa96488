package conformance

import (
	"fmt"
	"math"
	"os"

	"dsstne/kernels"
)

// opCase is one op with its data.
type opCase interface {
	name() string
	// run places fresh data on a device, runs the op and returns what it wrote.
	run(d kernels.Device) (result, error)
	// bounds gives, by field, how far each number may be from the reference's; a field that is absent or shorter must be
	// equal bit for bit in the rest.
	bounds() map[string][]float64
}

// agree runs a case on two devices and reports the first number that is too far off.
func agree(c opCase, d, reference kernels.Device) error {
	got, err := c.run(d)
	if err != nil {
		return fmt.Errorf("%s: %w", c.name(), err)
	}
	want, err := byReference(c, reference)
	if err != nil {
		return fmt.Errorf("%s: reference: %w", c.name(), err)
	}
	if compare(got, want, nil) == nil {
		return nil
	}
	if err := compare(got, want, c.bounds()); err != nil {
		return fmt.Errorf("%s: %w", c.name(), err)
	}
	return nil
}

// sparing reports whether cases are left out where an emulated driver would take long: not with DSSTNE_TEST_WHOLE, which
// `make test-sanitize` and `make test-home` set.
func sparing() bool {
	return os.Getenv("DSSTNE_TEST_DRIVER") == "emulator" && os.Getenv("DSSTNE_TEST_WHOLE") == ""
}

// spares reports whether to leave a case out: of a device without threads to choose (the reference, an emulated one), seven in eight
// of those whose op is held against the reference anyway.
func spares(open opener, n int) bool { return n%8 != 0 && sparing() && !hasThreads(open(1)) }

// omits reports whether an emulated device is not compared with the reference in a case: three in four, and with TensorFloat32,
// whose emulated products are those of bfloat16 but for the rounding of their factors, seven in eight.
func omits(device kernels.Device, p kernels.Precision, n int) bool {
	return slow(device) && (n%4 != 0 || p == kernels.TensorFloat32 && n%8 != 0)
}

// slow reports whether a device is emulated, in tests that leave cases of such a device out.
func slow(device kernels.Device) bool {
	_, separate := device.(kernels.Separate)
	return separate && sparing()
}

// some are the cases to try of what the suite tries in other ways, too: of an emulated device an eighth, which turn chooses.
func some[Case any](d kernels.Device, cases []Case, turn int) (list []Case) {
	for n, c := range cases {
		if n%8 == turn || !slow(d) {
			list = append(list, c)
		}
	}
	return list
}

// threadsOf are the numbers of threads to try on a device: one, where it has none to choose.
func threadsOf(open opener) []int {
	if hasThreads(open(1)) {
		return []int{1, 3}
	}
	return []int{1}
}

// hasThreads reports whether a device computes with the number of threads that it is opened with.
func hasThreads(device kernels.Device) bool {
	_, has := device.(kernels.Threaded)
	return has
}

// sameBits runs a case with several numbers of threads, or twice on a device that has no such number.
func sameBits(c opCase, open opener) error {
	first := open(1)
	want, err := c.run(first)
	if err != nil {
		return fmt.Errorf("%s: %w", c.name(), err)
	}
	others := []struct{ threads, inUse int }{{3, 3}, {8, 2}}
	if !hasThreads(first) {
		others = others[:1]
	}
	for _, other := range others {
		device := open(other.threads)
		if d, is := device.(kernels.Threaded); is {
			d.UseThreads(other.inUse)
		}
		got, err := c.run(device)
		if err != nil {
			return fmt.Errorf("%s with %d of %d threads: %w", c.name(), other.inUse, other.threads, err)
		}
		if err := compare(got, want, nil); err != nil {
			return fmt.Errorf("%s with %d of %d threads instead of 1: %w", c.name(), other.inUse, other.threads, err)
		}
	}
	return nil
}

func compare(got, want result, bounds map[string][]float64) error {
	if len(got) != len(want) {
		return fmt.Errorf("%d outputs, want %d", len(got), len(want))
	}
	known := map[string]bool{}
	for n, w := range want {
		g := got[n]
		known[w.name] = true
		if g.name != w.name || len(g.data) != len(w.data) {
			return fmt.Errorf("output %s[%d], want %s[%d]", g.name, len(g.data), w.name, len(w.data))
		}
		bound := bounds[w.name]
		for i, x := range w.data {
			if math.Float64bits(g.data[i]) == math.Float64bits(x) {
				continue
			}
			if i >= len(bound) {
				return fmt.Errorf("%s[%d] = %g, want exactly %g", w.name, i, g.data[i], x)
			}
			if !(math.Abs(g.data[i]-x) <= bound[i]) {
				return fmt.Errorf("%s[%d] = %g, want %g +- %.2g (off by %.2g)",
					w.name, i, g.data[i], x, bound[i], math.Abs(g.data[i]-x))
			}
		}
	}
	for name := range bounds {
		if !known[name] {
			return fmt.Errorf("a bound for %s, which is no output", name)
		}
	}
	return nil
}
