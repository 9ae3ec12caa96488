// Package reference is the backend "reference": every op as plain loops in float64, the oracle that the other backends
// are compared with. It is meant to be read beside the formulas of package kernels, not to be fast: it ignores
// Options.Threads, needs no workspace, and rounds to float32 once, when an op stores its result.
//
// An update rule is computed in float64 from the stored float32 weight and state and the unrounded gradient; weight and
// state are rounded when they are stored, after every single step, so that a replay of n steps gives the same bits as n
// replays of one.
package reference
