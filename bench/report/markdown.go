package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Markdown returns the report as tables: one of all goals, then one for each scenario.
func (r *Report) Markdown() string {
	var b strings.Builder
	b.WriteString(r.Machine.String())
	fmt.Fprintf(&b, "`%s`: medians of %d runs of %s per side, in turns of %s (minimum … maximum in brackets); %d callers on %d connection(s), %s targets in rotation.\n\n",
		r.Settings.Command, r.Settings.Runs, seconds(r.Settings.DurationSeconds), seconds(r.Settings.SliceSeconds), r.Settings.Callers,
		r.Settings.Connections, thousands(float64(r.Settings.Targets)))
	b.WriteString("| What | Goal | Measured | |\n|---|---:|---:|---|\n")
	for i := range r.Scenarios {
		for j := range r.Scenarios[i].Figures {
			r.Scenarios[i].Figures[j].writeGoal(&b, r.Scenarios[i].Title)
		}
	}
	for i := range r.Scenarios {
		r.Scenarios[i].write(&b)
	}
	return b.String()
}

func (f *Figure) writeGoal(b *strings.Builder, title string) {
	if f.Goal == nil {
		return
	}
	reached := "reached"
	if !f.Goal.Reached(f.Median()) {
		reached = "**missed**"
	}
	fmt.Fprintf(b, "| %s: %s | %s | %s | %s |\n", title, f.Name, f.goal(), f.measured(), reached)
}

func (f *Figure) goal() string {
	if f.Goal.AtLeast != nil {
		return "≥ " + f.written(*f.Goal.AtLeast)
	}
	return "≤ " + f.written(*f.Goal.AtMost)
}

func (s *Scenario) write(b *strings.Builder) {
	fmt.Fprintf(b, "\n### %s\n\n%s Other processes used %.0f %% of the machine.\n\n", s.Title, s.Note, s.OthersPercent+s.StolenPercent)
	b.WriteString("| | Median | Minimum … maximum |\n|---|---:|---:|\n")
	for i := range s.Figures {
		f := &s.Figures[i]
		least, most := f.Spread()
		fmt.Fprintf(b, "| %s | %s | %s … %s |\n", f.Name, f.written(f.Median()), f.written(least), f.written(most))
	}
}

// measured formats the median with the spread.
func (f *Figure) measured() string {
	least, most := f.Spread()
	return fmt.Sprintf("%s (%s … %s)", f.written(f.Median()), f.written(least), f.written(most))
}

// written formats a value with the figure's unit.
func (f *Figure) written(x float64) string {
	switch f.Unit {
	case "":
		return plain(x)
	case "/s":
		return thousands(math.Round(x)) + "/s"
	default:
		return plain(x) + " " + f.Unit
	}
}

// plain writes a number with three significant digits, or more if it is long.
func plain(x float64) string {
	switch magnitude := math.Abs(x); {
	case magnitude >= 100 || x == 0:
		return thousands(math.Round(x))
	case magnitude >= 10:
		return strconv.FormatFloat(x, 'f', 1, 64)
	default:
		return strconv.FormatFloat(x, 'f', 2, 64)
	}
}

// thousands groups the digits of a whole number.
func thousands(x float64) string {
	digits := strconv.FormatInt(int64(x), 10)
	negative := strings.HasPrefix(digits, "-")
	digits = strings.TrimPrefix(digits, "-")
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	if negative {
		return "-" + digits
	}
	return digits
}

func seconds(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) + " s" }
