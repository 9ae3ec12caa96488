// Package network is the definition of a network: its layers, how they are connected, and its losses.
//
// Parse reads a definition (docs/network.md), fills in the defaults and checks it; JSON writes the canonical and
// complete definition, of which Parse gives the same Network. Layers whose size is "auto" get it from the data with
// WithSizes, after which Tensors lists the trainable matrices that the network is made of, in the order of the model
// file.
//
// A Network is a value that is never changed once it is made. Layers refer to each other by index, always to earlier
// ones, so a pass over Layers in order computes the network.
package network
