package solve

import (
	"math"

	"dsstne/internal/random"
	"dsstne/kernels"
)

const (
	width = kernels.BlockWidth
	area  = width * width
)

// basis is panels of orthonormal columns. Columns that could not be made so are 0.
type basis struct {
	rows, panels int64
	values       kernels.Buffer // [panels, rows, 64]
	products     kernels.Buffer // float64 [panels][64, 64]
	matrix       kernels.Buffer // of the products by small matrices; [panels][64, 64] or more
	workspace    *kernels.Buffer
	seed         uint64
}

// panel is some panels, from first on.
func (b *basis) panel(first, n int64) kernels.Buffer {
	return b.values.Slice(first*b.rows*width, n*b.rows*width)
}

// block is a matrix [64, 64].
type block [area]float64

// gram returns the products of panels with panel j.
func (b *basis) gram(r kernels.Rank, first, n, j int64) ([]float64, error) {
	op := &kernels.PanelGram{
		Rows: b.rows, As: n, Bs: 1, A: b.panel(first, n), B: b.panel(j, 1), Out: b.products, Workspace: *b.workspace,
	}
	return kernels.View[float64](b.products)[:n*area], op.Do(r, nil)
}

// multiply replaces panel j by itself times a matrix.
func (b *basis) multiply(r kernels.Rank, j int64, by *block) error {
	for i, x := range by {
		b.matrix.Float32()[i] = float32(x)
	}
	panel := b.panel(j, 1)
	return (&kernels.PanelProduct{
		Rows: b.rows, Ins: 1, Outs: 1, In: panel, Matrix: b.matrix, Out: panel, InPlace: true, Workspace: *b.workspace,
	}).Do(r, nil)
}

// What is left of a column may be rounding: of its square before the other panels were subtracted, or of its square
// before the other columns of the panel were; products of columns are less exact.
const (
	roundedPanels  = 1e-10
	roundedColumns = 1e-5
)

// pass makes panel j orthogonal to the panels from first on, and its columns orthonormal: before = panels
// coefficients + after triangle. Columns of which no more than rounding is left become 0, and so do those of which less
// than the given share of the square is. least is the least share.
func (b *basis) pass(r kernels.Rank, first, j int64, share float64) (
	coefficients []float64, triangle *block, least float64, err error,
) {
	var before [width]float64
	if n := j - first; n > 0 {
		products, err := b.gram(r, first, n, j)
		if err != nil {
			return nil, nil, 0, err
		}
		coefficients = append(coefficients, products...)
		for i, x := range coefficients {
			b.matrix.Float32()[i] = float32(-x)
			before[i%width] += x * x
		}
		if err := (&kernels.PanelProduct{
			Rows: b.rows, Ins: n, Outs: 1, In: b.panel(first, n), Matrix: b.matrix, Out: b.panel(j, 1), Add: true,
		}).Do(r, nil); err != nil {
			return nil, nil, 0, err
		}
	}
	gram, err := b.gram(r, j, 1, j)
	if err != nil {
		return nil, nil, 0, err
	}
	for c := range before {
		before[c] += gram[c*width+c]
	}
	triangle, inverse, least := cholesky(gram, &before, max(share, roundedPanels))
	return coefficients, triangle, least, b.multiply(r, j, inverse)
}

// cholesky factors a = R'R, and inverts R. Rows of R, and columns of its inverse, are 0 where the pivot is rounding, or
// less than a share of the square that the column had before. least is the least share.
func cholesky(a []float64, before *[width]float64, share float64) (triangle, inverse *block, least float64) {
	triangle, inverse, least = new(block), new(block), 1
	for i := range width {
		pivot := a[i*width+i]
		for p := range i {
			pivot -= triangle[p*width+i] * triangle[p*width+i]
		}
		if !(pivot > share*before[i] && pivot > roundedColumns*a[i*width+i]) {
			least = 0
			continue
		}
		root := math.Sqrt(pivot)
		least = min(least, pivot/before[i])
		for j := i; j < width; j++ {
			sum := a[i*width+j]
			for p := range i {
				sum -= triangle[p*width+i] * triangle[p*width+j]
			}
			triangle[i*width+j] = sum / root
		}
		// Column i of the inverse: R x is unit vector i.
		inverse[i*width+i] = 1 / root
		for row := i - 1; row >= 0; row-- {
			if triangle[row*width+row] == 0 {
				continue
			}
			sum := 0.0
			for p := row + 1; p <= i; p++ {
				sum += triangle[row*width+p] * inverse[p*width+i]
			}
			inverse[row*width+i] = -sum / triangle[row*width+row]
		}
	}
	return triangle, inverse, least
}

// extend makes panel j orthogonal to those before it and orthonormal in itself. What vanishes is replaced by random
// columns, and these by 0 if nothing of them is left either, because the panels span everything. It returns the
// coefficients of the first pass, which takes only the panels from first on, and the triangle:
//
//	before = panels coefficients + after triangle, up to rounding
//
// Further passes take all panels until one leaves a quarter of each column's square, for then rounding has left nothing
// more (Kahan). regular is false if columns of the first passes were replaced or left out.
func (b *basis) extend(r kernels.Rank, first, j int64) (
	coefficients []float64, triangle *block, regular bool, err error,
) {
	const passes, fills, enough = 6, 2, 0.25
	coefficients, triangle, least, err := b.pass(r, first, j, 0)
	regular = least > 0
	for n, last := 1, triangle; n < passes && err == nil && (n == 1 || least < enough); n++ {
		if n <= fills {
			b.fill(j, last, uint32(n))
		}
		share := 0.0
		if n == passes-1 {
			share = enough
		}
		if _, last, least, err = b.pass(r, 0, j, share); err == nil {
			triangle, regular = product(last, triangle), regular && least > 0
		}
	}
	return coefficients, triangle, regular, err
}

// product multiplies two upper triangles.
func product(a, b *block) *block {
	c := new(block)
	for i := range width {
		for p := i; p < width; p++ {
			for j := p; j < width; j++ {
				c[i*width+j] += a[i*width+p] * b[p*width+j]
			}
		}
	}
	return c
}

// fill replaces the columns of panel j that a pass has made 0 by random numbers.
func (b *basis) fill(j int64, triangle *block, stream uint32) {
	var columns []int
	for c := range width {
		if triangle[c*width+c] == 0 {
			columns = append(columns, c)
		}
	}
	if len(columns) == 0 {
		return
	}
	panel, numbers := b.panel(j, 1).Float32(), make([]float32, width)
	for row := range b.rows {
		random.FillNormal(numbers, b.seed, random.StreamInit|uint32(j)<<2|stream, row, 0, 1)
		for _, c := range columns {
			panel[row*width+int64(c)] = numbers[c]
		}
	}
}

// empty reports for each column of panel j whether it is 0. The others have length 1.
func (b *basis) empty(r kernels.Rank, j int64) (columns [width]bool, err error) {
	gram, err := b.gram(r, j, 1, j)
	for c := range columns {
		columns[c] = gram[c*width+c] < 0.5
	}
	return columns, err
}

// signs are -1 for columns in which the first of the numbers of largest size is negative, else 1.
func (b *basis) signs(columns int64) []float32 {
	signs := make([]float32, columns)
	for j := int64(0); j < columns; j += width {
		var largest [width]float32
		for at, x := range b.panel(j/width, 1).Float32() {
			if c := at % width; max(x, -x) > max(largest[c], -largest[c]) {
				largest[c] = x
			}
		}
		for n := j; n < min(j+width, columns); n++ {
			if signs[n] = 1; largest[n-j] < 0 {
				signs[n] = -1
			}
		}
	}
	return signs
}

// copyOut copies columns times their signs: row r of column n is number r row + n column. It takes as many rows at once
// as there are numbers in a cache line.
func (b *basis) copyOut(signs, to []float32, row, column int64) {
	const rows = 16
	for n := 0; n < len(signs); n += width {
		panel, columns := b.panel(int64(n)/width, 1).Float32(), signs[n:min(n+width, len(signs))]
		for first := int64(0); first < b.rows; first += rows {
			for c, sign := range columns {
				for r := first; r < min(first+rows, b.rows); r++ {
					to[r*row+int64(n+c)*column] = sign * panel[r*width+int64(c)]
				}
			}
		}
	}
}
