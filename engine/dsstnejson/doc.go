// Package dsstnejson reads the network files of Amazon's DSSTNE, config.json.
//
// Read reads a definition in DSSTNE's dialect or in that of package network, which it tells apart by their keys. Of
// DSSTNE's it writes the definition in our dialect, of which network.Parse makes the Network, and keeps what the file
// says about training and data. A key of DSSTNE either has an effect here or is an error with the name of its layer;
// docs/dsstne-keys.md lists them.
//
// The files follow the steps. keys.go has the keys, dialect.go tells the dialects apart, read.go reads the file and
// layer.go a layer, graph.go connects the layers. The tables of what corresponds to what are in activation.go, loss.go
// and initializer.go, and that of what the engine lacks is in missing.go.
//
// Where DSSTNE's code contradicts its documentation or the formula that it names, such as the range of Xavier's
// weights, the translation gives what was meant.
package dsstnejson
