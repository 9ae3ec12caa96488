//go:build !nocuda && linux && amd64

package cuda

import (
	"errors"
	"slices"

	"dsstne/kernels"
	"dsstne/kernels/cuda/driver"
)

// graph is a captured list of ops, whose steps it does in one launch. All that differs between them is in the record.
// Early ops are a graph of their own for each slot, whose record they read. The first step of a list is not captured:
// libraries load code when they meet a shape, which a capture does not allow.
type graph struct {
	device *device
	record driver.Address // where it is
	late   captured
	early  [kernels.MostUnderWay + 1]captured // by slot
}

// captured are launches, once they are ready.
type captured struct {
	exec  driver.Exec
	ready bool
	joint bool   // there are collectives
	sites []site // those of the step so far: the early ops come first
}

// work puts a step's ops into the streams: one by one, or as the graphs of their list, which are made for its second
// step.
func (d *device) work(list *kernels.List, slot *slot, ops walks) error {
	r, g, sent := &d.step, d.graphOf(list), slot.copied
	d.launches = nil // not reused: those of the steps under way are asked for later
	if ops.early != nil {
		if err := d.doEarly(slot, g, ops.early); err != nil {
			return err
		}
		sent = slot.early
	}
	var late *captured
	if g != nil {
		late = &g.late
	}
	if err := d.stream.Wait(sent); err != nil {
		return err
	}
	if err := d.stream.Copy(r.at, slot.area, recordBytes); err != nil {
		return err
	}
	err := d.put(late, func() error { return d.ops(ops.late) })
	slot.sites = d.launches
	return err
}

// doEarly puts early ops into their stream, with the record in the slot's area.
func (d *device) doEarly(slot *slot, g *graph, walk func() error) error {
	var c *captured
	if g != nil {
		c = &g.early[d.step.next]
	}
	if c == nil || !c.ready { // their memory may have been zeroed in the stream of ops just now
		if err := errors.Join(d.stream.Record(slot.early), d.early.Wait(slot.early)); err != nil {
			return err
		}
	}
	if c != nil && !c.ready {
		for i := range g.early {
			if g.early[i].ready { // others were refused
				continue
			}
			d.launches = nil
			if err := d.inEarly(i, func() error { return d.capture(&g.early[i], walk) }); err != nil {
				return err
			}
		}
	}
	if err := d.early.Wait(slot.copied); err != nil {
		return err
	}
	if err := d.inEarly(d.step.next, func() error { return d.put(c, walk) }); err != nil {
		return err
	}
	return d.early.Record(slot.early)
}

// inEarly calls a function that puts early ops of a slot into the stream; meanwhile their stream is the device's.
func (d *device) inEarly(slot int, work func() error) error {
	r := &d.step
	stream, at := d.stream, r.at
	defer func() { d.stream, r.at, r.copy = stream, at, 0 }()
	d.stream, r.at, r.copy = d.early, r.slots[slot].area, slot
	return work()
}

// put puts ops into the stream: one by one, or as what they are captured as.
func (d *device) put(c *captured, walk func() error) error {
	if c == nil {
		return walk()
	}
	if !c.ready {
		if err := d.capture(c, walk); err != nil {
			return err
		}
	}
	d.launches = slices.Clip(c.sites)
	launch := func() error { return c.exec.Launch(d.stream) }
	if c.joint {
		return d.member.launch(launch)
	}
	return launch()
}

// graphOf is the graph of a list, which may not be captured yet; nil if the ops are to be put into the stream one by
// one.
func (d *device) graphOf(list *kernels.List) *graph {
	if list == nil || d.member != nil && !d.member.captures() {
		return nil
	}
	g, _ := list.Prepared.(*graph)
	// The code of a known list is loaded. After a group has ended none is known: all ranks of the next group begin alike.
	known := d.graphs[g]
	if known && g.record == d.step.at { // otherwise the record has moved
		return g
	}
	list.Free()
	next := &graph{device: d, record: d.step.at}
	d.graphs[next], list.Prepared = true, next
	if known {
		return next
	}
	return nil
}

func (d *device) ops(walk func() error) error {
	type args struct{ step, results driver.Address }
	r := &d.step
	err := d.enqueue(func() { launch(d, "begin_step", driver.Dim{X: 1}, 128, &args{r.at, r.results}) })
	if err != nil {
		return err
	}
	if err := walk(); err != nil {
		return err
	}
	return d.enqueue(d.join)
}

// capture makes a graph of the ops that a walk puts into the stream, without doing them.
func (d *device) capture(c *captured, walk func() error) error {
	d.capturing = c
	recorded, err := d.stream.Capture(walk)
	d.capturing = nil
	if err != nil {
		return err
	}
	exec, err := recorded.Instantiate()
	if err != nil {
		return errors.Join(err, recorded.Close())
	}
	c.exec, c.ready, c.sites = exec, true, d.launches
	return recorded.Close()
}

// Free gives the graph back, when no step of it is under way.
func (g *graph) Free() {
	d := g.device
	if !d.graphs[g] {
		return // the device was closed, or its group ended
	}
	_ = d.do("freeing a graph", func() error {
		var err error
		if d.step.underWay > 0 {
			err = d.stream.Synchronize()
		}
		return errors.Join(err, d.closeGraph(g))
	})
}

// closeGraphs gives all graphs back, when nothing is under way. Lists that keep one have it captured anew.
func (d *device) closeGraphs() (err error) {
	for g := range d.graphs {
		err = errors.Join(err, d.closeGraph(g))
	}
	return err
}

func (d *device) closeGraph(g *graph) (err error) {
	delete(d.graphs, g)
	for _, c := range append(g.early[:], g.late) {
		if c.ready {
			err = errors.Join(err, c.exec.Close())
		}
	}
	return err
}
