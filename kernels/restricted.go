package kernels

import "fmt"

// RestrictedInverse finds, for each item j of a block, what the inverse P of a symmetric positive definite matrix A would
// be if A had only the items N(j) that are listed for j, and j (Steck, "Markov Random Fields for Collaborative
// Filtering", 2019). A has ones on the diagonal, and beside it what the lists have: A_ab is in the list of a or of b, or
// it is 0. A part that is not positive definite is taken with everything beside the diagonal halved until it is.
//
//	Weights[j] = -Factors[i] P_ij / P_jj for the items i of N(j); 0 behind them
//
// At step n the block is items (n - 1) Block to n Block.
type RestrictedInverse struct {
	Items, Neighbors, Block int64
	IDs                     Buffer // int32 [Items, Neighbors]: N(j), ascending, -1 behind the last
	Values                  Buffer // [Items, Neighbors]: A_ab of item a and b of IDs[a]
	Factors                 Buffer // [Items]
	Weights                 Buffer // [Items, Neighbors]
	Workspace               Buffer
}

// Range is the range of items of a step.
func (o *RestrictedInverse) Range(s *Step) (first, end int64) {
	return min((s.Number-1)*o.Block, o.Items), min(s.Number*o.Block, o.Items)
}

func (o *RestrictedInverse) Do(r Rank, s *Step) error {
	return r.Device.(Solver).RestrictedInverse(o, s)
}
func (o *RestrictedInverse) String() string {
	return fmt.Sprintf("RestrictedInverse: %d equations for each of %d items", o.Neighbors+1, o.Block)
}
