package predict

import (
	"slices"

	"dsstne/engine/program"
	"dsstne/kernels"
)

// screenings are what a predictor that stays open keeps for rankings of few rows, by output layer.
type screenings struct {
	batches int64 // of few rows that were ranked since the weights have changed
	changes int64 // of the model, when the first was made
	of      map[int]*kernels.Screening
	parts   []program.Part
}

// Making a screening takes as long as it spares in about three rankings of one row; a call that opens and closes a
// predictor makes none.
const batchesBefore = 3

const screeningName = "8-bit weights"

// screener is the device if it has a use for screenings. Ranks that share the items have none.
func (p *Predictor) screener() kernels.Screener {
	if len(p.Ranks) > 1 {
		return nil
	}
	device, _ := p.Ranks[0].Device.(kernels.Screener)
	return device
}

// screening is what ranks a call's batches faster; nil if that does not pay or there is no memory for it.
func (p *Predictor) screening(output int, rows rowList) *kernels.Screening {
	device, most := p.screener(), p.batchRows(rows)
	if s := &p.screenings; len(s.of) > 0 && s.changes != p.Model.Changes() {
		p.dropScreenings()
	}
	if device == nil || most > kernels.ScreenedRows {
		return nil
	}
	s := &p.screenings
	s.batches += (rows.count + most - 1) / most
	if found := s.of[output]; found != nil || s.batches <= batchesBefore {
		return found
	}
	return p.makeScreening(output, most)
}

// makeScreening is a new screening, beside a ranking of up to most rows; nil if there is no use or no memory for it.
func (p *Predictor) makeScreening(output int, most int64) *kernels.Screening {
	part := p.screeningPart(output, p.program)
	if part.Bytes == 0 || program.Fits(p.Ranks, p.rankingSpec(most).Limit, append(p.heldParts(), part), nil) != nil {
		return nil
	}
	buffer, err := p.Ranks[0].Device.Alloc(part.Bytes / 4)
	if err != nil { // it goes without
		return nil
	}
	s := &p.screenings
	if s.of == nil {
		s.of, s.changes = map[int]*kernels.Screening{}, p.Model.Changes()
	}
	part.Held = true
	s.of[output], s.parts = &kernels.Screening{Weights: buffer}, append(s.parts, part)
	return s.of[output]
}

// screeningPart is the plan's entry for the screening of an output layer, of no bytes if there is none.
func (p *Predictor) screeningPart(output int, forward *program.Program) program.Part {
	part := program.Part{Name: screeningName, Of: p.Ports[output].Name, Device: program.HostName(p.Ranks[0].Device)}
	if device := p.screener(); device != nil {
		scorer := forward.Shards(output)[0].Scorer
		part.Bytes = 4 * device.ScreeningSize(&scorer)
	}
	return part
}

func isScreening(part program.Part) bool { return part.Name == screeningName }

// heldParts is the memory that there is between calls.
func (p *Predictor) heldParts() []program.Part { return slices.Concat(p.held, p.screenings.parts) }

// renewScreenings makes the next ranking copy the weights again, if they have changed.
func (p *Predictor) renewScreenings() {
	if s := &p.screenings; s.changes != p.Model.Changes() {
		s.changes = p.Model.Changes()
		for _, screening := range s.of {
			screening.Current = false
		}
	}
}

// dropScreenings frees them, and reports whether there were any.
func (p *Predictor) dropScreenings() bool {
	found := len(p.screenings.of) > 0
	for _, s := range p.screenings.of {
		s.Weights.Free()
	}
	p.screenings = screenings{}
	return found
}
