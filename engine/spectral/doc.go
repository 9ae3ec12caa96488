// Package spectral is the form of models that filter a row by the spectrum of the data, from which they keep a matrix
// and singular vectors. With R = D_u^-1/2 X D^-1/2, D_u and D the numbers of entries of the rows and the items of X,
// C = R'R, and V some right singular vectors of R, a row x is scored by
//
//	y     = out * (in * x) R' diag(rows) R + back * (project * x) V V'
//	score = final * sum over n = 0 .. 4 of (-sharpening)^n / n! y C^n
//
// with * the product by element and in, rows, out, project, back and final stored vectors; a row without entries is
// scored by popularity. The sum is Taylor's polynomial for y exp(-sharpening C). Nothing of it is trained here. The
// definition is a JSON object,
//
//	{"kind": "spectral", "rows": 29858, "items": 40981, "entries": 810128, "rank": 448, "sharpening": 2.5}
//
// One device computes everything, in panels of 64 rows.
package spectral
