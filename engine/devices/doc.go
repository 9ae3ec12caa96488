// Package devices reads the words that name devices, and opens them: a Placement becomes ranks that are joined to a
// group.
//
// A placement of accelerators that is no longer used stays open for the next use, with the copies of a model's weights
// that its devices have for reading. Devices that nobody has named are compared with the host before their first use
// (trial.go).
package devices
