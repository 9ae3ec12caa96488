package program

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"dsstne/engine/fault"
	"dsstne/engine/model"
	"dsstne/engine/strictjson"
	"dsstne/kernels"
)

// Placement is what options say about where to compute.
type Placement struct {
	Devices   []string
	Threads   int
	Limit     int64 // memory_limit in bytes, 0 = none
	Precision kernels.Precision
}

// ReadPlacement takes "devices", "threads", "memory_limit" and "precision" from options.
func ReadPlacement(o *strictjson.Object) Placement {
	p := Placement{
		Threads: int(o.Int("threads", 0, strictjson.Between(0, 4096))),
		Limit:   o.Int("memory_limit", 0, strictjson.AtLeast(0)),
	}
	if o.Type("devices") == strictjson.ListType {
		if p.Devices = o.Strings("devices"); len(p.Devices) == 0 {
			o.Fail("devices", "is empty; name at least one device")
		}
	} else {
		p.Devices = []string{o.String("devices", "auto")}
	}
	word := o.Word("precision", "float32", kernels.PrecisionWords...)
	p.Precision = kernels.Precision(max(0, slices.Index(kernels.PrecisionWords, word)))
	if p.Precision == kernels.TensorFloat32 && !p.onGPU() {
		o.Fail("precision", "is %q, which only CUDA devices have; on the CPU use bfloat16 or float32", word)
	}
	return p
}

var (
	someCPU = regexp.MustCompile(`^cpu(:(0|[1-9][0-9]*))?$`)
	someGPU = regexp.MustCompile(`^cuda(:(0|[1-9][0-9]*))?$`)
)

// mostVirtual is how many virtual devices a CPU may be cut into.
const mostVirtual = 64

// Open makes the devices of a placement ready. "all" are all CUDA devices that can be used, "first" is the first of them; without
// one either is the CPU. "auto" is "all", but "first" in a process that is one of several on the machine. Devices that were not
// named are tried before their first use.
func (p Placement) Open() ([]Rank, error) {
	o, err := p.open(nil)
	if err != nil {
		return nil, err
	}
	return o.ranks, nil
}

// open is Open for somebody who will read a model; nil: who will not.
func (p Placement) open(reads *model.Model) (*opened, error) {
	o, err := p.choose(reads)
	if err == nil {
		o.serve(reads)
	}
	return o, err
}

// choose opens devices, or takes those that suit who will read a model.
func (p Placement) choose(reads *model.Model) (*opened, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	switch name := p.Devices[0]; {
	case unnamed(name):
		found := usableGPUs()
		if len(found) == 0 {
			return p.openCPUs(1)
		}
		if rank, is := localRank(); is && name == "auto" || name == "first" {
			found = found[rank%len(found):][:1]
		}
		o, err := p.openGPUs(found, reads)
		if err != nil {
			return nil, err
		}
		if err := tried(o.ranks, p.Precision); err != nil {
			return nil, errors.Join(err, o.close())
		}
		return o, nil
	case someGPU.MatchString(name):
		numbers, err := p.gpus()
		if err != nil {
			return nil, err
		}
		return p.openGPUs(numbers, reads)
	}
	count := 1
	if _, number, found := strings.Cut(p.Devices[0], ":"); found {
		n, err := strconv.Atoi(number)
		if err != nil || n > mostVirtual {
			return nil, fault.New(fault.InvalidArgument, "devices is %q; a CPU can be cut into at most %d virtual devices, \"cpu:%d\"",
				p.Devices[0], mostVirtual, mostVirtual)
		}
		count = max(1, n) // "cpu:0" is the CPU
	}
	return p.openCPUs(count)
}

// onGPU tells whether the placement is, or can be, on CUDA devices.
func (p Placement) onGPU() bool {
	if unnamed(p.Devices[0]) {
		return len(usableGPUs()) > 0
	}
	return slices.ContainsFunc(p.Devices, someGPU.MatchString)
}

// unnamed tells whether the engine chooses the devices.
func unnamed(name string) bool { return name == "auto" || name == "all" || name == "first" }

// localRank is the number of this process among those on the machine that were started together, as torchrun tells it.
func localRank() (rank int, is bool) {
	rank, err := strconv.Atoi(os.Getenv("LOCAL_RANK"))
	return max(0, rank), err == nil
}

// check refuses what cannot be opened, with the reason.
func (p Placement) check() error {
	words := []string{"auto", "all", "first", "cpu", "cuda:0"}
	cuda := 0
	for i, name := range p.Devices {
		switch {
		case slices.Contains(p.Devices[:i], name):
			return fault.New(fault.InvalidArgument, "devices names %d devices, %q twice", len(p.Devices), name)
		case someGPU.MatchString(name):
			cuda++
		case unnamed(name) && len(p.Devices) > 1:
			return fault.New(fault.InvalidArgument, "devices names %d devices, and %q, which stands alone", len(p.Devices), name)
		case !unnamed(name) && !someCPU.MatchString(name):
			return fault.New(fault.InvalidArgument,
				"devices is %q; it must be one of auto, all, first, cpu, cpu:4 (virtual devices), cuda:0 or a list like [\"cuda:0\", \"cuda:1\"]%s",
				name, strictjson.Suggestion(name, words))
		}
	}
	switch {
	case cuda > 0 && cuda < len(p.Devices):
		return fault.New(fault.InvalidArgument, "devices names %d devices, some CUDA and some CPU; one model is on one kind",
			len(p.Devices))
	case cuda > 0 && kernels.Lookup("cuda") == nil:
		return fault.New(fault.DeviceUnavailable, "device %q: %s", p.Devices[0], noCUDA)
	case cuda > 0:
		return nil
	case len(p.Devices) > 1:
		return fault.New(fault.InvalidArgument, "devices names %d devices, but a machine's CPU is one; %q makes %d virtual devices of it",
			len(p.Devices), "cpu:"+strconv.Itoa(len(p.Devices)), len(p.Devices))
	}
	return nil
}

// usableGPUs are the numbers of the CUDA devices that can be used.
func usableGPUs() (numbers []int) {
	backend := kernels.Lookup("cuda")
	if backend == nil {
		return nil
	}
	for number, info := range backend.Devices() {
		if info.Missing == "" {
			numbers = append(numbers, number)
		}
	}
	return numbers
}

// gpus are the numbers of the CUDA devices that are named; "cuda" is the first one.
func (p Placement) gpus() (numbers []int, err error) {
	for _, name := range p.Devices {
		n := 0
		if _, number, found := strings.Cut(name, ":"); found {
			if n, err = strconv.Atoi(number); err != nil {
				return nil, fault.New(fault.InvalidArgument, "device %q: no machine has that many", name)
			}
		}
		if slices.Contains(numbers, n) {
			return nil, fault.New(fault.InvalidArgument, "devices names %d devices, \"cuda:%d\" twice", len(p.Devices), n)
		}
		numbers = append(numbers, n)
	}
	return numbers, nil
}

// openGPUs makes CUDA devices ready, the first of which is the first rank.
func (p Placement) openGPUs(numbers []int, reads *model.Model) (*opened, error) {
	return withRoom(func() (*opened, error) { return p.tryGPUs(numbers, reads) })
}

func (p Placement) tryGPUs(numbers []int, reads *model.Model) (*opened, error) {
	backend, options := kernels.Lookup("cuda"), kernels.Options{Precision: p.Precision}
	// Opening takes time. So one that cannot be had is tried first, and says why.
	order, known := slices.Clone(numbers), backend.Devices()
	slices.SortStableFunc(order, func(a, b int) int { return trouble(known, b) - trouble(known, a) })
	key := fmt.Sprint(numbers, p.Precision)
	if trouble(known, order[0]) == 0 { // in a forked process, say, nothing that is idle may be touched
		if o := wake(key, reads); o != nil {
			return o, nil
		}
	}
	done := map[int]kernels.Device{}
	for _, number := range order {
		device, err := backend.Open(number, options)
		if err != nil {
			for _, other := range done {
				err = errors.Join(err, other.Close())
			}
			return nil, err
		}
		done[number] = device
	}
	ranks := make([]Rank, len(numbers))
	for rank, number := range numbers {
		ranks[rank].Device = done[number]
	}
	if err := join(backend, ranks); err != nil {
		return nil, err
	}
	return &opened{ranks: ranks, key: key}, nil
}

// trouble is 1 for a device that is not there or cannot be used.
func trouble(known []kernels.DeviceInfo, number int) int {
	if number >= len(known) || known[number].Missing != "" {
		return 1
	}
	return 0
}

// openCPUs makes the CPU ready as one device or as several.
func (p Placement) openCPUs(count int) (*opened, error) {
	ranks := make([]Rank, count)
	for rank := range ranks {
		device, err := openCPU(rank, count, p.Threads, p.Precision)
		if err != nil {
			_ = Close(ranks[:rank])
			return nil, err
		}
		ranks[rank].Device = device
	}
	if err := join(kernels.Lookup("cpu"), ranks); err != nil {
		return nil, err
	}
	return &opened{ranks: ranks}, nil
}

// join makes several ranks a group, or closes them.
func join(backend kernels.Backend, ranks []Rank) error {
	if len(ranks) == 1 {
		return nil
	}
	devices := make([]kernels.Device, len(ranks))
	for rank := range ranks {
		devices[rank] = ranks[rank].Device
	}
	group, err := backend.Join(devices)
	if err != nil {
		return errors.Join(err, Close(ranks))
	}
	for rank := range ranks {
		ranks[rank].Communicator = group[rank]
	}
	return nil
}

// Close closes the devices; the first error is returned.
func Close(ranks []Rank) (err error) {
	for _, r := range ranks {
		if failure := r.Device.Close(); err == nil {
			err = failure
		}
	}
	return err
}
