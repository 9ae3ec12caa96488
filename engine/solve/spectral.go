package solve

import (
	"cmp"
	"math"

	"dsstne/engine/csr"
	"dsstne/engine/model"
	"dsstne/engine/program"
	"dsstne/engine/spectral"
	"dsstne/internal/random"
	"dsstne/kernels"
)

// Spectral is the method of filters. With D_u and D the numbers of entries of rows and items, R = D_u^-1/2 X D^-1/2,
// C = R'R, and V the K right singular vectors of R with the largest singular values, the model scores a row x by
//
//	y     = kappa x D^-FirstIn X' D_u^-RowExponent X D^-FirstOut
//	        + LowPass iota x D^-LowPassExponent V V' D^LowPassExponent
//	score = [sum over n = 0 .. 4 of (-Sharpening)^n / n! y C^n] D^OutputExponent
//
// kappa and iota are 1, or if the parts are Balanced, such that each has a root mean square of 1 over 256 rows of X,
// drawn by the seed. GF-CF (Shen et al., "How Powerful is Graph Convolution for Recommendation?", 2021) and BSPM-EM
// (Choi et al., "Blurring-Sharpening Process Models for Collaborative Filtering", 2023) are settings of it.
type Spectral struct {
	SVD
	RowExponent, FirstIn, FirstOut       float64
	LowPass, LowPassExponent, Sharpening float64
	OutputExponent                       float64
	Balanced                             bool

	vectors map[string]kernels.Buffer
	filter  *spectral.Filter
}

// sampled is how many rows balance the parts.
const sampled = 256

// Build adds a step to those of the singular vectors, which balances the parts.
func (o *Spectral) Build(b *program.Builder, data csr.Source) int64 {
	o.SVD.Build(b, data)
	o.vectors = map[string]kernels.Buffer{}
	for _, name := range []string{
		spectral.In, spectral.Out, spectral.Project, spectral.Back, spectral.Final, spectral.Popularity,
	} {
		o.vectors[name] = b.Alloc("filter", name, data.Columns())
	}
	o.vectors[spectral.Rows] = b.Alloc("filter", spectral.Rows, data.Rows())
	byRow, byItem := o.data()
	o.filter = spectral.NewFilter(b, byRow, byItem, o.K, func(name string) kernels.Buffer {
		if name == spectral.V {
			return o.items().values
		}
		return o.vectors[name]
	})
	b.Note(program.Part{
		Name: "the model", Device: "host",
		Bytes: 16*data.Statistics().NonZeros + 12*data.Rows() + (32+4*width*parts(o.K, width))*data.Columns(),
	})
	o.steps = append(o.steps, o.balance)
	return int64(len(o.steps))
}

// items are the right singular vectors of R.
func (o *Spectral) items() *basis {
	if o.swapped {
		return &o.left
	}
	return &o.right
}

// Load makes R of the data, and the vectors but for the scales of the parts.
func (o *Spectral) Load(data csr.Source) error {
	if err := o.SVD.Load(data); err != nil {
		return err
	}
	byRow, byItem := o.data()
	fill := func(name string, m *kernels.SparseMatrix, exponent float64) {
		to := o.vectors[name].Float32()
		for i, x := range powers(m, exponent) {
			to[i] = float32(x)
		}
	}
	fill(spectral.In, &byItem, 0.5-o.FirstIn)
	fill(spectral.Out, &byItem, 0.5-o.FirstOut)
	fill(spectral.Rows, &byRow, 1-o.RowExponent)
	fill(spectral.Project, &byItem, -o.LowPassExponent)
	fill(spectral.Back, &byItem, o.LowPassExponent)
	fill(spectral.Final, &byItem, o.OutputExponent)
	fill(spectral.Popularity, &byItem, 1)
	multiply(&byRow, &byItem, powers(&byRow, -0.5), powers(&byItem, -0.5))
	return nil
}

// balance clears the vectors behind the last, and multiplies the factors of both parts by their scales.
func (o *Spectral) balance(r kernels.Rank) error {
	v := o.items()
	panel := v.panel(parts(o.K, width)-1, 1).Float32()
	for c := (o.K-1)%width + 1; c < width; c++ {
		for row := range v.rows {
			panel[row*width+c] = 0
		}
	}
	kappa, iota := 1.0, 1.0
	if o.Balanced {
		var err error
		if kappa, iota, err = o.scales(r); err != nil {
			return err
		}
	}
	for name, scale := range map[string]float64{spectral.Out: kappa, spectral.Back: o.LowPass * iota} {
		for i, x := range o.vectors[name].Float32() {
			o.vectors[name].Float32()[i] = float32(scale * float64(x))
		}
	}
	return nil
}

// scales are kappa and iota.
func (o *Spectral) scales(r kernels.Rank) (kappa, iota float64, err error) {
	step := &kernels.Step{Number: 1, Rows: sampled, Sparse: []*kernels.SparseBatch{o.sample()}}
	squares := func(panel, factors kernels.Buffer) (sum float64) {
		for at, x := range panel.Float32() {
			y := float64(x)
			if factors != nil {
				y *= float64(factors.Float32()[at/width])
			}
			sum += y * y
		}
		return sum
	}
	first, low := 0.0, 0.0
	for at := int64(0); at < sampled; at += width {
		for n, ops := range [][]kernels.Op{o.filter.First(0, at), o.filter.LowPass(0, at)} {
			for _, op := range ops {
				if err := op.Do(r, step); err != nil {
					return 0, 0, err
				}
			}
			if n == 0 {
				first += squares(o.filter.Y, nil)
			} else {
				low += squares(o.filter.P, o.vectors[spectral.Back])
			}
		}
	}
	scale := func(sum float64) float64 {
		if sum == 0 {
			return 1
		}
		return 1 / math.Sqrt(sum/sampled/float64(o.filter.Data.Columns))
	}
	return scale(first), scale(low), nil
}

// sample draws rows of X, with replacement, of those that have entries.
func (o *Spectral) sample() *kernels.SparseBatch {
	offsets, indices := kernels.View[int64](o.filter.Data.Offsets), o.filter.Data.Indices.Int32()
	values, batch := o.filter.Data.Values.Float32(), &kernels.SparseBatch{Offsets: []int32{0}}
	rows, items := powers(&o.filter.Data, 0.5), powers(&o.filter.Transposed, 0.5)
	var some []int64
	for row, x := range rows {
		if x > 0 {
			some = append(some, int64(row))
		}
	}
	for n := range uint32(sampled) {
		if len(some) > 0 {
			const stream = 0x73706563
			words := random.Philox(o.Seed, [4]uint32{n, stream, 0, 0})
			row := some[(uint64(words[0])<<32|uint64(words[1]))%uint64(len(some))]
			for e := offsets[row]; e < offsets[row+1]; e++ {
				batch.Indices = append(batch.Indices, indices[e])
				batch.Values = append(batch.Values, float32(float64(values[e])*rows[row]*items[indices[e]]))
			}
		}
		batch.Offsets = append(batch.Offsets, int32(len(batch.Indices)))
	}
	return batch
}

// Model makes the model, which keeps R.
func (o *Spectral) Model() (*model.Model, error) {
	byRow, byItem := o.data()
	form := &spectral.Form{Data: shapeOf(&byRow), Rank: o.K, Sharpening: o.Sharpening}
	o.vectors[spectral.V] = o.items().panel(0, form.Panels())
	return made(form, func(m *model.Model) error {
		err := copyData(m, form.Data, &byRow, &byItem)
		for name, from := range o.vectors {
			err = cmp.Or(err, copyTo(m, name, from))
		}
		return err
	})
}
