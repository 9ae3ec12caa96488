package factors

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/engine/tensor"
	"dsstne/internal/fault"
)

func TestADefinitionIsCompleteAndReadAgain(t *testing.T) {
	for _, text := range []string{
		`{"kind": "factors", "items": 3, "factors": 2, "regularization": 0.003}`,
		`{"kind": "factors", "items": 3, "factors": 2, "alpha": 7.5, "nu": 0, "unobserved_weight": 1, "values": "weights",
			"regularization": 1}`,
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
		`{"kind": "factors", "items": 3, "factors": 2}`:                                  "regularization is missing",
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

func TestTheDefaultRegularizationGivesAMeanRowTheSameWeightOnEveryMatrix(t *testing.T) {
	for _, nu := range []float64{1, 1.5} {
		f := Objective{Unobserved: 0.02, Nu: nu}
		f.Complete(10, 500, 200)
		require.InEpsilon(t, min(0.1, 3/math.Pow(20+0.02*500, nu)), f.Regularization, 1e-12)
	}
	small := Objective{Unobserved: 0.02, Nu: 1}
	small.Complete(10, 5, 10)
	require.Equal(t, 0.1, small.Regularization)
	given := Objective{Regularization: 7}
	given.Complete(10, 500, 200)
	require.Equal(t, 7.0, given.Regularization)
	ratings := Objective{Ratings: true}
	ratings.Complete(10, 500, 200)
	require.Equal(t, 0.05, ratings.Regularization)
}
