//go:build !nocuda && linux && amd64

package cuda

import (
	"errors"
	"sync/atomic"
	"unsafe"

	"dsstne/kernels"
	"dsstne/kernels/cuda/driver"
)

// agreement is how a device of a group hears of failures of the others. Each adds 1 to a sum if it is well; a device
// that does not find as many as there are devices goes on without changing a weight. So does every device of a group
// that was aborted, whose sums may be anything.
type agreement struct {
	well    driver.Address
	aborted unsafe.Pointer // a word in pinned memory
}

// wordSize is what the pinned word and the sum take.
const wordSize = 256

func (a *agreement) take() (err error) {
	if a.aborted, err = driver.HostAlloc(wordSize); err != nil {
		return err
	}
	a.say(false)
	a.well, err = driver.Alloc(wordSize)
	return err
}

// say lets the device's work know whether the group was aborted.
func (a *agreement) say(aborted bool) {
	if a.aborted != nil {
		atomic.StoreUint32((*uint32)(a.aborted), uint32(flag(aborted)))
	}
}

func (a *agreement) free() error {
	err := errors.Join(driver.HostFree(a.aborted), driver.Free(a.well))
	*a = agreement{}
	return err
}

// agree puts the question into the stream, a collective that sums up the answers, and what follows from the sum.
// Updates of outputs go on beside the collective. They end before the answer, which might stop them on their way.
func (d *device) agree(s *kernels.Step, ranks int, collective func() error) error {
	type args struct {
		step, well, aborted driver.Address
		ranks, launch       int32
	}
	return d.runBeside("agreeing", s, nil, func() {
		d.joinGradients()
		word := driver.Address(uintptr(d.agreement.aborted))
		a := &args{d.step.at, d.agreement.well, word, int32(ranks), d.next(site{})}
		launch(d, "tell_well", driver.Dim{X: 1}, 32, a)
		d.attempt(collective)
		d.join()
		launch(d, "hear_well", driver.Dim{X: 1}, 32, a)
	})
}
