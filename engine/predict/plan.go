package predict

import (
	"encoding/json"

	"dsstne/engine/program"
	"dsstne/internal/fault"
)

// Plan is the memory and the operations of recommending k items of an output layer (empty: the only one), as JSON. It
// allocates nothing. For inputs without a dataset it counts batches of as many rows as options allow, without
// entries.
func (p *Predictor) Plan(layer string, k int64) ([]byte, error) {
	output, err := p.output(layer)
	if err != nil {
		return nil, err
	}
	if items := p.Ports[output].Size; k < 1 || k > items {
		return nil, fault.New(fault.InvalidArgument, "k is %d; it must be from 1 to %d, the number of items", k, items)
	}
	rows := p.batchSize
	if p.Rows() >= 0 {
		rows = max(1, min(rows, p.Rows()))
	}
	spec, err := p.Draft(rows, p.limit)
	if err != nil {
		return nil, err
	}
	forward, err := program.Draft(spec)
	if err != nil {
		return nil, err
	}
	r := &ranking{shards: forward.Shards(output), k: k, rows: rows, device: p.Ranks[0].Device}
	ranking := p.rankingSpec(rows)
	ranking.Held, ranking.Follows, ranking.Computation = forward.Plan.Parts, forward, r
	plan, err := program.Describe(ranking)
	if err != nil {
		return nil, err
	}
	return json.Marshal(plan)
}
