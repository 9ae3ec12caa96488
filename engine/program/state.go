package program

import (
	"slices"

	"dsstne/kernels"
)

// State describes a state of the optimizer: one number for each of a weight.
type State struct {
	Weight        string
	Index         int   // among those of the optimizer
	Rows, Columns int64 // of the whole weight
}

// held is what a rank has of a State: the rows from first on.
type held struct {
	State
	first  int64
	buffer kernels.Buffer
}

// States lists the states of the optimizer.
func (p *Program) States() []State {
	var list []State
	for _, h := range p.parts[0].states {
		list = append(list, h.State)
	}
	return list
}

// StateBuffer is the memory of a state where one rank has all of it in the host's memory, else nil.
func (p *Program) StateBuffer(s State) *kernels.HostBuffer {
	h := p.parts[0].held(s)
	if len(p.parts) > 1 {
		return nil
	}
	buffer, _ := h.buffer.(*kernels.HostBuffer)
	return buffer
}

// ReadState copies a state from the ranks. No step is under way.
func (p *Program) ReadState(s State, to []float32) error {
	for _, part := range p.parts {
		h := part.held(s)
		if err := part.Device.Read(h.buffer, 0, to[h.first*s.Columns:][:h.buffer.Len()]); err != nil {
			return err
		}
		if h.buffer.Len() == s.Rows*s.Columns {
			break // the others have the same
		}
	}
	return nil
}

// WriteState copies a state to the ranks.
func (p *Program) WriteState(s State, from []float32) error {
	for _, part := range p.parts {
		h := part.held(s)
		if err := part.Device.Write(h.buffer, 0, from[h.first*s.Columns:][:h.buffer.Len()]); err != nil {
			return err
		}
	}
	return nil
}

// SetLast says that the last update of every row was that of a step.
func (p *Program) SetLast(step int64) error {
	for _, part := range p.parts {
		for _, last := range part.last {
			steps := slices.Repeat([]int32{int32(step)}, int(last.Len()))
			if err := part.Device.Write(last, 0, kernels.Bits(steps)); err != nil {
				return err
			}
		}
	}
	return nil
}

// held finds a rank's part of a state.
func (p *part) held(s State) *held {
	return &p.states[slices.IndexFunc(p.states, func(h held) bool { return h.State == s })]
}
