package devices

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"dsstne/engine/model"
	"dsstne/engine/program"
	"dsstne/engine/strictjson"
	"dsstne/internal/fault"
	"dsstne/kernels"
)

// Placement is what options say about where to compute.
type Placement struct {
	Devices   []string
	Threads   int
	Limit     int64 // memory_limit in bytes, 0 = none
	Precision kernels.Precision
}

// mostVirtual is how many virtual devices a host may be cut into.
const mostVirtual = 64

// Open makes the devices of a placement ready. "all" are all usable devices of accelerators, "first" is the first of
// them; without one, either is the host. "auto" is "all", but "first" in one of several processes on the machine. Open
// tries devices that were not named before their first use. reads is the model whose weights will be read, or nil.
func (p Placement) Open(reads *model.Model) (*Opened, error) {
	o, err := p.choose(reads)
	if err == nil {
		o.Precision = p.precision(o.Ranks)
		o.serve(reads)
	}
	return o, err
}

// Within is the placement of what computes on one device at most, or only on the host, whatever the devices: of several
// the first, and those that are named have to be there.
func (p Placement) Within(on program.Reach) (Placement, error) {
	if on == program.SeveralDevices {
		return p, nil
	}
	one := "first"
	if name := p.Devices[0]; !unnamed(name) || len(p.Devices) > 1 {
		backend, numbers, err := p.named()
		if err != nil {
			return p, err
		}
		if one = host().Name(); backend.Role() == kernels.Accelerator {
			if err := present(backend, numbers); err != nil {
				return p, err
			}
			one = fmt.Sprintf("%s:%d", backend.Name(), numbers[0])
		}
	}
	if on == program.HostOnly {
		one, p.Precision = host().Name(), kernels.Float32
	}
	p.Devices = []string{one}
	return p, nil
}

// present returns an error if a device is not there.
func present(backend kernels.Backend, numbers []int) error {
	known := backend.Devices()
	for _, number := range numbers {
		if number >= len(known) {
			return fault.New(fault.DeviceUnavailable, `there is no device "%s:%d"`, backend.Name(), number)
		}
		if reason := known[number].Missing; reason != "" {
			return fault.New(fault.DeviceUnavailable, "%s", reason)
		}
	}
	return nil
}

// precision is that of open devices, which are of one kind.
func (p Placement) precision(ranks []kernels.Rank) kernels.Precision {
	return p.Precision.On(ranks[0].Device.Info())
}

// choose opens devices, or takes those that suit who will read a model.
func (p Placement) choose(reads *model.Model) (*Opened, error) {
	if name := p.Devices[0]; unnamed(name) && len(p.Devices) == 1 {
		backend, found := usable()
		if len(found) == 0 {
			return p.openVirtual(1)
		}
		if rank, is := localRank(); is && name == "auto" || name == "first" {
			found = found[rank%len(found):][:1]
		}
		o, err := p.openNumbers(backend, found, reads)
		if err != nil {
			return nil, err
		}
		if err := tried(o.Ranks, p.precision(o.Ranks)); err != nil {
			return nil, errors.Join(err, o.close())
		}
		return o, nil
	}
	backend, numbers, err := p.named()
	switch {
	case err != nil:
		return nil, err
	case backend.Role() == kernels.Host:
		return p.openVirtual(max(1, numbers[0])) // "cpu:0" is the CPU
	}
	return p.openNumbers(backend, numbers, reads)
}

// unnamed reports whether the engine chooses the devices.
func unnamed(name string) bool { return name == "auto" || name == "all" || name == "first" }

// usable are the devices of the first accelerator that has some.
func usable() (backend kernels.Backend, numbers []int) {
	for _, backend := range kernels.WithRole(kernels.Accelerator) {
		for number, info := range backend.Devices() {
			if info.Missing == "" {
				numbers = append(numbers, number)
			}
		}
		if len(numbers) > 0 {
			return backend, numbers
		}
	}
	return nil, nil
}

// localRank is the number of this process among those on the machine that were started together, as torchrun sets it.
func localRank() (rank int, is bool) {
	rank, err := strconv.Atoi(os.Getenv("LOCAL_RANK"))
	return max(0, rank), err == nil
}

// parsed finds the backend of a device's word, and the number behind it, 0 without one.
func parsed(word string) (backend kernels.Backend, number int, err error) {
	name, digits, has := strings.Cut(word, ":")
	backend = kernels.Lookup(name)
	plain := digits != "" && (digits == "0" || digits[0] != '0') && strings.Trim(digits, "0123456789") == ""
	if backend == nil || backend.Role() == kernels.Oracle || has && !plain {
		words, examples := known()
		hint := strictjson.Suggestion(word, words)
		if of := kernels.WithRole(kernels.Accelerator); name == "gpu" && len(of) > 0 {
			hint = fmt.Sprintf(`; did you mean "%s:%s"?`, of[0].Name(), cmp.Or(digits, "0"))
		}
		return nil, 0, fault.New(fault.InvalidArgument, "devices is %q; it must be one of %s%s", word, examples, hint)
	}
	if has {
		if number, err = strconv.Atoi(digits); err != nil {
			return nil, 0, fault.New(fault.InvalidArgument, "device %q: no machine has that many devices", word)
		}
	}
	return backend, number, nil
}

// known lists the words that a typing error may have meant, and explains what devices may be.
func known() (words []string, examples string) {
	cpu := host().Name()
	words = []string{"auto", "all", "first", cpu}
	examples = strings.Join(words, ", ") + ", " + cpu + ":4 (virtual devices)"
	for _, b := range kernels.WithRole(kernels.Accelerator) {
		words = append(words, b.Name()+":0")
		examples += fmt.Sprintf(`, %s:0 or a list like ["%[1]s:0", "%[1]s:1"]`, b.Name())
	}
	return words, examples
}

// named finds the backend and the numbers of devices that are named, or says what is wrong with them.
func (p Placement) named() (of kernels.Backend, numbers []int, err error) {
	refuse := func(format string, args ...any) error {
		format = fmt.Sprintf("devices names %d devices, ", len(p.Devices)) + format
		return fault.New(fault.InvalidArgument, format, args...)
	}
	for i, word := range p.Devices {
		if slices.Contains(p.Devices[:i], word) {
			return nil, nil, refuse("%q twice", word)
		}
		if unnamed(word) {
			return nil, nil, refuse("and %q, which stands alone", word)
		}
		backend, number, err := parsed(word)
		switch {
		case err != nil:
			return nil, nil, err
		case of != nil && of != backend:
			return nil, nil, refuse("some of %s and some of %s; one model is on one kind", of.Name(), backend.Name())
		}
		if backend.Role() == kernels.Accelerator && slices.Contains(numbers, number) {
			return nil, nil, refuse(`"%s:%d" twice`, backend.Name(), number)
		}
		of, numbers = backend, append(numbers, number)
	}
	switch {
	case of.Role() != kernels.Host:
	case len(p.Devices) > 1:
		err = refuse(`but a machine's CPU is one; "%s:%d" makes %[2]d virtual devices of it`, of.Name(), len(p.Devices))
	case numbers[0] > mostVirtual:
		err = fault.New(fault.InvalidArgument,
			`devices is %q; a CPU can be cut into at most %d virtual devices, "%s:%[2]d"`, p.Devices[0], mostVirtual, of.Name())
	}
	return of, numbers, err
}

// openNumbers makes devices of an accelerator ready, the first of which is the first rank.
func (p Placement) openNumbers(backend kernels.Backend, numbers []int, reads *model.Model) (*Opened, error) {
	o, err := p.tryNumbers(backend, numbers, reads)
	if fault.KindOf(err) == fault.OutOfMemory && MakeRoom() {
		return p.tryNumbers(backend, numbers, reads)
	}
	return o, err
}

func (p Placement) tryNumbers(backend kernels.Backend, numbers []int, reads *model.Model) (*Opened, error) {
	known := backend.Devices()
	missing := func(rank int) bool { return numbers[rank] >= len(known) || known[numbers[rank]].Missing != "" }
	order := ranksOf(len(numbers))
	key := fmt.Sprint(backend.Name(), numbers, p.Precision)
	if first := slices.IndexFunc(order, missing); first >= 0 {
		order[0], order[first] = first, 0 // opening takes time, and this one says why it cannot be opened
	} else if o := wake(key, reads); o != nil { // in a forked process, say, nothing that is idle may be touched
		return o, nil
	}
	ranks, err := openRanks(backend, order, func(rank int) (kernels.Device, error) {
		return backend.Open(numbers[rank], kernels.Options{Precision: p.Precision})
	})
	return &Opened{Ranks: ranks, key: key}, err
}

// openVirtual makes the host ready as one device or as several.
func (p Placement) openVirtual(count int) (*Opened, error) {
	ranks, err := openRanks(host(), ranksOf(count), func(rank int) (kernels.Device, error) {
		return openHost(rank, count, p.Threads, p.Precision)
	})
	o := &Opened{Ranks: ranks, named: p.Threads > 0}
	for _, r := range ranks {
		o.threads += r.Device.Info().Threads
	}
	return o, err
}

// ranksOf is 0 .. n-1.
func ranksOf(n int) []int {
	list := make([]int, n)
	for rank := range list {
		list[rank] = rank
	}
	return list
}

// openRanks opens the devices of ranks in an order, and makes several a group.
func openRanks(of kernels.Backend, order []int, open func(rank int) (kernels.Device, error)) ([]kernels.Rank, error) {
	ranks, devices := make([]kernels.Rank, len(order)), make([]kernels.Device, len(order))
	for _, rank := range order {
		device, err := open(rank)
		if err != nil {
			return nil, errors.Join(err, closeAll(ranks))
		}
		ranks[rank].Device, devices[rank] = device, device
	}
	if len(ranks) == 1 {
		return ranks, nil
	}
	group, err := of.Join(devices)
	if err != nil {
		return nil, errors.Join(err, closeAll(ranks))
	}
	for rank := range ranks {
		ranks[rank].Communicator = group[rank]
	}
	return ranks, nil
}

// closeAll closes the devices that are open, and returns the first error.
func closeAll(ranks []kernels.Rank) (err error) {
	for _, r := range ranks {
		if r.Device != nil {
			err = cmp.Or(err, r.Device.Close())
		}
	}
	return err
}
