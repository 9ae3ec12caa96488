package predict

import (
	"slices"

	"dsstne/engine/program"
	"dsstne/internal/fault"
	"dsstne/kernels"
)

// screenings are what a predictor that stays open keeps for its rankings.
type screenings struct {
	batches int64 // that were ranked since the weights have changed
	changes int64 // of the model, when they were made
	of      map[screened]*screening
	parts   []program.Part
}

// screened is what a screening is for: an output layer, or a matrix whose rows are compared.
type screened struct {
	name    string
	isLayer bool
	measure Measure // of a matrix
}

// screening is a copy of a scorer's weights.
type screening struct {
	scorer kernels.Scorer
	copy   kernels.Buffer
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

// screening is what ranks the batches of a call with some rows faster; nil if that does not pay or there is no memory
// for it. most are the rows of its largest batch.
func (p *Predictor) screening(of screened, scorer kernels.Scorer, rows, most int64) (kernels.Buffer, error) {
	if s := &p.screenings; len(s.of) > 0 && s.changes != p.Model.Changes() {
		p.dropScreenings()
	}
	if p.screeningPart(of, &scorer, most).Bytes == 0 {
		return nil, nil
	}
	s := &p.screenings
	s.batches += (rows + most - 1) / most
	if found := s.of[of]; found != nil {
		return found.copy, nil
	}
	if s.batches <= batchesBefore {
		return nil, nil
	}
	return p.makeScreening(of, scorer, most)
}

// makeScreening is a new screening, beside a ranking of up to most rows; nil if there is no use or no memory for it.
func (p *Predictor) makeScreening(of screened, scorer kernels.Scorer, most int64) (kernels.Buffer, error) {
	part := p.screeningPart(of, &scorer, most)
	if part.Bytes == 0 || program.Fits(p.Ranks, p.rankingSpec(most).Limit, append(p.heldParts(), part), nil) != nil {
		return nil, nil
	}
	buffer, err := p.Ranks[0].Device.Alloc(part.Bytes / 4)
	if err != nil {
		return nil, nil // it goes without
	}
	if err := p.screener().Screen(&scorer, buffer); err != nil {
		buffer.Free()
		return nil, err
	}
	s := &p.screenings
	if s.of == nil {
		s.of, s.changes = map[screened]*screening{}, p.Model.Changes()
	}
	part.Held = true
	s.of[of], s.parts = &screening{scorer, buffer}, append(s.parts, part)
	return buffer, nil
}

// layerScreening is what the screening of an output layer is for, and how the layer scores.
func (p *Predictor) layerScreening(output int, forward *program.Program) (screened, kernels.Scorer) {
	return screened{name: p.Ports[output].Name, isLayer: true}, forward.Shards(output)[0].Scorer
}

// screeningPart is the plan's entry for a screening, of no bytes if there is none.
func (p *Predictor) screeningPart(of screened, scorer *kernels.Scorer, rows int64) program.Part {
	part := program.Part{Name: screeningName, Of: of.name, Device: program.HostName(p.Ranks[0].Device)}
	if device := p.screener(); device != nil {
		part.Bytes = 4 * device.ScreeningSize(scorer, rows)
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
	for _, of := range s.of {
		if err := p.screener().Screen(&of.scorer, of.copy); err != nil {
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
		s.copy.Free()
	}
	p.screenings = screenings{}
	return found
}

// buildRanking makes the program of a ranking, without screenings if memory is too small for both.
func (p *Predictor) buildRanking(r *ranking, spec program.Spec) (*program.Program, error) {
	list, err := r.program(spec)
	if fault.KindOf(err) == fault.OutOfMemory && p.dropScreenings() {
		r.screening, spec.Held = nil, slices.DeleteFunc(slices.Clone(spec.Held), isScreening)
		list, err = r.program(spec)
	}
	return list, err
}
