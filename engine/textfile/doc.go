// Package textfile reads the text data of Amazon's DSSTNE, and its index files.
//
// A line of the data is a sample: its label, a TAB, and its features between colons, each a label or a label, a comma
// and a value. ReadData numbers the labels in the order in which they first appear and makes a Data of the lines, a
// matrix in compressed row form. An index file has a label, a TAB and its number on each line; ReadIndex and WriteIndex
// are for those.
//
// Threads share a text in blocks of whole lines (source). Each parses its block by itself (block), with numbers for
// labels that only this block knows. Then the blocks take turns, in the order of the text: the builder gives their
// labels the numbers of the whole text and appends their rows. The result is therefore that of one thread.
package textfile
