package strictjson

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// numbered writes {"n": literal}.
func numbered(literal string) string { return `{"n": ` + literal + `}` }

func TestIntTakesWholeNumbersHoweverWritten(t *testing.T) {
	for literal, want := range map[string]int64{"512": 512, "512.0": 512, "5.12e2": 512, "51200e-2": 512,
		"-3": -3, "-0": 0,
		"0.0e99": 0, "9223372036854775807": math.MaxInt64, "-9223372036854775808": math.MinInt64,
		"9007199254740993.0": 9007199254740993, "1e18": 1e18, "0.5E+1": 5} {
		t.Run(literal, func(t *testing.T) {
			o := open(t, numbered(literal))
			require.Equal(t, want, o.Int("n", 7, Any))
			require.NoError(t, o.Done())
		})
	}
}

func TestIntRefusesWhatIsNotWholeOrTooLarge(t *testing.T) {
	for _, literal := range []string{"512.5", "1e-1", "9223372036854775808", "1e19", "1e999999999",
		"1e9999999999999999999",
		"1e-9223372036854775808", "1.5e-9223372036854775808", "123e-3", "0.1"} {
		t.Run(literal, func(t *testing.T) {
			got := refused(t, numbered(literal), func(o *Object) { o.Int("n", 7, Any) })
			require.Equal(t, "options: n is "+literal+"; it must be an integer", got)
		})
	}
}

func TestIntNamesItsRange(t *testing.T) {
	got := refused(t, `{"layers": [{"size": 0}]}`, func(o *Object) { o.Objects("layers")[0].Int("size", 1, AtLeast(1)) })
	require.Equal(t, `options: layers[0].size is 0; it must be an integer of at least 1`, got)
}

func TestIntRefusesOtherTypes(t *testing.T) {
	got := refused(t, `{"n": "12"}`, func(o *Object) { o.Int("n", 1, Between(1, 20)) })
	require.Equal(t, `options: n is "12"; it must be an integer from 1 to 20`, got)
}

func TestIntFallsBackOutsideItsRangeToo(t *testing.T) {
	require.EqualValues(t, -1, open(t, `{}`).Int("n", -1, Positive))
}

func TestUintTakesEverySeed(t *testing.T) {
	require.Equal(t, uint64(math.MaxUint64), open(t, numbered("18446744073709551615")).Uint("n", 0))
}

func TestUintRefusesOthers(t *testing.T) {
	for _, literal := range []string{"-1", "18446744073709551616", "0.5", `"1"`, "true"} {
		t.Run(literal, func(t *testing.T) {
			got := refused(t, numbered(literal), func(o *Object) { o.Uint("n", 7) })
			require.Equal(t, "options: n is "+literal+"; it must be an integer from 0 to 18446744073709551615", got)
		})
	}
}

func TestFloatReadsNumbers(t *testing.T) {
	require.InDelta(t, 2.5e-3, open(t, numbered("2.5e-3")).Float("n", 7, Positive), 0)
}

func TestFloatNamesItsRange(t *testing.T) {
	for _, c := range []struct {
		literal string
		allowed Range
		want    string
	}{
		{"1", Fraction, "a number from 0 to less than 1"},
		{"-0.1", Fraction, "a number from 0 to less than 1"},
		{"1.5", Between(0, 1), "a number from 0 to 1"},
		{"0", Positive, "a number above 0"},
		{"-1", NotNegative, "a number of at least 0"},
		{"1e999", Any, "a number"},
		{"-1e999", Any, "a number"},
		{"[1]", Any, "a number"},
	} {
		t.Run(c.literal+c.allowed.String(), func(t *testing.T) {
			got := refused(t, numbered(c.literal), func(o *Object) { o.Float("n", 0, c.allowed) })
			require.True(t, strings.HasPrefix(got, "options: n is ") && strings.HasSuffix(got, "; it must be "+c.want), got)
		})
	}
}

func TestFloatTakesTheBoundsThatBelongToItsRange(t *testing.T) {
	o := open(t, `{"a": 0, "b": 1, "c": 0}`)
	o.Float("a", 5, Fraction)
	o.Float("b", 5, Between(0, 1))
	o.Float("c", 5, NotNegative)
	require.NoError(t, o.Done())
}

func TestFloat32RefusesWhatRoundingTakesOutOfTheRange(t *testing.T) {
	for literal, want := range map[string]string{
		"0.9999999999": "options: n is 0.9999999999; " +
			"as a 32-bit number that is 1, and it must be a number from 0 to less than 1",
		"1e-60": "options: n is 1e-60, which is too small: 32-bit numbers other than 0 begin at 1.4e-45",
	} {
		t.Run(literal, func(t *testing.T) {
			require.Equal(t, want, refused(t, numbered(literal), func(o *Object) { o.Float32("n", 0, Fraction) }))
		})
	}
}

func TestFloat32RefusesWhatIsBeyondItsLargest(t *testing.T) {
	got := refused(t, numbered("1e39"), func(o *Object) { o.Float32("n", 0, Any) })
	require.Equal(t, "options: n is 1e39, which is too large: 32-bit numbers end at 3.4e38", got)
}

func TestWordNamesTheNearest(t *testing.T) {
	got := refused(t, `{"a": "tahn"}`, func(o *Object) { o.Word("a", "tanh", "linear", "tanh") })
	require.Equal(t, `options: a is "tahn"; it must be one of linear, tanh; did you mean "tanh"?`, got)
}

func TestWordRefusesOtherTypes(t *testing.T) {
	got := refused(t, `{"a": 3}`, func(o *Object) { o.Word("a", "tanh", "linear", "tanh") })
	require.Equal(t, `options: a is 3; it must be one of linear, tanh`, got)
}

func TestStringRefusesOtherTypes(t *testing.T) {
	require.Equal(t, `options: a is an object; it must be a string`,
		refused(t, `{"a": {}}`, func(o *Object) { o.String("a", "") }))
}

func TestBoolAndWordAreRead(t *testing.T) {
	o := open(t, `{"b": false, "w": "tanh"}`)
	require.False(t, o.Bool("b", true))
	require.Equal(t, "tanh", o.Word("w", "linear", "linear", "tanh"))
}

func TestBoolRefusesOtherTypes(t *testing.T) {
	require.Equal(t, `options: a is 1; it must be true or false`,
		refused(t, `{"a": 1}`, func(o *Object) { o.Bool("a", true) }))
}

func TestObjectRefusesOtherTypes(t *testing.T) {
	require.Equal(t, `options: a is a list; it must be an object`,
		refused(t, `{"a": []}`, func(o *Object) { o.Object("a") }))
}

func TestElementsOfTheWrongTypeHaveTheirPath(t *testing.T) {
	for name, c := range map[string]struct {
		text, want string
		read       func(*Object)
	}{
		"objects": {`{"a": [{}, true]}`, "a[1] is true; it must be an object", func(o *Object) { o.Objects("a") }},
		"strings": {`{"a": ["x", 1]}`, "a[1] is 1; it must be a string", func(o *Object) { o.Strings("a") }},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, "options: "+c.want, refused(t, c.text, c.read))
		})
	}
}

func TestAListIsRead(t *testing.T) {
	require.Equal(t, []string{"x", "y"}, open(t, `{"s": ["x", "y"]}`).Strings("s"))
}

func TestAnEmptyListIsNotAMissingOne(t *testing.T) {
	o := open(t, `{"given": []}`)
	require.NotNil(t, o.Strings("given"))
	require.Nil(t, o.Strings("missing"))
}

func TestNullIsTheFallback(t *testing.T) {
	o := open(t, `{"s": null, "b": null, "w": null, "i": null, "u": null, "f": null, "g": null, "o": null, "l": null}`)
	got := []any{o.String("s", "x"), o.Bool("b", true), o.Word("w", "y", "z"), o.Int("i", 1, Any), o.Uint("u", 2),
		o.Float("f", 3, Any), o.Float32("g", 4, Any), o.Object("o").Keys(), o.Objects("l")}
	require.Equal(t, []any{"x", true, "y", int64(1), uint64(2), 3.0, float32(4), []string(nil), []*Object(nil)}, got)
	require.NoError(t, o.Done())
}

func TestALongValueIsCutInTheMessage(t *testing.T) {
	got := refused(t, `{"a": "`+strings.Repeat("é", 1000)+`"}`, func(o *Object) { o.Int("a", 0, Any) })
	require.Equal(t, `options: a is "`+strings.Repeat("é", 30)+`..."; it must be an integer`, got)
}
