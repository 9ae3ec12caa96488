// Package csr reads sparse matrices in compressed row form out of memory that belongs to somebody else, or a file.
//
// A Source is where rows come from, and the only thing about data that the rest of the engine knows. Matrix and Blocks
// are sources that hold rows, in one piece or in several; an Attested is Blocks with a record of what it holds. A Dense
// stores every cell, and its entries are those that are not zero. Slice and Select choose rows of another source; a
// Product computes them from two.
//
// A Matrix is a view of the caller's arrays: row offsets and column indices of 32 or 64 bits, chosen independently, and
// values that are float32, float64 or absent (every stored value is 1). Nothing is copied. With an InFile the arrays
// are in a file instead, of which rows are read when they are needed. Validate looks at everything once, in parallel,
// and says in words which entry is wrong.
//
// The owner may change that memory while it is in use. So nothing that was found by Validate is relied upon for safety:
// every read takes a private copy first and checks the copy, and what fails is fault.InvalidData. If the memory is a
// mapped file, a page that the system cannot read is fault.InvalidData, too.
//
// AppendRow gives one row in canonical form: ascending columns, duplicates summed, zeros dropped, float32 values. A
// Reader makes batches of such rows, scaled and denoised, by row and by item, in slices that the next batch uses again.
package csr
