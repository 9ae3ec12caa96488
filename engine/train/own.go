package train

import (
	"path"
	"slices"
	"strings"

	"dsstne/engine/devices"
	"dsstne/engine/program"
	"dsstne/internal/fault"
)

// privateCopy begins the description of a private copy of a weight in the plan; the name of the weight follows.
const privateCopy = "a private copy of "

// privateCopies are the plan's parts for weights that the model shares with copies of it, and for states that the
// trainer shares with forks: the next run makes private ones before its first step.
func (t *Trainer) privateCopies() []program.Part {
	var parts []program.Part
	device := program.HostName(t.Ranks[0].Device)
	for _, shared := range t.Model.Shared() {
		if t.locked[shared.Name] {
			continue
		}
		parts = append(parts, program.Part{
			Name: "weights", Of: privateCopy + shared.Name, Bytes: shared.Size(), Device: device,
		})
	}
	add := func(weight string, bytes int64) {
		parts = append(parts, program.Part{
			Name: "optimizer state", Of: privateCopy + "that of " + weight, Bytes: bytes, Device: device,
		})
	}
	for _, state := range t.sharedStates() {
		add(state.Weight, 4*state.Rows*state.Columns)
	}
	for _, waiting := range t.waiting {
		if t.adopts() && waiting.IsShared() && t.program == nil {
			add(path.Base(waiting.Name), waiting.Size())
		}
	}
	return parts
}

// sharedStates are the states of the optimizer whose memory a fork or a checkpoint has too.
func (t *Trainer) sharedStates() []program.State {
	if t.program == nil {
		return nil
	}
	return slices.DeleteFunc(t.program.States(), func(s program.State) bool {
		buffer := t.program.StateBuffer(s)
		return buffer == nil || !buffer.IsShared()
	})
}

// own gives the model private copies of the weights that it shares, if they fit beside the rest of the plan: copies of
// the model may have been made since the program was built. The buffers that the program is bound to stay the same.
func (t *Trainer) own() error {
	parts := t.privateCopies()
	if len(parts) == 0 {
		return nil
	}
	for _, part := range t.program.Plan.Parts {
		if !isPrivateCopy(part) { // those that were planned then have been made, or are among those of now
			part.Held = true
			parts = append(parts, part)
		}
	}
	err := program.Fits(t.Ranks, t.options.Placement.Limit, parts, devices.MakeRoom)
	if err == nil {
		err = t.Model.Own(t.locked)
	}
	for _, state := range t.sharedStates() {
		if err == nil {
			err = t.program.StateBuffer(state).Own()
		}
	}
	return explainSharing(err, parts)
}

func isPrivateCopy(part program.Part) bool { return strings.HasPrefix(part.Of, privateCopy) }

// explainSharing adds what can be done about private copies of weights to an error that says that memory was refused.
func explainSharing(err error, parts []program.Part) error {
	if fault.KindOf(err) != fault.OutOfMemory || !slices.ContainsFunc(parts, isPrivateCopy) {
		return err
	}
	const remedy = ". The weights are shared with a copy of the model or a fork, and training needs private ones: close " +
		"the other if nobody needs it"
	return &fault.Error{Kind: fault.OutOfMemory, Cause: err, Message: err.Error() + remedy}
}
