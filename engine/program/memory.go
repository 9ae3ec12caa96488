package program

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"dsstne/internal/fault"
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
	Available  int64    `json:"available"`       // what the first device could still give, -1 if unknown
	Limit      int64    `json:"limit,omitempty"` // memory_limit, if given
	Operations []string `json:"operations"`
	Parallel   string   `json:"parallel,omitempty"` // how several devices train: "model" or "data"
	Precision  string   `json:"precision"`          // of products of hidden values, weights and gradients
	// Devices are those that it runs on.
	Devices []kernels.DeviceInfo `json:"devices"`
}

// aligned rounds a number of elements up, so that what follows begins where vectors of any device may.
func aligned(elements int64) int64 { return (elements + 63) / 64 * 64 }

// answers is the error of a device that has stopped answering.
func (p *part) answers() error {
	for _, b := range p.buffers {
		if b.Len() > 0 {
			return p.Device.Read(b, 0, make([]float32, 1))
		}
	}
	return nil
}

// Explain adds what memory is wanted for to an error that says that some was refused, though the plan had fitted.
func (p *Plan) Explain(err error) error {
	if !isOutOfMemory(err) || strings.Contains(err.Error(), summaryBegins) {
		return err
	}
	return &fault.Error{Kind: fault.OutOfMemory, Message: err.Error() + ". " + p.summary() + ". " + p.remedy(), Cause: err}
}

// Fits is fault.OutOfMemory if the parts exceed limit bytes (0 = no limit), or if the parts that do not exist yet
// exceed what the devices have available. It is for memory beside a program's. See Spec for makeRoom.
func Fits(ranks []kernels.Rank, limit int64, parts []Part, makeRoom func() bool) error {
	plan := &Plan{Parts: parts, Limit: limit}
	for _, part := range parts {
		plan.Bytes += part.Bytes
	}
	return plan.fits(ranks, makeRoom)
}

// fits compares all parts with the limit, and the parts that do not exist yet with the available memory: that of the
// host, which all devices that reach it share, or that of each device with its own.
func (p *Plan) fits(ranks []kernels.Rank, makeRoom func() bool) error {
	if p.Limit > 0 && p.Bytes > p.Limit {
		return fault.New(fault.OutOfMemory, "this needs %s, memory_limit is %s; nothing was allocated. %s. %s",
			size(p.Bytes), size(p.Limit), p.summary(), p.remedy())
	}
	p.Available = -1
	if kernels.ReachesHost(ranks[0].Device) {
		return p.available("", ranks[0].Device, nil)
	}
	for _, r := range ranks {
		if err := p.available(r.Device.Info().Name, r.Device, makeRoom); err != nil {
			return err
		}
	}
	return nil
}

// available asks for the available memory only if it can matter: asking takes longer than many calls.
func (p *Plan) available(name string, device kernels.Device, makeRoom func() bool) error {
	const small = 1 << 24
	fresh := p.fresh(name)
	if fresh <= small {
		return nil
	}
	available := device.Available()
	if available >= 0 && fresh > available && makeRoom != nil && makeRoom() {
		available = device.Available()
	}
	if p.Available < 0 {
		p.Available = available
	}
	if available < 0 || fresh <= available {
		return nil
	}
	where := ""
	if name != "" {
		where = " on " + name
	}
	return fault.New(fault.OutOfMemory, "this needs %s more memory%s, %s are available; nothing was allocated. %s. %s",
		size(fresh), where, size(available), p.summary(), p.remedy())
}

func isOutOfMemory(err error) bool { return fault.KindOf(err) == fault.OutOfMemory }

// fresh adds up the parts that do not exist yet: those of a device, or all if none is named.
func (p *Plan) fresh(device string) (bytes int64) {
	for _, part := range p.Parts {
		if !part.Held && (device == "" || part.Device == device) {
			bytes += part.Bytes
		}
	}
	return bytes
}

// remedy says what can be made smaller.
func (p *Plan) remedy() string {
	for _, part := range p.Parts {
		switch part.Name {
		case "similar items":
			return "Smaller: k, fewer threads"
		case "optimizer state":
			return "Smaller: batch_size, hidden, an optimizer with less state (adam keeps 2 numbers a weight, momentum 1, " +
				"sgd 0), tied=True"
		}
	}
	return "Smaller: batch_size, hidden, tied=True"
}

const summaryBegins = "Parts: "

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
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(total[b], total[a]) })
	for i, name := range names {
		names[i] = name + " " + size(total[name])
	}
	return summaryBegins + strings.Join(names, ", ")
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
