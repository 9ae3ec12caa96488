package schedule

import (
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/engine/strictjson"
)

func TestSchedulesHaveTheirTextbookValues(t *testing.T) {
	for _, c := range []struct {
		text   string
		step   int64
		factor float64
	}{
		{`{}`, 1000, 1},
		{`{"warmup_steps": 10}`, 5, 0.5},
		{`{"warmup_steps": 10}`, 10, 1},
		{`{"kind": "linear", "steps": 100}`, 1, 1},
		{`{"kind": "linear", "steps": 100}`, 51, 0.5},
		{`{"kind": "linear", "steps": 100, "minimum": 0.1}`, 5000, 0.1},
		{`{"kind": "cosine", "steps": 100}`, 51, 0.5},
		{`{"kind": "cosine", "steps": 100, "warmup_steps": 10}`, 11, 1},
		{`{"kind": "linear", "steps": 100, "warmup_steps": 10, "hold_steps": 30}`, 5, 0.5},
		{`{"kind": "linear", "steps": 100, "warmup_steps": 10, "hold_steps": 30}`, 40, 1},
		{`{"kind": "linear", "steps": 100, "warmup_steps": 10, "hold_steps": 30}`, 91, 0.5},
		{`{"kind": "cosine", "steps": 100, "hold_steps": 30}`, 81, 0.5},
		{`{"kind": "step", "steps": 10, "factor": 0.5}`, 10, 1},
		{`{"kind": "step", "steps": 10, "factor": 0.5}`, 21, 0.25},
		{`{"kind": "step", "epochs": 2, "factor": 0.5}`, 14, 1},
		{`{"kind": "step", "epochs": 2, "factor": 0.5}`, 15, 0.5},
		{`{"kind": "step", "epochs": 2, "factor": 0.5, "warmup_steps": 7}`, 21, 1},
		{`{"kind": "step", "epochs": 2, "factor": 0.5, "warmup_steps": 7}`, 36, 0.25},
		{`{"kind": "step", "epochs": 9223372036854775807, "factor": 0.5}`, 1 << 60, 1},
		{`{"kind": "inverse", "rate": 0.5}`, 3, 0.5},
	} {
		o, err := strictjson.Parse([]byte(`{"schedule": `+c.text+`}`), "options")
		require.NoError(t, err)
		s := Read(o, "schedule")
		require.NoError(t, o.Done())
		require.InDelta(t, c.factor, s.At(c.step, 7), 1e-12, c.text)

		text, err := s.MarshalJSON()
		require.NoError(t, err)
		o, err = strictjson.Parse([]byte(`{"schedule": `+string(text)+`}`), "options")
		require.NoError(t, err)
		require.Equal(t, s, Read(o, "schedule"), "what is written is read as the same")
		require.NoError(t, o.Done())
	}
}

func TestAWordIsNotASchedule(t *testing.T) {
	o, err := strictjson.Parse([]byte(`{"schedule": "cosine"}`), "options")
	require.NoError(t, err)
	Read(o, "schedule")
	require.EqualError(t, o.Done(),
		`options: schedule is a string; it must be an object such as {"kind": "cosine", "steps": 1000}`)
}

func TestAStepScheduleHasStepsOrEpochs(t *testing.T) {
	for text, want := range map[string]string{
		`{"kind": "step", "steps": 3, "epochs": 2}`:   "steps is given together with epochs",
		`{"kind": "step"}`:                            "steps is missing",
		`{"kind": "linear", "steps": 3, "epochs": 2}`: "epochs has no meaning",
	} {
		o, err := strictjson.Parse([]byte(`{"schedule": `+text+`}`), "options")
		require.NoError(t, err)
		Read(o, "schedule")
		require.ErrorContains(t, o.Done(), want)
	}
}
