package check

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// columns is how many a plot has.
const columns = 60

// Plot has the counts of both specs from the first to the last covered instant, and the recorded one: the highest
// in each column, and -1 in those of which no time is covered.
type Plot struct {
	Recorded []int32 `json:"recorded"`
	Old      []int32 `json:"old"`
	New      []int32 `json:"new"`
}

// plotOf gathers the columns of points, which are in the order of time.
func plotOf(points []point) Plot {
	begin, end := points[0].at, points[len(points)-1]
	total := end.at.Add(end.length).Sub(begin)
	n := min(columns, len(points))
	gaps := slices.Repeat([]int32{-1}, n)
	out := Plot{gaps, slices.Clone(gaps), slices.Clone(gaps)}
	column := func(at time.Duration) int { return min(int(float64(at)/float64(total)*float64(n)), n-1) }
	for _, p := range points {
		if p.length == 0 {
			continue
		}
		at := p.at.Sub(begin)
		for i := column(at); i <= column(at+p.length-1); i++ {
			out.Recorded[i] = max(out.Recorded[i], p.recorded)
			out.Old[i] = max(out.Old[i], p.old)
			out.New[i] = max(out.New[i], p.next)
		}
	}
	return out
}

// notRecorded is drawn in place of a bar.
const notRecorded = '·'

// bars are the heights of a column, from nothing on.
var bars = []rune(" ▁▂▃▄▅▆▇█")

// line draws counts, of which most is as high as can be.
func line(counts []int32, most int32) string {
	var out strings.Builder
	for _, c := range counts {
		if c < 0 {
			out.WriteRune(notRecorded)
			continue
		}
		height := 0
		if c > 0 && most > 0 {
			height = max(1, int(float64(c)/float64(most)*float64(len(bars)-1)+0.5))
		}
		out.WriteRune(bars[min(height, len(bars)-1)])
	}
	return out.String()
}

// draw is the plot of a history in lines: old and new spec, and the recorded count where the old spec has
// another.
func (h *History) draw() string {
	p := &h.Plot
	if len(p.New) == 0 {
		return ""
	}
	most := int32(0)
	for _, all := range [][]int32{p.Recorded, p.Old, p.New} {
		for _, c := range all {
			most = max(most, c)
		}
	}
	var out strings.Builder
	row := func(name string, counts []int32, least, top int32) {
		fmt.Fprintf(&out, "%-8s %s %d to %d\n", name, line(counts, most), least, top)
	}
	if !h.AsOld {
		fmt.Fprintf(&out, "%-8s %s\n", "recorded", line(p.Recorded, most))
	}
	row("old", p.Old, h.Old.Least, h.Old.Most)
	row("new", p.New, h.New.Least, h.New.Most)
	const form = "2006-01-02 15:04"
	from, to := h.From.Format(form), h.To.Format(form)
	fmt.Fprintf(&out, "%-8s %s%*s UTC", "", from, max(1, len(p.New)-len(from)), " "+to)
	if slices.Contains(p.New, -1) {
		fmt.Fprintf(&out, " (%c not recorded)", notRecorded)
	}
	out.WriteByte('\n')
	return out.String()
}
