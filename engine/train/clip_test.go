package train_test

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/internal/fault"
)

// clipping adds a limit to an optimizer.
func clipping(optimizer, limit string) string {
	return strings.Replace(optimizer, "{", `{"clip_norm": `+limit+`, `, 1)
}

// lengthOf is the Euclidean norm of all numbers.
func lengthOf(x []float32) float64 {
	squares := 0.0
	for _, v := range x {
		squares += float64(v) * float64(v)
	}
	return math.Sqrt(squares)
}

func TestAStepIsNoLongerThanTheLimitTimesTheRate(t *testing.T) {
	for title, definition := range map[string]string{
		"deep": deep, "several": several, "stored entries": storedOnly, "tied cosine": networks["tied cosine"],
		"sparse units": networks["sparse units"],
	} {
		free := stepOf(t, definition, options("cpu", optimizers["sgd"], "float32"), nil)
		length := lengthOf(free) / 0.1 // of the gradient
		for _, devices := range []string{"cpu", "cpu:3"} {
			t.Run(title+" "+devices, func(t *testing.T) {
				loose := options(devices, clipping(optimizers["sgd"], "1e6"), "float32")
				bound := 1e-5*lengthOf(free) + 1e-7
				for i, change := range stepOf(t, definition, loose, nil) {
					require.InDelta(t, free[i], change, bound)
				}
				tight := options(devices, clipping(optimizers["sgd"], "0.01"), "float32")
				clipped := stepOf(t, definition, tight, nil)
				require.InEpsilon(t, 0.01*0.1, lengthOf(clipped), 1e-3)
				for i, change := range clipped {
					require.InDelta(t, float64(free[i])*0.01/length, change, 1e-4*lengthOf(clipped)+1e-7)
				}
			})
		}
	}
}

func TestAClippedStepOfAnyOptimizerIsThatOfWrittenGradients(t *testing.T) {
	for kind, optimizer := range optimizers {
		want, _ := after(t, deep, options("cpu", optimizer, "float32"), 7)
		got, _ := after(t, deep, options("cpu", clipping(optimizer, "1e9"), "float32"), 7)
		for i := range want {
			require.InDelta(t, want[i], got[i], 2e-3, "%s: weight %d", kind, i)
		}
	}
}

func TestAPlanHasTheGradientsThatAreClipped(t *testing.T) {
	plan := planOf(t, training(t, modelOf(t, deep), options("cpu", clipping(optimizers["adam"], "2"), "float32")))
	var bytes, weights int64
	for _, part := range plan.Parts {
		switch part.Name {
		case "gradients":
			bytes += part.Bytes
		case "weights":
			weights += part.Bytes
		}
	}
	require.GreaterOrEqual(t, bytes, weights)
	require.Contains(t, plan.Operations, "ClipNorm of all gradients, 2")
	require.Contains(t, plan.Operations, "Update output.weight[123, 7]")
	require.Equal(t, "data", planOf(t, training(t, modelOf(t, deep), options("cpu:2", clipping(optimizers["adam"], "2"),
		"float32"))).Parallel)

	_, err := training(t, modelOf(t, deep), by("model", options("cpu:2", clipping(optimizers["adam"], "2"), "float32"))).Plan()
	require.ErrorContains(t, err, `clip_norm needs the gradients of all weights on each device; with several devices it goes `+
		`with parallel="data" only`)
	require.Equal(t, fault.InvalidArgument, fault.KindOf(err))
}
