// Package program makes and runs lists of operations, one list for each device.
//
// A Computation (a network in training or inference, or a ranking) says with a Builder which operations there are, in order,
// and which memory they work in. Build binds every buffer before the first step. What varies from step to step (step number,
// batch, learning rate) is in the kernels.Step that each operation reads, so running a step is walking the list. The same
// Computation with a Builder that only counts makes the plan: what a run will take is known, and compared with what there is,
// before anything is allocated.
//
// With several devices, a list is what one rank does, collectives among its operations, and the ranks of this process walk
// their lists at the same time. The other ranks of the world may be in other processes. A program may follow another one in the
// same step: a ranking follows the forward list of a network.
package program
