// Package model keeps a model: how it scores (a Form, such as a network) and its tensors by name.
//
// A Model is a Form, its Tensors, a step count and, if given, the names of the items. Create makes one with fresh
// weights, Load reads one from a file, Save writes one. The memory of tensors lies outside the Go heap and is given
// back by Close. Copy makes a model that shares it until one of the two is changed.
//
// A model is shared: trainers and predictors announce themselves with Use for as long as they hold on to its memory,
// and take TryWrite (one writer) or TryRead (many readers) while they work on it. Neither waits: a call that conflicts
// returns fault.Busy. While a trainer holds TryWrite, rows of a weight may lag behind, but not afterwards.
package model
