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
	dh := make([][]float64, len(op.Sources))
	for s, source := range op.Sources {
		dh[s] = make([]float64, step.Rows*source.Weight.Columns)
	}
	for u := range step.Rows {
		begin, end := batch.Offsets[u], batch.Offsets[u+1]
		z, err := entryLogits(op, u, batch.Indices[begin:end])
		if err != nil {
			return err
		}
		row := &entryRow{op: op, z: z, targets: batch.Values[begin:end], sum: float64(batch.RowSum[u])}
		losses, deltas := row.losses(lossOf, step, u)
		r := rowWeight(step, op.Term, op.Loss, u)
		for n, item := range batch.Indices[begin:end] {
			if total += r * losses[n]; !finite(total) {
				return &kernels.NotFiniteError{Tensor: "loss", What: "loss", Row: int64(item)}
			}
			dz[int(begin)+n] = r * deltas[n]
			for s, source := range op.Sources {
				k := source.Weight.Columns
				addScaled(dh[s][u*k:(u+1)*k], r*deltas[n], rowOf(source.Weight.Value, int64(item), k))
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
	next, byItem := append([]int32(nil), batch.Offsets...), op.DZ.Float32()
	for e, u := range batch.ItemRows {
		byItem[e] = float32(dz[next[u]])
		next[u]++
	}
	return nil
}

// entryLogits are those of some items of row u.
func entryLogits(op *kernels.OutputEntries, u int64, items []int32) ([]float64, error) {
	z := make([]float64, len(items))
	for n, item := range items {
		tensor := op.Name
		for _, source := range op.Sources {
			w := source.Weight
			z[n] += kernels.Dot(rowOf(source.H, u, w.Columns), rowOf(w.Value, int64(item), w.Columns))
			tensor = w.Name
		}
		if op.Bias != nil {
			z[n] += float64(op.Bias.Value.Float32()[item])
			tensor = op.Bias.Name
		}
		if !finite(z[n]) {
			return nil, &kernels.NotFiniteError{Tensor: tensor, What: "logits", Row: int64(item)}
		}
	}
	return z, nil
}

// entryRow is the stored entries of a row.
type entryRow struct {
	op      *kernels.OutputEntries
	z       []float64
	targets []float32
	sum     float64 // of the targets
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
