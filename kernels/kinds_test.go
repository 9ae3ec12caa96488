package kernels

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/internal/fault"
)

// listed are the kinds of the header, by the name of the list: of each its word and what follows it.
func listed(t *testing.T) map[string][][]string {
	t.Helper()
	lists := map[string][][]string{}
	text := strings.ReplaceAll(kindsHeader, "\\\n", "")
	define := regexp.MustCompile(`(?m)^#define (\w+)\(KIND(?:, \.\.\.)?\) (.*)$`)
	kind := regexp.MustCompile(`KIND\((\w+)(?:, (\d+))?(?:, ##__VA_ARGS__)?\)`)
	for _, list := range define.FindAllStringSubmatch(text, -1) {
		lists[list[1]] = kind.FindAllStringSubmatch(list[2], -1)
	}
	return lists
}

func TestTheWordsAreThoseOfTheListThatCAndCUDAInclude(t *testing.T) {
	want := map[string][]string{
		"ACTIVATIONS": ActivationWords, "LOSSES": LossWords, "OPTIMIZERS": OptimizerWords, "FILLS": FillWords,
		"MERGES":  MergeWords,
		"METRICS": MetricWords, "PRECISIONS": PrecisionWords, "STORAGES": StorageWords,
	}
	got := map[string][]string{}
	for name, list := range listed(t) {
		for _, kind := range list {
			got[name] = append(got[name], kind[1])
		}
	}
	require.Equal(t, want, got)
}

func TestOptimizersHaveAsManyStatesAsTheListSays(t *testing.T) {
	list := listed(t)["OPTIMIZERS"]
	require.Len(t, list, len(optimizers))
	for n, kind := range list {
		require.Equal(t, kind[2], strconv.Itoa(Optimizer{Kind: OptimizerKind(n)}.States()), kind[1])
	}
}

func TestEveryLossHasARangeOfTargets(t *testing.T) {
	for n, word := range LossWords {
		low, high := Loss{Kind: LossKind(n)}.Targets()
		require.Less(t, low, high, word)
	}
}

// beyond checks how the kinds on both sides of a list are refused.
func beyond[K Kind](t *testing.T) {
	t.Helper()
	what, words := K(0).list()
	for n := range words {
		require.NoError(t, CheckKind(K(n)))
	}
	for _, kind := range []K{-1, K(len(words))} {
		err := CheckKind(kind)
		require.Equal(t, fault.Internal, fault.KindOf(err))
		require.ErrorContains(t, err, what+" "+kind.String())
		require.ErrorContains(t, err, strconv.Itoa(int(kind)))
	}
}

func TestAKindThatIsNotInItsListIsRefused(t *testing.T) {
	beyond[ActivationKind](t)
	beyond[LossKind](t)
	beyond[OptimizerKind](t)
	beyond[FillKind](t)
	beyond[MetricKind](t)
	beyond[Precision](t)
	beyond[Storage](t)
}

func TestAKindWithoutAFunctionIsRefused(t *testing.T) {
	functions := map[ActivationKind]func(){Tanh: func() {}}
	_, err := FunctionOf(functions, Tanh)
	require.NoError(t, err)
	_, err = FunctionOf(functions, ReLU)
	require.EqualError(t, err, "this device has no activation relu")
}
