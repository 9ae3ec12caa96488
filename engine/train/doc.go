// Package train improves a model: it owns the loop over epochs and steps, the order of examples, schedules, progress
// and cancelling. The computation of a step is a program (package program).
//
// A Trainer is opened on a model, bound to one dataset per input and output layer, and run, as often as wanted. After a
// run, even one that was cancelled or stopped by a number that is not finite, the model is whole and usable.
package train
