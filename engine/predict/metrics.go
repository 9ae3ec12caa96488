package predict

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"dsstne/engine/strictjson"
	"dsstne/internal/fault"
	"dsstne/kernels"
)

// otherNames are words of other tools. They are suggested, never accepted, because each tool means something else.
var otherNames = map[string]string{
	"p": "precision", "prec": "precision", "r": "recall", "rec": "recall", "hr": "hit_rate", "hit": "hit_rate",
	"hits": "hit_rate", "hit_ratio": "hit_rate", "hitrate": "hit_rate", "hitratio": "hit_rate", "success": "hit_rate",
	"n": "ndcg", "dcg": "ndcg", "rr": "mrr", "reciprocal_rank": "mrr", "ap": "map", "average_precision": "map",
	"cov": "coverage", "catalog_coverage": "coverage", "catalogue_coverage": "coverage",
}

// ParseMetric reads "recall@20"; the error of an unknown name suggests the nearest.
func ParseMetric(text string) (m kernels.Metric, err error) {
	refuse := func(format string, args ...any) (kernels.Metric, error) {
		return m, fault.New(fault.InvalidArgument, format, args...)
	}
	name, cut, hasCut := strings.Cut(text, "@")
	kind := slices.Index(kernels.MetricWords, name)
	if kind < 0 {
		known := strings.Join(kernels.MetricWords, ", ")
		lower := strings.ToLower(name)
		nearest := cmp.Or(otherNames[lower], strictjson.Nearest(lower, kernels.MetricWords))
		if nearest == "" {
			return refuse("metric %q is unknown; there are %s, each with a cut-off such as @20", text, known)
		}
		nearest += "@" + cmp.Or(cut, "20")
		return refuse("metric %q is unknown; did you mean %q? There are %s", text, nearest, known)
	}
	if !hasCut {
		return refuse("metric %q has no cut-off; write for example %q", text, name+"@20")
	}
	k, err := strconv.ParseInt(cut, 10, 64)
	if err != nil || k < 1 || k > math.MaxInt32 || cut != strconv.FormatInt(k, 10) {
		return refuse("metric %q: the cut-off %q is not a whole number from 1 to 2147483647; write for example %q",
			text, cut, name+"@20")
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
func LargestK(metrics []kernels.Metric) (k int64) {
	for _, m := range metrics {
		k = max(k, m.K)
	}
	return k
}
