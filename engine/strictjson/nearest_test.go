package strictjson

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNearestFindsWhatWasMeant(t *testing.T) {
	words := []string{"linear", "sigmoid", "tanh", "relu", "learning_rate", "learning_rates", "l2"}
	for typed, want := range map[string]string{
		"tahn": "tanh", "Sigmoid": "sigmoid", "sigmod": "sigmoid", "learningrate": "learning_rate", "RELU": "relu",
		"learn": "learning_rate", "learning_rate": "learning_rate", "L2": "l2", "lineer": "linear",
	} {
		t.Run(typed, func(t *testing.T) {
			require.Equal(t, want, Nearest(typed, words))
		})
	}
}

func TestNearestIsEmptyWhenNothingIsNear(t *testing.T) {
	for _, typed := range []string{"", "x", "convolution", strings.Repeat("tanh", 100)} {
		t.Run(shorten(typed), func(t *testing.T) {
			require.Empty(t, Nearest(typed, []string{"linear", "tanh", "l2"}))
		})
	}
}

func TestNearestOfEquallyNearWordsIsTheFirst(t *testing.T) {
	require.Equal(t, "hidden1", Nearest("hidden", []string{"hidden1", "hidden2"}))
}

func TestSuggestionListsNoMoreThanTwelveWords(t *testing.T) {
	words := strings.Split("aaaa bbbb cccc dddd eeee ffff gggg hhhh iiii jjjj kkkk llll mmmm", " ")
	require.Equal(t, "; known: "+strings.Join(words[:12], ", ")+", ...", Suggestion("zzzzzzzz", words))
}

func TestSuggestionIsEmptyWithoutWords(t *testing.T) {
	require.Empty(t, Suggestion("x", nil))
}

func TestDistanceCountsASwapAsOne(t *testing.T) {
	require.Equal(t, 1, distance([]rune("tahn"), []rune("tanh")))
}
