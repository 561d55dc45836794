package explain

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// nbsp keeps two words on one line; it is printed as a space.
const nbsp = "\u00a0"

// style is how text looks where color is wanted.
type style string

// The styles, as ANSI attributes.
const (
	plain  style = ""
	bold   style = "1"
	dim    style = "2"
	red    style = "31"
	green  style = "32"
	yellow style = "33"
	loud   style = "1;31"
	good   style = "1;32"
	notice style = "1;33"
)

// page is text of a given width.
type page struct {
	text  strings.Builder
	width int
	color bool
}

// put writes text with its style.
func (p *page) put(s style, text string) {
	if !p.color || s == plain || text == "" {
		p.text.WriteString(spaces(text))
		return
	}
	p.text.WriteString("\x1b[" + string(s) + "m" + spaces(text) + "\x1b[0m")
}

func (p *page) blank() { p.text.WriteByte('\n') }

// line writes text between the indent and the width, on as many lines as necessary; all but the
// first are indented by hang more.
func (p *page) line(indent, hang int, s style, text string) {
	for i, l := range wrap(text, p.width-indent, p.width-indent-hang) {
		by := indent
		if i > 0 {
			by += hang
		}
		p.text.WriteString(strings.Repeat(" ", by))
		p.put(s, l)
		p.blank()
	}
}

// heading begins a section: its name and its result.
func (p *page) heading(name, outcome string) {
	p.blank()
	if outcome == "" {
		p.put(bold, name)
		p.blank()
		return
	}
	text := name + ": " + outcome
	for i, l := range wrap(text, p.width, p.width-2) {
		if i > 0 {
			p.text.WriteString("  ")
			p.put(plain, l)
		} else if rest, ok := strings.CutPrefix(l, name); ok {
			p.put(bold, name)
			p.put(plain, rest)
		} else {
			p.put(bold, l)
		}
		p.blank()
	}
}

// row is a line with a label in front of it.
type row struct {
	label string
	style style
	text  string
}

// rows writes the rows with their texts in one column.
func (p *page) rows(indent int, rows []row) {
	label := 0
	for _, r := range rows {
		label = max(label, columns(r.label))
	}
	for _, r := range rows {
		pad := strings.Repeat(" ", indent+label+2)
		for i, l := range wrap(r.text, p.width-len(pad), p.width-len(pad)) {
			if i > 0 {
				p.text.WriteString(pad)
			} else {
				p.text.WriteString(strings.Repeat(" ", indent))
				p.put(dim, r.label)
				p.text.WriteString(strings.Repeat(" ", label-columns(r.label)+2))
			}
			p.put(r.style, l)
			p.blank()
		}
	}
}

// wrap breaks text into lines at its spaces: the first of width first, the others of width
// rest. A longer word gets its own line.
func wrap(text string, first, rest int) []string {
	var lines []string
	line, used := "", 0
	width := first
	for word := range strings.SplitSeq(text, " ") {
		if word == "" {
			continue
		}
		n := columns(word)
		if used > 0 && used+1+n > width {
			lines = append(lines, line)
			line, used, width = "", 0, rest
		}
		if used > 0 {
			line, used = line+" ", used+1
		}
		line, used = line+word, used+n
	}
	return append(lines, line)
}

func columns(s string) int { return utf8.RuneCountInString(s) }

// spaces turns the spaces that keep words together into ordinary ones.
func spaces(s string) string { return strings.ReplaceAll(s, nbsp, " ") }

// clean makes foreign text safe for a terminal: one line, no control characters.
func clean(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsPrint(r):
			return -1
		}
		return r
	}, s)
	return strings.Join(strings.Fields(s), " ")
}
