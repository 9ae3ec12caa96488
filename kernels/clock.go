package kernels

import "time"

// Clock measures how long a device takes for each operation of a list. While a list has one, its steps are not
// captured as a graph.
type Clock interface {
	// Mark notes when the device has done all that it was given before.
	Mark() error
	// Read returns the times between the marks since the last call. No step is under way.
	Read() ([]time.Duration, error)
	// Free gives back what the clock has taken.
	Free()
}

// Timed is a device whose operations may be under way when their calls return; it has a clock of its own.
type Timed interface {
	// NewClock makes a clock for steps with up to the given number of marks.
	NewClock(marks int) (Clock, error)
}

// NewClock makes a clock for lists of a device.
func NewClock(d Device, marks int) (Clock, error) {
	if timed, is := d.(Timed); is {
		return timed.NewClock(marks)
	}
	return &hostClock{}, nil
}

// hostClock is for devices whose operations are done when their calls return.
type hostClock struct {
	marks []time.Time
	times []time.Duration
}

func (c *hostClock) Mark() error {
	c.marks = append(c.marks, time.Now())
	return nil
}

func (c *hostClock) Read() ([]time.Duration, error) {
	c.times = c.times[:0]
	for i := 1; i < len(c.marks); i++ {
		c.times = append(c.times, c.marks[i].Sub(c.marks[i-1]))
	}
	c.marks = c.marks[:0]
	return c.times, nil
}

func (c *hostClock) Free() {}
