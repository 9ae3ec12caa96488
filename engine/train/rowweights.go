package train

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"slices"

	"dsstne/engine/network"
	"dsstne/engine/program"
	"dsstne/internal/fault"
)

// Weigh gives each row of the dataset of an output a weight, which multiplies the row's loss; without them all are 1.
// They are copied.
func (t *Trainer) Weigh(layer string, weights []float32) error {
	i, err := t.Layer(layer)
	term := slices.IndexFunc(t.net.Terms, func(of network.Term) bool { return of.Layer == i })
	switch {
	case err != nil:
		return err
	case term < 0:
		return fault.New(fault.InvalidArgument, "layer %q is not an output; only the loss of an output has weights of rows",
			layer)
	case t.program != nil:
		return fault.New(fault.InvalidState, "the trainer has begun; weights of rows are given before the first run")
	case t.Dataset(i) == nil:
		return fault.New(fault.InvalidState, "no dataset is bound to layer %q yet; its rows have no weights", layer)
	case int64(len(weights)) != t.Rows():
		return fault.New(fault.InvalidData, "layer %q: there are %d weights for %d rows", layer, len(weights), t.Rows())
	}
	for row, weight := range weights {
		if !(weight >= 0) || math.IsInf(float64(weight), 1) {
			return fault.New(fault.InvalidData, "layer %q: the weight of row %d is %g; weights are finite and at least 0",
				layer, row, weight)
		}
	}
	if slices.Max(weights) == 0 {
		return fault.New(fault.InvalidData, "layer %q: all weights are 0; there is nothing to learn from", layer)
	}
	if t.rowWeights == nil {
		t.rowWeights = make([][]float32, len(t.net.Terms))
	}
	t.rowWeights[term], t.datasets = slices.Clone(weights), nil
	return nil
}

// rowWeightsParts are the plan's parts for the weights of rows.
func (t *Trainer) rowWeightsParts() (parts []program.Part) {
	for term, weights := range t.rowWeights {
		if weights != nil {
			of := t.net.Layers[t.net.Terms[term].Layer].Name
			parts = append(parts, program.Part{
				Name: "weights of rows", Of: of, Bytes: 4 * int64(len(weights)), Device: "host", Held: true,
			})
		}
	}
	return parts
}

// weighBatch gives the step the weights of the rows of its batch.
func (t *Trainer) weighBatch() {
	if t.rowWeights == nil {
		return
	}
	if t.step.RowWeights == nil {
		t.step.RowWeights = make([][]float32, len(t.rowWeights))
	}
	for term, weights := range t.rowWeights {
		if weights == nil {
			continue
		}
		batch := t.step.RowWeights[term][:0]
		for _, row := range t.order {
			batch = append(batch, weights[row])
		}
		t.step.RowWeights[term] = batch
	}
}

// weightsDigest identifies the weights of the rows for a layer; "" if there are none.
func (t *Trainer) weightsDigest(layer int) string {
	for term, weights := range t.rowWeights {
		if t.net.Terms[term].Layer == layer && weights != nil {
			hash := sha256.New()
			_ = binary.Write(hash, binary.LittleEndian, weights) // a hash takes everything
			return " weighted " + hex.EncodeToString(hash.Sum(nil))
		}
	}
	return ""
}
