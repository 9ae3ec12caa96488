//go:build !nocuda && linux && amd64

package cuda

import (
	"errors"
	"slices"
	"unsafe"

	"dsstne/kernels"
	"dsstne/kernels/cuda/driver"
)

// leastRates is how many steps' rates the table has room for at first.
const leastRates = 1024

// rateTable holds the rates of a run's steps on the device, which replays look up. A step brings those that are not
// there yet, as a rule its own, and the kernel begin_step adds them to the table.
type rateTable struct {
	at   driver.Address
	room int64
	from int64           // Step.RatesFrom
	sent []kernels.Rates // what is there
}

// freshRates are those that a step brings, and where they go.
type freshRates struct {
	table driver.Address
	list  []kernels.Rates
	from  int64 // place in the table
}

// prepare finds what a step has to bring, and makes room.
func (t *rateTable) prepare(d *device, s *kernels.Step) (freshRates, error) {
	known := 0
	if t.from == s.RatesFrom && len(t.sent) <= len(s.Rates) && begins(s.Rates, t.sent) {
		known = len(t.sent)
	}
	if n := int64(len(s.Rates)); n > t.room {
		if err := t.grow(d, max(n, 2*t.room, leastRates)); err != nil {
			return freshRates{}, err
		}
	}
	return freshRates{table: t.at, list: s.Rates[known:], from: int64(known)}, nil
}

// begins reports whether a list begins with another, which is the same memory unless that has moved to grow.
func begins(list, with []kernels.Rates) bool {
	return len(with) == 0 || &list[0] == &with[0] || slices.Equal(list[:len(with)], with)
}

// grow moves the table. The steps under way look into the old one, which is therefore freed after them.
func (t *rateTable) grow(d *device, room int64) error {
	const size = int64(unsafe.Sizeof(kernels.Rates{}))
	at, err := driver.Alloc(sizeClass(room * size))
	if err != nil {
		return err
	}
	if len(t.sent) > 0 {
		err = d.stream.Copy(at, t.at, int64(len(t.sent))*size)
	}
	old := t.at
	t.at, t.room = at, room
	if old != 0 {
		err = errors.Join(err, d.wait(), driver.Free(old))
	}
	return err
}

// note keeps whether a step has brought its rates; if not, the next one brings all.
func (t *rateTable) note(s *kernels.Step, brought bool) {
	t.from, t.sent = s.RatesFrom, nil
	if brought {
		t.sent = s.Rates
	}
}

func (t *rateTable) free() error {
	err := driver.Free(t.at)
	*t = rateTable{}
	return err
}
