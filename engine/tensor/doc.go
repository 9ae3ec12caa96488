// Package tensor keeps named arrays of numbers outside the Go heap, for models and model files.
package tensor
