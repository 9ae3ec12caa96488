// Package options reads the options of the C interface: JSON objects, in which an unknown key, a wrong type or a number
// out of range is an error that names the path and the nearest valid word.
package options
