package report

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/setpoint-dev/setpoint/internal/printable"
	"github.com/setpoint-dev/setpoint/simulation"
)

// MaxActions bounds the changes that a table lists of each autoscaler.
const MaxActions = 20

// WriteTable writes the figures of all runs side by side, and the changes of each.
func WriteTable(w io.Writer, r *Report) error {
	var text strings.Builder
	fmt.Fprintf(&text, "%s: %s from %s, %d evaluations, seed %d\n\n", printable.Text(r.Name), Span(r.Scenario.Duration),
		r.Scenario.Start.Format("2006-01-02 15:04 MST"), r.steps(), r.Scenario.Seed)
	table := tabwriter.NewWriter(&text, 0, 0, 3, ' ', 0)
	row := func(head string, cell func(Run) string) {
		fmt.Fprint(table, head)
		for _, run := range r.Runs {
			fmt.Fprint(table, "\t"+cell(run))
		}
		fmt.Fprintln(table)
	}
	row("", func(run Run) string { return printable.Text(run.Name) })
	for _, f := range figureRows(r, onTerminals) {
		row(f.name, func(run Run) string { return f.value(&run.Result.Figures) })
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, run := range r.Runs {
		text.WriteByte('\n')
		writeActions(&text, r.Scenario, &run)
	}
	_, err := io.WriteString(w, trimmed(text.String()))
	return err
}

// trimmed is a text without blanks at the ends of lines.
func trimmed(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

// figureRow is a figure and its value in words.
type figureRow struct {
	name  string
	value func(*simulation.Figures) string
	// less is what is better if it is less, nil where nothing is.
	less func(*simulation.Figures) float64
}

// movedRow is the name of a figure of fleets, and mostMembers how many members have rows and curves of their own.
const (
	movedRow    = "replicas moved"
	mostMembers = 8
)

// Row is a figure of all runs.
type Row struct {
	// Name of the figure; two blanks before it say that it is a part of the one above.
	Name string `json:"name"`
	// Values are in words, one for each run.
	Values []string `json:"values"`
	// Best are the runs that are better than another in this, empty: all are alike, or none is.
	Best []int `json:"best,omitempty"`
}

// Rows are the figures that say something of the report, side by side, as pages write them.
func Rows(r *Report) []Row {
	var out []Row
	for _, f := range figureRows(r, onPages) {
		row := Row{Name: f.name}
		least, most := math.Inf(1), math.Inf(-1)
		for _, run := range r.Runs {
			row.Values = append(row.Values, f.value(&run.Result.Figures))
			if f.less != nil {
				v := f.less(&run.Result.Figures)
				least, most = min(least, v), max(most, v)
			}
		}
		for i, run := range r.Runs {
			// Less than a thousandth is no difference.
			if f.less != nil && most-least > math.Abs(least)/1000 && f.less(&run.Result.Figures) == least {
				row.Best = append(row.Best, i)
			}
		}
		out = append(out, row)
	}
	return out
}

// figureRows are the figures that say something of the report.
func figureRows(r *Report, w words) []figureRow {
	whole := r.Scenario.Duration
	rows := []figureRow{
		{"short of capacity", func(f *simulation.Figures) string { return w.short(f, r.Scenario) }, func(f *simulation.Figures) float64 { return f.ShortTime.Seconds() }},
		{"load", func(f *simulation.Figures) string { return w.volume(f.Offered) }, nil},
		{"  lost", func(f *simulation.Figures) string { return w.portion(f.Lost, f.Offered) }, func(f *simulation.Figures) float64 { return f.Lost }},
		{"  late", func(f *simulation.Figures) string { return w.portion(f.Late, f.Offered) }, func(f *simulation.Figures) float64 { return f.Late }},
		{"  waiting at the end", func(f *simulation.Figures) string { return w.portion(f.Queued+f.Returning, f.Offered) }, nil},
		{"over target", func(f *simulation.Figures) string { return w.share(f.OverTarget, whole) }, func(f *simulation.Figures) float64 { return f.OverTarget.Seconds() }},
		{"replicas", func(f *simulation.Figures) string {
			return fmt.Sprintf("%d to %d, %.1f on average", f.Least, f.Most, f.ReplicaHours/whole.Hours())
		}, nil},
		{"replica-hours", func(f *simulation.Figures) string { return w.number(f.ReplicaHours) }, func(f *simulation.Figures) float64 { return f.ReplicaHours }},
		{"running pod-hours", func(f *simulation.Figures) string { return w.number(f.RunningHours) }, func(f *simulation.Figures) float64 { return f.RunningHours }},
		{"cost", func(f *simulation.Figures) string { return w.number(f.Cost) }, func(f *simulation.Figures) float64 { return f.Cost }},
		{"efficiency", func(f *simulation.Figures) string {
			if math.IsNaN(f.Efficiency) {
				return unknown
			}
			return fmt.Sprintf("%.0f %%", f.Efficiency*100)
		}, nil},
		{"changes", func(f *simulation.Figures) string {
			return fmt.Sprintf("%d up, %d down, %d reversals", f.Ups, f.Downs, f.Reversals)
		}, func(f *simulation.Figures) float64 { return float64(f.Reversals) }},
		{movedRow, func(f *simulation.Figures) string { return strconv.Itoa(f.Moved) }, func(f *simulation.Figures) float64 { return float64(f.Moved) }},
		{"  writes that failed", func(f *simulation.Figures) string { return strconv.Itoa(f.FailedWrites) }, nil},
		{"reaction to a rise", func(f *simulation.Figures) string {
			if f.Rises.Count == 0 {
				return unknown
			}
			text := fmt.Sprintf("median %s, 95 %% %s, worst %s", w.span(f.Rises.Median), w.span(f.Rises.P95), w.span(f.Rises.Worst))
			if f.Rises.Unfinished {
				text += " (not over)"
			}
			return text
		}, func(f *simulation.Figures) float64 { return f.Rises.P95.Seconds() }},
	}
	keep := rows[:0]
	for _, row := range rows {
		switch row.name {
		case "  lost", "  late", "  waiting at the end", "  writes that failed":
			if !anyRun(r, func(f *simulation.Figures) bool { return row.value(f) != "0" }) {
				continue
			}
		case movedRow:
			if r.Scenario.Fleet == nil {
				continue
			}
		case "cost":
			if r.Scenario.Price == 0 {
				continue
			}
		}
		keep = append(keep, row)
	}
	if f := r.Scenario.Fleet; f != nil && len(f.Members) <= mostMembers {
		for i := range f.Members {
			keep = append(keep, figureRow{"replicas of " + printable.Text(f.Members[i].Name), func(f *simulation.Figures) string {
				m := &f.Members[i].Figures
				return fmt.Sprintf("%d to %d, %.1f on average", m.Least, m.Most, m.ReplicaHours/whole.Hours())
			}, nil})
		}
	}
	for _, cause := range causes(r) {
		keep = append(keep, figureRow{"decided by " + printable.Text(string(cause)), func(f *simulation.Figures) string {
			for _, c := range f.Causes {
				if c.Cause == cause {
					return w.share(c.Time, whole)
				}
			}
			return unknown
		}, nil})
	}
	return keep
}

func anyRun(r *Report, is func(*simulation.Figures) bool) bool {
	for _, run := range r.Runs {
		if is(&run.Result.Figures) {
			return true
		}
	}
	return false
}

// causes are those of all runs, the first run's first.
func causes(r *Report) []simulation.Cause {
	var out []simulation.Cause
	seen := make(map[simulation.Cause]bool)
	for _, run := range r.Runs {
		for _, c := range run.Result.Figures.Causes {
			if !seen[c.Cause] {
				seen[c.Cause] = true
				out = append(out, c.Cause)
			}
		}
	}
	return out
}

func writeActions(w io.Writer, s *simulation.Scenario, run *Run) {
	actions := run.Result.Actions
	if len(actions) == 0 {
		fmt.Fprintf(w, "%s: no change\n", printable.Text(run.Name))
		return
	}
	fmt.Fprintf(w, "%s: %d changes\n", printable.Text(run.Name), len(actions))
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	for i, a := range actions {
		if i == MaxActions {
			break
		}
		fmt.Fprintf(table, "  %s\tload %s\t%d → %d\t%s\t%s\n", instantOf(s, a.At), number3(a.Load), a.From, a.To, printable.Text(string(a.Cause)), printable.Text(a.Reason))
	}
	_ = table.Flush() // w is a strings.Builder
	if more := len(actions) - MaxActions; more > 0 {
		fmt.Fprintf(w, "  and %d more: -o csv has every evaluation\n", more)
	}
}

// instantOf is an instant by the clock of the start's zone, with the day if there are several, and with the zone's name
// if clocks are set meanwhile: an hour may come twice.
func instantOf(s *simulation.Scenario, at time.Duration) string {
	layout := "15:04:05"
	if s.Duration > 24*time.Hour {
		layout = "Mon 2 Jan 15:04:05"
	}
	if _, set := s.Start.ZoneBounds(); !set.IsZero() && set.Before(s.Start.Add(s.Duration)) {
		layout += " MST"
	}
	return s.Start.Add(at).Format(layout)
}

// words write figures.
type words struct {
	span   func(time.Duration) string
	number func(float64) string
	// unit of a volume, with a blank before it.
	unit string
}

var (
	// onTerminals are words that programs cut into columns and read again.
	onTerminals = words{Span, number3, ""}
	// onPages are those of the page at /ui/ (web/src/lib/format.ts).
	onPages = words{spaced, grouped, " units"}
)

// share is a time, and what part of the whole it is.
func (w words) share(d, whole time.Duration) string {
	if d == 0 {
		return w.span(0)
	}
	return fmt.Sprintf("%s (%s)", w.span(d), percent(float64(d)/float64(whole)))
}

// unknown is a figure that nobody knows.
const unknown = "–"

// short is the time short of capacity; unknown where pods serve any load.
func (w words) short(f *simulation.Figures, s *simulation.Scenario) string {
	if f.ShortTime == 0 && !s.Workload.Bounded() {
		return unknown
	}
	return w.share(f.ShortTime, s.Duration)
}

func (w words) volume(v float64) string { return w.number(v) + w.unit }

// portion is a volume, and what part of the whole it is.
func (w words) portion(v, whole float64) string {
	// What floating point leaves of nothing is nothing.
	if v <= 1e-9*whole {
		return "0"
	}
	return fmt.Sprintf("%s (%s)", w.volume(v), percent(v/whole))
}

func percent(f float64) string {
	if f > 0 && f < 0.0001 {
		return "<0.01 %"
	}
	return strconv.FormatFloat(f*100, 'f', 2, 64) + " %"
}

// Span is a duration in a few figures: 3d4h, 1h5m, 45s.
func Span(d time.Duration) string {
	d = d.Round(time.Second)
	if d < time.Minute {
		return d.String()
	}
	text := ""
	for _, unit := range []struct {
		length time.Duration
		name   string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}} {
		if n := d / unit.length; n > 0 {
			text += strconv.Itoa(int(n)) + unit.name
			d -= n * unit.length
		}
	}
	return text
}

// spaced is a duration in its two largest units: 3 d 4 h, 18 h 52 min, 45 s.
func spaced(d time.Duration) string {
	units := [...]struct {
		length time.Duration
		name   string
	}{{24 * time.Hour, " d"}, {time.Hour, " h"}, {time.Minute, " min"}, {time.Second, " s"}}
	for i, unit := range units[:3] {
		next := units[i+1]
		if rounded := d.Round(next.length); rounded >= unit.length {
			text := strconv.Itoa(int(rounded/unit.length)) + unit.name
			if rest := rounded % unit.length; rest > 0 {
				text += " " + strconv.Itoa(int(rest/next.length)) + next.name
			}
			return text
		}
	}
	return strconv.Itoa(int(d.Round(time.Second)/time.Second)) + " s"
}

// grouped is a number with about three figures, and thin blanks between thousands.
func grouped(f float64) string {
	text := number3(f)
	if f >= 1e9 && f < 1e15 {
		text = strconv.FormatFloat(f, 'f', 0, 64)
	}
	for i := len(text) - 3; i > 0 && f >= 1000 && f < 1e15; i -= 3 {
		text = text[:i] + "\u2009" + text[i:]
	}
	return text
}

// number3 is a number with about three figures, and no exponent below a billion.
func number3(f float64) string {
	switch {
	case math.IsInf(f, 1):
		return "unlimited"
	case f >= 1e9:
		return strconv.FormatFloat(f, 'g', 4, 64)
	case f >= 100:
		return strconv.FormatFloat(f, 'f', 0, 64)
	}
	return printable.Figures(f, 3)
}
