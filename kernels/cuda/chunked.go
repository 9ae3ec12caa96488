//go:build !nocuda && linux && amd64

package cuda

import (
	"dsstne/internal/fault"
	"dsstne/kernels"
	"dsstne/kernels/cuda/cublaslt"
	"dsstne/kernels/cuda/driver"
)

// The chunked form goes through the items like the simple one, by chunks whose logits stay in the second-level cache, and has
// cuBLASLt make the products. For a chunk of C items:
//
//	Z = H W^T, loss and G in Z's place (or in bfloat16 beside it), P += G W, S = G^T H, update of W by S
//
// 6 B K C operations, 8 with the statistics of soft-max. Through memory go W and its states, once read and once written;
// through the second-level cache 4 bytes a logit four times, and S. In bfloat16 W is read once more, to be rounded.
//
// Rows of H that the batch has not got are zeros here, and so are their gradients: the products have always as many rows as the
// largest batch.

// libraryBytes is the workspace that the library's algorithms may use.
const libraryBytes = 8 << 20

// libraryProducts are cuBLASLt's. Its places in the workspace are in elements of 4 bytes.
type libraryProducts struct {
	rows    int64
	padded  []int64 // units of each source, as products see them
	packs   []bool  // whether a source's weight is rounded or filled up before it is multiplied
	packed  []int64 // [rows, padded] of each source
	sums    []int64 // [rows, padded]: dh of each source until it is ended
	weights int64   // [tile, padded] of what is packed
	strip   int64   // [tile, padded], the gradient by the weight
	narrow  int64   // [rows, tile] of bfloat16, the gradient by the logits
	scratch int64
}

// loadLibrary opens cuBLASLt if it is installed and may be used.
func (d *device) loadLibrary() (err error) {
	if (d.form == "" || d.form == formChunked) && cublaslt.Load(driver.Version()) == nil {
		d.library, err = cublaslt.New()
	}
	return d.named(err)
}

// closeLibrary gives back what the library holds for the device, when nothing is under way.
func (d *device) closeLibrary() error {
	if d.library == nil {
		return nil
	}
	library := d.library
	d.library = nil
	return d.named(library.Close())
}

// multiply puts a product of the library into the stream; what is there counts with beta.
func (d *device) multiply(s cublaslt.Shape, a, b driver.Address, beta float32, to, scratch driver.Address) error {
	return d.named(d.library.Multiply(s, a, b, beta, to, scratch, libraryBytes, d.stream))
}

// named says of an error of the library on which device it was.
func (d *device) named(err error) error {
	if err == nil {
		return nil
	}
	return fault.Wrap(err, "%s", d.info.Name)
}

// chunk is how many items' logits there are at a time: as many as take a quarter of the second-level cache, with a strip of
// gradients and of weights that takes half of it at most.
func (d *device) chunk(items, rows, columns int64) int64 {
	most := min(d.cacheBytes/4/(4*rows), d.cacheBytes/2/(6*columns))
	return max(64, min(most/64*64, (items+63)/64*64))
}

// paddedFor fills a number of columns up so that rows of a product's factors are aligned to 16 bytes.
func paddedFor(columns int64, p kernels.Precision) int64 {
	if p == kernels.BFloat16 {
		return (columns + 7) / 8 * 8
	}
	return (columns + 3) / 4 * 4
}

// chunkedOf tells the form's workspace, if the library is there and has products of these shapes.
func (d *device) chunkedOf(op *kernels.Output, rows int64) (s outputSpace, p *libraryProducts, ok bool) {
	if d.library == nil || len(op.Sources) == 0 || op.Items == 0 {
		return s, nil, false
	}
	precision, widest := kernels.Precision(d.narrow), int64(0)
	p = &libraryProducts{rows: rows}
	for _, source := range op.Sources {
		columns := source.Weight.Columns
		padded := paddedFor(columns, precision)
		p.padded = append(p.padded, padded)
		p.packs = append(p.packs, padded != columns || precision == kernels.BFloat16)
		widest = max(widest, padded)
	}
	s = spaceOf(op, rows, d.chunk(op.Items, rows, widest))
	for _, padded := range p.padded {
		p.packed, p.sums = append(p.packed, s.take(rows*padded)), append(p.sums, s.take(rows*padded))
	}
	p.weights, p.strip = s.take(s.tile*widest), s.take(s.tile*widest)
	if precision == kernels.BFloat16 {
		p.narrow = s.take(rows * s.tile / 2)
	}
	p.scratch = s.take(libraryBytes / 4)
	for n := range op.Sources {
		for _, items := range []int64{min(s.tile, op.Items), (op.Items-1)%s.tile + 1} {
			for _, shape := range []cublaslt.Shape{
				p.logitsShape(precision, s.tile, items, n), p.hiddenShape(precision, s.tile, items, n),
				p.weightShape(precision, s.tile, items, n),
			} {
				if d.library.Plan(shape, libraryBytes) != nil {
					return s, nil, false
				}
			}
		}
	}
	return s, p, true
}

// The shapes. The library counts columns where we count rows, so that matrices and order of factors are the other way round.
// All addresses are aligned to 16 bytes: places in the workspace, and rows of weights that are not packed.

func (p *libraryProducts) logitsShape(precision kernels.Precision, tile, items int64, n int) cublaslt.Shape {
	k := p.padded[n]
	return cublaslt.Shape{
		Precision: precision, TransposeA: true, M: items, N: p.rows, K: k, StrideA: k, StrideB: k, StrideD: tile, Alignment: 16,
	}
}

func (p *libraryProducts) hiddenShape(precision kernels.Precision, tile, items int64, n int) cublaslt.Shape {
	k := p.padded[n]
	return cublaslt.Shape{Precision: precision, M: k, N: p.rows, K: items, StrideA: k, StrideB: tile, StrideD: k, Alignment: 16}
}

func (p *libraryProducts) weightShape(precision kernels.Precision, tile, items int64, n int) cublaslt.Shape {
	k := p.padded[n]
	return cublaslt.Shape{
		Precision: precision, TransposeB: true, M: k, N: items, K: p.rows, StrideA: k, StrideB: tile, StrideD: k, Alignment: 16,
	}
}

func (p *libraryProducts) multiply(r *outputRun, shape cublaslt.Shape, a, b driver.Address, add bool, to driver.Address) error {
	beta := float32(0)
	if add {
		beta = 1
	}
	return r.device.multiply(shape, a, b, beta, to, r.place(p.scratch))
}

// begin rounds the hidden values.
func (p *libraryProducts) begin(r *outputRun) error {
	r.padded = p.rows
	if kernels.Precision(r.narrow) == kernels.BFloat16 {
		r.narrow16 = r.place(p.narrow)
	}
	for n, source := range r.op.Sources {
		err := r.packRows(addressOf(source.H), r.place(p.packed[n]), -1, source.Weight.Columns, p.padded[n], p.rows)
		if err != nil {
			return err
		}
	}
	return nil
}

// weightsAt packs the chunk's weights of a source where they have to be, and tells where they are.
func (p *libraryProducts) weightsAt(r *outputRun, n int) (driver.Address, error) {
	w := r.op.Sources[n].Weight
	at := addressOf(w.Value) + driver.Address(4*r.first*w.Columns)
	if !p.packs[n] {
		return at, nil
	}
	return r.place(p.weights), r.packRows(at, r.place(p.weights), r.items, w.Columns, p.padded[n], r.items)
}

func (p *libraryProducts) logits(r *outputRun) error {
	for n := range r.op.Sources {
		weights, err := p.weightsAt(r, n)
		if err != nil {
			return err
		}
		shape := p.logitsShape(kernels.Precision(r.narrow), r.space.tile, r.items, n)
		if err := p.multiply(r, shape, weights, r.place(p.packed[n]), n > 0, r.place(r.space.logits)); err != nil {
			return err
		}
	}
	return nil
}

// gradientsAt is where the loss has left the gradients by the logits.
func (p *libraryProducts) gradientsAt(r *outputRun) driver.Address {
	if r.narrow16 != 0 {
		return r.narrow16
	}
	return r.place(r.space.logits)
}

func (p *libraryProducts) hidden(r *outputRun, n int) error {
	if r.op.Sources[n].DH == nil {
		return nil
	}
	weights, err := r.place(p.weights), error(nil)
	if len(r.op.Sources) > 1 || !p.packs[n] { // otherwise they are there since the logits
		weights, err = p.weightsAt(r, n)
	}
	if err != nil {
		return err
	}
	shape := p.hiddenShape(kernels.Precision(r.narrow), r.space.tile, r.items, n)
	return p.multiply(r, shape, weights, p.gradientsAt(r), r.first > 0, r.place(p.sums[n]))
}

func (p *libraryProducts) weight(r *outputRun, n int) error {
	shape := p.weightShape(kernels.Precision(r.narrow), r.space.tile, r.items, n)
	if err := p.multiply(r, shape, r.place(p.packed[n]), p.gradientsAt(r), false, r.place(p.strip)); err != nil {
		return err
	}
	return r.updateItems(n, r.place(p.strip), p.padded[n])
}

// end hands the gradients by the sources on.
func (p *libraryProducts) end(r *outputRun) error {
	for n := range r.op.Sources {
		source := &r.op.Sources[n]
		if source.DH == nil {
			continue
		}
		err := r.mergeHidden(source, r.place(p.sums[n]), r.finish.hiddenInverse, p.padded[n], p.rows, 1, r.step.Most())
		if err != nil {
			return err
		}
	}
	return nil
}
