package train

import (
	"encoding/json"
	"time"

	"dsstne/engine/program"
	"dsstne/internal/fault"
	"dsstne/kernels"
)

// profile is what a run measures if it is asked to. Its methods do nothing on nil.
type profile struct {
	*program.Profile
	limits []*kernels.Limits
	steps  int
	lap    time.Time
	taken  [phases]time.Duration
}

// phase is a part of a step, as the host sees it.
type phase int

const (
	batching   phase = iota // choosing the rows and making their batches
	working                 // from the beginning of the step to its result
	settling                // counting the step and reporting its result
	catchingUp              // bringing rows that lag behind up to date, at the end of the run
	phases
)

// begin begins a lap.
func (p *profile) begin() {
	if p != nil {
		p.lap = time.Now()
	}
}

// ends adds the lap to a phase and begins the next one.
func (p *profile) ends(phase phase) {
	if p != nil {
		now := time.Now()
		p.taken[phase] += now.Sub(p.lap)
		p.lap = now
	}
}

// add adds the operations of the step that has ended.
func (p *profile) add(step *kernels.Step) error {
	if p == nil {
		return nil
	}
	p.steps++
	return p.Add(step)
}

// underWay is how many steps may be under way: none while each is measured.
func (p *profile) underWay() int {
	if p != nil {
		return 0
	}
	return kernels.MostUnderWay
}

// report is the JSON of a profile; times are those of a step, on average, but for EndOfRun.
type report struct {
	Steps        int            `json:"steps"`
	Milliseconds float64        `json:"milliseconds"`
	Operations   []operation    `json:"operations"`
	Outside      outside        `json:"outside"`
	EndOfRun     float64        `json:"end_of_run"`
	Limits       []deviceLimits `json:"limits"`
}

type operation struct {
	Device             string   `json:"device"`
	Operation          string   `json:"operation"`
	Milliseconds       float64  `json:"milliseconds"`
	Share              float64  `json:"share"`
	MultiplyAdds       *float64 `json:"multiply_adds"`
	Bytes              *float64 `json:"bytes"`
	GFLOPs             *float64 `json:"gflop_per_second"`
	GigabytesPerSecond *float64 `json:"gigabytes_per_second"`
	Limit              *string  `json:"limit"`
	LimitShare         *float64 `json:"limit_share"`
}

type outside struct {
	Batch    float64 `json:"batch"`
	Waiting  float64 `json:"waiting"`
	Settling float64 `json:"settling"`
}

type deviceLimits struct {
	Device                 string  `json:"device"`
	Precision              string  `json:"precision"`
	GFLOPs                 float64 `json:"gflop_per_second"`
	Float32GFLOPs          float64 `json:"float32_gflop_per_second"`
	ReadGigabytesPerSecond float64 `json:"read_gigabytes_per_second"`
	// Each byte that is updated in place counts twice.
	UpdateGigabytesPerSecond float64 `json:"update_gigabytes_per_second"`
}

// Profile trains for some steps, as Run does, and returns what their parts took as JSON. Each step ends before the next
// begins, and no graphs are used, so that times add up. Without steps it returns the last profile again.
func (t *Trainer) Profile(steps uint64) ([]byte, error) {
	if steps == 0 {
		if t.profiled == nil {
			return nil, fault.New(fault.InvalidState, "there is no profile yet; steps must be above 0")
		}
		return t.profiled, nil
	}
	t.profile = &profile{}
	defer func() { t.profile = nil }()
	if _, err := t.Run(steps, 0); err != nil {
		return nil, err
	}
	text, err := json.Marshal(t.reported())
	if err == nil {
		t.profiled = text
	}
	return text, err
}

// startProfile makes the program measure, if the run is to be profiled, and returns how to stop it.
func (t *Trainer) startProfile() (stop func(), err error) {
	p := t.profile
	if p == nil {
		return func() {}, nil
	}
	if p.limits, err = t.program.Limits(t.Precision()); err != nil {
		return nil, err
	}
	if p.Profile, err = t.program.StartProfile(); err != nil {
		return nil, err
	}
	return p.Stop, nil
}

// reported computes the rates and shares of what was measured.
func (t *Trainer) reported() *report {
	p := t.profile
	mean := func(phase phase) float64 { return p.taken[phase].Seconds() / float64(p.steps) }
	step := mean(batching) + mean(working) + mean(settling)
	r := &report{Steps: p.steps, Milliseconds: 1e3 * step, Limits: []deviceLimits{}}
	waiting := mean(working)
	for _, timing := range p.Timings() {
		device := t.Ranks[timing.Rank].Device.Info().Name
		r.Operations = append(r.Operations, describe(&timing, device, step, p.limits[timing.Rank]))
		if timing.Rank == 0 {
			waiting -= timing.Seconds
		}
	}
	r.Outside = outside{Batch: 1e3 * mean(batching), Waiting: 1e3 * waiting, Settling: 1e3 * mean(settling)}
	r.EndOfRun = 1e3 * p.taken[catchingUp].Seconds()
	for rank, limits := range p.limits {
		if limits != nil {
			r.Limits = append(r.Limits, deviceLimits{
				Device: t.Ranks[rank].Device.Info().Name, Precision: t.Precision().String(),
				GFLOPs: 2e-9 * limits.Products, Float32GFLOPs: 2e-9 * limits.Float32,
				ReadGigabytesPerSecond: 1e-9 * limits.Read, UpdateGigabytesPerSecond: 1e-9 * limits.Update,
			})
		}
	}
	return r
}

// describe compares an operation with the limits of its device, if these are known: with the one that it takes longer
// at.
func describe(t *program.Timing, device string, step float64, limits *kernels.Limits) operation {
	o := operation{
		Device: device, Operation: t.Text, Milliseconds: 1e3 * t.Seconds, Share: t.Seconds / step,
	}
	if t.Work == nil {
		return o
	}
	o.MultiplyAdds, o.Bytes = &t.Work.MultiplyAdds, &t.Work.Bytes
	if t.Seconds <= 0 {
		return o // as a clock of a device may tell, which has a resolution of half a microsecond
	}
	o.GFLOPs, o.GigabytesPerSecond = new(float64), new(float64)
	*o.GFLOPs, *o.GigabytesPerSecond = 2e-9*t.Work.MultiplyAdds/t.Seconds, 1e-9*t.Work.Bytes/t.Seconds
	if limits == nil {
		return o
	}
	least, arithmetic := limits.Least(t.Work)
	limit, share := "memory", least/t.Seconds
	if arithmetic {
		limit = "arithmetic"
	}
	o.Limit, o.LimitShare = &limit, &share
	return o
}
