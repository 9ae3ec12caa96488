// Package ridge is the form of linear models that keep the data instead of weights between items. A row x is scored by
// the solution of a ridge system,
//
//	score(x)_j = out_j [(Y'Y + diag(ridge))^-1 (in * x)]_j + own_j x_j
//
// with in * x the product by element, see kernels.Solve; a row without entries is scored by popularity. Nothing of it
// is trained here. The definition is a JSON object,
//
//	{"kind": "ridge", "rows": 29858, "items": 40981, "entries": 810128, "tolerance": 1e-3, "iterations": 20}
//
// One device solves the systems, since all items take part in each.
package ridge
