// Package program turns a network, the shapes of its data and a device into an ordered list of kernel calls.
//
// Build binds every buffer before the first step. What varies from step to step (step number, batch, learning rate) is in
// the kernels.Step that each call reads, so running a step is walking the list. The same code, run with a memory that only
// counts, makes the plan: what a run will take is known, and compared with what there is, before anything is allocated.
package program
