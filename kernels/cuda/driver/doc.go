// Package driver is CUDA's driver interface as the rest of the backend sees it, and the only package that knows of
// gorgonia.org/cu.
//
// The library must load on machines without a driver, so nothing links to libcuda. slots.S defines every driver function
// that is called, by cu or by this package, as a jump through a slot. Until Load has found libcuda.so.1, the slots answer
// "no device", but for cuInit, which answers "success": cu calls it when the program starts, and ends the process
// if it fails. libcuda.a beside this file is empty; it satisfies the -lcuda of cu's linker flags.
//
// What acts on a context (memory, modules, streams, launches) does so on the one that is current on the calling thread:
// between Context.Enter and the function it returns, which leave the caller's own context as it was.
//
// symbols.h lists the functions; `go generate` makes it anew from what the compiled packages ask for.
package driver

//go:generate python3 ../../../scripts/list_driver_symbols.py symbols.h
