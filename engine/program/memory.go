package program

import (
	"fmt"
	"sort"
	"strings"

	"dsstne/engine/fault"
	"dsstne/kernels"
)

// Part is one entry of the memory plan.
type Part struct {
	Name   string `json:"name"`         // what kind of thing: "weights", "optimizer state", "workspace"
	Of     string `json:"of,omitempty"` // whose: a tensor, layer or dataset
	Bytes  int64  `json:"bytes"`
	Device string `json:"device"`
	Held   bool   `json:"held"` // exists already: weights and data
}

// Plan is what a program takes and does.
type Plan struct {
	Parts      []Part   `json:"parts"`
	Bytes      int64    `json:"bytes"`
	Available  int64    `json:"available"`       // what the device could still give, -1 if unknown
	Limit      int64    `json:"limit,omitempty"` // memory_limit, if given
	Operations []string `json:"operations"`
	apart      bool     // the device has memory of its own, with which parts of the host's are not compared
	// Devices are those that it runs on.
	Devices []kernels.DeviceInfo `json:"devices"`
}

// memory hands out buffers and keeps the list of parts; a dry one only counts.
type memory struct {
	device  kernels.Device
	dry     bool
	parts   []Part
	buffers []kernels.Buffer
}

// note puts memory into the plan that is allocated elsewhere.
func (m *memory) note(name, of string, bytes int64, held bool) {
	m.parts = append(m.parts, Part{Name: name, Of: of, Bytes: bytes, Device: m.device.Info().Name, Held: held})
}

func (m *memory) alloc(name, of string, elements int64) (kernels.Buffer, error) {
	m.note(name, of, 4*elements, false)
	if m.dry {
		return nil, nil
	}
	b, err := m.device.Alloc(elements)
	if err != nil {
		return nil, fault.Wrap(err, "%s of %s", name, of)
	}
	m.buffers = append(m.buffers, b)
	return b, nil
}

func (m *memory) free() {
	for _, b := range m.buffers {
		b.Free()
	}
	m.buffers = nil
}

// Fits is fault.OutOfMemory if the parts exceed limit bytes (0 = no limit), or those of them that do not exist yet what the
// device could still give: for memory that calls take beside a program.
func Fits(device kernels.Device, limit int64, parts []Part) error {
	plan := Plan{Parts: parts, Limit: limit}
	for _, part := range parts {
		plan.Bytes += part.Bytes
	}
	return plan.fits(device)
}

// fits is check, but looks how much the system has only if that can matter: looking takes longer than many a call.
func (p *Plan) fits(device kernels.Device) error {
	const small = 1 << 24
	p.Available, p.apart = -1, !reachesHost(device)
	if p.fresh() > small {
		p.Available = device.Available()
	}
	return p.check()
}

// fresh adds up the parts that do not exist yet.
func (p *Plan) fresh() (bytes int64) {
	for _, part := range p.Parts {
		if !part.Held && !(p.apart && part.Device == "host") {
			bytes += part.Bytes
		}
	}
	return bytes
}

// check compares the plan with the limit (all parts) and with what is available (the parts that do not exist yet).
func (p *Plan) check() error {
	fresh := p.fresh()
	switch {
	case p.Limit > 0 && p.Bytes > p.Limit:
		return fault.New(fault.OutOfMemory, "this needs %s, memory_limit is %s; nothing was allocated. %s. %s",
			size(p.Bytes), size(p.Limit), p.summary(), p.remedy())
	case p.Available >= 0 && fresh > p.Available:
		return fault.New(fault.OutOfMemory, "this needs %s more memory, %s are available; nothing was allocated. %s. %s",
			size(fresh), size(p.Available), p.summary(), p.remedy())
	}
	return nil
}

// remedy says what can be made smaller.
func (p *Plan) remedy() string {
	for _, part := range p.Parts {
		if part.Name == "optimizer state" {
			return "Smaller: batch_size, hidden, an optimizer with less state (adam keeps 2 numbers a weight, momentum 1, sgd 0), tied=True"
		}
	}
	return "Smaller: batch_size, hidden, tied=True"
}

// summary adds up the parts by name, largest first: "Parts: optimizer state 1.2 GB, weights 0.6 GB".
func (p *Plan) summary() string {
	total := map[string]int64{}
	var names []string
	for _, part := range p.Parts {
		if _, seen := total[part.Name]; !seen {
			names = append(names, part.Name)
		}
		total[part.Name] += part.Bytes
	}
	sort.SliceStable(names, func(a, b int) bool { return total[names[a]] > total[names[b]] })
	for i, name := range names {
		names[i] = name + " " + size(total[name])
	}
	return "Parts: " + strings.Join(names, ", ")
}

// size writes a number of bytes for people, in decimal units.
func size(bytes int64) string {
	value, unit := float64(bytes), 0
	for value >= 1000 && unit < 4 {
		value /= 1000
		unit++
	}
	if unit == 0 {
		return fmt.Sprintf("%d B", bytes)
	}
	return fmt.Sprintf("%.3g %s", value, []string{"B", "kB", "MB", "GB", "TB"}[unit])
}
