// Package program makes and runs lists of operations, one list for each device.
//
//   - A Computation (a network in training or inference, or a ranking) adds operations, in order, to a Builder, which
//     hands out the memory they work in. The Builder of a dry run only counts, and gives the Plan before anything is
//     allocated.
//   - A Spec is what a Program is made from: a Computation, devices, a model's tensors, a limit. Build binds every
//     buffer before the first step.
//   - A Program has a part for each rank of this process: its lists, batches and memory. A Team lets the ranks walk
//     their lists at the same time. Other ranks of the world may be in other processes.
//   - What varies from step to step (step number, batch, learning rate) is in the kernels.Step that each operation
//     reads.
//
// A program may follow another one in the same step: a ranking follows the forward list of a network.
package program
