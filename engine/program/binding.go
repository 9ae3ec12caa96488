package program

import (
	"maps"
	"slices"
	"sync/atomic"

	"dsstne/engine/csr"
	"dsstne/engine/fault"
	"dsstne/engine/model"
	"dsstne/engine/network"
	"dsstne/kernels"
)

// Binding is what a trainer or a predictor holds on to while it is open: a model, devices, and the datasets of its layers.
type Binding struct {
	Net      *network.Network
	Ranks    []Rank
	Model    *model.Model
	opened   *opened
	datasets map[int]*csr.Matrix // by layer
	kept     map[keptColumns]*kernels.Data
	rows     atomic.Int64 // read while datasets are being bound
}

// NewBinding opens the devices and marks the model as used. Whoever reads the model has Copies then.
func NewBinding(m *model.Model, p Placement, reads bool) (*Binding, error) {
	reader := m
	if !reads {
		reader = nil
	}
	o, err := p.open(reader)
	if err != nil {
		return nil, err
	}
	m.Use()
	b := &Binding{Net: m.Network(), Ranks: o.ranks, Model: m, opened: o, datasets: map[int]*csr.Matrix{}}
	b.rows.Store(-1)
	return b, nil
}

// Check finds a layer by name and tells whether a dataset can be bound to it.
func (b *Binding) Check(layer string, d *csr.Matrix) (int, error) {
	i, err := b.Net.Layer(layer)
	if err != nil {
		return 0, err
	}
	l := &b.Net.Layers[i]
	switch {
	case l.Kind == network.Hidden:
		err = fault.New(fault.InvalidArgument, "layer %q is hidden; datasets are bound to input and output layers", layer)
	case b.datasets[i] != nil:
		err = fault.New(fault.InvalidState, "layer %q has a dataset already", layer)
	case d.Columns() != l.Size:
		err = fault.New(fault.InvalidData, "the dataset has %d columns, layer %q has %d units", d.Columns(), layer, l.Size)
	case b.Rows() >= 0 && d.Rows() != b.Rows():
		err = fault.New(fault.InvalidData, "the dataset for layer %q has %d rows, the ones bound before have %d", layer, d.Rows(), b.Rows())
	}
	return i, err
}

// Hold binds a dataset that was checked to layer i; it stays in use until Close.
func (b *Binding) Hold(i int, d *csr.Matrix) error {
	if err := d.Use(); err != nil {
		return err
	}
	b.datasets[i] = d
	b.rows.Store(d.Rows())
	return nil
}

// Dataset is what is bound to a layer, nil if nothing is.
func (b *Binding) Dataset(layer int) *csr.Matrix { return b.datasets[layer] }

// Rows of the bound datasets, -1 when none is bound.
func (b *Binding) Rows() int64 { return b.rows.Load() }

// Spec begins the specification of a program for batches of up to rows examples. Every layer of the kinds must be bound.
func (b *Binding) Spec(rows, limit int64, kinds ...network.Kind) (Spec, error) {
	spec := Spec{
		Network: b.Net, Ranks: b.Ranks, Rows: rows, Limit: limit, Weights: b.weights, Copies: b.opened.copies, Keep: b.keep,
	}
	// Asked once: the offsets belong to the caller, and everything that is sized by them must agree.
	type part struct {
		layer int
		rows  int64
	}
	entries, seen := map[part]int64{}, map[*csr.Matrix]bool{}
	for i, l := range b.Net.Layers {
		d := b.datasets[i]
		switch {
		case !slices.Contains(kinds, l.Kind):
			continue
		case d == nil:
			return spec, fault.New(fault.InvalidState, "no dataset is bound to layer %q", l.Name)
		}
		if !seen[d] { // one that feeds several layers counts once
			seen[d] = true
			spec.Data = append(spec.Data, Part{Name: "data", Of: l.Name, Bytes: d.Bytes(), Device: "host", Held: true})
		}
	}
	spec.Entries = func(layer int, rows int64) int64 {
		asked := part{layer, rows}
		most, known := entries[asked]
		if !known {
			most = b.datasets[layer].MaxBatchEntries(rows)
			entries[asked] = most
		}
		return most
	}
	return spec, nil
}

// keptColumns are columns of a dataset.
type keptColumns struct {
	dataset    *csr.Matrix
	first, end int64
}

// keep describes columns of what is bound to a layer, for devices that keep it.
func (b *Binding) keep(layer int, first, end int64) (*kernels.Data, error) {
	return b.KeptColumns(b.datasets[layer], first, end)
}

// KeptColumns describes columns of a dataset, for devices that keep it: the same of the same, whatever it feeds.
func (b *Binding) KeptColumns(d *csr.Matrix, first, end int64) (*kernels.Data, error) {
	columns := keptColumns{d, first, end}
	if data := b.kept[columns]; data != nil {
		return data, nil
	}
	scaled := false
	for i, l := range b.Net.Layers {
		scaled = scaled || b.datasets[i] == d && l.Scaling == network.L2
	}
	data, err := d.Kept(first, end, scaled)
	if err != nil {
		return nil, err
	}
	if b.kept == nil {
		b.kept = map[keptColumns]*kernels.Data{}
	}
	b.kept[columns] = &data
	return &data, nil
}

// IsBound tells whether a dataset is bound to a layer.
func (b *Binding) IsBound(d *csr.Matrix) bool {
	for _, bound := range b.datasets {
		if bound == d {
			return true
		}
	}
	return false
}

// Forget ends what KeptColumns remembers of a dataset, unless it is bound.
func (b *Binding) Forget(d *csr.Matrix) {
	if !b.IsBound(d) {
		maps.DeleteFunc(b.kept, func(k keptColumns, _ *kernels.Data) bool { return k.dataset == d })
	}
}

// weights gives a program the model's tensors.
func (b *Binding) weights(name string) (kernels.Buffer, error) {
	tensor, err := b.Model.Tensor(name)
	if err != nil {
		return nil, err
	}
	return tensor.Buffer(), nil
}

// Copies are what the devices have of the model; nil where it is trained.
func (b *Binding) Copies() *Copies { return b.opened.copies }

// Close gives datasets, model and devices back.
func (b *Binding) Close() error {
	for _, d := range b.datasets {
		d.Unuse()
	}
	b.datasets = nil
	err := b.opened.rest()
	b.Model.Unuse()
	return err
}
