package check

import (
	"fmt"
	"strings"
	"time"
)

// columns is how many a plot has.
const columns = 60

// Plot has the counts of both specs over the covered time, and the recorded one: the highest in each column.
type Plot struct {
	Recorded []int32 `json:"recorded"`
	Old      []int32 `json:"old"`
	New      []int32 `json:"new"`
}

// plotOf gathers the columns; gaps between recordings take no room.
func plotOf(points []point) Plot {
	total := time.Duration(0)
	for _, p := range points {
		total += p.length
	}
	n := min(columns, len(points))
	out := Plot{make([]int32, n), make([]int32, n), make([]int32, n)}
	at := time.Duration(0)
	for _, p := range points {
		if p.length == 0 {
			continue
		}
		first := int(float64(at) / float64(total) * float64(n))
		at += p.length
		last := int(float64(at-1) / float64(total) * float64(n))
		for i := min(first, n-1); i <= min(last, n-1); i++ {
			out.Recorded[i] = max(out.Recorded[i], p.recorded)
			out.Old[i] = max(out.Old[i], p.old)
			out.New[i] = max(out.New[i], p.next)
		}
	}
	return out
}

// bars are the heights of a column, from nothing on.
var bars = []rune(" ▁▂▃▄▅▆▇█")

// line draws counts, of which most is as high as can be.
func line(counts []int32, most int32) string {
	var out strings.Builder
	for _, c := range counts {
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
	fmt.Fprintf(&out, "%-8s %s%*s UTC\n", "", from, max(1, len(p.New)-len(from)), " "+to)
	return out.String()
}
