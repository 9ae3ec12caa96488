package predict

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"dsstne/engine/strictjson"
	"dsstne/internal/fault"
	"dsstne/kernels"
)

// otherNames are words that other tools use; they are suggested, never taken, because each tool means something else.
var otherNames = map[string]string{
	"p": "precision", "prec": "precision", "r": "recall", "rec": "recall", "hr": "hit_rate", "hit": "hit_rate",
	"hits": "hit_rate", "hit_ratio": "hit_rate", "hitrate": "hit_rate", "hitratio": "hit_rate", "success": "hit_rate",
	"n": "ndcg", "dcg": "ndcg", "rr": "mrr", "reciprocal_rank": "mrr", "ap": "map", "average_precision": "map",
	"cov": "coverage", "catalog_coverage": "coverage", "catalogue_coverage": "coverage",
}

// ParseMetric reads "recall@20"; the error of an unknown name suggests the nearest.
func ParseMetric(text string) (kernels.Metric, error) {
	name, cut, hasCut := strings.Cut(text, "@")
	kind := slices.Index(kernels.MetricWords, name)
	if kind < 0 {
		return kernels.Metric{}, unknownMetric(text, name, cut)
	}
	if !hasCut {
		return kernels.Metric{}, fault.New(fault.InvalidArgument, "metric %q has no cut-off; write for example %q", text, name+"@20")
	}
	k, err := strconv.ParseInt(cut, 10, 64)
	if err != nil || k < 1 || k > math.MaxInt32 || cut != strconv.FormatInt(k, 10) {
		return kernels.Metric{}, fault.New(fault.InvalidArgument,
			"metric %q: the cut-off %q is not a whole number from 1 to 2147483647; write for example %q", text, cut, name+"@20")
	}
	return kernels.Metric{Kind: kernels.MetricKind(kind), K: k}, nil
}

// ParseMetrics reads a list of metrics, in which none may stand twice.
func ParseMetrics(texts []string) ([]kernels.Metric, error) {
	metrics := make([]kernels.Metric, len(texts))
	for i, text := range texts {
		m, err := ParseMetric(text)
		if err != nil {
			return nil, err
		}
		if slices.Contains(metrics[:i], m) {
			return nil, fault.New(fault.InvalidArgument, "metric %q is listed twice", text)
		}
		metrics[i] = m
	}
	return metrics, nil
}

// LargestK is the length of the ranking that a list of metrics needs.
func LargestK(metrics []kernels.Metric) int64 {
	var k int64
	for _, m := range metrics {
		k = max(k, m.K)
	}
	return k
}

func unknownMetric(text, name, cut string) error {
	known := strings.Join(kernels.MetricWords, ", ")
	nearest, ok := otherNames[strings.ToLower(name)]
	if !ok {
		nearest = strictjson.Nearest(strings.ToLower(name), kernels.MetricWords)
	}
	if nearest == "" {
		return fault.New(fault.InvalidArgument, "metric %q is unknown; there are %s, each with a cut-off such as @20", text, known)
	}
	if cut == "" {
		cut = "20"
	}
	return fault.New(fault.InvalidArgument, "metric %q is unknown; did you mean %q? There are %s", text, nearest+"@"+cut, known)
}
