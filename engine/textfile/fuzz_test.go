package textfile

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"dsstne/internal/fault"
)

// FuzzText compares a reading, in blocks of any size and on several threads, with that of a plain reader.
func FuzzText(f *testing.F) {
	f.Add([]byte("a\tx,1:y,2.5\nb\ty,3"), byte(0))
	f.Add([]byte("\uFEFFa\tx:x\r\n\r\nb\ty:\na\tz\nbad\n"), byte(255))
	f.Add([]byte("f1\tf1:f2,1e3:f3\nf2\t,1\nf2\tf1,nan\xff"), byte(0x55))
	f.Fuzz(func(t *testing.T, text []byte, choices byte) {
		o := Options{
			Analog: choices&1 > 0, SkipMalformed: choices&2 > 0, Repeated: Repeated(choices >> 2 & 1),
			Threads: 1 + int(choices>>3&1), blockSize: 1 + int(choices>>4&3)*7,
		}
		if value := float32(-2.5); choices&36 == 36 {
			o.DefaultValue = &value
		}
		if choices&64 > 0 {
			o.Features, o.ExtendFeatures = indexOf("f2", "x", "f1"), choices&128 > 0
			o.Samples, o.ExtendSamples = indexOf("f2", "a"), choices&128 == 0
		}
		path := filepath.Join(t.TempDir(), "text")
		require.NoError(t, os.WriteFile(path, text, 0o600))
		if len(text) > 1 && text[0] == 0x1f && text[1] == 0x8b {
			_, _ = read(t, []string{path}, o) // that it ends is enough
			return
		}
		want := readPlainly([]string{string(text)}, o)
		d, err := read(t, []string{path}, o)
		switch {
		case len(want.skipped) > 0 && !o.SkipMalformed, len(want.features) == 0:
			require.Equal(t, fault.InvalidData, fault.KindOf(err), "%v", err)
		default:
			require.NoError(t, err)
			require.Equal(t, want, asPlain(t, d))
		}
	})
}

// FuzzIndex writes what it has read, and reads it again.
func FuzzIndex(f *testing.F) {
	f.Add([]byte("a\t1\nb\t0\n"))
	f.Add([]byte("\uFEFFa\t0\r\nb\t1"))
	f.Add([]byte("a\t0\na\t1\n\xff\t2"))
	f.Add([]byte("b\t1\n\uFEFFa\t0"))
	f.Fuzz(func(t *testing.T, text []byte) {
		path := filepath.Join(t.TempDir(), "index")
		require.NoError(t, os.WriteFile(path, text, 0o600))
		index, err := ReadIndex(path, gunzip)
		if err != nil {
			require.NotEqual(t, fault.Internal, fault.KindOf(err), "%v", err)
			return
		}
		require.NoError(t, WriteIndex(path, index))
		again, err := ReadIndex(path, gunzip)
		require.NoError(t, err)
		require.Equal(t, index, again)
	})
}
