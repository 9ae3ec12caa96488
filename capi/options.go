package main

// #include "abi.h"
import "C"

import (
	"math"

	"dsstne/engine/csr"
	"dsstne/engine/model"
	"dsstne/engine/predict"
	"dsstne/engine/program"
	"dsstne/engine/strictjson"
)

// readDatasetOptions reads the options of dsstne_dataset_open.
func readDatasetOptions(options *C.const_char) (columns int64, check csr.ValidateOptions, err error) {
	object, err := readOptions(options, "dataset options")
	if err != nil {
		return 0, check, err
	}
	object.Require("columns")
	columns = object.Int("columns", 0, strictjson.Between(1, math.MaxInt32))
	check.AllowNotFinite = object.Bool("allow_not_finite", false)
	check.Threads = readThreads(object)
	return columns, check, object.Done()
}

// modelOptions are those of dsstne_model_create.
type modelOptions struct {
	sizes  map[string]int64
	create model.Options
}

func readModelOptions(options *C.const_char) (o modelOptions, err error) {
	object, err := readOptions(options, "model options")
	if err != nil {
		return o, err
	}
	o.create = model.Options{
		Seed:    object.Uint("seed", 0),
		Threads: readThreads(object),
		Limit:   object.Int("memory_limit", 0, strictjson.NotNegative),
		Step:    object.Int("step", 0, strictjson.NotNegative),
	}
	o.sizes = map[string]int64{}
	sizes := object.Object("sizes")
	for _, layer := range sizes.Keys() {
		o.sizes[layer] = sizes.Int(layer, 0, strictjson.Between(1, math.MaxInt32))
	}
	return o, object.Done()
}

// readAttributes reads the options of dsstne_model_save; nil keeps the attributes that the model has.
func readAttributes(options *C.const_char) (map[string]string, error) {
	object, err := readOptions(options, "save options")
	if err != nil {
		return nil, err
	}
	if !object.Has("attributes") {
		return nil, object.Done()
	}
	texts := map[string]string{}
	attributes := object.Object("attributes")
	for _, key := range attributes.Keys() {
		texts[key] = attributes.String(key, "")
	}
	return texts, object.Done()
}

// rankingOptions are those of the calls that rank items.
type rankingOptions struct {
	layer     string // an output layer, empty for the only one
	filter    predict.Filter
	neighbors predict.NeighborOptions
	metrics   []string
}

// readFilter reads what to do with the items of a call: an allow-list unless the options say deny; without items, every
// item takes part.
func readFilter(object *strictjson.Object, items []int32) predict.Filter {
	deny := object.Word("items", "allow", "allow", "deny") == "deny"
	return predict.Filter{Items: items, Deny: deny && items != nil}
}

func readRecommendOptions(options *C.const_char, items []int32) (o rankingOptions, err error) {
	object, err := readOptions(options, "recommend options")
	if err != nil {
		return o, err
	}
	o.layer = object.String("layer", "")
	o.filter = readFilter(object, items)
	return o, object.Done()
}

func readNeighborOptions(options *C.const_char, items []int32) (o rankingOptions, err error) {
	object, err := readOptions(options, "neighbors options")
	if err != nil {
		return o, err
	}
	o.filter = readFilter(object, items)
	o.neighbors.Cosine = object.Word("metric", "cosine", "cosine", "dot") == "cosine"
	o.neighbors.IncludeSelf = object.Bool("include_self", false)
	return o, object.Done()
}

func readEvaluateOptions(options *C.const_char, items []int32) (o rankingOptions, err error) {
	object, err := readOptions(options, "evaluate options")
	if err != nil {
		return o, err
	}
	o.layer = object.String("layer", "")
	o.filter = readFilter(object, items)
	o.metrics = object.Strings("metrics")
	return o, object.Done()
}

// readOptions parses the options of a call; null means all defaults.
func readOptions(options *C.const_char, what string) (*strictjson.Object, error) {
	text, err := textIn(options, "options")
	if err != nil {
		return nil, err
	}
	return strictjson.Parse([]byte(text), what)
}

// threadCount is how many threads there can be; more cannot be meant.
var threadCount = strictjson.Between(0, 4096)

// readThreads reads how many threads to use; 0 is the library's default.
func readThreads(object *strictjson.Object) int {
	return program.Threads(int(object.Int("threads", 0, threadCount)))
}
