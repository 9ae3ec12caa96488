// Package tensor keeps named arrays of numbers in memory outside the Go heap: what a model holds and what a model file
// stores.
package tensor
