package textfile

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// benchText is a text of samples with 144 features each, with a time each or without.
func benchText(entries, features int, times bool) []byte {
	random := rand.New(rand.NewPCG(5, 6))
	var text []byte
	for n := range entries {
		if n%144 == 0 {
			text = fmt.Appendf(text, "\n%d\t", n/144)
		}
		u := random.Float64()
		text = strconv.AppendInt(text, int64(float64(features)*u*u*u), 10) // popular features first
		if times {
			text = strconv.AppendInt(append(text, ','), 789652009+random.Int64N(600000000), 10)
		}
		text = append(text, ':')
	}
	return text
}

func BenchmarkReadData(b *testing.B) {
	for _, c := range []struct {
		name              string
		entries, features int
		times             bool
	}{{"labels", 4_000_000, 27_000, false}, {"times", 4_000_000, 27_000, true}, {"many", 8_000_000, 5_000_000, false}} {
		text := benchText(c.entries, c.features, c.times)
		path := b.TempDir() + "/text"
		require.NoError(b, os.WriteFile(path, text, 0o600))
		for _, threads := range []int{1, 2} {
			b.Run(fmt.Sprintf("%s/%d", c.name, threads), func(b *testing.B) {
				b.SetBytes(int64(len(text)))
				var before, after syscall.Rusage
				require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &before))
				for range b.N {
					d, err := read(b, []string{path}, Options{Threads: threads})
					require.NoError(b, err)
					require.Equal(b, int64(c.entries), d.Statistics().NonZeros)
				}
				require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &after))
				busy := after.Utime.Nano() - before.Utime.Nano() + after.Stime.Nano() - before.Stime.Nano()
				b.ReportMetric(float64(b.N*len(text))*1e3/float64(busy), "MB/cpu-s")
			})
		}
	}
}
