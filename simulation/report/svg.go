package report

import (
	"fmt"
	"html"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
)

// Measures of a picture, in its own units.
const (
	pictureWidth = 1000
	left, right  = 64, 16
	panelHeight  = 190
	panelSpace   = 58
	plotWidth    = pictureWidth - left - right
)

// pictureStyle has colors that people tell apart who see colors differently (Okabe and Ito),
// on light and dark ground.
const pictureStyle = `svg.sim{font:13px system-ui,sans-serif;fill:#222}` +
	`.sim .bg{fill:#fff}.sim .grid{stroke:#ddd;stroke-width:1;fill:none}.sim .head{font-weight:600}` +
	`.sim path{fill:none;stroke-width:1.6;stroke-linejoin:round}.sim .area{fill:#009e73;fill-opacity:.16;stroke:none}.sim .short{fill:#d55e00;stroke:none}.sim .load{stroke:#555}.sim .capacity{stroke:#d55e00}` +
	`.sim .replicas{stroke:#0072b2}.sim .ready{stroke:#009e73}.sim .needed{stroke:#cc79a7;stroke-dasharray:5 3}.sim .queued{stroke:#d55e00}` +
	`.sim .run0{stroke:#0072b2}.sim .run1{stroke:#d55e00}.sim .run2{stroke:#009e73}.sim .run3{stroke:#cc79a7}` +
	`@media(prefers-color-scheme:dark){svg.sim{fill:#ddd}.sim .bg{fill:#16181c}.sim .grid{stroke:#3a3d44}.sim .load{stroke:#bbb}.sim .replicas,.sim .run0{stroke:#56b4e9}}`

// runColors is how many runs have a color of their own.
const runColors = 4

// curve is a line of a panel.
type curve struct {
	class, label string
	line         *line
	// steps marks counts, which change at once, and filled those with an area below.
	steps, filled bool
	// seen are its columns, nil: the panel's.
	seen *[Columns]bool
}

// panel is one diagram.
type panel struct {
	title  string
	curves []curve
	// top is the least upper end of the scale; what is above most is cut off, 0: nothing.
	top, most float64
	// short are columns that are marked below the curves, nil: none.
	short *[Columns]bool
}

// WriteSVG writes a picture of all runs, which must have plots.
func WriteSVG(w io.Writer, r *Report) error {
	_, err := io.WriteString(w, picture(r)+"\n")
	return err
}

// picture is the SVG element.
func picture(r *Report) string {
	panels := panelsOf(r)
	height := len(panels)*(panelHeight+panelSpace) + 10
	var out strings.Builder
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" class="sim" viewBox="0 0 %d %d" role="img" aria-label="%s">`,
		pictureWidth, height, html.EscapeString("Load and replicas over time: "+r.Name))
	out.WriteString("<desc>" + html.EscapeString(described(r)) + "</desc><style>" + pictureStyle + "</style>")
	fmt.Fprintf(&out, `<rect class="bg" width="%d" height="%d"/>`, pictureWidth, height)
	for i := range panels {
		panels[i].draw(&out, r, &r.Runs[0].Plot.seen, 30+i*(panelHeight+panelSpace))
	}
	out.WriteString("</svg>")
	return out.String()
}

// described is the picture in words, for people who do not see it.
func described(r *Report) string {
	text := fmt.Sprintf("%s from %s: a load of %s at most.", spaced(r.Scenario.Duration), r.Scenario.Start.Format("2006-01-02 15:04 MST"),
		grouped(r.Runs[0].Plot.load.highest(&r.Runs[0].Plot.seen)))
	for _, run := range r.Runs {
		f := &run.Result.Figures
		text += fmt.Sprintf(" %s: %d to %d replicas, %.1f on average", run.Name, f.Least, f.Most, f.ReplicaHours/r.Scenario.Duration.Hours())
		if short := onPages.short(f, r.Scenario); short != unknown {
			text += ", short of capacity for " + short
		}
		text += "."
	}
	return text
}

// panelsOf are the load, with the capacity of each run that has a limit, then the counts of
// each run, on one scale, then what waits.
func panelsOf(r *Report) []panel {
	first := r.Runs[0].Plot
	load := panel{title: "Load, units a second", curves: []curve{{"load", "offered", &first.load, false, false, nil}}, most: 2 * first.load.highest(&first.seen)}
	together := panel{title: "Replicas"}
	if recorded := r.Recorded; recorded != nil {
		together.curves = append(together.curves, curve{"load", "recorded", &recorded.replicas, true, false, &recorded.seen})
	}
	highest := 0.0
	queued := false
	for i, run := range r.Runs {
		p := run.Plot
		highest = max(highest, p.replicas.highest(&p.seen), p.needed.highest(&p.seen), p.ready.highest(&p.seen))
		queued = queued || p.queued.highest(&p.seen) > 0
		class := "run" + strconv.Itoa(i%runColors)
		together.curves = append(together.curves, curve{class, run.Name, &p.replicas, true, false, nil})
		switch {
		case p.unlimited:
		case len(r.Runs) == 1:
			load.curves = append(load.curves, curve{"capacity", "capacity of the ready pods", &p.capacity, true, false, nil})
		default:
			load.curves = append(load.curves, curve{class, "capacity " + run.Name, &p.capacity, true, false, nil})
		}
	}
	panels := []panel{load}
	if len(together.curves) > 1 {
		panels = append(panels, together)
	}
	for _, run := range r.Runs {
		p := run.Plot
		panels = append(panels, panel{title: "Replicas, " + run.Name, top: highest, short: &p.short, curves: []curve{
			{"needed", "needed at target", &p.needed, true, false, nil}, {"ready", "ready", &p.ready, true, true, nil}, {"replicas", "asked for", &p.replicas, true, false, nil},
		}})
		if len(p.members) > 0 {
			members := panel{title: "Replicas of each member, " + run.Name}
			for i := range p.members {
				members.curves = append(members.curves, curve{"run" + strconv.Itoa(i%runColors), r.Scenario.Fleet.Members[i].Name, &p.members[i], true, false, nil})
			}
			panels = append(panels, members)
		}
		if queued {
			panels = append(panels, panel{title: "Waiting, " + run.Name, curves: []curve{{"queued", "volume that waits", &p.queued, false, true, nil}}})
		}
	}
	return panels
}

func (l *line) highest(seen *[Columns]bool) float64 {
	most := 0.0
	for i := range l.most {
		if seen[i] {
			most = max(most, l.most[i])
		}
	}
	return most
}

func (p *panel) draw(out *strings.Builder, r *Report, seen *[Columns]bool, y int) {
	top := p.top
	for i := range p.curves {
		c := &p.curves[i]
		if c.seen == nil {
			c.seen = seen
		}
		top = max(top, c.line.highest(c.seen))
	}
	if p.most > 0 {
		top = min(top, p.most)
	}
	unit := niceStep(top / 4)
	top = max(unit, math.Ceil(top/unit)*unit)
	bottom := float64(y + panelHeight)
	at := func(v float64) float64 { return bottom - float64(min(v, top)/top*panelHeight) }
	fmt.Fprintf(out, `<text class="head" x="%d" y="%d">%s</text>`, left, y-8, html.EscapeString(p.title))
	for i := 0; float64(i)*unit <= top*1.0001; i++ {
		v := float64(i) * unit
		fmt.Fprintf(out, `<path class="grid" d="M%d %s H%d"/><text x="%d" y="%s" text-anchor="end">%s</text>`,
			left, coordinate(at(v)), pictureWidth-right, left-6, coordinate(at(v)+4), grouped(v))
	}
	p.drawTimes(out, r, y)
	legend := p.drawShort(out, y, pictureWidth-right)
	for _, c := range p.curves {
		path := c.path(c.seen, at)
		if c.filled && path != "" {
			start, _, _ := strings.Cut(path[1:], " ")
			fmt.Fprintf(out, `<path class="area" d="%sV%s H%sZ"/>`, path, coordinate(bottom), start)
		}
		fmt.Fprintf(out, `<path class="%s" d="%s"><title>%s</title></path>`, c.class, path, html.EscapeString(c.label))
		width := 34 + 7*len(c.label)
		legend -= width
		fmt.Fprintf(out, `<path class="%s" d="M%d %d h20"/><text x="%d" y="%d">%s</text>`, c.class, legend, y-12, legend+24, y-8, html.EscapeString(c.label))
	}
}

// shortHeight is that of the marks of columns that are short of capacity.
const shortHeight = 5

// drawShort marks the columns that are short of capacity, and returns where the legend goes on.
func (p *panel) drawShort(out *strings.Builder, y, legend int) int {
	if p.short == nil {
		return legend
	}
	const label = "short of capacity"
	marked := false
	for i := 0; i < Columns; i++ {
		first := i
		for i < Columns && p.short[i] {
			i++
		}
		if i == first {
			continue
		}
		marked = true
		width := max(2, float64(float64(i-first)/Columns*plotWidth))
		fmt.Fprintf(out, `<rect class="short" x="%s" y="%d" width="%s" height="%d"><title>%s</title></rect>`,
			coordinate(left+float64(float64(first)/Columns*plotWidth)), y+panelHeight-shortHeight, coordinate(width), shortHeight, label)
	}
	if !marked {
		return legend
	}
	legend -= 34 + 7*len(label)
	fmt.Fprintf(out, `<rect class="short" x="%d" y="%d" width="20" height="%d"/><text x="%d" y="%d">%s</text>`, legend, y-15, shortHeight, legend+24, y-8, label)
	return legend
}

// drawTimes draws marks of whole hours or days by the clock of the start's zone.
func (p *panel) drawTimes(out *strings.Builder, r *Report, y int) {
	s := r.Scenario
	step := niceTime(s.Duration / 8)
	layout := "15:04"
	switch {
	case step >= 24*time.Hour:
		layout = "Mon 2 Jan"
	case s.Duration > 24*time.Hour:
		layout = "Mon 15:04"
	case step < time.Minute:
		layout = "15:04:05"
	}
	_, offset := s.Start.Zone()
	local := s.Start.Add(time.Duration(offset) * time.Second)
	first := local.Truncate(step).Sub(local)
	for at := first; at <= s.Duration; at += step {
		if at < 0 {
			continue
		}
		// Where clocks change the marks go with them.
		mark := s.Start.Add(at)
		if _, now := mark.Zone(); now != offset {
			mark = mark.Add(time.Duration(offset-now) * time.Second)
		}
		if mark.Sub(s.Start) > s.Duration {
			break
		}
		x := left + float64(float64(mark.Sub(s.Start))/float64(s.Duration)*plotWidth)
		anchor := "middle"
		if x > pictureWidth-2*right-10 {
			anchor, x = "end", min(x, pictureWidth-right)
		}
		fmt.Fprintf(out, `<path class="grid" d="M%s %d V%d"/><text x="%s" y="%d" text-anchor="%s">%s</text>`,
			coordinate(x), y, y+panelHeight, coordinate(x), y+panelHeight+17, anchor, mark.Format(layout))
	}
}

// path goes through the columns: in each from its first value over its extremes to its last.
func (c *curve) path(seen *[Columns]bool, at func(float64) float64) string {
	var out strings.Builder
	last := ""
	for i := range seen {
		if !seen[i] {
			continue
		}
		x := coordinate(left + float64((float64(i)+0.5)/Columns*plotWidth))
		switch {
		case last == "":
			out.WriteString("M" + x + " ")
			last = coordinate(at(c.line.first[i]))
			out.WriteString(last)
		case c.steps:
			out.WriteString("H" + x)
		default:
			last = coordinate(at(c.line.first[i]))
			out.WriteString("L" + x + " " + last)
		}
		for _, v := range [...]float64{c.line.first[i], c.line.least[i], c.line.most[i], c.line.last[i]} {
			if y := coordinate(at(v)); y != last {
				out.WriteString("V" + y)
				last = y
			}
		}
	}
	return out.String()
}

func coordinate(f float64) string { return strconv.FormatFloat(math.Round(f*10)/10, 'f', -1, 64) }

// niceStep is the least of 1, 2 and 5 times a power of ten that is not below.
func niceStep(f float64) float64 {
	if f <= 0 {
		return 1
	}
	f = max(f, 1e-12) // powers of ten run out below what floating point has
	power := math.Pow(10, math.Floor(math.Log10(f)))
	for _, n := range [...]float64{1, 2, 5} {
		if n*power >= f {
			return n * power
		}
	}
	return 10 * power
}

// niceTime is the least round time that is not below.
func niceTime(d time.Duration) time.Duration {
	steps := [...]time.Duration{
		time.Second, 5 * time.Second, 15 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute, 30 * time.Minute,
		time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour, 48 * time.Hour, 7 * 24 * time.Hour,
	}
	for _, step := range steps {
		if step >= d {
			return step
		}
	}
	return (d/(7*24*time.Hour) + 1) * 7 * 24 * time.Hour
}
