//go:build !nocuda && linux && amd64

package cuda

import (
	"errors"

	"dsstne/kernels"
	"dsstne/kernels/cuda/driver"
)

// graph is a list of ops that was captured: what its steps do, in one launch. All that differs between them is in the record.
type graph struct {
	device *device
	exec   driver.Exec
	record driver.Address // that its launches read
	joined int            // device.joined, when it was captured
	sites  []site
}

// work puts a step's ops into the stream: one by one, or as the graph of their list, which is made for its first step.
func (d *device) work(list *kernels.List, slot *slot, walk func() error) error {
	if list == nil || d.member != nil && !d.member.captures() {
		d.launches = nil // not reused: those of the steps under way are asked for later
		err := d.ops(walk)
		slot.sites = d.launches
		return err
	}
	g, _ := list.Kept.(*graph)
	if g == nil || g.record != d.step.at || g.joined != d.joined {
		list.Free()
		var err error
		if g, err = d.capture(walk); err != nil {
			return err
		}
		list.Kept = g
	}
	slot.sites = g.sites
	launch := func() error { return g.exec.Launch(d.stream) }
	if d.member != nil {
		return d.member.launch(launch)
	}
	return launch()
}

func (d *device) ops(walk func() error) error {
	type args struct{ step driver.Address }
	if err := launch(d, "begin_step", driver.Dim{X: 1}, driver.Dim{X: 128}, &args{d.step.at}); err != nil {
		return err
	}
	return walk()
}

// capture makes a graph of the ops that a walk puts into the stream, none of which is done.
func (d *device) capture(walk func() error) (*graph, error) {
	d.launches = nil
	recorded, err := d.stream.Capture(func() error { return d.ops(walk) })
	if err != nil {
		return nil, err
	}
	g := &graph{device: d, record: d.step.at, joined: d.joined, sites: d.launches}
	g.exec, err = recorded.Instantiate()
	if err != nil {
		return nil, errors.Join(err, recorded.Close())
	}
	d.graphs[g] = true
	if err := recorded.Close(); err != nil {
		return nil, errors.Join(err, d.closeGraph(g))
	}
	return g, nil
}

// Free gives the graph back, when no step is under way that it was launched for.
func (g *graph) Free() {
	d := g.device
	if !d.graphs[g] {
		return // the device was closed
	}
	_ = d.do("freeing a graph", func() error {
		var err error
		if d.step.underWay > 0 {
			err = d.stream.Synchronize()
		}
		return errors.Join(err, d.closeGraph(g))
	})
}

func (d *device) closeGraph(g *graph) error {
	delete(d.graphs, g)
	return g.exec.Close()
}
