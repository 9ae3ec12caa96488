package predict

import (
	"slices"

	"dsstne/engine/program"
	"dsstne/kernels"
)

// screenings are what a predictor that stays open keeps for its rankings, by output layer.
type screenings struct {
	batches int64 // that were ranked since the weights have changed
	changes int64 // of the model, when they were made
	of      map[int]kernels.Buffer
	parts   []program.Part
}

// Making a screening takes as long as it spares in one to three rankings. A call that opens and closes a predictor
// makes none, unless it ranks more batches.
const batchesBefore = 3

const screeningName = "low-precision weights"

// screener is the device if it has a use for screenings. Ranks that share the items have none.
func (p *Predictor) screener() kernels.Screener {
	if len(p.Ranks) > 1 {
		return nil
	}
	device, _ := p.Ranks[0].Device.(kernels.Screener)
	return device
}

// screening is what ranks a call's batches faster; nil if that does not pay or there is no memory for it.
func (p *Predictor) screening(output int, rows rowList) (kernels.Buffer, error) {
	most := p.batchRows(rows)
	if s := &p.screenings; len(s.of) > 0 && s.changes != p.Model.Changes() {
		p.dropScreenings()
	}
	if p.screeningPart(output, p.program, most).Bytes == 0 {
		return nil, nil
	}
	s := &p.screenings
	s.batches += (rows.count + most - 1) / most
	if found := s.of[output]; found != nil || s.batches <= batchesBefore {
		return found, nil
	}
	return p.makeScreening(output, most)
}

// makeScreening is a new screening, beside a ranking of up to most rows; nil if there is no use or no memory for it.
func (p *Predictor) makeScreening(output int, most int64) (kernels.Buffer, error) {
	part := p.screeningPart(output, p.program, most)
	if part.Bytes == 0 || program.Fits(p.Ranks, p.rankingSpec(most).Limit, append(p.heldParts(), part), nil) != nil {
		return nil, nil
	}
	buffer, err := p.Ranks[0].Device.Alloc(part.Bytes / 4)
	if err != nil {
		return nil, nil // it goes without
	}
	if err := p.screen(output, buffer); err != nil {
		buffer.Free()
		return nil, err
	}
	s := &p.screenings
	if s.of == nil {
		s.of, s.changes = map[int]kernels.Buffer{}, p.Model.Changes()
	}
	part.Held = true
	s.of[output], s.parts = buffer, append(s.parts, part)
	return buffer, nil
}

// screen makes the copy of an output's weights.
func (p *Predictor) screen(output int, to kernels.Buffer) error {
	return p.screener().Screen(&p.program.Shards(output)[0].Scorer, to)
}

// screeningPart is the plan's entry for the screening of an output layer, of no bytes if there is none.
func (p *Predictor) screeningPart(output int, forward *program.Program, rows int64) program.Part {
	part := program.Part{Name: screeningName, Of: p.Ports[output].Name, Device: program.HostName(p.Ranks[0].Device)}
	if device := p.screener(); device != nil {
		scorer := forward.Shards(output)[0].Scorer
		part.Bytes = 4 * device.ScreeningSize(&scorer, rows)
	}
	return part
}

func isScreening(part program.Part) bool { return part.Name == screeningName }

// heldParts is the memory that there is between calls.
func (p *Predictor) heldParts() []program.Part { return slices.Concat(p.held, p.screenings.parts) }

// renewScreenings copies the weights again, if they have changed.
func (p *Predictor) renewScreenings() error {
	s := &p.screenings
	if s.changes == p.Model.Changes() {
		return nil
	}
	for output, screening := range s.of {
		if err := p.screen(output, screening); err != nil {
			return err
		}
	}
	s.changes = p.Model.Changes()
	return nil
}

// dropScreenings frees them, and reports whether there were any.
func (p *Predictor) dropScreenings() bool {
	found := len(p.screenings.of) > 0
	for _, s := range p.screenings.of {
		s.Free()
	}
	p.screenings = screenings{}
	return found
}
