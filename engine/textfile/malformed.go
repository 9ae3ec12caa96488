package textfile

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	"dsstne/internal/fault"
)

// Kind is what is wrong with a malformed line.
type Kind int

// The kinds of malformed lines.
const (
	NoTab Kind = iota
	EmptySample
	SampleCharacter
	EmptyFeature
	FeatureTab
	SeveralValues
	NoValue
	NotANumber
	NotFinite
	NotUTF8
	kinds
)

// kindWords are the kinds in a report.
var kindWords = [kinds]string{
	"no_tab", "empty_sample", "sample_character", "empty_feature", "tab_in_features", "several_values", "no_value",
	"not_a_number", "not_finite", "not_utf8",
}

func (k Kind) String() string { return kindWords[k] }

// message says what is wrong, and what to do; piece is the part of the line that is wrong.
func (k Kind) message(piece []byte) string {
	switch k {
	case NoTab:
		return "the line has no TAB; a line is a sample's label, a TAB, and its features between colons"
	case EmptySample:
		return "there is no label before the TAB"
	case SampleCharacter:
		return fmt.Sprintf("the sample's label %q has a colon or a comma; labels have neither", shown(piece))
	case EmptyFeature:
		return fmt.Sprintf("there is no label before the comma of %q", shown(piece))
	case FeatureTab:
		return "there is a second TAB; features are separated by colons, and labels have no TAB"
	case SeveralValues:
		return fmt.Sprintf("%q has more than one comma; write a feature as label or label,value", shown(piece))
	case NoValue:
		return fmt.Sprintf("the feature %q has no value; write label,value, give default_value, or read the text with "+
			"values \"indicator\"", shown(piece))
	case NotANumber:
		return fmt.Sprintf("the value %q is not a number; write it as 3, 0.5 or 1e-3", shown(piece))
	case NotFinite:
		return fmt.Sprintf("the value %q is not finite or too large for float32", shown(piece))
	default:
		return "the line is not valid UTF-8; convert the file to UTF-8"
	}
}

// shown shortens a part of a line for a message.
func shown(text []byte) string {
	const most = 60
	if len(text) <= most {
		return string(text)
	}
	n := most
	for n > most-utf8.UTFMax && !utf8.RuneStart(text[n]) {
		n--
	}
	return string(text[:n]) + "..."
}

// labelProblem says why a label cannot be in a text; it is empty if the label can.
func labelProblem(label []byte) string {
	switch {
	case len(label) == 0:
		return "is empty"
	case bytes.ContainsAny(label, "\t\n:,"):
		return fmt.Sprintf("is %q, but labels have no TAB, newline, colon or comma", shown(label))
	case label[len(label)-1] == '\r':
		return fmt.Sprintf("is %q, but labels do not end with a carriage return", shown(label))
	case !utf8.Valid(label):
		return fmt.Sprintf("is %q, which is not valid UTF-8", shown(label))
	}
	return ""
}

// Place is a place in a text. Lines and columns count from 1; a column is a character.
type Place struct {
	File   string `json:"file"`
	Line   int64  `json:"line"`
	Column int64  `json:"column"`
}

func (p Place) String() string {
	return fmt.Sprintf("%s, line %d, column %d", p.File, p.Line, p.Column)
}

// Malformed are the malformed lines of a kind that were skipped.
type Malformed struct {
	Lines int64 `json:"lines"`
	First Place `json:"first"`
}

// mistake is a malformed line of a block: where in the line it is wrong.
type mistake struct {
	kind       Kind
	line       int64 // of the block, from 0
	begin, end int   // of the line in the block
	at         int   // of what is wrong, between them
	length     int
}

// place is where a mistake is.
func (b *block) place(m mistake) Place {
	column := utf8.RuneCount(b.text.items[m.begin:m.at])
	return Place{b.name, b.firstLine + m.line, int64(column) + 1}
}

// fail is the error of a mistake.
func (b *block) fail(m mistake) error {
	piece := b.text.items[m.at : m.at+m.length]
	return fault.New(fault.InvalidData, "%v: %s", b.place(m), m.kind.message(piece))
}
