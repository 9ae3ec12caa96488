// Package factors is the form of models that score items by factors of least squares: score(x) = w H' + b, where the
// rows of H are the factors of the items, and w and b are found for a row x by one solve (kernels.LeastSquares). The
// models come from package solve. The definition is a JSON object,
//
//	{"kind": "factors", "items": 17632, "factors": 128, "values": "weights", "alpha": 1, "unobserved_weight": 0.1,
//	 "regularization": 0.003, "nu": 1}
//
// With the values "ratings", which have biases, alpha and unobserved_weight are not used.
package factors
