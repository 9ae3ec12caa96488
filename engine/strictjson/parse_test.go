package strictjson

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/internal/fault"
)

// unreadable parses a text that is wrong and returns the message.
func unreadable(t *testing.T, text string) string {
	t.Helper()
	_, err := Parse([]byte(text), "options")
	require.Error(t, err)
	require.Equal(t, fault.InvalidArgument, fault.KindOf(err))
	return err.Error()
}

func TestNoTextIsTheEmptyObject(t *testing.T) {
	for name, text := range map[string][]byte{"nil": nil, "empty": {}, "space": []byte(" \n\t"), "braces": []byte("{}")} {
		t.Run(name, func(t *testing.T) {
			o, err := Parse(text, "options")
			require.NoError(t, err)
			require.NoError(t, o.Done())
		})
	}
}

func TestADuplicateKeyIsRefused(t *testing.T) {
	require.Equal(t, "options: a[0].b is given twice", unreadable(t, `{"a": [{"b": 1, "b": 1}]}`))
}

func TestOfAFoldedDocumentCaseHasNoMeaning(t *testing.T) {
	o, err := ParseFolded([]byte(`{"NAME": "x", "kinD": "LINEAR", "Deep": {"sizeS": [1, 2]}}`), "file")
	require.NoError(t, err)
	o.Require("Name")
	require.True(t, o.Has("name"))
	require.Equal(t, "x", o.String("Name", ""))
	require.Equal(t, "Linear", o.Word("Kind", "Tanh", "Tanh", "Linear"))
	require.Equal(t, []int64{1, 2}, o.Object("deep").Ints("Sizes", Any))
	require.True(t, o.Asked("KIND"))
	require.NoError(t, o.Done())
}

func TestAFoldedDocumentHasItsErrors(t *testing.T) {
	for text, want := range map[string]string{
		`{"a": 1, "A": 2}`:          `file: A is given twice, the first time as "a"`,
		`{"a": 1, "a": 2}`:          `file: a is given twice`,
		`{"KINDE": 1}`:              `file: layer "x": KINDE is not a known key; did you mean "Kind"?`,
		`{"kind": "Lineer"}`:        `file: Kind is "Lineer"; it must be one of Tanh, Linear; did you mean "Linear"?`,
		`{"FLAG": true}`:            `file: Flag is of something else`,
		`{"sizes": [1, 2.5]}`:       `file: layer "x": Sizes[1] is 2.5; it must be an integer`,
		`{"sizes": 1}`:              `file: layer "x": Sizes is 1; it must be a list`,
		`{"inside": {"scheme": 1}}`: `file: layer "x": Inside.scheme is not a known key`,
		`{}`:                        `file: layer "x": Kind is missing`,
	} {
		t.Run(text, func(t *testing.T) {
			o, err := ParseFolded([]byte(text), "file")
			if err == nil {
				o.Word("Kind", "Tanh", "Tanh", "Linear")
				o.Refuse("Flag", "is of something else")
				o.Title(`layer "x"`)
				o.Ints("Sizes", Any)
				o.Object("Inside")
				o.Require("Kind")
				err = o.Done()
			}
			require.EqualError(t, err, want)
		})
	}
}

func TestKeysThatAreEqualOnlyAfterDecodingAreDuplicates(t *testing.T) {
	require.Equal(t, "options: ab is given twice", unreadable(t, `{"ab": 1, "a\u0062": 1}`))
}

func TestTextAfterTheObjectIsRefused(t *testing.T) {
	got := unreadable(t, "{}\n {}")
	require.Contains(t, got, "options: line 2, column 2: not valid JSON: ")
}

func TestASyntaxErrorHasItsPlace(t *testing.T) {
	got := unreadable(t, "{\n  \"é\": tru}")
	require.Contains(t, got, "options: line 2, column 11: not valid JSON: ")
}

func TestAnUnfinishedTextIsRefused(t *testing.T) {
	require.Contains(t, unreadable(t, `{"a": [1,`), "not valid JSON")
}

func TestNumbersThatAreNotFiniteGetAHint(t *testing.T) {
	for _, literal := range []string{"NaN", "Infinity", "-Infinity"} {
		t.Run(literal, func(t *testing.T) {
			require.Contains(t, unreadable(t, numbered(literal)), "; numbers must be finite")
		})
	}
}

func TestOtherTypesThanAnObjectAreRefused(t *testing.T) {
	for text, what := range map[string]string{"[1]": "a list", "3": "a number", `"x"`: "a string", "true": "true or false",
		"null": "null"} {
		t.Run(text, func(t *testing.T) {
			require.Equal(t, "options: the text is "+what+`; it must be an object, as in {"key": 1}`, unreadable(t, text))
		})
	}
}

func TestTextThatIsNotUTF8IsRefused(t *testing.T) {
	require.Equal(t, "options: the text is not UTF-8", unreadable(t, "{\"a\": \"\xff\"}"))
}

func TestDeepNestingIsRefused(t *testing.T) {
	for name, text := range map[string]string{
		"lists":     `{"a": ` + strings.Repeat("[", 64) + strings.Repeat("]", 64) + "}",
		"objects":   strings.Repeat(`{"a": `, 65) + "1" + strings.Repeat("}", 65),
		"very deep": `{"a": ` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + "}",
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, "options: lists and objects are nested more than 64 deep", unreadable(t, text))
		})
	}
}

func TestExtremelyDeepNestingIsRefusedToo(t *testing.T) {
	unreadable(t, `{"a": `+strings.Repeat("[", 1_000_000))
}

func TestNestingUpToTheLimitIsRead(t *testing.T) {
	open(t, `{"a": `+strings.Repeat("[", 63)+strings.Repeat("]", 63)+"}")
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{`{}`, `{"a": 1e5, "b": [true, null, {"c": "d"}]}`, `{"a": -0.0}`,
		`{"a": 1, "a": 2}`, `[`,
		`{"n": 1e-9223372036854775808}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		o, err := Parse(text, "options")
		if err != nil {
			require.Equal(t, fault.InvalidArgument, fault.KindOf(err))
			return
		}
		for _, key := range o.Keys() {
			o.Int(key, 0, Any)
			o.Uint(key, 0)
			o.Float32(key, 0, Fraction)
			o.Strings(key)
			o.Objects(key)
			o.Object(key)
			o.Word(key, "", "a", "b")
		}
		if err := o.Done(); err != nil {
			require.Equal(t, fault.InvalidArgument, fault.KindOf(err))
		}
	})
}
