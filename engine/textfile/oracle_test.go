package textfile

import (
	"encoding/binary"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// plain is what a reader of one thread makes of a text, written as plainly as possible: rows of features and values.
type plain struct {
	samples, features []string
	rows              [][]entry
	skipped           map[string]int64
	repeated          int64
	unknownSamples    int64
	unknownFeatures   int64
}

type entry struct {
	feature int32
	value   float32
}

// readPlainly reads files of a text; names are not needed, because it reports no errors.
func readPlainly(files []string, o Options) *plain {
	p := &plain{skipped: map[string]int64{}, samples: names(o.Samples), features: names(o.Features)}
	p.rows = make([][]entry, len(p.samples))
	seen := map[int]bool{}
	for _, text := range files {
		text = strings.TrimPrefix(text, "\uFEFF")
		for line := range strings.SplitSeq(text, "\n") {
			line = strings.TrimSuffix(line, "\r")
			if line == "" {
				continue
			}
			sample, pieces, kind := splitLine(line, o)
			if kind != "" {
				p.skipped[kind]++
				continue
			}
			row := numberOf(&p.samples, sample, o.Samples.Offsets != nil && !o.ExtendSamples)
			if row < 0 {
				p.unknownSamples++
				continue
			}
			if row == len(p.rows) {
				p.rows = append(p.rows, nil)
			}
			if seen[row] {
				p.repeated++
			}
			if o.Repeated == ReplaceRepeated {
				p.rows[row] = nil
			}
			seen[row] = true
			for _, piece := range pieces {
				label, value, given := strings.Cut(piece, ",")
				column := numberOf(&p.features, label, o.Features.Offsets != nil && !o.ExtendFeatures)
				if column < 0 {
					p.unknownFeatures++
					continue
				}
				number := 1.0
				if o.Analog && !given {
					number = float64(*o.DefaultValue)
				} else if o.Analog {
					number, _ = strconv.ParseFloat(value, 32)
				}
				p.rows[row] = append(p.rows[row], entry{int32(column), float32(number)})
			}
		}
	}
	return p
}

// splitLine is the sample and the features of a line, or what is wrong with the line.
func splitLine(line string, o Options) (sample string, pieces []string, kind string) {
	if !utf8.ValidString(line) {
		return "", nil, "not_utf8"
	}
	sample, rest, found := strings.Cut(line, "\t")
	switch {
	case !found:
		return "", nil, "no_tab"
	case sample == "":
		return "", nil, "empty_sample"
	case strings.ContainsAny(sample, ":,"):
		return "", nil, "sample_character"
	}
	for piece := range strings.SplitSeq(rest, ":") {
		if piece == "" {
			continue
		}
		parts := strings.Split(piece, ",")
		tab := slices.IndexFunc(parts, func(part string) bool { return strings.Contains(part, "\t") })
		switch {
		case tab == 0 || tab == 1:
			return "", nil, "tab_in_features"
		case len(parts) > 2:
			return "", nil, "several_values"
		case len(parts) == 1 && o.Analog && o.DefaultValue == nil:
			return "", nil, "no_value"
		case len(parts) == 2 && parts[0] == "":
			return "", nil, "empty_feature"
		case len(parts) == 2 && plainNumber(parts[1]) != "":
			return "", nil, plainNumber(parts[1])
		}
		pieces = append(pieces, piece)
	}
	return sample, pieces, ""
}

// plainNumber is what is wrong with a value.
func plainNumber(text string) string {
	value, err := strconv.ParseFloat(text, 32)
	switch {
	case strings.ContainsAny(text, "xXpP_"):
		return "not_a_number" // which Go reads, but not dsstne
	case err != nil && !strings.Contains(err.Error(), "out of range"):
		return "not_a_number"
	case err != nil || value-value != 0:
		return "not_finite"
	}
	return ""
}

func numberOf(known *[]string, label string, fixed bool) int {
	if n := slices.Index(*known, label); n >= 0 || fixed {
		return n
	}
	*known = append(*known, label)
	return len(*known) - 1
}

// names are the labels of an index.
func names(index Index) (all []string) {
	for n := range max(len(index.Offsets), 1) - 1 {
		all = append(all, string(index.Text[index.Offsets[n]:index.Offsets[n+1]]))
	}
	return all
}

// indexOf is the index of labels.
func indexOf(labels ...string) Index {
	index := Index{Offsets: []int64{0}}
	for _, label := range labels {
		index.Text = append(index.Text, label...)
		index.Offsets = append(index.Offsets, int64(len(index.Text)))
	}
	return index
}

// asPlain is what a reading has found, as readPlainly returns it.
func asPlain(t testing.TB, d *Data) *plain {
	p := &plain{skipped: map[string]int64{}, repeated: d.report.RepeatedSamples}
	p.unknownSamples, p.unknownFeatures = d.report.UnknownSamples, d.report.UnknownFeatures
	p.samples, p.features = labelsOf(t, d, "rows"), labelsOf(t, d, "items")
	for kind, m := range d.report.Malformed {
		p.skipped[kind] = m.Lines
	}
	layout, entries := d.Layout(), d.Statistics().NonZeros
	require.Equal(t, 32, layout.OffsetBits)
	offsets := unsafe.Slice((*int32)(layout.Offsets), d.Rows()+1)
	indices := unsafe.Slice((*int32)(layout.Indices), entries)
	require.Zero(t, offsets[0])
	for row := range d.Rows() {
		list := []entry(nil)
		for i := offsets[row]; i < offsets[row+1]; i++ {
			value := float32(1)
			if layout.ValueBits > 0 {
				value = unsafe.Slice((*float32)(layout.Values), entries)[i]
			}
			list = append(list, entry{indices[i], value})
		}
		p.rows = append(p.rows, list)
	}
	return p
}

// labelsOf are the labels of an array.
func labelsOf(t testing.TB, d *Data, array string) []string {
	n := d.Rows()
	if array == "items" {
		n = d.Columns()
	}
	memory := make([]byte, d.Arrays()[array])
	require.NoError(t, d.Array(array, memory))
	index := Index{Text: memory[8*(n+1):]}
	for i := range n + 1 {
		index.Offsets = append(index.Offsets, int64(binary.LittleEndian.Uint64(memory[8*i:])))
	}
	return names(index)
}
