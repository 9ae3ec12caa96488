package reference

import (
	"math"
	"slices"

	"dsstne/kernels"
)

// norms are the lengths of the first rows of a matrix.
func norms(b kernels.Buffer, rows, columns int64) []float64 {
	n := make([]float64, rows)
	for r := range rows {
		x := rowOf(b, r, columns)
		n[r] = math.Sqrt(kernels.Dot(x, x))
	}
	return n
}

// logits holds what the logits of an output need beyond the buffers. For cosine logits, cosine[u] is that of the row u
// and the item last asked for.
type logits struct {
	op        *kernels.Output
	rows      int64
	hiddenLen []float64 // |h_u|, cosine only
	itemLen   []float64 // |w_i|, cosine only
	cosine    []float64
}

func newLogits(op *kernels.Output, rows int64) *logits {
	l := &logits{op: op, rows: rows}
	if op.Temperature != 0 {
		source := op.Sources[0]
		l.hiddenLen = norms(source.H, rows, source.Weight.Columns)
		l.itemLen = norms(source.Weight.Value, op.Items, source.Weight.Columns)
		l.cosine = make([]float64, rows)
	}
	return l
}

// of gives the logits of one item for each row of the batch.
func (l *logits) of(item int64) ([]float64, error) {
	z := make([]float64, l.rows)
	tensor := ""
	for _, source := range l.op.Sources {
		w := source.Weight
		tensor = w.Name
		for u := range l.rows {
			z[u] += kernels.Dot(rowOf(source.H, u, w.Columns), rowOf(w.Value, item, w.Columns))
		}
	}
	for u := range z {
		if l.op.Temperature != 0 {
			norm := l.hiddenLen[u] * l.itemLen[item]
			if norm == 0 {
				z[u] = 0
			} else {
				z[u] /= norm
			}
			l.cosine[u] = z[u]
			z[u] /= float64(l.op.Temperature)
		}
		if l.op.Addend.Counts() {
			z[u] += float64(rowOf(l.op.Addend.Sum, int64(u), l.op.Addend.Stride)[l.op.Addend.First+item])
		}
		if l.op.Bias != nil {
			z[u] += float64(l.op.Bias.Value.Float32()[item])
			tensor = l.op.Bias.Name
		}
		if !finite(z[u]) {
			return nil, &kernels.NotFiniteError{Tensor: tensor, What: "logits", Row: item}
		}
	}
	return z, nil
}

// OutputStats computes maximum and log-sum-exp of each row's logits.
func (device) OutputStats(op *kernels.Output, step *kernels.Step) error {
	l := newLogits(op, step.Rows)
	all := make([][]float64, op.Items)
	for i := range all {
		var err error
		if all[i], err = l.of(int64(i)); err != nil {
			return err
		}
	}
	for u := range step.Rows {
		maximum := math.Inf(-1)
		for i := range all {
			maximum = math.Max(maximum, all[i][u])
		}
		sum := 0.0
		for i := range all {
			sum += math.Exp(all[i][u] - maximum)
		}
		stats := rowOf(op.Stats, u, 2)
		stats[0], stats[1] = float32(maximum), float32(maximum+math.Log(sum))
	}
	return nil
}

func (device) CombineStats(op *kernels.CombineStats, step *kernels.Step) error {
	for u := range step.Rows {
		maximum, sum := math.Inf(-1), 0.0
		for shard := range op.Shards {
			maximum = math.Max(maximum, float64(rowOf(op.Parts, shard*op.Stride+u, 2)[0]))
		}
		for shard := range op.Shards {
			sum += math.Exp(float64(rowOf(op.Parts, shard*op.Stride+u, 2)[1]) - maximum)
		}
		stats := rowOf(op.Stats, u, 2)
		stats[0], stats[1] = float32(maximum), float32(maximum+math.Log(sum))
	}
	return nil
}

// OutputStep computes loss, gradients and updates of an output layer, one item after the other.
func (device) OutputStep(op *kernels.Output, step *kernels.Step) error {
	lossOf, err := lossOf(&op.Loss)
	if err != nil {
		return err
	}
	l := newLogits(op, step.Rows)
	dh := make([][]float64, len(op.Sources))
	for s, source := range op.Sources {
		dh[s] = make([]float64, step.Rows*source.Weight.Columns)
	}
	total := 0.0
	if a := &op.Addend; a.Stride > 0 {
		for u := range step.Rows {
			row := rowOf(a.Sum, u, a.Stride)
			clear(row[:a.First])
			clear(row[a.First+op.Items:])
		}
	}
	for item := range op.Items {
		loss, err := l.stepItem(lossOf, step, item, dh)
		if err != nil {
			return err
		}
		total += loss
	}
	step.Loss[op.Term] += total
	for s, source := range op.Sources {
		if source.DH == nil {
			continue
		}
		storeRows(source.DH, dh[s], source.Accumulate)
		if !allFinite(source.DH.Float32()[:len(dh[s])]) {
			return &kernels.NotFiniteError{Tensor: source.Weight.Name, What: "gradient", Row: -1}
		}
	}
	return nil
}

// stepItem adds one item's part to dh, updates its weights and bias, and returns its loss.
func (l *logits) stepItem(lossOf logitLoss, step *kernels.Step, item int64, dh [][]float64) (float64, error) {
	op := l.op
	z, err := l.of(item)
	if err != nil {
		return 0, err
	}
	loss, dz := l.loss(lossOf, step, item, z)
	if math.IsNaN(loss) || math.IsInf(loss, 0) {
		return 0, &kernels.NotFiniteError{Tensor: "loss", What: "loss", Row: item}
	}
	if a := &op.Addend; a.Stride > 0 {
		for u, d := range dz {
			rowOf(a.Sum, int64(u), a.Stride)[a.First+item] = float32(d)
		}
	}
	rates := step.RatesOf(step.Number)
	var changes []*change
	for s, source := range op.Sources {
		w := source.Weight
		dw := make([]float64, w.Columns)
		row := rowOf(w.Value, item, w.Columns)
		for u := range l.rows {
			h := rowOf(source.H, u, w.Columns)
			l.backward(u, item, dz[u], h, row, dh[s][u*w.Columns:(u+1)*w.Columns], dw)
		}
		if op.TiedInput >= 0 && s == 0 { // a tied output has one source; were there more, the first is the tied one
			n, touched := slices.BinarySearch(step.Sparse[op.TiedInput].Items, int32(item))
			if touched {
				part := rounded(dw)
				if !allFinite(part) {
					return 0, &kernels.NotFiniteError{Tensor: w.Name, What: "gradient", Row: item}
				}
				copy(rowOf(op.TiedGradient, int64(n), w.Columns), part)
				continue
			}
		}
		c, err := prepare(w, op.Optimizer, rates, step.Number, item, dw)
		if err != nil {
			return 0, err
		}
		changes = append(changes, c)
	}
	if op.Bias != nil {
		sum := 0.0
		for _, d := range dz {
			sum += d
		}
		c, err := prepare(op.Bias, op.Optimizer, rates, step.Number, item, []float64{sum})
		if err != nil {
			return 0, err
		}
		changes = append(changes, c)
	}
	for _, c := range changes {
		c.store()
	}
	return loss, nil
}

// loss gives the weighted loss of one item, summed over the rows, and dz of each row.
func (l *logits) loss(lossOf logitLoss, step *kernels.Step, item int64, z []float64) (float64, []float64) {
	op := l.op
	batch := step.Sparse[op.Target]
	targets := make([]float64, l.rows)
	rows, values := itemEntries(batch, item)
	sums := batch.RowSum
	if op.Targets.Sums != nil {
		sums = op.Targets.Sums.Float32()
		given := *batch
		given.ItemValues = op.Targets.ByItem.Float32()
		_, values = itemEntries(&given, item)
	}
	for e, u := range rows {
		targets[u] = float64(values[e])
	}
	total, dz := 0.0, make([]float64, l.rows)
	for u := range z {
		logSumExp := 0.0
		if op.Loss.NeedsStats() {
			logSumExp = float64(rowOf(op.Stats, int64(u), 2)[1])
		}
		loss, delta := lossOf(z[u], targets[u], float64(sums[u]), logSumExp)
		weight := rowWeight(step, op.Term, op.Loss, int64(u))
		total += weight * loss
		dz[u] = weight * delta
	}
	return total, dz
}

// rowWeight is r_u.
func rowWeight(step *kernels.Step, term int, loss kernels.Loss, u int64) float64 {
	weight := float64(step.TermWeight(term, loss)) / float64(step.WholeRows())
	if of := step.WeightsOfRows(term); of != nil {
		weight *= float64(of[u])
	}
	return weight
}

// backward adds the gradients of one logit with respect to h and w. With c the cosine of h and w,
// dz/dh = (w/|w| - c h/|h|) / |h| / Temperature, dz/dw likewise, and both are 0 where a vector is zero.
func (l *logits) backward(u, item int64, dz float64, h, w []float32, dh, dw []float64) {
	if l.op.Temperature == 0 {
		addScaled(dh, dz, w)
		addScaled(dw, dz, h)
		return
	}
	hh, ww := l.hiddenLen[u], l.itemLen[item]
	if hh == 0 || ww == 0 {
		return
	}
	dz /= float64(l.op.Temperature)
	addScaled(dh, dz/(hh*ww), w)
	addScaled(dh, -dz*l.cosine[u]/(hh*hh), h)
	addScaled(dw, dz/(hh*ww), h)
	addScaled(dw, -dz*l.cosine[u]/(ww*ww), w)
}
