package predict

import (
	"encoding/json"

	"dsstne/engine/program"
)

// Plan is the memory and the operations of recommending k items of an output layer (empty: the only one), as JSON. It
// allocates nothing. For inputs without a dataset it counts batches of as many rows as options allow, without
// entries.
func (p *Predictor) Plan(layer string, k int64) ([]byte, error) {
	output, err := p.output(layer)
	if err != nil {
		return nil, err
	}
	rows := p.batchSize
	if p.Rows() >= 0 {
		rows = max(1, min(rows, p.Rows()))
	}
	forward, err := program.Draft(p.Draft(rows, p.limit, nil, false))
	if err != nil {
		return nil, err
	}
	r, ranking := p.ranking(output), p.rankingSpec(rows)
	r.k, ranking.Held, ranking.Follows = k, forward.Plan.Parts, forward
	if err := r.specify(&ranking); err != nil {
		return nil, err
	}
	plan, err := program.Describe(ranking)
	if err != nil {
		return nil, err
	}
	return json.Marshal(plan)
}
