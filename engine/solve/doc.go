// Package solve makes models of a dataset by other ways than training. A Method is one such way: a computation in
// steps, which writes a list of operations as a network does (package program), and a model that its results are put
// into at the end.
//
// A Solver is opened with a method, bound to a dataset, and run until it is done. After a run that is cancelled or
// reaches its limit of time, another one goes on. Then the solver gives its model, once.
package solve
