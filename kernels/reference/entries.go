package reference

import (
	"math"

	"dsstne/internal/random"
	"dsstne/kernels"
)

// OutputEntries computes the loss of an output at stored entries, one row after the other.
func (device) OutputEntries(op *kernels.OutputEntries, step *kernels.Step) error {
	lossOf, err := lossOf(&op.Loss)
	if err != nil {
		return err
	}
	batch := step.Sparse[op.Target]
	dz, total := make([]float64, len(batch.Indices)), 0.0
	x, y := make([]float64, len(dz)), make([]float64, len(dz))
	dh := make([][]float64, len(op.Sources))
	for s, source := range op.Sources {
		dh[s] = make([]float64, step.Rows*source.Weight.Columns)
	}
	for u := range step.Rows {
		begin, end := batch.Offsets[u], batch.Offsets[u+1]
		row := &entryRow{
			op: op, items: batch.Indices[begin:end], targets: batch.Values[begin:end], sum: float64(batch.RowSum[u]),
		}
		if err := row.logits(u); err != nil {
			return err
		}
		losses, deltas := row.losses(lossOf, step, u)
		r := rowWeight(step, op.Term, op.Loss, u)
		for n, item := range batch.Indices[begin:end] {
			if total += r * losses[n]; !finite(total) {
				return &kernels.NotFiniteError{Tensor: "loss", What: "loss", Row: int64(item)}
			}
			e := int(begin) + n
			dz[e] = r * deltas[n]
			if op.Temperature != 0 {
				x[e], y[e] = row.turn(u, n, dz[e], dh[0])
				continue
			}
			for s, source := range op.Sources {
				k := source.Weight.Columns
				addScaled(dh[s][u*k:(u+1)*k], dz[e], rowOf(source.Weight.Value, int64(item), k))
			}
		}
	}
	step.Loss[op.Term] += total
	for s, source := range op.Sources {
		if source.DH != nil {
			storeRows(source.DH, dh[s], source.Accumulate)
		}
	}
	// The entries of a row have ascending items, so items in their order find the entries of each row in theirs.
	next := append([]int32(nil), batch.Offsets...)
	for n := range batch.Items {
		own := 0.0
		for e := batch.ItemOffsets[n]; e < batch.ItemOffsets[n+1]; e++ {
			from := &next[batch.ItemRows[e]]
			op.DZ.Float32()[e] = float32(dz[*from])
			if op.Temperature != 0 {
				op.X.Float32()[e] = float32(x[*from])
				own += y[*from]
			}
			*from++
		}
		if op.Temperature != 0 {
			op.Y.Float32()[n] = float32(own)
		}
	}
	return nil
}

// logits computes those of row u, and with a Temperature what they are made of.
func (r *entryRow) logits(u int64) error {
	op, z := r.op, make([]float64, len(r.items))
	if op.Temperature != 0 {
		k := op.Sources[0].Weight.Columns
		h := rowOf(op.Sources[0].H, u, k)
		r.hiddenLen = math.Sqrt(kernels.Dot(h, h))
		for n, x := range h {
			direction := 0.0
			if r.hiddenLen != 0 {
				direction = float64(x) / r.hiddenLen
			}
			rowOf(op.Directions, u, k)[n] = float32(direction)
		}
	}
	for n, item := range r.items {
		tensor := op.Name
		for _, source := range op.Sources {
			w := source.Weight
			z[n] += kernels.Dot(rowOf(source.H, u, w.Columns), rowOf(w.Value, int64(item), w.Columns))
			tensor = w.Name
			if op.Temperature != 0 {
				row := rowOf(w.Value, int64(item), w.Columns)
				length := math.Sqrt(kernels.Dot(row, row))
				if z[n] /= r.hiddenLen * length; r.hiddenLen*length == 0 {
					z[n] = 0
				}
				r.itemLen, r.cosine = append(r.itemLen, length), append(r.cosine, z[n])
				z[n] /= float64(op.Temperature)
			}
		}
		if op.Bias != nil {
			z[n] += float64(op.Bias.Value.Float32()[item])
			tensor = op.Bias.Name
		}
		if !finite(z[n]) {
			return &kernels.NotFiniteError{Tensor: tensor, What: "logits", Row: int64(item)}
		}
	}
	r.z = z
	return nil
}

// entryRow is the stored entries of a row.
type entryRow struct {
	op      *kernels.OutputEntries
	items   []int32
	z       []float64
	targets []float32
	sum     float64 // of the targets

	// of cosine logits: |h_u|, and by entry |w_i| and the cosine
	hiddenLen       float64
	itemLen, cosine []float64
}

// turn adds to dh what entry n of row u does, and returns its x and its part of y.
func (r *entryRow) turn(u int64, n int, dz float64, dh []float64) (x, y float64) {
	hh, ww, k := r.hiddenLen, r.itemLen[n], r.op.Sources[0].Weight.Columns
	if hh == 0 || ww == 0 {
		return 0, 0
	}
	dz /= float64(r.op.Temperature)
	to := dh[u*k : (u+1)*k]
	addScaled(to, dz/(hh*ww), rowOf(r.op.Sources[0].Weight.Value, int64(r.items[n]), k))
	addScaled(to, -dz*r.cosine[n]/(hh*hh), rowOf(r.op.Sources[0].H, u, k))
	return dz / ww, -dz * r.cosine[n] / (ww * ww)
}

// losses are those of the entries of row u, without the row's weight, and their derivatives by the logits.
func (r *entryRow) losses(lossOf logitLoss, step *kernels.Step, u int64) (losses, deltas []float64) {
	losses, deltas = make([]float64, len(r.z)), make([]float64, len(r.z))
	var negatives, others []int
	for n, t := range r.targets {
		if t == 0 {
			negatives = append(negatives, n)
		} else {
			others = append(others, n)
		}
	}
	if r.op.Loss.Pairs {
		if len(others) == 0 {
			return losses, deltas
		}
		p := float64(len(others))
		shift := int(p * float64(random.Uniform(step.Seed, r.op.Stream, step.Number, step.First+u, 4)))
		for n, e := range negatives {
			i := others[(n+shift)%len(others)]
			weight := p / float64(len(negatives)) * float64(r.targets[i])
			loss, delta := lossOf(r.z[i]-r.z[e], 1, 0, 0)
			losses[e] = weight * loss
			deltas[i] += weight * delta
			deltas[e] -= weight * delta
		}
		return losses, deltas
	}
	z, logSumExp := append([]float64(nil), r.z...), 0.0
	if r.op.Loss.Kind == kernels.Softmax {
		for _, e := range negatives {
			z[e] += math.Log(float64(r.op.Items-int64(len(others))) / float64(len(negatives)))
		}
		logSumExp = logSumExpOf(z)
	}
	for n := range z {
		losses[n], deltas[n] = lossOf(z[n], float64(r.targets[n]), r.sum, logSumExp)
	}
	return losses, deltas
}

func logSumExpOf(z []float64) float64 {
	maximum, sum := math.Inf(-1), 0.0
	for _, x := range z {
		maximum = math.Max(maximum, x)
	}
	for _, x := range z {
		sum += math.Exp(x - maximum)
	}
	return maximum + math.Log(sum)
}
