package itemweights

import (
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/engine/tensor"
	"dsstne/internal/fault"
)

func TestADefinitionIsCompleteAndReadAgain(t *testing.T) {
	for text, rest := range map[string]string{
		`{"kind": "item_weights", "items": 3}`: `"items":3,"weight":"dense","bias":false}`,
		`{"kind": "item_weights", "items": 3, "weight": "csr", "entries": 0, "bias": false}`: `"items":3,"weight":"csr",` +
			`"entries":0,"bias":false}`,
		`{"bias": true, "weight": "none", "items": 7, "kind": "item_weights"}`: `"items":7,"weight":"none","bias":true}`,
	} {
		want := `{"kind":"item_weights",` + rest
		form, err := Parse([]byte(text))
		require.NoError(t, err)
		require.Equal(t, want, string(form.JSON()))
		again, err := Parse(form.JSON())
		require.NoError(t, err)
		require.Equal(t, form, again)
	}
}

func TestDefinitionsThatCannotBeAreRefusedByTheirKeys(t *testing.T) {
	for text, want := range map[string]string{
		`{"kind": "item_weights"}`:                                             "items",
		`{"kind": "item_weights", "items": 0}`:                                 "items",
		`{"kind": "item_weights", "items": 3, "weight": "csr"}`:                "entries",
		`{"kind": "item_weights", "items": 3, "entries": 4}`:                   "entries",
		`{"kind": "item_weights", "items": 3, "weight": "csr", "entries": 10}`: "entries",
		`{"kind": "item_weights", "items": 3, "weight": "none"}`:               "nothing to score with",
		`{"kind": "item_weights", "items": 3, "weight": "sparse"}`:             "weight",
		`{"kind": "item_weights", "items": 3, "wieght": "csr"}`:                `did you mean "weight"`,
	} {
		_, err := Parse([]byte(text))
		require.ErrorContains(t, err, want, text)
		require.Equal(t, fault.InvalidArgument, fault.KindOf(err), text)
	}
}

func TestAStoredWeightIsCheckedWhole(t *testing.T) {
	form, err := Parse([]byte(`{"kind": "item_weights", "items": 3, "weight": "csr", "entries": 4}`))
	require.NoError(t, err)
	specs, err := form.Specs()
	require.NoError(t, err)
	check := func(offsets []int64, indices []int32) error {
		return form.Check(func(name string) (*tensor.Tensor, error) {
			for _, spec := range specs {
				if spec.Name == name {
					made, err := tensor.New(name, spec.DType, spec.Shape, 1)
					require.NoError(t, err)
					t.Cleanup(made.Free)
					copy(made.Int64(), offsets)
					copy(made.Int32(), indices)
					return made, nil
				}
			}
			return nil, fault.New(fault.NotFound, "%s", name)
		})
	}
	require.NoError(t, check([]int64{0, 2, 2, 4}, []int32{0, 2, 1, 2}))
	for want, err := range map[string]error{
		"begins with 1":                     check([]int64{1, 2, 2, 4}, []int32{0, 2, 1, 2}),
		"ends with 0, but there are 4":      check(make([]int64, 4), []int32{0, 2, 1, 2}),
		"must not decrease":                 check([]int64{0, 3, 2, 4}, []int32{0, 1, 2, 2}),
		"nor exceed 4":                      check([]int64{0, 1 << 40, 2, 4}, []int32{0, 1, 2, 2}),
		"is 3, in row 0; columns are 0 to ": check([]int64{0, 2, 2, 4}, []int32{0, 3, 1, 2}),
		"is -1, in row 2":                   check([]int64{0, 2, 2, 4}, []int32{0, 1, -1, 2}),
		"is 1 after 1 in row 2":             check([]int64{0, 2, 2, 4}, []int32{0, 2, 1, 1}),
		"is 0 after 2 in row 0":             check([]int64{0, 2, 2, 4}, []int32{2, 0, 1, 2}),
	} {
		require.ErrorContains(t, err, want)
		require.Equal(t, fault.InvalidData, fault.KindOf(err))
	}
}
