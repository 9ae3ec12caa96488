package devices

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"dsstne/engine/model"
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

// Open makes the devices of a placement ready. "all" are all devices of accelerators that can be used, "first" is the first of
// them; without one either is the host. "auto" is "all", but "first" in a process that is one of several on the machine. Devices
// that were not named are tried before their first use. reads is the model whose weights will be read, nil for none.
func (p Placement) Open(reads *model.Model) (*Opened, error) {
	o, err := p.choose(reads)
	if err == nil {
		o.serve(reads)
	}
	return o, err
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
		if err := tried(o.Ranks, p.Precision); err != nil {
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
	for _, backend := range withRole(kernels.Accelerator) {
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

// localRank is the number of this process among those on the machine that were started together, as torchrun tells it.
func localRank() (rank int, is bool) {
	rank, err := strconv.Atoi(os.Getenv("LOCAL_RANK"))
	return max(0, rank), err == nil
}

// parsed finds the backend of a device's word, and the number behind it, -1 without one.
func parsed(word string) (backend kernels.Backend, number int, err error) {
	name, digits, has := strings.Cut(word, ":")
	backend, number = kernels.Lookup(name), -1
	plain := digits != "" && (digits == "0" || digits[0] != '0') && strings.Trim(digits, "0123456789") == ""
	if backend == nil || backend.Role() == kernels.Oracle || has && !plain {
		return nil, 0, fault.New(fault.InvalidArgument, "devices is %q; it must be one of %s%s", word, examples(),
			strictjson.Suggestion(word, words()))
	}
	if has {
		if number, err = strconv.Atoi(digits); err != nil {
			return nil, 0, fault.New(fault.InvalidArgument, "device %q: no machine has that many devices", word)
		}
	}
	return backend, number, nil
}

// words are those that a typing error may have meant.
func words() []string {
	list := []string{"auto", "all", "first", host().Name()}
	for _, b := range withRole(kernels.Accelerator) {
		list = append(list, b.Name()+":0")
	}
	return list
}

// examples explains what devices may be.
func examples() string {
	text := "auto, all, first, " + host().Name() + ", " + host().Name() + ":4 (virtual devices)"
	for _, b := range withRole(kernels.Accelerator) {
		text += fmt.Sprintf(`, %s:0 or a list like ["%[1]s:0", "%[1]s:1"]`, b.Name())
	}
	return text
}

// named finds the backend and the numbers of devices that are named, or says what is wrong with them.
func (p Placement) named() (of kernels.Backend, numbers []int, err error) {
	for i, word := range p.Devices {
		if slices.Contains(p.Devices[:i], word) {
			return nil, nil, fault.New(fault.InvalidArgument, "devices names %d devices, %q twice", len(p.Devices), word)
		}
		if unnamed(word) {
			return nil, nil, fault.New(fault.InvalidArgument, "devices names %d devices, and %q, which stands alone",
				len(p.Devices), word)
		}
		backend, number, err := parsed(word)
		switch {
		case err != nil:
			return nil, nil, err
		case of != nil && of != backend:
			return nil, nil, fault.New(fault.InvalidArgument,
				"devices names %d devices, some of %s and some of %s; one model is on one kind", len(p.Devices), of.Name(), backend.Name())
		}
		number = max(0, number)
		if backend.Role() == kernels.Accelerator && slices.Contains(numbers, number) {
			return nil, nil, fault.New(fault.InvalidArgument, `devices names %d devices, "%s:%d" twice`, len(p.Devices),
				backend.Name(), number)
		}
		of, numbers = backend, append(numbers, number)
	}
	if of.Role() == kernels.Host {
		return of, numbers, p.checkVirtual(of.Name(), numbers[0])
	}
	return of, numbers, nil
}

// checkVirtual refuses what the host cannot be cut into.
func (p Placement) checkVirtual(name string, count int) error {
	switch {
	case len(p.Devices) > 1:
		return fault.New(fault.InvalidArgument, "devices names %d devices, but a machine's CPU is one; %q makes %[1]d virtual devices of it",
			len(p.Devices), fmt.Sprintf("%s:%d", name, len(p.Devices)))
	case count > mostVirtual:
		return fault.New(fault.InvalidArgument, "devices is %q; a CPU can be cut into at most %d virtual devices, \"%s:%[2]d\"",
			p.Devices[0], mostVirtual, name)
	}
	return nil
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
	options := kernels.Options{Precision: p.Precision}
	// Opening takes time. So one that cannot be had is tried first, and says why.
	order, known := slices.Clone(numbers), backend.Devices()
	slices.SortStableFunc(order, func(a, b int) int { return trouble(known, b) - trouble(known, a) })
	key := fmt.Sprint(backend.Name(), numbers, p.Precision)
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
	ranks := make([]kernels.Rank, len(numbers))
	for rank, number := range numbers {
		ranks[rank].Device = done[number]
	}
	if err := join(backend, ranks); err != nil {
		return nil, err
	}
	return &Opened{Ranks: ranks, key: key}, nil
}

// trouble is 1 for a device that is not there or cannot be used.
func trouble(known []kernels.DeviceInfo, number int) int {
	if number >= len(known) || known[number].Missing != "" {
		return 1
	}
	return 0
}

// openVirtual makes the host ready as one device or as several.
func (p Placement) openVirtual(count int) (*Opened, error) {
	ranks := make([]kernels.Rank, count)
	for rank := range ranks {
		device, err := openHost(rank, count, p.Threads, p.Precision)
		if err != nil {
			_ = closeAll(ranks[:rank])
			return nil, err
		}
		ranks[rank].Device = device
	}
	if err := join(host(), ranks); err != nil {
		return nil, err
	}
	return &Opened{Ranks: ranks}, nil
}

// join makes several ranks a group, or closes them.
func join(backend kernels.Backend, ranks []kernels.Rank) error {
	if len(ranks) == 1 {
		return nil
	}
	devices := make([]kernels.Device, len(ranks))
	for rank := range ranks {
		devices[rank] = ranks[rank].Device
	}
	group, err := backend.Join(devices)
	if err != nil {
		return errors.Join(err, closeAll(ranks))
	}
	for rank := range ranks {
		ranks[rank].Communicator = group[rank]
	}
	return nil
}

// closeAll closes the devices; the first error is returned.
func closeAll(ranks []kernels.Rank) (err error) {
	for _, r := range ranks {
		if failure := r.Device.Close(); err == nil {
			err = failure
		}
	}
	return err
}
