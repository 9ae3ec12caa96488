//go:build !nocuda && linux && amd64

package cuda

import (
	"fmt"
	"math"

	"dsstne/internal/fault"
	"dsstne/kernels"
	"dsstne/kernels/cuda/driver"
)

const (
	screenItems   = 128 // kScreenItems of src/screen.cu
	screenSlab    = 32  // kScreenSlab
	screenStages  = 4   // kScreenStages
	growth        = 7   // items of a wave, by those of all waves before it
	leastScreened = 1024
	// partBytes is about how many bytes a part of the rounded weights has in a ranking that makes them as it goes. Two
	// parts stay in the second-level cache: one is made while the other is read.
	partBytes = 18 << 20
)

// screenShared is the size of ScreenShared of src/screen.cu, for a kernel whose blocks have some rows.
func screenShared(rows int) int { return screenStages * (rows + screenItems) * 80 }

// loadScreening lets the kernels have their shared memory.
func (d *device) loadScreening() error {
	for _, rows := range []int{32, 256} {
		name := fmt.Sprint("screen_", rows)
		if err := d.kernel[name].AllowShared(screenShared(rows)); err != nil {
			return fault.Wrap(err, "kernel %s", name)
		}
	}
	return nil
}

// firstWave is how many tiles of items are candidates without a limit: four times k items give a limit that few others
// reach.
func firstWave(k int64) int64 { return int64(blocks(4*k, screenItems)) }

// screened reports whether most items of a scorer need no score, as low-precision products are computed first.
func screened(s *kernels.Scorer, k int64) bool {
	sources := len(s.Sources)
	return sources > 0 && sources <= kernels.MaxSources && s.Items >= max(leastScreened, 2*screenItems*firstWave(k))
}

// candidateRoom is the room for candidates of a row: about twice those that are expected.
func candidateRoom(k int64) int64 { return 512 + 16*k }

// candidatesAtATime is how many candidates there is room for, unless one row needs more: 192 MiB. With long lists fewer
// rows are ranked at a time.
const candidatesAtATime = 16 << 20

func (d *device) spaceOfScreening(op *kernels.TopK, rows int64) rankSpace {
	rows = min(rows, max(1, candidatesAtATime/candidateRoom(op.K)))
	r, pitch := rankSpace{rows: rows}, screenPitch(op.Sources)
	r.hiddenSquares, r.hiddenNorms = r.take(2*rows), r.take(2*rows)
	r.least, r.lists = r.take(2*2*rows*op.K), r.take(2*2*rows*op.K)
	r.bounds = r.take(2 * rows * candidateRoom(op.K))
	r.candidates = r.take(rows * candidateRoom(op.K))
	r.limit, r.count, r.kept = r.take(rows), r.take(rows), r.take(rows)
	r.hidden = r.take(rows * pitch / 2)
	switch {
	case op.Screening != nil:
	case screensItself(&op.Scorer):
		r.norms = r.take(2 * op.Items)
	default:
		r.partItems = min(d.partOf(pitch, rows), int64(blocks(op.Items, screenItems))) * screenItems
		r.norms, r.weights = r.take(2*2*r.partItems), r.take(2*r.partItems*pitch/2)
	}
	return r
}

// partOf is how many tiles a part of a wave has: as many as give each multiprocessor a block, or a multiple of them.
func (d *device) partOf(pitch, rows int64) int64 {
	least := max(1, int64(d.hardware.Multiprocessors)/int64(blocks(rows, 256)))
	return max(1, partBytes/(2*pitch*screenItems)/least) * least
}

// screenPitch is how many numbers of bfloat16 a row of hidden values, or of weights, has: each source has whole slabs.
func screenPitch(sources []kernels.OutputSource) (pitch int64) {
	for _, source := range sources {
		pitch += int64(blocks(source.Weight.Columns, screenSlab)) * screenSlab
	}
	return pitch
}

// wave is Wave of src/screen.cu.
type wave struct{ begin, count, tiles, stride, items int64 }

// wavesOf cuts the items into waves. The stride has no factor in common with the number of tiles, which puts every tile
// into one wave, and is near the golden section of it, which takes the first tiles from all over.
func wavesOf(items, k int64) []wave {
	tiles := int64(blocks(items, screenItems))
	stride := max(1, int64(0.6180339887498949*float64(tiles)))
	for commonDivisor(stride, tiles) != 1 {
		stride++
	}
	var list []wave
	for begin, count := int64(0), firstWave(k); begin < tiles; {
		count = min(count, tiles-begin)
		list = append(list, wave{begin, count, tiles, stride, items})
		begin += count
		count = growth * begin
	}
	return list
}

// partsOf cuts waves into parts of up to some tiles.
func partsOf(waves []wave, most int64) (list []wave) {
	for _, w := range waves {
		for end := w.begin + w.count; w.begin < end; w.begin += w.count {
			w.count = min(most, end-w.begin)
			list = append(list, w)
		}
	}
	return list
}

func commonDivisor(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// screenArgs is ScreenArgs of src/screen.cu.
type screenArgs struct {
	step                                                              driver.Address
	source                                                            [kernels.MaxSources]sourceArgs
	bias, allowed, hiddenSquares, hiddenNorms, hidden, norms, weights driver.Address
	pitch                                                             int64
	limit, candidates, bounds, count, kept                            driver.Address
	least, list                                                       [2]driver.Address
	ids, scores                                                       driver.Address
	wave                                                              wave
	floor                                                             float64
	rows, row, k, first                                               int64
	sources, exclude, room, all, part, launch                         int32
	temperature, adding, widens                                       float32
}

// screenArgsOf has what a scorer's low-precision products are made of, and the constants of their error, see
// src/screen.cu.
func screenArgsOf(s *kernels.Scorer, row int64) screenArgs {
	columns := 0.0
	for _, source := range s.Sources {
		columns += float64(source.Weight.Columns)
	}
	return screenArgs{
		source: sourcesOf(s, row), pitch: screenPitch(s.Sources), sources: int32(len(s.Sources)),
		floor: columns * math.Exp2(-112), adding: float32(columns*math.Exp2(-21) + math.Exp2(-14)),
		widens: float32(columns*math.Exp2(-24) + math.Exp2(-20)),
	}
}

// ScreeningSize is the size of the scorer's weights in bfloat16, with two norms for each item.
func (d *device) ScreeningSize(s *kernels.Scorer, _ int64) int64 {
	if !screened(s, 1) {
		return 0
	}
	if screensItself(s) {
		return 2 * s.Items
	}
	return s.Items * (screenPitch(s.Sources)/2 + 2)
}

// screensItself reports whether a scorer's weights are already what a screening multiplies: only norms are to be made.
func screensItself(s *kernels.Scorer) bool {
	w := s.Sources[0].Weight
	return len(s.Sources) == 1 && w.Storage == kernels.StoredBFloat16 && w.Columns%screenSlab == 0
}

// placeScreening says where the weights of items are, and the norms: behind the weights that a screening has.
func (a *screenArgs) placeScreening(s *kernels.Scorer, screening driver.Address) {
	if screensItself(s) {
		a.weights, a.norms = a.source[0].weight, screening
		return
	}
	a.weights, a.norms = screening, screening+driver.Address(2*s.Items*a.pitch)
}

// screenAll makes the weights of all items, or their norms, at once.
func (d *device) screenAll(a *screenArgs, items int64) {
	tiles := int64(blocks(items, screenItems))
	d.roundTiles(a, wave{0, tiles, tiles, 1, items})
}

// Screen makes the weights of a screening.
func (d *device) Screen(s *kernels.Scorer, to kernels.Buffer) error {
	return d.do("Screen", func() error {
		return d.enqueue(func() {
			a := screenArgsOf(s, 0)
			a.placeScreening(s, addressOf(to))
			d.screenAll(&a, s.Items)
			d.note(d.wait())
		})
	})
}

func (d *device) roundTiles(a *screenArgs, of wave) {
	a.wave = of
	launch(d, "round_tiles", line(of.count*screenItems, 8), 256, a)
}

// bestOfScreened scores only the items that may be among the best.
func (d *device) bestOfScreened(op *kernels.TopK, b block) {
	n, space := b.rows*op.K, &b.space
	pair := func(at int64) [2]driver.Address { return [2]driver.Address{b.place(at), b.place(at + 2*n)} }
	a := screenArgsOf(&op.Scorer, b.row)
	a.step, a.bias, a.allowed = d.step.at, biasOf(op.Bias), addressOf(op.Allowed)
	a.hiddenSquares, a.hiddenNorms = b.place(space.hiddenSquares), b.place(space.hiddenNorms)
	a.hidden, a.limit = b.place(space.hidden), b.place(space.limit)
	a.candidates, a.bounds = b.place(space.candidates), b.place(space.bounds)
	a.count, a.kept, a.least, a.list = b.place(space.count), b.place(space.kept), pair(space.least), pair(space.lists)
	a.ids, a.scores = element(op.IDs, b.row*op.K), element(op.Scores, b.row*op.K)
	a.rows, a.row, a.k, a.first, a.temperature = b.rows, b.row, op.K, op.First, op.Temperature
	a.exclude, a.room = int32(op.Exclude), int32(candidateRoom(op.K))
	launch(d, "begin_screen", line(b.rows, 32), 256, &a)
	waves := wavesOf(op.Items, op.K)
	parts := waves
	switch {
	case op.Screening != nil:
		a.placeScreening(&op.Scorer, addressOf(op.Screening))
	case screensItself(&op.Scorer):
		a.placeScreening(&op.Scorer, b.place(space.norms))
		d.screenAll(&a, op.Items)
	default:
		a.part, parts = 1, partsOf(waves, space.partItems/screenItems)
		a.placePart(b, len(parts))
		d.roundTiles(&a, parts[0])
	}
	for n, w := range waves {
		a.all = flag(n == 0)
		for ; len(parts) > 0 && parts[0].begin < w.begin+w.count; parts = parts[1:] {
			d.screenPart(&a, b, parts)
		}
		a.wave, a.launch = w, d.next(site{})
		launch(d, "raise_limit", driver.Dim{X: uint32(b.rows)}, 256, &a)
	}
	a.launch = d.next(site{})
	launch(d, "refine", driver.Dim{X: uint32(b.rows)}, 256, &a)
}

// placePart says where the weights of a part of a wave are: the last parts alternate between two places.
func (a *screenArgs) placePart(b block, left int) {
	at := int64(left%2) * b.space.partItems
	a.weights, a.norms = b.place(b.space.weights+at*a.pitch/2), b.place(b.space.norms+2*at)
}

// screenPart screens the first of the parts that are left. If a ranking makes weights as it goes, those of the next one
// are made beside it.
func (d *device) screenPart(a *screenArgs, b block, left []wave) {
	if a.part == 0 {
		d.screen(a, left[0])
		return
	}
	if len(left) > 1 {
		next := *a
		next.placePart(b, len(left)-1)
		d.beside(func() { d.roundTiles(&next, left[1]) })
	}
	a.placePart(b, len(left))
	d.screen(a, left[0])
	d.join()
}

// screen finds the candidates of a wave, or a part of it: with blocks of 256 rows, unless these are too few for the
// device.
func (d *device) screen(a *screenArgs, of wave) {
	rows, threads := int64(256), uint32(512)
	if a.rows <= 32 || of.count*int64(blocks(a.rows, 32)) <= 2*int64(d.hardware.Multiprocessors) {
		rows, threads = 32, 256
	}
	a.wave, a.launch = of, d.next(site{})
	grid := driver.Dim{X: uint32(of.count) * blocks(a.rows, rows)}
	launchShared(d, fmt.Sprint("screen_", rows), grid, threads, screenShared(int(rows)), a)
}
