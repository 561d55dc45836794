package shadow

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// WriteText writes the report for people: a table of the objects, and what is known of
// their divergences.
func (r *Report) WriteText(w io.Writer) error {
	if len(r.Objects) == 0 {
		_, err := fmt.Fprintln(w, "No shadow has had a round yet.")
		return err
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "OBJECT\tAGAINST\tAGREES\tNOW\tROUNDS\tAGREED\tWORST\tSINCE\tOVER TIME")
	for i := range r.Objects {
		o := &r.Objects[i]
		fmt.Fprintf(table, "%s %s/%s\t%s\t%s\t%d vs %d\t%d\t%s\t%d\t%s\t%s\n", o.Kind, o.Namespace, o.Name, o.Against, yesNo(o.Agrees),
			o.Ours.Replicas, o.Theirs.Replicas, o.Agreed+o.Diverged, percent(o.Agreed, o.Diverged), o.Worst, o.Since.UTC().Format(time.RFC3339), bar(o.Timeline))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for i := range r.Objects {
		if err := r.Objects[i].writeDivergences(w); err != nil {
			return err
		}
	}
	return nil
}

func (o *Object) writeDivergences(w io.Writer) error {
	if len(o.Divergences) == 0 {
		return nil
	}
	if _, err := fmt.Fprintf(w, "\n%s %s/%s:\n", o.Kind, o.Namespace, o.Name); err != nil {
		return err
	}
	if o.Dropped > 0 {
		if _, err := fmt.Fprintf(w, "  %d earlier ones are not kept\n", o.Dropped); err != nil {
			return err
		}
	}
	for _, d := range o.Divergences {
		until := "and goes on"
		if d.Ended {
			until = "to " + d.To.UTC().Format(time.RFC3339)
		}
		if _, err := fmt.Fprintf(w, "  from %s %s, %d rounds, by up to %d: %s\n",
			d.From.UTC().Format(time.RFC3339), until, d.Rounds, d.Worst, d.Explanation); err != nil {
			return err
		}
	}
	return nil
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// percent is the share of agreement, rounded down: 100 % means all.
func percent(agreed, diverged int) string {
	if agreed+diverged == 0 {
		return "-"
	}
	return fmt.Sprintf("%d%%", agreed*100/(agreed+diverged))
}

// bar shows spans, oldest first: "." for full agreement, 1 to 9 for the tenths of
// rounds that differed, rounded up, "X" for all.
func bar(spans []Span) string {
	var b strings.Builder
	for _, s := range spans {
		switch total := s.Agreed + s.Diverged; {
		case s.Diverged == 0:
			b.WriteByte('.')
		case s.Agreed == 0:
			b.WriteByte('X')
		default:
			fmt.Fprintf(&b, "%d", min(9, (s.Diverged*10+total-1)/total))
		}
	}
	return b.String()
}
