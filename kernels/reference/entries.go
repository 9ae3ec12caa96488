package reference

import "dsstne/kernels"

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
		r := rowWeight(step, op.Term, op.Loss, u)
		for e := batch.Offsets[u]; e < batch.Offsets[u+1]; e++ {
			item, z, tensor := int64(batch.Indices[e]), 0.0, op.Name
			for _, source := range op.Sources {
				w := source.Weight
				z += kernels.Dot(rowOf(source.H, u, w.Columns), rowOf(w.Value, item, w.Columns))
				tensor = w.Name
			}
			if op.Bias != nil {
				z += float64(op.Bias.Value.Float32()[item])
				tensor = op.Bias.Name
			}
			if !finite(z) {
				return &kernels.NotFiniteError{Tensor: tensor, What: "logits", Row: item}
			}
			loss, delta := lossOf(z, float64(batch.Values[e]), 0, 0)
			if total += r * loss; !finite(total) {
				return &kernels.NotFiniteError{Tensor: "loss", What: "loss", Row: item}
			}
			dz[e] = r * delta
			for s, source := range op.Sources {
				k := source.Weight.Columns
				addScaled(dh[s][u*k:(u+1)*k], dz[e], rowOf(source.Weight.Value, item, k))
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
