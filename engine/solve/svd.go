package solve

import (
	"fmt"
	"math"

	"dsstne/engine/csr"
	"dsstne/engine/model"
	"dsstne/engine/program"
	"dsstne/internal/fault"
	"dsstne/internal/random"
	"dsstne/kernels"
)

// SVD finds the K largest singular values of a matrix and their vectors, by block Krylov iteration (Golub, Luk and
// Overton, 1981; Musco and Musco, 2015) with thick restarts (Wu and Simon, 2000).
//
// With A the matrix, transposed if it has more rows than columns, a step multiplies a panel of 64 columns by A A' and
// makes the product orthogonal to all panels before it. When there are about K + Oversampling columns, the eigenvectors
// of A A' restricted to their span are the approximate left singular vectors; the next iteration begins from them. The
// right singular vectors are A'u / s.
type SVD struct {
	K            int64
	Oversampling int64 // columns of the basis beyond K; 0: 1.5 K
	Iterations   int64
	Seed         uint64

	byRow, byItem kernels.SparseMatrix // A and its transpose
	swapped       bool                 // A is the matrix transposed
	left, right   basis
	workspace     kernels.Buffer
	panels, keep  int64       // of the whole basis, and what a restart keeps
	projected     [][]float64 // A A' in the basis
	matrix        [][]float64 // a copy for eigen
	vectors       [][]float64
	dead          []bool // columns of the basis that are 0
	regular       bool   // no columns were replaced since the last restart
	edge          *block // what connects the last panel with the one behind it
	squares       []float64
	values        []float64
	converged     bool
	steps         []func(kernels.Rank) error
}

// svdStep is a step of the method as an operation.
type svdStep struct{ *SVD }

func (o svdStep) Do(r kernels.Rank, s *kernels.Step) error { return o.steps[s.Number-1](r) }
func (o svdStep) String() string {
	return fmt.Sprintf("SVD: panels of %d columns times A A', up to %d of %d rows, %d iterations", width,
		width*o.panels, o.left.rows, o.Iterations)
}

// Check refuses values that are not finite and a K that is more than the matrix has.
func (o *SVD) Check(data csr.Source) error {
	if least := min(data.Rows(), data.Columns()); o.K > least {
		return fault.New(fault.InvalidArgument, "%d singular values are asked for; a matrix [%d, %d] has %d", o.K,
			data.Rows(), data.Columns(), least)
	}
	return checkValues(data, -math.MaxFloat64)
}

// Build adds one operation, and decides which steps it has.
func (o *SVD) Build(b *program.Builder, data csr.Source) int64 {
	o.byRow, o.byItem = stored(b, data)
	o.swapped = data.Rows() > data.Columns()
	o.byRow, o.byItem = o.data()
	o.arrange(o.byRow.Rows)
	o.allocate(b)
	b.Add(svdStep{o})
	return int64(len(o.steps))
}

// arrange decides the size of the basis and the steps.
func (o *SVD) arrange(rows int64) {
	whole, wanted := parts(rows, width), parts(o.K, width)
	extra := o.Oversampling
	if extra == 0 {
		extra = max(width, 3*o.K/2)
	}
	o.keep = wanted + 1
	o.panels = min(whole, max(parts(o.K+extra, width), o.keep+1))
	iterations := o.Iterations
	if o.panels == whole {
		o.keep, iterations = min(o.keep, whole), 1 // which is exact
	}
	o.steps = []func(kernels.Rank) error{o.begin}
	first := int64(0)
	for range iterations {
		for j := first; j < o.panels; j++ {
			from := j - 1
			if j <= first {
				from = 0
			}
			o.steps = append(o.steps, func(r kernels.Rank) error { return o.extend(r, max(0, from), j) })
		}
		o.steps = append(o.steps, o.restart)
		first = o.keep
	}
	for j := range wanted {
		o.steps = append(o.steps, func(r kernels.Rank) error { return o.finish(r, j) })
	}
}

// allocate takes memory for the bases and the small matrices.
func (o *SVD) allocate(b *program.Builder) {
	rows, columns, m := o.byRow.Rows, o.byRow.Columns, o.panels*width
	wanted := parts(o.K, width)
	products := b.Alloc("basis", "products", 2*area*(o.panels+1))
	matrix := b.Alloc("basis", "small matrices", area*max(o.panels+1, o.panels*o.keep))
	of := func(name string, rows, panels int64) basis {
		return basis{
			rows: rows, panels: panels, values: b.Alloc("basis", name, rows*panels*width), products: products, matrix: matrix,
			workspace: &o.workspace, seed: o.Seed,
		}
	}
	o.left, o.right = of("left singular vectors", rows, o.panels+1), of("right singular vectors", columns, wanted)
	small := func(name string, n int64) [][]float64 {
		buffer := kernels.View[float64](b.Alloc("basis", name, 2*n*m))
		if buffer == nil {
			return nil
		}
		list := make([][]float64, n)
		for i := range list {
			list[i] = buffer[int64(i)*m : int64(i+1)*m]
		}
		return list
	}
	o.projected, o.matrix = small("the projected matrix", m), small("its reflections", m)
	o.vectors = small("its eigenvectors", min(m, o.keep*width))
	o.dead = make([]bool, m+width)
	b.Scratch(&o.workspace, &kernels.PanelGram{Rows: max(rows, columns), As: 15, Bs: 1})
	b.Scratch(&o.workspace, &kernels.PanelProduct{Ins: o.panels, InPlace: true})
	b.Note(program.Part{Name: "the result", Bytes: 4 * o.K * (rows + columns + 1), Device: "host"})
}

// Load copies the data.
func (o *SVD) Load(data csr.Source) error {
	byRow, byItem := o.data()
	return csr.Store(data, &byRow, &byItem)
}

// data is the matrix by row and by item; or, of these, A and its transpose.
func (o *SVD) data() (byRow, byItem kernels.SparseMatrix) {
	if o.swapped {
		return o.byItem, o.byRow
	}
	return o.byRow, o.byItem
}

// square writes A A' times panel j to panel to.
func (o *SVD) square(r kernels.Rank, j, to int64) error {
	between := o.right.panel(0, 1)
	if err := o.transposed(r, j, 0); err != nil {
		return err
	}
	return (&kernels.SparseProduct{
		Matrix: o.byRow, Panels: 1, Width: width, In: between, Out: o.left.panel(to, 1),
	}).Do(r, nil)
}

// transposed writes A' times panel j to panel to of the right basis.
func (o *SVD) transposed(r kernels.Rank, j, to int64) error {
	return (&kernels.SparseProduct{
		Matrix: o.byItem, Panels: 1, Width: width, In: o.left.panel(j, 1), Out: o.right.panel(to, 1),
	}).Do(r, nil)
}

// begin makes the first panel of A A' times random numbers.
func (o *SVD) begin(r kernels.Rank) error {
	if err := r.Device.Fill(&kernels.Fill{
		Kind: kernels.FillNormal, Scale: 1, Seed: o.Seed, Stream: random.StreamInit, Rows: o.left.rows, Columns: width,
		Out: o.left.panel(1, 1),
	}); err != nil {
		return err
	}
	if err := o.square(r, 1, 0); err != nil {
		return err
	}
	_, _, _, err := o.left.extend(r, 0, 0)
	if err != nil {
		return err
	}
	o.regular = true
	return o.bury(r, 0)
}

// bury notes which columns of a panel are 0, and gives them an eigenvalue that is less than all others.
func (o *SVD) bury(r kernels.Rank, j int64) error {
	empty, err := o.left.empty(r, j)
	for c, is := range empty {
		o.dead[j*width+int64(c)] = is
	}
	return err
}

// extend makes panel j + 1 of A A' times panel j. The product is orthogonal to the panels before first, up to rounding,
// unless columns of a panel were replaced.
func (o *SVD) extend(r kernels.Rank, first, j int64) error {
	if o.converged {
		return nil
	}
	if err := o.square(r, j, j+1); err != nil {
		return err
	}
	if !o.regular {
		first = 0
	}
	coefficients, triangle, regular, err := o.left.extend(r, first, j+1)
	if err != nil {
		return err
	}
	o.regular = o.regular && regular
	set := func(panel int64, values []float64) { // and its transpose
		for at, x := range values {
			row, column := panel*width+int64(at)/width, j*width+int64(at)%width
			o.projected[row][column], o.projected[column][row] = x, x
		}
	}
	for i := first; i <= j; i++ {
		set(i, coefficients[(i-first)*area:(i-first+1)*area])
	}
	if o.edge = triangle; j+1 < o.panels {
		set(j+1, triangle[:])
	}
	return o.bury(r, j+1)
}

// restart replaces the basis by approximate singular vectors, and continues from the panel behind it.
func (o *SVD) restart(r kernels.Rank) error {
	if o.converged {
		return nil
	}
	alive := 0
	for i, row := range o.projected {
		copy(o.matrix[i], row)
		if alive++; o.dead[i] {
			alive--
			o.matrix[i][i] = -1
		}
	}
	squares, err := eigen(r.Device.Info().Threads, o.matrix, o.vectors)
	if err != nil {
		return err
	}
	o.squares = squares
	o.converged = o.regular && o.residual() < 0x1p-21
	o.regular = true
	if err := o.rotate(r); err != nil {
		return err
	}
	if o.keep < o.panels {
		copy(o.left.panel(o.keep, 1).Float32(), o.left.panel(o.panels, 1).Float32())
		copy(o.dead[o.keep*width:][:width], o.dead[o.panels*width:])
	}
	for i, row := range o.projected {
		if clear(row); i < len(squares) {
			row[i], o.dead[i] = squares[i], i >= alive
		}
	}
	return nil
}

// residual is the largest |A v - s u| / s_1 of the first K vectors, from what connects the basis with the panel behind.
func (o *SVD) residual() float64 {
	largest, at := 0.0, (o.panels-1)*width
	for n := range o.K {
		square := 0.0
		for i := range width {
			sum := 0.0
			for c := i; c < width; c++ {
				sum += o.edge[i*width+c] * o.vectors[n][at+int64(c)]
			}
			square += sum * sum
		}
		if under := o.squares[n] * o.squares[0]; square > 0 {
			largest = max(largest, math.Sqrt(square/max(under, 1e-14*o.squares[0]*o.squares[0])))
		}
	}
	return largest
}

// rotate multiplies the basis by the eigenvectors.
func (o *SVD) rotate(r kernels.Rank) error {
	matrix := o.left.matrix.Float32()
	clear(matrix)
	for n, vector := range o.vectors {
		j, c := int64(n)/width, int64(n)%width
		for row, x := range vector {
			i, p := int64(row)/width, int64(row)%width
			matrix[((i*o.keep+j)*width+p)*width+c] = float32(x)
		}
	}
	panels := o.left.panel(0, o.panels)
	return (&kernels.PanelProduct{
		Rows: o.left.rows, Ins: o.panels, Outs: o.keep, In: panels, Matrix: o.left.matrix, Out: panels, InPlace: true,
		Workspace: o.workspace,
	}).Do(r, nil)
}

// finish makes panel j of the right singular vectors, and its singular values.
func (o *SVD) finish(r kernels.Rank, j int64) error {
	if err := o.transposed(r, j, j); err != nil {
		return err
	}
	scales := new(block)
	var values [width]float64
	for c := range width {
		if at := j*width + int64(c); at < int64(len(o.squares)) {
			values[c] = math.Sqrt(max(0, o.squares[at]))
		}
		if values[c] > 1e-6*math.Sqrt(o.squares[0]) {
			scales[c*width+c] = 1 / values[c]
		}
	}
	if err := o.right.multiply(r, j, scales); err != nil {
		return err
	}
	_, triangle, _, err := o.right.extend(r, 0, j)
	for c := range width {
		o.values = append(o.values, values[c]*triangle[c*width+c])
	}
	return err
}

// Model is not what this method makes.
func (o *SVD) Model() (*model.Model, error) {
	return nil, fault.New(fault.InvalidState, `"svd" makes arrays, not a model; read "u", "s" and "vt"`)
}

// Array copies the left singular vectors "u" [rows, K], the singular values "s" [K], descending, or the right singular
// vectors "vt" [K, columns]. Of each right singular vector, the first of the numbers of largest size is positive.
func (o *SVD) Array(name string, to []float32) error {
	u, v := &o.left, &o.right
	if o.swapped {
		u, v = v, u
	}
	size := map[string]int64{"u": u.rows * o.K, "s": o.K, "vt": v.rows * o.K}
	switch n, known := size[name]; {
	case !known:
		return fault.New(fault.NotFound, `svd has no array %q; it has "u", "s" and "vt"`, name)
	case n != int64(len(to)):
		return fault.New(fault.InvalidArgument, "%q has %d numbers, not %d", name, n, len(to))
	}
	signs := v.signs(o.K)
	switch name {
	case "s":
		for n := range to {
			to[n] = float32(o.values[n])
		}
	case "u":
		u.copyOut(signs, to, o.K, 1)
	default:
		v.copyOut(signs, to, 1, v.rows)
	}
	return nil
}
