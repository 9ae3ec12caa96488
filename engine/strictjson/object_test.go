package strictjson

import (
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/internal/fault"
)

// open parses a text that is right.
func open(t *testing.T, text string) *Object {
	t.Helper()
	o, err := Parse([]byte(text), "options")
	require.NoError(t, err)
	return o
}

// refused reads a text and returns the message, which must begin with the document's name.
func refused(t *testing.T, text string, read func(*Object)) string {
	t.Helper()
	o := open(t, text)
	read(o)
	err := o.Done()
	require.Error(t, err)
	require.Equal(t, fault.InvalidArgument, fault.KindOf(err))
	return err.Error()
}

func TestDoneAcceptsWhatWasAskedFor(t *testing.T) {
	o := open(t, `{"a": 1, "b": {"c": "x"}}`)
	o.Int("a", 0, Any)
	o.Object("b").String("c", "")
	require.NoError(t, o.Done())
}

func TestAnUnknownKeyNamesTheNearest(t *testing.T) {
	got := refused(t, `{"epocs": 3}`, func(o *Object) { o.Int("batch_size", 1, Any); o.Int("epochs", 1, Any) })
	require.Equal(t, `options: epocs is not a known key; did you mean "epochs"?`, got)
}

func TestAnUnknownKeyThatIsNearNothingListsTheKeys(t *testing.T) {
	got := refused(t, `{"frobnicate": 3}`, func(o *Object) { o.Int("seed", 1, Any); o.Int("epochs", 1, Any) })
	require.Equal(t, `options: frobnicate is not a known key; known: seed, epochs`, got)
}

func TestAnUnknownKeyInAnInnerObjectHasItsPath(t *testing.T) {
	got := refused(t, `{"layers": [{}, {"initializer": {"scael": 1}}]}`, func(o *Object) {
		for _, layer := range o.Objects("layers") {
			layer.Object("initializer").Float("scale", 1, Any)
		}
	})
	require.Equal(t, `options: layers[1].initializer.scael is not a known key; did you mean "scale"?`, got)
}

func TestAnOddKeyIsQuotedInThePath(t *testing.T) {
	got := refused(t, `{"a b\n": 3}`, func(*Object) {})
	require.Equal(t, `options: "a b\n" is not a known key`, got)
}

func TestTheFirstErrorIsKept(t *testing.T) {
	got := refused(t, `{"a": "x", "b": "y"}`, func(o *Object) { o.Int("a", 0, Any); o.Int("b", 0, Any) })
	require.Equal(t, `options: a is "x"; it must be an integer`, got)
}

func TestAWrongValueComesBeforeAnUnknownKey(t *testing.T) {
	got := refused(t, `{"mystery": 1, "a": "x"}`, func(o *Object) { o.Int("a", 0, Any) })
	require.Contains(t, got, "a is")
}

func TestAMissingKeyIsReported(t *testing.T) {
	got := refused(t, `{"layers": [{"kind": "input"}]}`, func(o *Object) {
		layer := o.Objects("layers")[0]
		layer.Require("kind", "name")
		layer.String("kind", "")
		layer.String("name", "")
	})
	require.Equal(t, `options: layers[0].name is missing`, got)
}

func TestAnUnknownKeyComesBeforeAMissingOne(t *testing.T) {
	got := refused(t, `{"nmae": "x"}`, func(o *Object) { o.Require("name"); o.String("name", "") })
	require.Equal(t, `options: nmae is not a known key; did you mean "name"?`, got)
}

func TestARequiredKeyThatIsNullIsMissing(t *testing.T) {
	got := refused(t, `{"name": null}`, func(o *Object) { o.Require("name"); o.String("name", "") })
	require.Equal(t, `options: name is missing`, got)
}

func TestARefusedKeyGivesItsReason(t *testing.T) {
	got := refused(t, `{"dropout": 0.5}`, func(o *Object) { o.Refuse("dropout", "is given, but %s", "not here") })
	require.Equal(t, `options: dropout is given, but not here`, got)
}

func TestARefusedKeyMayBeNull(t *testing.T) {
	o := open(t, `{"dropout": null}`)
	o.Refuse("dropout", "is given")
	require.NoError(t, o.Done())
}

func TestARefusedKeyIsNotSuggested(t *testing.T) {
	got := refused(t, `{"dropuot": 1}`, func(o *Object) { o.Refuse("dropout", "is given") })
	require.NotContains(t, got, "did you mean")
}

func TestFailReportsAtThePath(t *testing.T) {
	got := refused(t, `{"a": {"b": 1}}`, func(o *Object) { o.Object("a").Fail("b", "is %d, too odd", 1) })
	require.Equal(t, `options: a.b is 1, too odd`, got)
}

func TestFailWithoutAKeyReportsAtTheObject(t *testing.T) {
	got := refused(t, `{"a": {}}`, func(o *Object) { o.Object("a").Fail("", "is odd") })
	require.Equal(t, `options: a is odd`, got)
}

func TestFailAtReportsTheElement(t *testing.T) {
	got := refused(t, `{"a": ["x"]}`, func(o *Object) { o.Strings("a"); o.FailAt("a", 0, "is odd") })
	require.Equal(t, `options: a[0] is odd`, got)
}

func TestErrIsTheFirstErrorWithoutTheChecksOfDone(t *testing.T) {
	o := open(t, `{"mystery": 1}`)
	require.NoError(t, o.Err())
}

func TestHasIsFalseForNull(t *testing.T) {
	require.False(t, open(t, `{"a": null}`).Has("a"))
}

func TestTypeTellsTheTypes(t *testing.T) {
	o := open(t, `{"a": null, "b": true, "c": 1, "d": "x", "e": [], "f": {}}`)
	var types []Type
	for _, key := range append(o.Keys(), "g") {
		types = append(types, o.Type(key))
	}
	require.Equal(t, []Type{Missing, BoolType, NumberType, StringType, ListType, ObjectType, Missing}, types)
}

func TestAskedTellsWhichKeysAGetterKnows(t *testing.T) {
	o := open(t, `{"a": 1, "b": 2}`)
	o.Int("a", 0, Any)
	require.True(t, o.Asked("a"))
	require.False(t, o.Asked("b"))
}

func TestKeysAreInTheOrderOfTheText(t *testing.T) {
	require.Equal(t, []string{"z", "a", "m"}, open(t, `{"z": 1, "a": null, "m": 2}`).Keys())
}

func TestPathTellsWhereAnObjectIs(t *testing.T) {
	require.Equal(t, "a[1].b", open(t, `{"a": [{}, {"b": {}}]}`).Objects("a")[1].Object("b").Path())
}

func TestAMissingObjectReadsAsEmpty(t *testing.T) {
	require.Equal(t, "none", open(t, `{}`).Object("a").Object("b").String("c", "none"))
}
