// Package session is what trainers and predictors have in common: they hold on to a model, to devices and to the
// datasets of the model's layers, and make the specification of a program out of these.
package session

import (
	"maps"
	"slices"
	"sync/atomic"

	"dsstne/engine/csr"
	"dsstne/engine/devices"
	"dsstne/engine/model"
	"dsstne/engine/program"
	"dsstne/engine/strictjson"
	"dsstne/internal/fault"
	"dsstne/kernels"
)

// Binding is what an open trainer or predictor holds on to: a model, devices, and the datasets of its layers.
type Binding struct {
	Ports    []program.Port // the model's layers
	Model    *model.Model
	Ranks    []kernels.Rank
	opened   *devices.Opened
	limit    int64              // memory_limit
	datasets map[int]csr.Source // by layer
	resident map[columns]*kernels.Data
	rows     atomic.Int64 // read while datasets are being bound
}

// columns are columns of a dataset.
type columns struct {
	dataset    csr.Source
	first, end int64
}

// New opens the devices and marks the model as used. reads is the model if Copies are to be read, otherwise nil.
func New(m *model.Model, p devices.Placement, reads *model.Model) (*Binding, error) {
	o, err := p.Open(reads)
	if err != nil {
		return nil, err
	}
	m.Use()
	b := &Binding{
		Ports: m.Form().Ports(), Ranks: o.Ranks, Model: m, opened: o, limit: p.Limit,
		datasets: map[int]csr.Source{}, resident: map[columns]*kernels.Data{},
	}
	b.rows.Store(-1)
	return b, nil
}

// Layer is the index of the layer with a name, or fault.NotFound naming the nearest.
func (b *Binding) Layer(name string) (int, error) {
	names := make([]string, len(b.Ports))
	for i, port := range b.Ports {
		names[i] = port.Name
	}
	if i := slices.Index(names, name); i >= 0 {
		return i, nil
	}
	return -1, fault.New(fault.NotFound, "the model has no layer %q%s", name, strictjson.Suggestion(name, names))
}

// Check finds a layer by name, and checks that a dataset can be bound to it.
func (b *Binding) Check(layer string, d csr.Source) (int, error) {
	i, err := b.Layer(layer)
	if err != nil {
		return 0, err
	}
	l := &b.Ports[i]
	switch {
	case !l.Reads && !l.Scores:
		err = fault.New(fault.InvalidArgument, "layer %q is hidden; datasets are bound to input and output layers", layer)
	case b.datasets[i] != nil:
		err = fault.New(fault.InvalidState, "layer %q has a dataset already", layer)
	case d.Columns() != l.Size:
		err = fault.New(fault.InvalidData, "the dataset has %d columns, layer %q has %d units", d.Columns(), layer, l.Size)
	case b.Rows() >= 0 && d.Rows() != b.Rows():
		err = fault.New(fault.InvalidData, "the dataset for layer %q has %d rows, the ones bound before have %d",
			layer, d.Rows(), b.Rows())
	}
	return i, err
}

// Hold binds a dataset that was checked to layer i; it stays in use until Close.
func (b *Binding) Hold(i int, d csr.Source) error {
	if err := d.Use(); err != nil {
		return err
	}
	b.datasets[i] = d
	b.rows.Store(d.Rows())
	return nil
}

// Dataset is what is bound to layer i, nil if nothing is.
func (b *Binding) Dataset(i int) csr.Source { return b.datasets[i] }

// Rows of the bound datasets, -1 when none is bound.
func (b *Binding) Rows() int64 { return b.rows.Load() }

// Base begins the specification of a program for batches of up to rows examples.
func (b *Binding) Base(rows int64) program.Spec {
	return program.Spec{
		Ranks: b.Ranks, Rows: rows, Precision: b.Precision(), Limit: b.limit, MakeRoom: devices.MakeRoom,
	}
}

// Spec begins the specification of a program for batches of up to rows examples. Layers that read need a dataset. keep:
// devices may keep it.
func (b *Binding) Spec(rows int64, training *program.Training, keep bool) (program.Spec, error) {
	for i := range b.Ports {
		if l := &b.Ports[i]; b.datasets[i] == nil && (l.Reads || l.Scores && training != nil) {
			return program.Spec{}, fault.New(fault.InvalidState, "no dataset is bound to layer %q", l.Name)
		}
	}
	return b.Draft(rows, training, keep), nil
}

// Draft is Spec for a program that may not run: layers without a dataset have batches without entries.
func (b *Binding) Draft(rows int64, training *program.Training, keep bool) program.Spec {
	spec := b.Base(rows)
	spec.Weights, spec.Training = b.Model.Buffer, training
	if b.opened.Copies != nil {
		spec.Copies = b.opened.Copies
	}
	seen := map[csr.Source]bool{} // a dataset that feeds several layers counts once
	for i := range b.Ports {
		l, d := &b.Ports[i], b.datasets[i]
		if d != nil && !seen[d] {
			seen[d] = true
			part := program.Part{Name: "data", Of: l.Name, Bytes: d.Statistics().Bytes, Device: "host", Held: true}
			spec.Held = append(spec.Held, part)
		}
	}
	// Asked once: the offsets belong to the caller, and everything that is sized by them must agree.
	type request struct {
		layer int
		rows  int64
	}
	entries := map[request]int64{}
	spec.Computation = b.Model.Form().Computation(func(f *program.Feed) {
		d, layer := b.datasets[f.Layer], f.Layer
		f.Entries = func(rows int64) int64 {
			most, known := entries[request{layer, rows}]
			if !known && d != nil {
				most = csr.MaxBatchEntries(d, rows)
				entries[request{layer, rows}] = most
			}
			return most
		}
		f.Zeros = f.Zeros && d != nil && d.Statistics().MayHaveZeros()
		if keep && d != nil && !f.Zeros && f.Negatives == 0 { // devices keep no zeros
			f.Keep = func(first, end int64) (*kernels.Data, error) {
				data, err := b.Resident(d, first, end)
				return data, fault.Wrap(err, "layer %q", b.Ports[layer].Name)
			}
		}
	})
	return spec
}

// Reader makes the batches of a feed on the host.
func (b *Binding) Reader(f *program.Feed, rows int64, seed uint64, training bool) *csr.Reader {
	r := &csr.Reader{
		Source: b.datasets[f.Layer], Scaling: f.Scaled, Zeros: f.Zeros, Limit: f.Entries(rows), RowsOnly: !training,
		Threads: b.opened.Threads,
	}
	if training {
		r.Denoising, r.Negatives, r.Seed, r.Stream = f.Denoising, f.Negatives, seed, f.Stream
	}
	return r
}

// Resident describes columns of a dataset, for devices that keep it: the same of the same, whatever it feeds.
func (b *Binding) Resident(d csr.Source, first, end int64) (*kernels.Data, error) {
	key := columns{d, first, end}
	if data := b.resident[key]; data != nil {
		return data, nil
	}
	scaled := false
	for i, port := range b.Ports {
		scaled = scaled || b.datasets[i] == d && port.Scaled
	}
	data, err := csr.DeviceData(d, first, end, scaled)
	if err != nil {
		return nil, err
	}
	b.resident[key] = &data
	return &data, nil
}

// IsBound reports whether a dataset is bound to a layer.
func (b *Binding) IsBound(d csr.Source) bool {
	return slices.Contains(slices.Collect(maps.Values(b.datasets)), d)
}

// Forget ends what Resident remembers of a dataset, unless it is bound.
func (b *Binding) Forget(d csr.Source) {
	if !b.IsBound(d) {
		maps.DeleteFunc(b.resident, func(k columns, _ *kernels.Data) bool { return k.dataset == d })
	}
}

// Compute announces a run on the devices; the caller calls end when it is over. See devices.Opened.
func (b *Binding) Compute() (end func()) { return b.opened.Compute() }

// Precision is that of products on the devices.
func (b *Binding) Precision() kernels.Precision { return b.opened.Precision }

// Copies are what the devices have of the model; nil where it is trained.
func (b *Binding) Copies() *devices.Copies { return b.opened.Copies }

// Close gives datasets, model and devices back.
func (b *Binding) Close() error {
	for _, d := range b.datasets {
		d.Unuse()
	}
	b.datasets = nil
	err := b.opened.Rest()
	b.Model.Unuse()
	return err
}
