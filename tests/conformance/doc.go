// Package conformance says when a backend of package kernels is right. It holds only tests: every op of every registered
// backend is compared with the backend "reference", and "reference" itself with finite differences.
//
// A case is an op with shapes, options and data that follow from a fixed seed (opCase). One list of cases per op serves
// three claims:
//
//   - agreement: every buffer the op may write, and some rows behind the batch that it must not, equals the reference
//     within a bound that is computed for each number from the data: the rounding errors of a float32 computation in any
//     order of summation (rounding_test.go), carried through loss and optimizer;
//   - determinism: 1, 2, 3 and 8 threads give the same bits;
//   - alertness: a backend that is wrong by a ten-thousandth in one number of one output is caught (broken_test.go).
//
// With products of bfloat16 (bfloat16_test.go, exact_test.go) the bounds are wide, and two more claims are tested: numbers of
// few bits give the bits of float32, and others are rounded as package kernels says.
//
// Scores, top-k, its merge and ranking metrics have no bounds: they are defined to the bit.
//
// To put a backend under test add its import to backends_test.go. A backend that cannot be opened on the machine at hand is
// skipped with its reason.
package conformance
