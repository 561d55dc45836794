package shadow

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// WriteText writes the report for people: a table of the objects, and details of their
// divergences.
func (r *Report) WriteText(w io.Writer) error {
	if len(r.Objects) == 0 {
		_, err := fmt.Fprintln(w, "No shadow has had a reconcile yet.")
		return err
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "OBJECT\tAGAINST\tAGREES\tNOW\tRECONCILES\tAGREED\tWORST\tSINCE\tOVER TIME")
	for i := range r.Objects {
		o := &r.Objects[i]
		fmt.Fprintf(table, "%s %s/%s\t%s\t%s\t%s\t%d\t%s\t%d\t%s\t%s\n", o.Kind, o.Namespace, o.Name, cmp.Or(o.Against, "-"), o.agrees(),
			o.now(), o.Agreed+o.Diverged, percent(o.Agreed, o.Diverged), o.Worst, o.Since.UTC().Format(time.RFC3339), bar(o.Timeline))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for i := range r.Objects {
		if _, err := io.WriteString(w, r.Objects[i].details()); err != nil {
			return err
		}
	}
	return nil
}

// Differing returns the objects that differ or did: those with the largest differences first,
// then as many with the largest share of divergent reconciles.
func (r *Report) Differing() *Report {
	part := &Report{At: r.At, Objects: []Object{}}
	for i := range r.Objects {
		if r.Objects[i].Diverged > 0 {
			part.Objects = append(part.Objects, r.Objects[i])
		}
	}
	slices.SortFunc(part.Objects, func(a, b Object) int {
		return cmp.Or(cmp.Compare(b.Worst, a.Worst), cmp.Compare(b.Diverged, a.Diverged), a.Compare(b.Key))
	})
	return part
}

// WriteDiffering writes the objects of Differing for people, one per line.
func (r *Report) WriteDiffering(w io.Writer) error {
	part := r.Differing()
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if len(part.Objects) > 0 {
		fmt.Fprintln(table, "OBJECT\tAGREES\tNOW\tBY\tRECONCILES\tWHY")
	}
	for i := range part.Objects {
		o := &part.Objects[i]
		fmt.Fprintf(table, "%s %s/%s\t%s\t%s\t%d\t%d of %d\t%s\n", o.Kind, o.Namespace, o.Name, o.agrees(), o.now(),
			o.Worst, o.Diverged, o.Agreed+o.Diverged, o.why())
	}
	if err := table.Flush(); err != nil {
		return err
	}
	unjudged := 0
	for i := range r.Objects {
		if agrees := r.Objects[i].agrees(); agrees != "yes" && agrees != "no" {
			unjudged++
		}
	}
	_, err := fmt.Fprintf(w, "%d of %d shadows differ or did. %d can't be compared now.\n", len(part.Objects), len(r.Objects), unjudged)
	return err
}

// why is the explanation of the largest known difference.
func (o *Object) why() string {
	if len(o.Divergences) == 0 {
		return ""
	}
	return slices.MaxFunc(o.Divergences, func(a, b Divergence) int { return cmp.Compare(a.Worst, b.Worst) }).Explanation
}

// silent reports whether a side has no opinion now.
func (o *Object) silent() bool { return o.Ours.NoOpinion != "" || o.Theirs.NoOpinion != "" }

func (o *Object) agrees() string {
	switch {
	case o.silent():
		return "no opinion"
	case o.Agreed+o.Diverged == 0: // nothing was compared yet
		return "?"
	}
	return yesNo(o.Agrees)
}

func (o *Object) now() string { return o.Ours.text() + " vs " + o.Theirs.text() }

func (s *Side) text() string {
	if s.NoOpinion != "" {
		return "-"
	}
	return strconv.Itoa(int(s.Replicas))
}

// details are what does not fit into the table.
func (o *Object) details() string {
	if len(o.Divergences) == 0 && o.Unjudged == 0 {
		return ""
	}
	var out strings.Builder
	fmt.Fprintf(&out, "\n%s %s/%s:\n", o.Kind, o.Namespace, o.Name)
	if o.Unjudged > 0 {
		fmt.Fprintf(&out, "  %d reconciles not compared because a side had no opinion, the last one %s\n", o.Unjudged, o.NoOpinion)
	}
	if o.Dropped > 0 {
		fmt.Fprintf(&out, "  %d earlier ones are not kept\n", o.Dropped)
	}
	for _, d := range o.Divergences {
		until := "and goes on"
		if d.Ended {
			until = "to " + d.To.UTC().Format(time.RFC3339)
		}
		fmt.Fprintf(&out, "  from %s %s, %d reconciles, by up to %d: %s\n", d.From.UTC().Format(time.RFC3339), until, d.Reconciles, d.Worst, d.Explanation)
	}
	return out.String()
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// percent is the share of agreement, rounded down: only full agreement is 100 %.
func percent(agreed, diverged int) string {
	if agreed+diverged == 0 {
		return "-"
	}
	return fmt.Sprintf("%d%%", agreed*100/(agreed+diverged))
}

// bar shows spans, oldest first: "." for full agreement, 1 to 9 for the tenths of reconciles
// that differed, rounded up, "X" for all.
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
