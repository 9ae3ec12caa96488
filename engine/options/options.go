package options

import (
	"math"
	"slices"
	"time"

	"dsstne/engine/csr"
	"dsstne/engine/devices"
	"dsstne/engine/dsstnejson"
	"dsstne/engine/model"
	"dsstne/engine/predict"
	"dsstne/engine/strictjson"
	"dsstne/engine/textfile"
	"dsstne/kernels"
)

// threadCount is how many threads there can be; more cannot be meant. The CPU backend starts those that are useful.
var threadCount = strictjson.Between(0, 4096).Meaning("0: as many as the process may use")

// read reads a document; get asks for its keys.
func read[T any](text []byte, what string, get func(*strictjson.Object) T) (T, error) {
	o, err := strictjson.Parse(text, what)
	if err != nil {
		var none T
		return none, err
	}
	options := get(o)
	return options, o.Done()
}

// Library are those of dsstne_configure.
type Library struct {
	Threads        int // -1: not given
	InstructionSet string
	Folders        []string // of libraries; nil: not given
	KeepDevices    *bool
	MemoryLimit    int64 // -1: not given
}

// ReadLibrary reads options of the library; more reads keys of tests.
func ReadLibrary(text []byte, more func(*strictjson.Object)) (Library, error) {
	return read(text, "library options", func(o *strictjson.Object) (l Library) {
		l.Threads = int(o.Int("threads", -1, threadCount))
		l.MemoryLimit = o.Int("memory_limit", -1, strictjson.Between(0, math.MaxInt64))
		l.InstructionSet = o.Word("instruction_set", "", "auto", "avx512bf16", "avx512vnni", "avx512", "avx2", "portable")
		l.Folders = o.Strings("libraries")
		if keep := o.Bool("keep_devices", true); o.Type("keep_devices") != strictjson.Missing {
			l.KeepDevices = &keep
		}
		more(o)
		return l
	})
}

// Dataset are the options of a dataset: its columns, 0 if its file has a record of them, and how it is checked.
type Dataset struct {
	Columns int64
	Check   csr.ValidateOptions
	Scaling *Scaling // nil: values are the numbers that are stored
}

// Scaling makes values of stored integers: number * Scale + Offset.
type Scaling struct{ Scale, Offset float64 }

// ReadDataset reads options of a dataset in memory, or of one in a file.
func ReadDataset(text []byte, inFile bool) (Dataset, error) {
	return read(text, "dataset options", func(o *strictjson.Object) (d Dataset) {
		if !inFile {
			o.Require("columns")
		} else if !o.Has("columns") {
			o.Refuse("allow_not_finite", "a file with a record of its rows has finite values only")
		}
		d.Columns = o.Int("columns", 0, strictjson.Between(1, math.MaxInt32))
		d.Check.AllowNotFinite = o.Bool("allow_not_finite", false)
		if !inFile && (o.Has("scale") || o.Has("offset")) {
			d.Scaling = &Scaling{o.Float("scale", 1, strictjson.Any), o.Float("offset", 0, strictjson.Any)}
			if d.Scaling.Scale == 0 {
				o.Fail("scale", "is 0, which makes all values alike; it must be another number")
			}
		}
		d.Check.Threads = threads(o)
		return d
	})
}

// The types of row numbers that an index may have.
const (
	Int32  = "int32"
	Int64  = "int64"
	Uint32 = "uint32"
)

// Index are the options of an index: the type of its numbers.
type Index struct {
	Type    string
	Threads int
}

// ReadIndex reads options of an index.
func ReadIndex(text []byte) (Index, error) {
	return read(text, "index options", func(o *strictjson.Object) Index {
		return Index{o.Word("type", Int64, Int32, Int64, Uint32), threads(o)}
	})
}

// repeatedWords are those of textfile.Repeated.
var repeatedWords = []string{"replace", "merge", "error"}

// ReadText reads options of reading a text.
func ReadText(text []byte) (textfile.Options, error) {
	return read(text, "text options", func(o *strictjson.Object) (t textfile.Options) {
		t.Analog = o.Word("values", "indicator", "indicator", "analog") == "analog"
		if o.Has("default_value") {
			if !t.Analog {
				o.Refuse("default_value", "is for values \"analog\"; with \"indicator\" every value is 1")
			}
			value := o.Float32("default_value", 0, strictjson.Any)
			t.DefaultValue = &value
		}
		t.SkipMalformed = o.Word("on_malformed", "error", "error", "skip") == "skip"
		t.Repeated = textfile.Repeated(slices.Index(repeatedWords, o.Word("on_repeated", repeatedWords[0], repeatedWords...)))
		t.ExtendFeatures = o.Word("new_features", "drop", "drop", "add") == "add"
		t.ExtendSamples = o.Word("new_samples", "drop", "drop", "add") == "add"
		t.LongestLine = o.Int("longest_line", textfile.LongestLine, strictjson.Between(1, textfile.LongestLine))
		t.MemoryLimit = o.Int("memory_limit", 0, strictjson.NotNegative)
		t.Threads = threads(o)
		return t
	})
}

// Model are the options of a new model, and the sizes of its layers by name.
type Model struct {
	Create model.Options
	Sizes  map[string]int64
}

// ReadModel reads options of a new model.
func ReadModel(text []byte) (Model, error) {
	return read(text, "model options", func(o *strictjson.Object) (m Model) {
		m.Create = model.Options{
			Seed:    o.Uint("seed", 0),
			Threads: threads(o),
			Limit:   o.Int("memory_limit", 0, strictjson.NotNegative),
			Step:    o.Int("step", 0, strictjson.NotNegative),
		}
		m.Sizes = map[string]int64{}
		sizes := o.Object("sizes")
		for _, layer := range sizes.Keys() {
			m.Sizes[layer] = sizes.Int(layer, 0, strictjson.Between(1, math.MaxInt32))
		}
		return m
	})
}

// ReadNetwork reads options of reading a definition: its dialect.
func ReadNetwork(text []byte) (string, error) {
	return read(text, "network options", func(o *strictjson.Object) string {
		return o.Word("dialect", dsstnejson.Auto, dsstnejson.Auto, dsstnejson.Native, dsstnejson.DSSTNE)
	})
}

// ReadLoad reads options of a load: how many threads the model uses.
func ReadLoad(text []byte) (int, error) { return read(text, "load options", threads) }

// ReadAttributes reads options of a save; nil keeps the attributes that the model has.
func ReadAttributes(text []byte) (map[string]string, error) {
	return read(text, "save options", func(o *strictjson.Object) map[string]string {
		return attributes(o)
	})
}

func attributes(o *strictjson.Object) map[string]string {
	if !o.Has("attributes") {
		return nil
	}
	texts := map[string]string{}
	attributes := o.Object("attributes")
	for _, key := range attributes.Keys() {
		texts[key] = attributes.String(key, "")
	}
	return texts
}

// Checkpoint are the options of a trainer's save.
type Checkpoint struct {
	Attributes map[string]string
	Background bool
}

// ReadCheckpoint reads options of a trainer's save.
func ReadCheckpoint(text []byte) (Checkpoint, error) {
	return read(text, "save options", func(o *strictjson.Object) Checkpoint {
		return Checkpoint{attributes(o), o.Bool("background", false)}
	})
}

// ReadPredictor reads options of a predictor.
func ReadPredictor(text []byte) (predict.Options, error) {
	return read(text, "predictor options", func(o *strictjson.Object) (p predict.Options) {
		p.BatchSize = o.Int("batch_size", 512, strictjson.Between(1, 1<<20))
		p.Placement = placement(o)
		return p
	})
}

// Ranking are the options of the calls that rank items.
type Ranking struct {
	Layer     string // an output layer, empty for the only one
	K         int64  // of a plan
	Filter    predict.Filter
	Neighbors predict.NeighborOptions
	Metrics   []string
}

// ReadRecommend reads options of a call that recommends.
func ReadRecommend(text []byte, items []int32) (Ranking, error) {
	return read(text, "recommend options", func(o *strictjson.Object) (r Ranking) {
		r.Layer, r.Filter = o.String("layer", ""), filter(o, items)
		return r
	})
}

// ReadService reads options of a predictor that serves.
func ReadService(text []byte, items []int32) (predict.ServiceOptions, error) {
	return read(text, "serve options", func(o *strictjson.Object) (s predict.ServiceOptions) {
		s.Layer, s.Filter, s.ExcludeSeen = o.String("layer", ""), filter(o, items), o.Bool("exclude_seen", false)
		const longest = 60
		s.Wait = time.Duration(o.Float("wait", 0, strictjson.Between(0, longest)) * float64(time.Second))
		return s
	})
}

// ReadPlan reads options of a predictor's plan.
func ReadPlan(text []byte) (Ranking, error) {
	return read(text, "plan options", func(o *strictjson.Object) (r Ranking) {
		r.Layer, r.K = o.String("layer", ""), o.Int("k", 10, strictjson.Between(1, math.MaxInt32))
		return r
	})
}

// measureWords are those of predict.Measure.
var measureWords = []string{"cosine", "dot", "entry"}

// ReadNeighbors reads options of a call that finds the nearest rows of a weight.
func ReadNeighbors(text []byte, items []int32) (Ranking, error) {
	return read(text, "neighbors options", func(o *strictjson.Object) (r Ranking) {
		r.Filter = filter(o, items)
		r.Neighbors.Measure = predict.Measure(slices.Index(measureWords, o.Word("metric", measureWords[0], measureWords...)))
		r.Neighbors.IncludeSelf = o.Bool("include_self", false)
		return r
	})
}

// ReadSearch reads options of a call that finds the nearest rows of a weight for vectors.
func ReadSearch(text []byte, items []int32) (Ranking, error) {
	return read(text, "search options", func(o *strictjson.Object) (r Ranking) {
		r.Filter = filter(o, items)
		words := measureWords[:predict.Entry]
		r.Neighbors.Measure = predict.Measure(slices.Index(words, o.Word("metric", words[0], words...)))
		return r
	})
}

// ReadEvaluate reads options of an evaluation.
func ReadEvaluate(text []byte, items []int32) (Ranking, error) {
	return read(text, "evaluate options", func(o *strictjson.Object) (r Ranking) {
		r.Layer, r.Filter, r.Metrics = o.String("layer", ""), filter(o, items), o.Strings("metrics")
		return r
	})
}

// filter reads what to do with the items of a call: allow-list or deny-list; without items, every item takes part.
func filter(o *strictjson.Object, items []int32) predict.Filter {
	deny := o.Word("items", "allow", "allow", "deny") == "deny"
	return predict.Filter{Items: items, Deny: deny && items != nil}
}

// threads reads how many threads to use; 0 is the library's default.
func threads(o *strictjson.Object) int { return devices.Threads(int(o.Int("threads", 0, threadCount))) }

// precisionWords are those of kernels.Precision, from kernels.AutoPrecision on.
var precisionWords = append([]string{"auto"}, kernels.PrecisionWords...)

// placement reads where to compute.
func placement(o *strictjson.Object) devices.Placement {
	p := devices.Placement{
		Threads: int(o.Int("threads", 0, threadCount)),
		Limit:   o.Int("memory_limit", 0, strictjson.AtLeast(0)),
	}
	if o.Type("devices") == strictjson.ListType {
		if p.Devices = o.Strings("devices"); len(p.Devices) == 0 {
			o.Fail("devices", "is empty; name at least one device")
		}
	} else {
		p.Devices = []string{o.String("devices", "auto")}
	}
	word := o.Word("precision", "float32", precisionWords...)
	p.Precision = kernels.AutoPrecision + kernels.Precision(max(0, slices.Index(precisionWords, word)))
	return p
}
