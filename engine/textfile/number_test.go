package textfile

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNumbersAreRoundedOnce(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	texts := []string{
		"0", "-0", "16777217", "33554435", "18446744073709551615", "99999999999999999999", "1e-50", "3.4028235e38", "5.",
		"0.00000000000000000000000000000000000000000000001", "-.5", "+5", "1.17549435E-38", "16777217.5", "0.1", "1e+2",
	}
	for range 20000 {
		texts = append(texts, fmt.Sprint(random.Float64()*100), fmt.Sprint(random.Uint64()>>random.IntN(64)),
			fmt.Sprintf("%.*f", random.IntN(12), random.Float64()*1000))
	}
	for _, text := range texts {
		want, err := strconv.ParseFloat(text, 32)
		require.NoError(t, err, text)
		value, kind := parseNumber([]byte(text))
		require.Equal(t, kinds, kind, text)
		require.Equal(t, float32(want), value, text)
	}
}
