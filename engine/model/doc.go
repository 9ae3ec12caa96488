// Package model keeps the weights of a network by name, and reads and writes model files.
//
// A Model is a network definition, its Tensors, a step count and, if given, the names of the items. Create makes one with
// fresh weights, Load reads one from a file, Save writes one. The memory of tensors lies outside the Go heap and is given
// back by Close.
//
// A model is shared: trainers and predictors announce themselves with Use for as long as they hold on to its memory, and
// take TryWrite (one writer) or TryRead (many readers) while they work on it. Neither ever waits: whoever comes second is
// told fault.Busy. While a trainer holds TryWrite, rows of a weight may lag behind; it brings them up to date before it lets
// go.
//
// The file is laid out as safetensors (docs/model-file.md): any reader of that format can open it. On top of it stand
// SHA-256 digests over every byte. A damaged file is fault.CorruptFile with the place of the damage, and saving replaces
// the old file only when the new one is on the disk.
package model
