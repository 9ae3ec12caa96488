// Package itemweights is the form of models that score by a matrix of weights between items: score(x) = x W + b,
// where the rows of W are the items that a user has and the columns those that are scored.
//
// W is dense or in compressed row form (CSR), or absent, and then the bias alone scores. Nothing of it is trained here:
// the caller sets the tensors. The definition is a JSON object,
//
//	{"kind": "item_weights", "items": 17632, "weight": "csr", "entries": 1204552, "bias": false}
//
// where entries, the number of stored entries, is given for "csr" only.
package itemweights
