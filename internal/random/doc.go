// Package random makes random numbers that are a function of where they are used, not of what was drawn before.
//
// Philox is the counter-based generator of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3"
// (SC 2011). Uniform, FillUniform and FillNormal key it by the seed and count by stream, step, row and column, so that
// a number can be computed anywhere: on every backend, in any order, by any number of threads, and after a resume.
// Permutation is the same for shuffles: a keyed bijection, of which nothing is stored.
//
// A stream is one of the Stream constants with the index of the layer or tensor in its lower 24 bits. Rows and steps
// are counted modulo 2^32, columns modulo 2^34.
package random
