package program

import (
	"cmp"
	"errors"

	"dsstne/kernels"
)

// Settle waits until at most underWay of the steps that Run has begun are under way, and returns the results of the
// steps that are done, as kernels.Device.Settle. Losses are added in the order of the ranks. The error of the first
// step that failed comes after the results of the steps before it; the steps behind it have then ended, on all ranks.
func (p *Program) Settle(underWay int) ([]kernels.Result, error) {
	broken := p.broken
	p.broken = nil
	if len(p.parts) == 1 {
		results, err := p.parts[0].Device.Settle(underWay)
		return results, p.parts[0].locate(err)
	}
	s := outcome{p.team, p.parts, make([][]kernels.Result, len(p.parts)), make([]error, len(p.parts))}
	err := s.wait(underWay)
	if err != nil || broken != nil || s.first() >= 0 {
		err = cmp.Or(err, s.wait(0))
	}
	results := s.common()
	cause := s.first()
	switch {
	case err != nil:
	case cause >= 0 && !errors.Is(s.failures[cause], kernels.ErrAborted):
		err = p.parts[cause].locate(s.failures[cause])
	case broken != nil:
		err = broken
	case cause >= 0:
		err = s.failures[cause]
	}
	return results, err
}

// outcome is what the ranks have reported of their steps.
type outcome struct {
	team     *Team
	parts    []*part
	found    [][]kernels.Result // by rank
	failures []error            // of a step, by rank
}

// wait asks every rank, and records the error of a step. It returns that of a device, whose steps have an unknown
// outcome.
func (s *outcome) wait(underWay int) error {
	ask := func(rank int) error {
		results, err := s.parts[rank].Device.Settle(underWay)
		s.found[rank] = append(s.found[rank], results...)
		var bad *kernels.NotFiniteError
		if errors.As(err, &bad) || errors.Is(err, kernels.ErrAborted) {
			if s.failures[rank] == nil {
				s.failures[rank] = err
			}
			return nil
		}
		return err
	}
	if !kernels.ReachesHost(s.parts[0].Device) {
		return s.team.Together(ask)
	}
	var err error
	for rank := range s.parts { // nobody waits
		err = cmp.Or(err, ask(rank))
	}
	return err
}

// first is the rank whose step failed first, -1 if none has. In one step, those that failed by themselves come first.
func (s *outcome) first() int {
	first := -1
	for rank, err := range s.failures {
		if err == nil {
			continue
		}
		if first >= 0 {
			before, follows := len(s.found[rank])-len(s.found[first]), errors.Is(err, kernels.ErrAborted)
			if before > 0 || before == 0 && (follows || !errors.Is(s.failures[first], kernels.ErrAborted)) {
				continue
			}
		}
		first = rank
	}
	return first
}

// common are the results of the steps that all ranks have done.
func (s *outcome) common() []kernels.Result {
	count := len(s.found[0])
	for _, list := range s.found[1:] {
		count = min(count, len(list))
	}
	results := s.found[0][:count]
	for _, more := range s.found[1:] {
		for i := range results {
			for term, loss := range more[i].Loss {
				results[i].Loss[term] += loss
			}
		}
	}
	return results
}
