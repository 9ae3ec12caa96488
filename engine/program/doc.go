// Package program turns a network, the shapes of its data and devices into an ordered list of kernel calls for each device.
// With several, a list is what one rank does, collectives among its calls, and the ranks walk their lists at the same time.
//
// Build binds every buffer before the first step. What varies from step to step (step number, batch, learning rate) is in
// the kernels.Step that each call reads, so running a step is walking the list. The same code, run with a memory that only
// counts, makes the plan: what a run will take is known, and compared with what there is, before anything is allocated. A
// Ranking is a list that goes on where a program's forward list ends, made, planned and run in the same way.
package program
