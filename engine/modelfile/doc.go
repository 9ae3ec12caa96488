// Package modelfile reads and writes model files: tensors by name, and a few strings beside them.
//
// The file is laid out as safetensors (docs/model-file.md), so any reader of that format can open it. SHA-256 digests
// cover every byte: a damaged file is fault.CorruptFile with the place of the damage. Saving replaces the old file only
// when the new one is on the disk. What the tensors mean, and whether they fit the network, the package does not know.
package modelfile
