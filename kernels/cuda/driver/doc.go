// Package driver is CUDA's driver interface as the rest of the backend sees it, and the only package that knows of
// gorgonia.org/cu.
//
// The library must load on machines without a driver; therefore nothing links to libcuda. slots.S defines every driver
// function that is called, by cu or by this package, as a jump through a slot. Until Load has found libcuda.so.1, the
// slots answer "no device"; only cuInit answers "success", since cu calls it when the program starts and ends the
// process if it fails. libcuda.a beside this file is empty; it satisfies the -lcuda of cu's linker flags.
//
// Functions that act on a context (memory, modules, streams, launches) use the current context of the calling thread.
// They are called between Context.Enter and the function that it returns, which restores the caller's own context.
//
// symbols.h lists the functions; `go generate` makes it from the symbols that the compiled packages ask for.
package driver

//go:generate python3 ../../../scripts/list_driver_symbols.py symbols.h
