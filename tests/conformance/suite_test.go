package conformance

import (
	"reflect"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/kernels"
)

// group is an op with its cases.
type group struct {
	op    string
	cases func() []opCase
}

// opCases are the cases of every op that computes; ranking_test.go has those of Scores and TopK.
var opCases = []group{
	{"Fill", remembering(fillCases)},
	{"Gather", remembering(func() []opCase { return forwardCases(false, kernels.Float32) })},
	{"Dense", remembering(func() []opCase { return forwardCases(true, kernels.Float32) })},
	{"Activate", remembering(activateCases)},
	{"CombineStats", remembering(combineCases)},
	{"OutputStats", remembering(func() []opCase { return outputCases(true, kernels.Float32) })},
	{"OutputStep", remembering(func() []opCase { return outputCases(false, kernels.Float32) })},
	{"MarginalTargets", remembering(marginalCases)},
	{"OutputEntries", remembering(entriesCases)},
	{"UnitSums", remembering(unitSumsCases)},
	{"Sparsity", remembering(sparsityCases)},
	{"Merge", remembering(func() []opCase { return mergedCases(false) })},
	{"MergeBackward", remembering(func() []opCase { return mergedCases(true) })},
	{"Skip", remembering(skipCases)},
	{"SoftmaxRows", remembering(softmaxRowsCases)},
	{"SoftmaxRowsBackward", remembering(softmaxRowsBackwardCases)},
	{"CapRows", remembering(capRowsCases)},
	{"CopyMatrix", remembering(copyMatrixCases)},
	{"Sample", remembering(func() []opCase { return sampleCases(false) })},
	{"SampleBackward", remembering(func() []opCase { return sampleCases(true) })},
	{"UnitMoments", remembering(unitMomentsCases)},
	{"RowMoments", remembering(rowMomentsCases)},
	{"CombineMoments", remembering(combineMomentsCases)},
	{"MoveMoments", remembering(moveMomentsCases)},
	{"NormSums", remembering(normSumsCases)},
	{"NormBackward", remembering(normBackwardCases)},
	{"Backward", remembering(backwardCases)},
	{"DenseBackward", remembering(func() []opCase { return denseBackwardCases(kernels.Float32) })},
	{"Scatter", remembering(scatterCases)},
	{"Replay", remembering(replayCases)},
	{"ClipNorm", remembering(clipCases)},
	{"Update", remembering(updateCases)},
	{"ColumnNorms", remembering(columnNormsCases)},
	{"CapWeight", remembering(capWeightCases)},
	{"Moments", remembering(momentsCases)},
	{"Blend", remembering(blendCases)},
	{"MergeTopK", remembering(mergeCases)},
	{"RankingMetrics", remembering(metricsCases)},
	{"Neighborhood", remembering(neighborhoodCases)},
	{"SparseProduct", remembering(productCases)},
	{"Solve", remembering(solveCases)},
	{"KeepLargest", remembering(largestCases)},
	{"RestrictedInverse", remembering(restrictedCases)},
	{"RowsToPanel", remembering(func() []opCase { return turnCases(false) })},
	{"PanelToRows", remembering(func() []opCase { return turnCases(true) })},
	{"PanelGram", remembering(gramCases)},
	{"PanelProduct", remembering(blocksCases)},
	{"RowsToBlocks", remembering(toBlocksCases)},
	{"PanelScale", remembering(scaleCases)},
	{"LeastSquares", remembering(leastSquaresCases)},
	{"PrincipalAxes", remembering(principalAxesCases)},
}

// ownOps are the operations of the suite that such a CPU device does by functions of its own. It has the others from the
// instruction set avx512, which is tried, too.
var ownOps = map[string][]string{
	"avx512vnni": {}, // of which the tests of top-k try what it has
	"avx512bf16": {"OutputStats", "OutputStep", "Dense", "DenseBackward"},
}

// skipUnlessDoneBy skips operations of kernels.Solver on other devices, and those that a device does as another one.
func (g group) skipUnlessDoneBy(t *testing.T, d kernels.Device) {
	_, ofSolvers := reflect.TypeFor[kernels.Solver]().MethodByName(g.op)
	_, ofAll := reflect.TypeFor[kernels.Device]().MethodByName(g.op)
	_, solves := d.(kernels.Solver)
	if !solves && ofSolvers && !ofAll {
		t.Skipf("%s does not have it", d.Info().Name)
	}
	if own, extends := ownOps[d.Info().Kind]; extends && !slices.Contains(own, g.op) {
		t.Skip("as with avx512")
	}
}

// remembered is a case whose bounds, which take longer than the op, and whose result of the reference are computed once for
// all backends.
type remembered struct {
	opCase
	once   func() map[string][]float64
	oracle *expected
}

type expected struct {
	sync.Once
	result
	error
}

func (r remembered) bounds() map[string][]float64 { return r.once() }

// byReference is what the reference makes of a case.
func byReference(c opCase, reference kernels.Device) (result, error) {
	r, ok := c.(remembered)
	if !ok {
		return c.run(reference)
	}
	r.oracle.Do(func() { r.oracle.result, r.oracle.error = r.run(reference) })
	return r.oracle.result, r.oracle.error
}

// remembering makes a list of cases once.
func remembering(cases func() []opCase) func() []opCase {
	return sync.OnceValue(func() (list []opCase) {
		for _, c := range cases() {
			list = append(list, remembered{c, sync.OnceValue(c.bounds), &expected{}})
		}
		return list
	})
}

func TestEveryOpAgreesWithTheReference(t *testing.T) {
	t.Parallel()
	groupsAgree(t, kernels.Float32, opCases)
}

func groupsAgree(t *testing.T, p kernels.Precision, groups []group) {
	forEveryBackendAt(t, p, func(t *testing.T, open opener) {
		for _, group := range groups {
			t.Run(group.op, func(t *testing.T) {
				t.Parallel()
				d, reference := open(2), oracle(t)
				group.skipUnlessDoneBy(t, d)
				for n, c := range group.cases() {
					if !omits(d, p, n) {
						require.NoError(t, agree(c, d, reference))
					}
				}
			})
		}
	})
}

func TestEveryOpGivesTheSameBitsWithAnyNumberOfThreads(t *testing.T) {
	t.Parallel()
	groupsGiveTheSameBits(t, kernels.Float32, opCases)
}

func groupsGiveTheSameBits(t *testing.T, p kernels.Precision, groups []group) {
	forEveryBackendAt(t, p, func(t *testing.T, open opener) {
		for _, group := range groups {
			t.Run(group.op, func(t *testing.T) {
				t.Parallel()
				open := open.reusing()
				group.skipUnlessDoneBy(t, open(1))
				for n, c := range group.cases() {
					if !spares(open, n) {
						require.NoError(t, sameBits(c, open))
					}
				}
			})
		}
	})
}
