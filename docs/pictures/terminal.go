package pictures

import (
	"fmt"
	"html"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Measures of text in a picture, in its own units. A character of the fonts is at most 0.61 of
// their size wide.
const (
	fontSize  = 14
	charWidth = 8.5
	lineSpace = 20
	margin    = 18
)

// terminalStyle has grounds and colors for light and dark.
const terminalStyle = `text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;fill:#24292f;white-space:pre}` +
	`.bg{fill:#f6f8fa;stroke:#d0d7de}.dim{fill:#59636e}.first{font-weight:700;fill:#0550ae}.head{font-weight:700}` +
	`@media(prefers-color-scheme:dark){text{fill:#d1d7e0}.bg{fill:#16181c;stroke:#3a3d44}.dim{fill:#9198a1}.first{fill:#79c0ff}}`

var (
	// section begins a part of an explanation: «Metrics: …», «Pods for cpu: …».
	section = regexp.MustCompile(`^[A-Z][A-Za-z ]*:`)
	// columns are a table's: at least two words in capitals.
	columns = regexp.MustCompile(`^ +[A-Z]{3,}( [A-Z]+)*  +.*[A-Z%]$`)
)

// terminal draws a command and lines of its output.
func terminal(command string, lines []string) string {
	widest := utf8.RuneCountInString(command) + 2
	for _, line := range lines {
		widest = max(widest, utf8.RuneCountInString(line))
	}
	width := int(float64(widest)*charWidth) + 2*margin
	height := (len(lines)+2)*lineSpace + margin
	var out strings.Builder
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-label="%s">`,
		width, height, width, height, html.EscapeString(command+": "+lines[0]))
	fmt.Fprintf(&out, "<desc>%s</desc><style>%s</style>\n", html.EscapeString(strings.Join(lines, "\n")), terminalStyle)
	fmt.Fprintf(&out, `<rect class="bg" x="0.5" y="0.5" width="%d" height="%d" rx="8"/>`+"\n", width-1, height-1)
	y := margin + fontSize
	text := func(class, line string) {
		if line != "" {
			fmt.Fprintf(&out, `<text%s x="%d" y="%d" xml:space="preserve">%s</text>`+"\n", class, margin, y, line)
		}
		y += lineSpace
	}
	text(` class="dim"`, html.EscapeString("$ "+command))
	y += lineSpace / 2
	for i, line := range lines {
		escaped := html.EscapeString(line)
		head := section.FindString(line)
		switch {
		case i == 0:
			text(` class="first"`, escaped)
		case head != "":
			text("", `<tspan class="head">`+head+"</tspan>"+html.EscapeString(line[len(head):]))
		case columns.MatchString(line):
			text(` class="dim"`, escaped)
		default:
			text("", escaped)
		}
	}
	out.WriteString("</svg>\n")
	return out.String()
}
