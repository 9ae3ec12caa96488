// Package vectors is the form of collections of vectors that are searched for nearest neighbours: the score of an item
// is the dot product of its vector with the query, or their cosine.
//
// The vectors are a tensor that the caller sets; nothing of it is trained here. The definition is a JSON object,
//
//	{"kind": "vectors", "items": 1000000, "size": 128, "metric": "cosine"}
package vectors
