//go:build !nocuda && linux && amd64

package cuda

import (
	"errors"

	"dsstne/kernels"
	"dsstne/kernels/cuda/driver"
)

// graph is a captured list of ops, whose steps it does in one launch. All that differs between them is in the record.
// The first step of a list is not captured: libraries load code when they meet a shape, which a capture does not allow.
type graph struct {
	device *device
	ready  bool // there is an exec
	joint  bool // it has collectives
	exec   driver.Exec
	record driver.Address // that its launches read
	sites  []site
}

// work puts a step's ops into the stream: one by one, or as the graph of their list, which is made for its second step.
func (d *device) work(list *kernels.List, slot *slot, walk func() error) error {
	g := d.graphOf(list)
	if g == nil {
		d.launches = nil // not reused: those of the steps under way are asked for later
		err := d.ops(walk)
		slot.sites = d.launches
		return err
	}
	if !g.ready {
		if err := d.capture(g, walk); err != nil {
			return err
		}
	}
	slot.sites = g.sites
	launch := func() error { return g.exec.Launch(d.stream) }
	if g.joint {
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
	type args struct{ step driver.Address }
	err := d.enqueue(func() { launch(d, "begin_step", driver.Dim{X: 1}, 128, &args{d.step.at}) })
	if err != nil {
		return err
	}
	return walk()
}

// capture makes the graph of the ops that a walk puts into the stream, without doing them.
func (d *device) capture(g *graph, walk func() error) error {
	d.launches, d.capturing = nil, g
	recorded, err := d.stream.Capture(func() error { return d.ops(walk) })
	d.capturing = nil
	if err != nil {
		return err
	}
	exec, err := recorded.Instantiate()
	if err != nil {
		return errors.Join(err, recorded.Close())
	}
	g.exec, g.ready, g.sites = exec, true, d.launches
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

func (d *device) closeGraph(g *graph) error {
	delete(d.graphs, g)
	if !g.ready {
		return nil
	}
	return g.exec.Close()
}
