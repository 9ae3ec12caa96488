package model_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/engine/model"
)

// columnsOf are the vectors of a matrix's columns, or of its rows.
func vectorsOf(x []float32, rows, columns int64, ofColumns bool) [][]float32 {
	count := rows
	if ofColumns {
		count = columns
	}
	list := make([][]float32, count)
	for n, v := range x {
		at := int64(n) / columns
		if ofColumns {
			at = int64(n) % columns
		}
		list[at] = append(list[at], v)
	}
	return list
}

func TestTheWeightsOfEachUnitBeginWithOneLength(t *testing.T) {
	const items, units, deep = 9000, 7, 5 // more items than rows are added at a time
	definition := fmt.Sprintf(`{"layers": [
		{"name": "input", "kind": "input", "size": %d},
		{"name": "h1", "kind": "hidden", "size": %d, "initializer": {"kind": "unit_norm", "scale": 0.5}},
		{"name": "h2", "kind": "hidden", "size": %d, "initializer": {"kind": "unit_norm"}},
		{"name": "output", "kind": "output", "size": %d, "initializer": {"kind": "unit_norm", "scale": 3}}]}`,
		items, units, deep, items)
	form, err := model.ReadForm([]byte(definition), nil)
	require.NoError(t, err)
	var first []float32
	for _, threads := range []int{1, 3, 8} {
		m, err := model.Create(form, model.Options{Seed: 3, Threads: threads})
		require.NoError(t, err)
		var all []float32
		for name, c := range map[string]struct {
			rows, columns int64
			ofColumns     bool
			length        float64
		}{
			"h1.weight": {items, units, true, 0.5}, "h2.weight": {deep, units, false, 1},
			"output.weight": {items, deep, false, 3},
		} {
			w, err := m.Tensor(name)
			require.NoError(t, err)
			mean := 0.0
			for _, vector := range vectorsOf(w.Float32(), c.rows, c.columns, c.ofColumns) {
				squares := 0.0
				for _, v := range vector {
					squares += float64(v) * float64(v)
					mean += float64(v) / float64(c.rows*c.columns)
				}
				require.InEpsilon(t, c.length, math.Sqrt(squares), 1e-6, name)
			}
			require.Less(t, math.Abs(mean), 0.5*c.length, "directions of all signs")
		}
		for _, w := range m.Tensors() {
			all = append(all, w.Float32()...)
		}
		if first == nil {
			first = all
		}
		require.Equal(t, first, all)
		require.NoError(t, m.Close())
	}
}
