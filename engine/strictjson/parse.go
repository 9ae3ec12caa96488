package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"unicode/utf8"

	"dsstne/internal/fault"
)

// deepest is how many lists and objects may stand inside each other.
const deepest = 64

// Parse reads a document that is one JSON object; what names it in errors: "trainer options". No text is the empty
// object.
func Parse(text []byte, what string) (*Object, error) { return parse(text, &report{what: what}) }

// ParseFolded is Parse for documents whose keys, and the words of Word, may be in any letter case. Messages show them
// as the getters spell them.
func ParseFolded(text []byte, what string) (*Object, error) {
	return parse(text, &report{what: what, folded: true})
}

func parse(text []byte, report *report) (*Object, error) {
	o, what := &Object{report: report}, report.what
	if len(bytes.TrimSpace(text)) == 0 {
		return o, nil
	}
	if !utf8.Valid(text) {
		return nil, fault.New(fault.InvalidArgument, "%s: the text is not UTF-8", what)
	}
	if err := checkSyntax(text, what); err != nil {
		return nil, err
	}
	p := parser{decoder: json.NewDecoder(bytes.NewReader(text)), report: o.report}
	p.decoder.UseNumber()
	root := p.value("", 0)
	if p.report.first != nil {
		return nil, p.report.first
	}
	m, isObject := root.(*members)
	if !isObject {
		return nil, fault.New(fault.InvalidArgument, `%s: the text is %v; it must be an object, as in {"key": 1}`, what,
			typeOf(root))
	}
	o.members = *m
	return o, nil
}

// checkSyntax returns an error with the line and column where a text is not JSON.
func checkSyntax(text []byte, what string) error {
	var raw json.RawMessage
	var syntax *json.SyntaxError
	if !errors.As(json.Unmarshal(text, &raw), &syntax) {
		return nil
	}
	// The offset is behind the byte that was read last.
	at := max(int(syntax.Offset)-1, 0)
	before := string(text[:min(at, len(text))])
	line := strings.Count(before, "\n") + 1
	column := utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:]) + 1
	hint := ""
	if rest := text[len(before):]; bytes.HasPrefix(rest, []byte("NaN")) || bytes.HasPrefix(rest, []byte("Infinity")) ||
		(bytes.HasPrefix(rest, []byte("I")) && bytes.HasSuffix(text[:at], []byte("-"))) {
		hint = "; numbers must be finite"
	}
	return fault.New(fault.InvalidArgument, "%s: line %d, column %d: not valid JSON: %v%s", what, line, column, syntax,
		hint)
}

// parser turns text whose syntax is right into values; the first error ends up in report.
type parser struct {
	decoder *json.Decoder
	report  *report
}

// next is the next token; there always is one, because the syntax has been checked.
func (p *parser) next() json.Token {
	token, _ := p.decoder.Token()
	return token
}

func (p *parser) value(path string, depth int) any {
	token := p.next()
	bracket, opens := token.(json.Delim)
	switch {
	case !opens:
		return token
	case depth == deepest:
		p.report.fail("", "lists and objects are nested more than %d deep", deepest)
		return nil
	case bracket == '{':
		return p.object(path, depth+1)
	}
	list := []any{}
	for p.report.first == nil && p.decoder.More() {
		list = append(list, p.value(element(path, len(list)), depth+1))
	}
	p.next() // the closing bracket, unless something has failed
	return list
}

func (p *parser) object(path string, depth int) *members {
	m := &members{values: map[string]any{}}
	place := Object{path: path}
	spelled := map[string]string{}
	for p.report.first == nil && p.decoder.More() {
		key, _ := p.next().(string)
		at, folded := place.at(key), p.report.fold(key)
		if first, there := spelled[folded]; there {
			if first != key {
				p.report.fail(at, "is given twice, the first time as %s", quote(first))
			}
			p.report.fail(at, "is given twice")
			return m
		}
		spelled[folded] = key
		m.keys = append(m.keys, key)
		m.values[folded] = p.value(at, depth)
	}
	p.next() // the closing bracket, unless something has failed
	return m
}
