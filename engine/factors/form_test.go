package factors

import (
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/engine/tensor"
	"dsstne/internal/fault"
)

func TestADefinitionIsCompleteAndReadAgain(t *testing.T) {
	for _, text := range []string{
		`{"kind": "factors", "items": 3, "factors": 2}`,
		`{"kind": "factors", "items": 3, "factors": 2, "alpha": 7.5, "nu": 0, "unobserved_weight": 1, "values": "weights"}`,
		`{"kind": "factors", "items": 3, "factors": 2, "values": "ratings", "regularization": 0.25, "nu": 0.5}`,
	} {
		form, err := Parse([]byte(text))
		require.NoError(t, err)
		again, err := Parse(form.JSON())
		require.NoError(t, err)
		require.Equal(t, form, again)
	}
}

func TestDefinitionsThatCannotBeAreRefusedByTheirKeys(t *testing.T) {
	for text, want := range map[string]string{
		`{"kind": "factors", "items": 3}`:                                                "factors",
		`{"kind": "factors", "factors": 3}`:                                              "items",
		`{"kind": "factors", "items": 3, "factors": 0}`:                                  "factors",
		`{"kind": "factors", "items": 3, "factors": 1025}`:                               "1024",
		`{"kind": "factors", "items": 3, "factors": 2, "values": "rating"}`:              `did you mean "ratings"`,
		`{"kind": "factors", "items": 3, "factors": 2, "regularization": 0}`:             "regularization",
		`{"kind": "factors", "items": 3, "factors": 2, "values": "ratings", "alpha": 1}`: "no weights",
		`{"kind": "factors", "items": 3, "factors": 2, "nu": -1}`:                        "nu",
	} {
		_, err := Parse([]byte(text))
		require.ErrorContains(t, err, want, text)
		require.Equal(t, fault.InvalidArgument, fault.KindOf(err), text)
	}
}

func TestSquaresHaveToBeThoseOfTheFactors(t *testing.T) {
	form := &Form{Items: 2, Factors: 2}
	check := func(factors, squares []float32) error {
		return form.Check(func(name string) (*tensor.Tensor, error) {
			numbers, shape := factors, []int64{2, 2}
			if name == SquaresName {
				numbers, shape = squares, []int64{2, 1}
			}
			made, err := tensor.New(name, tensor.F32, shape, 1)
			require.NoError(t, err)
			t.Cleanup(made.Free)
			copy(made.Float32(), numbers)
			return made, nil
		})
	}
	require.NoError(t, check([]float32{3, 0, 4, 1}, []float32{25, 1}))
	require.NoError(t, check(make([]float32, 4), make([]float32, 2)))
	err := check([]float32{3, 0, 4, 1}, []float32{25, 2})
	require.ErrorContains(t, err, "squares[1] is 2, but the squares in column 1 of factors add up to 1; set both")
	require.Equal(t, fault.InvalidData, fault.KindOf(err))
}
