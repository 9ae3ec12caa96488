// Package schedule computes factors that change from step to step, for the learning rate and the terms of a loss.
package schedule

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"

	"dsstne/engine/strictjson"
)

// Schedule is a factor that depends on the step. The zero value is 1 for every step.
type Schedule struct {
	kind    string
	warmup  int64   // steps of linear rise from 0
	hold    int64   // linear, cosine: steps at 1 between the warm-up and the fall
	steps   int64   // linear, cosine: length of the fall; step: steps between drops
	epochs  int64   // step: epochs between drops, unless 0
	factor  float64 // step: of each drop
	minimum float64 // linear, cosine: factor at the end and after it
	rate    float64 // inverse: factor = 1 / (1 + rate * step)
}

// Read reads the schedule at a key of an object (docs/training.md).
func Read(parent *strictjson.Object, key string) Schedule {
	if given := parent.Type(key); given != strictjson.Missing && given != strictjson.ObjectType {
		parent.Fail(key, `is %v; it must be an object such as {"kind": "cosine", "steps": 1000}`, given)
		return Schedule{}
	}
	o := parent.Object(key)
	s := Schedule{
		kind:   o.Word("kind", "constant", "constant", "linear", "cosine", "step", "inverse"),
		warmup: o.Int("warmup_steps", 0, strictjson.NotNegative),
	}
	switch s.kind {
	case "linear", "cosine":
		o.Require("steps")
		s.steps = o.Int("steps", 1, strictjson.AtLeast(1))
		s.hold = o.Int("hold_steps", 0, strictjson.NotNegative)
		s.minimum = o.Float("minimum", 0, strictjson.Between(0, 1))
	case "step":
		if o.Has("epochs") {
			o.Refuse("steps", "is given together with epochs; give only one of them, the length between two drops")
			s.epochs = o.Int("epochs", 1, strictjson.AtLeast(1))
		} else {
			o.Require("steps")
			s.steps = o.Int("steps", 1, strictjson.AtLeast(1))
		}
		s.factor = o.Float("factor", 0.1, strictjson.Positive)
	case "inverse":
		s.rate = o.Float("rate", 0, strictjson.NotNegative)
	}
	o.RefuseOthers(fmt.Sprintf("the schedule %q", s.kind), "steps", "epochs", "hold_steps", "minimum", "factor",
		"rate")
	if s.IsConstant() {
		return Schedule{} // as where none is given, so that equal schedules compare as equal
	}
	return s
}

// At is the factor of step n, counted from 1. An epoch of the training has stepsPerEpoch steps, at least one.
func (s Schedule) At(n, stepsPerEpoch int64) float64 {
	if n <= s.warmup {
		return float64(n) / float64(s.warmup)
	}
	n = max(n-s.warmup-s.hold-1, 0) // steps since the fall began
	switch s.kind {
	case "linear":
		return s.minimum + (1-s.minimum)*(1-min(1, float64(n)/float64(s.steps)))
	case "cosine":
		return s.minimum + (1-s.minimum)*(1+math.Cos(math.Pi*min(1, float64(n)/float64(s.steps))))/2
	case "step":
		if s.epochs > 0 {
			return math.Pow(s.factor, float64(n/stepsPerEpoch/s.epochs))
		}
		return math.Pow(s.factor, float64(n/s.steps))
	case "inverse":
		return 1 / (1 + s.rate*float64(n))
	default:
		return 1
	}
}

// IsConstant reports whether the factor is 1 for every step.
func (s Schedule) IsConstant() bool { return s.warmup == 0 && (s.kind == "" || s.kind == "constant") }

// MarshalJSON writes the object that Read reads.
func (s Schedule) MarshalJSON() ([]byte, error) {
	keys := map[string]any{"kind": cmp.Or(s.kind, "constant"), "warmup_steps": s.warmup}
	switch s.kind {
	case "linear", "cosine":
		keys["steps"], keys["minimum"] = s.steps, s.minimum
		if s.hold > 0 {
			keys["hold_steps"] = s.hold
		}
	case "step":
		if keys["factor"] = s.factor; s.epochs > 0 {
			keys["epochs"] = s.epochs
		} else {
			keys["steps"] = s.steps
		}
	case "inverse":
		keys["rate"] = s.rate
	}
	return json.Marshal(keys) // which sorts the keys
}
