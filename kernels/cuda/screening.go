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
	growth        = 3   // items of a wave, by those of all waves before it
	leastScreened = 1024
)

// screenShared is the size of ScreenShared of src/screen.cu, for a kernel whose blocks have some rows.
func screenShared(rows int) int { return 2*(rows+screenItems)*80 + 2*4*screenItems*screenSlab }

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

// firstWave is how many tiles of items are scored without screening: with four times k items, few others reach their
// limit.
func firstWave(k int64) int64 { return int64(blocks(4*k, screenItems)) }

// screens reports whether TopK computes low-precision products first, after which most items need no score.
func screens(op *kernels.TopK) bool {
	sources := len(op.Sources)
	return sources > 0 && sources <= kernels.MaxSources && op.Items >= max(leastScreened, 2*screenItems*firstWave(op.K))
}

// candidateRoom is the room for candidates of a row in a wave: a few times those that are expected.
func candidateRoom(k int64) int64 { return 512 + 8*k }

func spaceOfScreening(op *kernels.TopK, rows int64) rankSpace {
	r := rankSpace{rows: rows}
	r.hiddenSquares, r.lists = r.take(2*rows), r.take(2*2*rows*op.K)
	r.hiddenNorm, r.limit, r.count = r.take(rows), r.take(rows), r.take(rows)
	r.candidates = r.take(rows * candidateRoom(op.K))
	r.narrow = r.take(rows * screenPitch(op.Sources) / 2)
	return r
}

// screenPitch is how many numbers of bfloat16 a row of hidden values has: each source has whole slabs.
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

func commonDivisor(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// screenBounds are the constants of the error of low-precision products, see src/screen.cu.
func screenBounds(sources []kernels.OutputSource) (relative, floor, widens float64) {
	columns := 0.0
	for _, source := range sources {
		columns += float64(source.Weight.Columns)
	}
	relative = math.Exp2(-7) + math.Exp2(-15) + columns*math.Exp2(-21)
	return relative, columns * math.Exp2(-112), columns*math.Exp2(-24) + math.Exp2(-20)
}

// bestOfScreened scores only the items that may be among the best.
func (d *device) bestOfScreened(op *kernels.TopK, b block, lists [2]driver.Address) {
	type args struct {
		step                                            driver.Address
		source                                          [kernels.MaxSources]sourceArgs
		bias, allowed, hiddenSquares, hiddenNorm, limit driver.Address
		narrow                                          driver.Address
		pitch                                           int64
		candidates, count                               driver.Address
		list                                            [2]driver.Address
		wave                                            wave
		floor                                           float64
		rows, row, k                                    int64
		sources, exclude, room, all, launch             int32
		temperature, relative, widens                   float32
	}
	relative, floor, widens := screenBounds(op.Sources)
	a := args{
		step: d.step.at, source: sourcesOf(&op.Scorer, b.row), bias: biasOf(op.Bias), allowed: addressOf(op.Allowed),
		hiddenSquares: b.place(b.space.hiddenSquares), hiddenNorm: b.place(b.space.hiddenNorm),
		limit: b.place(b.space.limit), narrow: b.place(b.space.narrow), pitch: screenPitch(op.Sources),
		candidates: b.place(b.space.candidates), count: b.place(b.space.count),
		list: lists, floor: floor, rows: b.rows, row: b.row, k: op.K, sources: int32(len(op.Sources)),
		exclude: int32(op.Exclude), room: int32(candidateRoom(op.K)), all: 1, temperature: op.Temperature,
		relative: float32(relative), widens: float32(widens),
	}
	launch(d, "begin_screen", line(b.rows, 32), 256, &a)
	high, threads := 256, uint32(512)
	if b.rows <= 32 {
		high, threads = 32, 256
	}
	for n, w := range wavesOf(op.Items, op.K) {
		a.wave = w
		if n > 0 {
			a.all, a.launch = 0, d.next(site{})
			grid := driver.Dim{X: uint32(w.count) * blocks(b.rows, int64(high))}
			launchShared(d, fmt.Sprint("screen_", high), grid, threads, screenShared(high), &a)
		}
		a.launch = d.next(site{})
		launch(d, "refine", driver.Dim{X: uint32(b.rows)}, 256, &a)
	}
}
