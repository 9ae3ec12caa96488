// Package kernels says what a compute backend is: devices, buffers, and every op with its formula.
//
// A backend is a package below this one that registers itself (Register) when it is imported. The engine binds ops
// to buffers once, before the first step, and then walks its list of bound ops; what changes from step to step is in
// the Step that each op receives. The backend "reference" (float64 loops) is the oracle: every other backend must agree
// with it on the conformance suite of tests/conformance.
//
// Sizes: B rows of the batch, I items, K hidden units, nnz stored entries. A weight that touches items is W[I, K]; the
// weight of a dense layer is W[units, inputs]. Matrices are row-major and dense (row stride = columns).
//
// Determinism: an op gives the same bits for any number of threads. Sums run in an order that follows from shapes and
// the device kind only.
package kernels
