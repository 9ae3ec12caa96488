package program

import (
	"errors"

	"dsstne/kernels"
)

// Settle waits until at most so many steps that Run has begun are under way, and returns the results of those that are done,
// as kernels.Device.Settle. Losses are added in the order of the ranks. The error of the first step that failed comes after
// the results of the steps before it.
func (p *Program) Settle(underWay int) ([]kernels.Result, error) {
	return settleParts(p.ranks, p.parts, underWay)
}

func settleParts(ranks []Rank, parts []*part, underWay int) ([]kernels.Result, error) {
	if len(parts) == 1 {
		results, err := parts[0].Device.Settle(underWay)
		return results, parts[0].place(err)
	}
	// A rank does not know of the failure of another: the next step begins when this one has gone well on all.
	found, failures := make([][]kernels.Result, len(parts)), make([]error, len(parts))
	err := Together(ranks, func(rank int) error {
		found[rank], failures[rank] = parts[rank].Device.Settle(0)
		var bad *kernels.NotFiniteError
		if errors.As(failures[rank], &bad) {
			return nil // it was in step with the others to the end
		}
		return failures[rank]
	})
	if err != nil {
		return nil, err
	}
	// Where ranks differ, a step has failed on one of them, or was begun on some only.
	common, first := len(found[0]), -1
	for rank := range found {
		common = min(common, len(found[rank]))
		if failures[rank] != nil && (first < 0 || len(found[rank]) < len(found[first])) {
			first = rank
		}
	}
	results := found[0][:common]
	for _, more := range found[1:] {
		for i := range results {
			for term, loss := range more[i].Loss {
				results[i].Loss[term] += loss
			}
		}
	}
	if first < 0 {
		return results, nil
	}
	return results, parts[first].place(failures[first])
}

// place turns the row of an error from one of the shard into one of the tensor.
func (p *part) place(err error) error {
	var bad *kernels.NotFiniteError
	if errors.As(err, &bad) && bad.Row >= 0 {
		bad.Row += p.first[bad.Tensor]
	}
	return err
}
