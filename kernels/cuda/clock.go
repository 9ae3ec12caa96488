//go:build !nocuda && linux && amd64

package cuda

import (
	"errors"
	"time"

	"dsstne/kernels"
	"dsstne/kernels/cuda/driver"
)

// clock marks the stream of operations by events.
type clock struct {
	device *device
	events []driver.Event
	marked int // of the step
	times  []time.Duration
}

// NewClock makes the events, since a step must not wait for that.
func (d *device) NewClock(marks int) (kernels.Clock, error) {
	c := &clock{device: d}
	err := d.do("making a clock", func() error {
		for len(c.events) < marks {
			event, err := driver.NewTimedEvent()
			if err != nil {
				return err
			}
			c.events = append(c.events, event)
		}
		return nil
	})
	if err != nil {
		c.Free()
		return nil, err
	}
	return c, nil
}

func (c *clock) Mark() error {
	c.marked++
	return c.device.do("a step", func() error {
		return errors.Join(c.device.enqueue(c.device.join), c.device.stream.Record(c.events[c.marked-1]))
	})
}

func (c *clock) Read() (times []time.Duration, err error) {
	c.times = c.times[:0]
	err = c.device.do("reading a clock", func() error {
		for i := 1; i < c.marked; i++ {
			taken, err := c.events[i].Since(c.events[i-1])
			if err != nil {
				return err
			}
			c.times = append(c.times, taken)
		}
		return nil
	})
	c.marked = 0
	return c.times, err
}

func (c *clock) Free() {
	_ = c.device.do("giving a clock back", func() (err error) {
		for _, event := range c.events {
			err = errors.Join(err, event.Close())
		}
		return err
	})
	c.events = nil
}
