//go:build !nocuda && linux && amd64

package cuda

import (
	"dsstne/internal/fault"
	"dsstne/kernels"
	"dsstne/kernels/cuda/cublaslt"
	"dsstne/kernels/cuda/driver"
)

// The chunked form goes through the items like the simple one, by chunks whose logits stay in the second-level cache,
// and has cuBLASLt make the products. For a chunk of C items:
//
//	Z = H W^T, loss and G in Z's place, P += G W, S = G^T H, update of W by S
//
// 6 B K C operations, 8 with the statistics of soft-max. Through memory go W and its states, read once and written
// once; through the second-level cache 4 bytes a logit four times, and S. In bfloat16 a logit has 2 bytes, and the
// products read a rounded copy of W, which the update writes. Where the logits of all chunks are kept from the
// statistics to the step, they go through memory, and 2 B K C operations are spared.
//
// Products always have as many rows as the largest batch: rows of H beyond the batch are zeros, and so are their
// gradients.

// libraryBytes is the workspace that the library's algorithms may use.
const libraryBytes = 32 << 20

// loadLibrary opens cuBLASLt if it may be used. A device whose form needs the library does not open without it.
func (d *device) loadLibrary() (err error) {
	if d.form != "" && d.form != formChunked {
		return nil
	}
	if err = cublaslt.Load(); err == nil {
		d.library, err = cublaslt.New()
	} else if d.form == "" {
		err = nil
	}
	return d.named(err)
}

// closeLibrary gives back what the library holds for the device, when nothing is under way.
func (d *device) closeLibrary() error {
	library := d.library
	d.library = nil
	return d.named(library.Close())
}

// named adds the device to an error of the library.
func (d *device) named(err error) error {
	if err == nil {
		return nil
	}
	return fault.Wrap(err, "%s", d.info.Name)
}

// productShapes are the products of a layer: its results, and the gradients with respect to its input and its weight.
type productShapes struct{ forward, toInput, toWeight cublaslt.Shape }

// shapes are those of a weight [units, inputs] for batches of up to `rows` rows; results are pitch apart. The library
// counts columns where we count rows, so matrices and the order of factors are the other way round. narrow: results are
// of bfloat16. All addresses are aligned to 16 bytes: places in the workspace, and rows of weights that are not packed.
func (d *device) shapes(rows, units, inputs, pitch int64, narrow bool) productShapes {
	p := d.precision()
	return productShapes{
		cublaslt.Shape{
			Precision: p, Narrow: narrow, TransposeA: true, M: units, N: rows, K: inputs, StrideA: inputs, StrideB: inputs,
			StrideD: pitch, Alignment: 16,
		},
		cublaslt.Shape{
			Precision: p, M: inputs, N: rows, K: units, StrideA: inputs, StrideB: pitch, StrideD: inputs, Alignment: 16,
		},
		cublaslt.Shape{
			Precision: p, TransposeB: true, M: inputs, N: units, K: rows, StrideA: inputs, StrideB: pitch, StrideD: inputs,
			Alignment: 16,
		},
	}
}

// plans reports whether the library has products of these shapes.
func (d *device) plans(p productShapes) (has bool, err error) {
	for _, shape := range []cublaslt.Shape{p.forward, p.toInput, p.toWeight} {
		if has, err = d.library.Plan(shape, libraryBytes); !has {
			return false, d.named(err)
		}
	}
	return true, nil
}

// multiply puts a product of the library into the stream; beta is the factor of what is there.
func (d *device) multiply(s cublaslt.Shape, a, b driver.Address, beta float32, to, scratch driver.Address) {
	if d.failed == nil {
		d.failed = d.named(d.library.Multiply(s, a, b, beta, to, scratch, libraryBytes, d.stream))
	}
}

// padded fills a number of columns up, so that rows of a product's factors are aligned to 16 bytes.
func (d *device) padded(columns int64) int64 {
	if d.precision() == kernels.BFloat16 {
		return (columns + 7) / 8 * 8
	}
	return (columns + 3) / 4 * 4
}

// packs reports whether a weight is rounded or filled up before it is multiplied.
func (d *device) packs(columns int64) bool {
	return d.padded(columns) != columns || d.precision() == kernels.BFloat16
}

// packed is where rows of a weight from `first` on lie as the library takes them: where they are, in the weight's copy,
// or packed in a place of their own.
func (d *device) packed(w *kernels.Weights, place driver.Address, first, rows int64) driver.Address {
	at, padded := element(w.Value, first*w.Columns), d.padded(w.Columns)
	switch {
	case !d.packs(w.Columns):
		return at
	case w.Rounded != nil:
		return addressOf(w.Rounded) + driver.Address(2*first*padded)
	}
	d.packRows(at, place, rows, w.Columns, padded, d.filled(rows))
	return place
}

// filled is how many rows of a weight, or items of a tile, products take: those of bfloat16, which are packed, a
// multiple of 8. The library has far slower kernels for other numbers.
func (d *device) filled(rows int64) int64 {
	if d.precision() != kernels.BFloat16 {
		return rows
	}
	return (rows + 7) / 8 * 8
}

// roundedSize is the size of the rounded copy of a weight, for products in bfloat16. Its last rows are zeros.
func (d *device) roundedSize(w *kernels.Weights) int64 {
	if d.precision() != kernels.BFloat16 {
		return 0
	}
	return d.filled(w.Rows) * d.padded(w.Columns) / 2
}

// RoundedSize: the library's products read copies, see kernels.Rounder.
func (d *device) RoundedSize(op any, w *kernels.Weights, rows int64) (size int64) {
	_ = d.do("planning", func() error {
		switch op := op.(type) {
		case *kernels.Output:
			if form, _ := d.formOf(op, rows); form.name == formChunked && op.Items > 0 {
				size = d.roundedSize(w)
			}
		case *kernels.Dense:
			if _, ok, _ := d.denseOf(w, rows); ok {
				size = d.roundedSize(w)
			}
		}
		return nil
	})
	return size
}

// Round makes the rounded copy of a weight.
func (d *device) Round(op *kernels.Round, s *kernels.Step) error {
	return d.run("Round", s, nil, func() {
		w := op.Weight
		d.packRows(addressOf(w.Value), addressOf(w.Rounded), w.Rows, w.Columns, d.padded(w.Columns), d.filled(w.Rows))
	})
}

// libraryProducts are cuBLASLt's for the tiles of an output.
type libraryProducts struct {
	rows    int64
	padded  []int64        // units of each source, as products see them
	packed  []int64        // [rows, padded] of each source
	sums    []int64        // [rows, padded]: dh of each source until it is merged
	weights int64          // [tile, padded] of what is packed
	tile    driver.Address // the tile's weights of the source that was multiplied last, as the library takes them
	strip   int64          // [tile, padded], the gradient with respect to the weight
	scratch int64
}

// chunk is how many items' logits there are at a time: as many as take three quarters of the second-level cache with
// the strip of gradients, which takes half of it at most, and with what is packed of the weight. Where there is room
// for as many tiles of 128 items by 256 rows as there are multiprocessors, there are whole multiples of that: the
// library's last wave of tiles is full then.
func (d *device) chunk(items, rows, columns int64) int64 {
	each := 4*rows + 4*columns
	if d.precision() == kernels.BFloat16 {
		each = 2*rows + 4*columns + 2*columns
	}
	most := min(int64(d.hardware.L2Bytes)/4*3/each, int64(d.hardware.L2Bytes)/2/(4*columns))
	if wave := 128 * int64(d.hardware.Multiprocessors) / ((rows + 255) / 256) / 64 * 64; wave > 0 && most >= wave {
		most = most / wave * wave
	}
	return max(64, min(most/64*64, (items+63)/64*64))
}

// chunkedOf is the form's workspace, if the library is there and has products of these shapes. If the library fails to
// say so, chunkedOf returns the workspace and the error.
func (d *device) chunkedOf(op *kernels.Output, rows int64) (s outputSpace, p *libraryProducts, ok bool, err error) {
	if d.library == nil || len(op.Sources) == 0 || op.Items == 0 {
		return s, nil, false, nil
	}
	widest := int64(0)
	p = &libraryProducts{rows: rows}
	for _, source := range op.Sources {
		p.padded = append(p.padded, d.padded(source.Weight.Columns))
		widest = max(widest, p.padded[len(p.padded)-1])
	}
	tile := d.chunk(op.Items, rows, widest)
	s = d.spaceOf(op, rows, tile, d.stripRows(rows, min(tile, op.Items)), d.precision() == kernels.BFloat16)
	for _, padded := range p.padded {
		p.packed, p.sums = append(p.packed, s.take(rows*padded)), append(p.sums, s.take(rows*padded))
	}
	p.weights, p.strip = s.take(s.tile*widest), s.take(s.tile*widest)
	p.scratch = s.take(libraryBytes / 4)
	for _, padded := range p.padded {
		for _, items := range []int64{min(s.tile, op.Items), (op.Items-1)%s.tile + 1} {
			if ok, err = d.plans(d.shapes(rows, d.filled(items), padded, s.tile, s.narrow)); !ok {
				return s, p, false, err
			}
		}
	}
	return s, p, true, nil
}

func (p *libraryProducts) shapes(r *outputRun, n int) productShapes {
	return r.device.shapes(p.rows, r.filled(r.items), p.padded[n], r.space.tile, r.space.narrow)
}

// begin rounds the hidden values.
func (p *libraryProducts) begin(r *outputRun, again bool) {
	r.padded = p.rows
	if again {
		return
	}
	for n, source := range r.op.Sources {
		r.packRows(addressOf(source.H), r.place(p.packed[n]), -1, source.Weight.Columns, p.padded[n], p.rows)
	}
}

// tileWeights is where the library finds the tile's weights of a source.
func (p *libraryProducts) tileWeights(r *outputRun, n int) driver.Address {
	return r.device.packed(r.op.Sources[n].Weight, r.place(p.weights), r.first, r.items)
}

func (p *libraryProducts) logits(r *outputRun) {
	for n := range r.op.Sources {
		p.tile = p.tileWeights(r, n)
		logits, beta := r.tileLogits(), float32(flag(n > 0))
		r.multiply(p.shapes(r, n).forward, p.tile, r.place(p.packed[n]), beta, logits, r.place(p.scratch))
	}
}

func (p *libraryProducts) hidden(r *outputRun, n int) {
	if r.op.Sources[n].DH == nil {
		return
	}
	if len(r.op.Sources) > 1 || r.op.Logits != nil { // otherwise it is where it was for the logits
		p.tile = p.tileWeights(r, n)
	}
	beta := float32(flag(r.first > 0))
	r.multiply(p.shapes(r, n).toInput, p.tile, r.place(r.space.logits), beta, r.place(p.sums[n]), r.place(p.scratch))
}

// weight leaves the update beside the products of the next tile, up to the one that needs the strip. The product itself
// may take its time only where no other of the op follows, since they share the library's workspace.
func (p *libraryProducts) weight(r *outputRun, n int) {
	strip := r.place(p.strip)
	product := func() {
		r.multiply(p.shapes(r, n).toWeight, r.place(p.packed[n]), r.place(r.space.logits), 0, strip, r.place(p.scratch))
	}
	last := r.first+r.items == r.op.Items && n == len(r.op.Sources)-1
	if !last {
		product()
	}
	r.beside(func() {
		if last {
			product()
		}
		r.updateItems(n, strip, p.padded[n])
	})
}

// end adds the gradients with respect to the sources to where they belong.
func (p *libraryProducts) end(r *outputRun) {
	for n := range r.op.Sources {
		sums, most := r.place(p.sums[n]), r.step.Most()
		r.mergeHidden(&r.op.Sources[n], sums, r.finish.hiddenInverse, p.padded[n], p.rows, 1, most)
	}
}
