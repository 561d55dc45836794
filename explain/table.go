package explain

import "strings"

// Measures of tables, in columns.
const (
	gap    = 2
	indent = 2
	// narrowest is the minimum width of a wrapped column.
	narrowest = 20
)

// table is rows of cells in columns. The last column wraps where it has to.
type table struct {
	header []string
	// right are the columns aligned right.
	right []bool
	rows  []tableRow
}

// tableRow is one cell a column; its style is for all of them.
type tableRow struct {
	style style
	cells []string
}

func (t *table) add(s style, cells ...string) { t.rows = append(t.rows, tableRow{s, cells}) }

// write writes the table, as a list where it is too wide.
func (t *table) write(p *page) {
	widths := t.widths()
	last := len(widths) - 1
	room := p.width - indent
	for _, w := range widths[:last] {
		room -= w + gap
	}
	if room < min(widths[last], narrowest) {
		t.list(p)
		return
	}
	widths[last] = min(widths[last], room)
	t.writeRow(p, widths, tableRow{dim, t.header})
	for _, r := range t.rows {
		t.writeRow(p, widths, r)
	}
}

func (t *table) widths() []int {
	widths := make([]int, len(t.header))
	for i, h := range t.header {
		widths[i] = columns(h)
		for _, r := range t.rows {
			widths[i] = max(widths[i], columns(r.cells[i]))
		}
	}
	return widths
}

func (t *table) writeRow(p *page, widths []int, r tableRow) {
	last := len(widths) - 1
	start := indent
	for _, w := range widths[:last] {
		start += w + gap
	}
	for i, text := range wrap(r.cells[last], widths[last], widths[last]) {
		if t.right[last] {
			text = strings.Repeat(" ", max(0, widths[last]-columns(text))) + text
		}
		line := strings.Repeat(" ", start) + text
		if i == 0 {
			line = strings.Repeat(" ", indent) + t.leading(widths[:last], r.cells) + text
		}
		body := strings.TrimLeft(line, " ")
		p.text.WriteString(line[:len(line)-len(body)])
		p.put(r.style, strings.TrimRight(body, " "))
		p.blank()
	}
}

// leading is all cells but the last, padded.
func (t *table) leading(widths []int, cells []string) string {
	var b strings.Builder
	for i, w := range widths {
		pad := strings.Repeat(" ", w-columns(cells[i]))
		if t.right[i] {
			b.WriteString(pad + cells[i])
		} else {
			b.WriteString(cells[i] + pad)
		}
		b.WriteString(strings.Repeat(" ", gap))
	}
	return b.String()
}

// list writes each row as its first cell and a line of the others.
func (t *table) list(p *page) {
	for _, r := range t.rows {
		p.line(indent, 2, r.style, r.cells[0])
		var parts []string
		for i, cell := range r.cells[1:] {
			if cell == "" || cell == none {
				continue
			}
			if header := t.header[i+1]; header != unitHeader {
				cell = strings.ToLower(header) + " " + cell
			}
			parts = append(parts, cell)
		}
		if len(parts) > 0 {
			p.line(indent+2, 0, plain, strings.Join(parts, ", "))
		}
	}
}

// none is the cell of an absent value.
const none = "-"

// unitHeader is the header of cells with their own units.
const unitHeader = "%"
