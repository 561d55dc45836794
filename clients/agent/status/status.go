package status

import (
	"encoding/hex"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/setpoint-dev/setpoint/clients/agent"
	"github.com/setpoint-dev/setpoint/internal/adjusted"
	"github.com/setpoint-dev/setpoint/internal/printable"
	"github.com/setpoint-dev/setpoint/internal/spelling"
)

// Status is an agent's status.
type Status struct {
	At       time.Time `json:"at"`
	Version  string    `json:"version"`
	Platform string    `json:"platform"`
	Cluster  string    `json:"cluster"`
	// Shadow reports whether the whole agent applies nothing.
	Shadow bool `json:"shadow,omitempty"`
	// Problem is a problem of the agent as a whole. Empty: none.
	Problem string `json:"problem,omitempty"`
	// Objects by namespace, name and kind.
	Objects []*Object `json:"objects"`
}

// WriteText writes the status for people: a line for each object, and below it, wrapped, why it
// has its count.
func (s *Status) WriteText(w io.Writer) error {
	var text strings.Builder
	s.head(&text)
	var rows strings.Builder
	table := tabwriter.NewWriter(&rows, 0, 0, 2, ' ', 0)
	if len(s.Objects) > 0 {
		fmt.Fprintln(table, "OBJECT\tSTATE\tREPLICAS\tEVALUATED\tLAST SCALED")
	}
	for _, o := range s.Objects {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", cut(name(o.Key)), o.state(), o.replicas(s.At), o.evaluated(s.At), o.lastScaled(s.At))
	}
	_ = table.Flush() // to memory
	n := -1
	for line := range strings.Lines(rows.String()) {
		if n >= 0 {
			whole := name(s.Objects[n].Key)
			line = whole + strings.TrimPrefix(line, cut(whole))
		}
		text.WriteString(line)
		if n >= 0 {
			text.WriteString(wrapped(s.Objects[n].Why(s.At)))
			next := "next: "
			if s.Objects[n].Hold != nil {
				next = "next, if the hold has ended by then: "
			}
			for _, line := range s.Objects[n].Next {
				text.WriteString(wrapped(next + oneLine(line)))
			}
		}
		n++
	}
	_, err := io.WriteString(w, text.String())
	return err
}

func (s *Status) head(text *strings.Builder) {
	held, failing := 0, 0
	for _, o := range s.Objects {
		switch {
		case o.Hold != nil:
			held++
		case o.Error != "" && !o.Waiting:
			failing++
		}
	}
	fmt.Fprintf(text, "%s %s: %d objects, %d held, %d with errors; setpoint %s", s.Platform, s.Cluster, len(s.Objects), held, failing, s.Version)
	if s.Shadow {
		text.WriteString("; shadow: nothing is applied")
	}
	text.WriteString("\n")
	if s.Problem != "" {
		fmt.Fprintf(text, "PROBLEM: %s\n", oneLine(s.Problem))
	}
}

// cut is the part of a name for which the table has room: a longer one moves only the rest of its own line.
func cut(name string) string {
	runes := []rune(name)
	return string(runes[:min(len(runes), mostName)])
}

// mostName is the room for names, in characters.
const mostName = 48

func name(key agent.Key) string { return oneLine(key.Namespace + "/" + key.Name) }

// state is a word for the outcome of an object's last reconcile.
func (o *Object) state() string {
	switch {
	case o.Hold != nil:
		return "held"
	case o.Waiting:
		return "waiting"
	case o.Error != "":
		return "error"
	case o.Shadow:
		return "shadow"
	}
	return "ok"
}

// replicas are those of the last decision, with its age where the last reconcile came to none: the count may be another
// one by now.
func (o *Object) replicas(now time.Time) string {
	switch d := o.Decision; {
	case d == nil:
		return "-"
	case o.Hold != nil || o.Outcome == agent.OutcomeReadError:
		last := d.Current
		if o.Scaled != nil && !o.Scaled.At.Before(d.At) { // it was applied
			last = d.Desired
		}
		return fmt.Sprintf("%d, %s ago", last, printable.Age(now.Sub(d.At)))
	case d.Current != d.Desired:
		return fmt.Sprintf("%d → %d", d.Current, d.Desired)
	default:
		return fmt.Sprint(d.Current)
	}
}

// evaluated is how long ago that was: an object that hangs in its platform keeps its old state.
func (o *Object) evaluated(now time.Time) string {
	if o.At.IsZero() {
		return "-"
	}
	return printable.Age(now.Sub(o.At)) + " ago"
}

func (o *Object) lastScaled(now time.Time) string {
	switch {
	case o.Scaled == nil && o.LastChange == nil:
		return "-"
	case o.Scaled == nil, o.LastChange != nil && o.LastChange.Sub(o.Scaled.At) > time.Minute: // by another agent; clocks differ by less
		return printable.Age(now.Sub(*o.LastChange)) + " ago"
	}
	return fmt.Sprintf("%d → %d, %s ago", o.Scaled.From, o.Scaled.To, printable.Age(now.Sub(o.Scaled.At)))
}

// Why says what a person asks first: why an object is not scaled, what failed, or what decided
// its count.
func (o *Object) Why(now time.Time) string {
	var parts []string
	add := func(texts ...string) {
		for _, text := range texts {
			if text != "" {
				parts = append(parts, text)
			}
		}
	}
	switch d := o.Decision; {
	case o.Hold != nil:
		add(fmt.Sprintf("%s, for %s: %s", o.Hold.Reason, printable.Age(now.Sub(o.Hold.Since)), o.Hold.Message))
	case o.Cause != "":
		add(d.Notice)
		// A doubt of the zero guard is the cause, and what it adjusted.
		if _, doubt, _ := strings.Cut(o.Cause, "the value "); doubt == "" || !strings.Contains(d.Adjusted, doubt) {
			add(o.Cause)
		}
		add(d.adjusted(), d.Fleet)
	case o.Error != "":
		add(o.Error, d.fleet())
	case d != nil && d.Inactive != "":
		add(d.Notice, d.Inactive, d.Fleet)
	case d != nil:
		add(d.Notice, agent.Figures{Metrics: d.Metrics, Limits: d.Limits, Adjusted: d.adjusted(), Fleet: d.Fleet}.With(d.Reason))
	}
	if o.Warning != "" && (o.Hold == nil || o.Hold.Message != o.Warning) {
		add("warning: " + o.Warning)
	}
	return oneLine(agent.Plain(strings.Join(parts, "; ")))
}

// adjusted says what a stage or an override changed, and the count without it.
func (d *Decided) adjusted() string {
	if d.Adjusted == "" || d.Plain == nil {
		return d.Adjusted
	}
	return d.Adjusted + "; " + adjusted.Without(*d.Plain)
}

// fleet is what the last decision, which may be nil, says of the fleet.
func (d *Decided) fleet() string {
	if d == nil {
		return ""
	}
	return d.Fleet
}

// oneLine removes line breaks and control characters from a text: names of labels are chosen by
// users.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
}

// Named reports whether one of the names is the object's: NAME, or NAMESPACE/NAME, in which a byte may also be
// itself where the object's name has ".-" and its two hexadecimal digits.
func (o *Object) Named(names []string) bool {
	own := unescaped(o.Name)
	return slices.ContainsFunc(names, func(name string) bool {
		name = unescaped(name)
		return name == own || name == o.Namespace+"/"+own
	})
}

var escaped = regexp.MustCompile(`\.-[0-9a-f]{2}`)

func unescaped(name string) string {
	return escaped.ReplaceAllStringFunc(name, func(digits string) string {
		c, _ := hex.DecodeString(digits[len(".-"):])
		return string(c)
	})
}

// meant is the object that a name which none has may be for: one whose name ends with it, as that of a service in a stack
// does (shop/web is shop/shop_web), first in the name's namespace; or one that is spelled almost so. Empty: none.
func meant(name string, known []*Object) (found string) {
	namespace, own := path.Split(name)
	var names []string
	for _, o := range known {
		whole := o.Namespace + "/" + unescaped(o.Name)
		names = append(names, unescaped(o.Name), whole)
		if own != "" && strings.HasSuffix(whole, own) && (found == "" || strings.HasPrefix(whole, namespace) && !strings.HasPrefix(found, namespace)) {
			found = whole
		}
	}
	if found == "" {
		found, _ = spelling.Closest(name, names)
	}
	return found
}

// Only drops objects that match none of the names: NAME, or NAMESPACE/NAME.
func (s *Status) Only(names []string) error {
	if len(names) == 0 {
		return nil
	}
	known := s.Objects
	s.Objects = nil
	for _, o := range known {
		if o.Named(names) {
			s.Objects = append(s.Objects, o)
		}
	}
	for _, name := range names {
		if !slices.ContainsFunc(s.Objects, func(o *Object) bool { return o.Named([]string{name}) }) {
			hint := ""
			if meant := meant(name, known); meant != "" {
				hint = "; did you mean " + meant + "?"
			}
			return fmt.Errorf("the agent has no object %s: it has not opted in, or was not reconciled yet%s", oneLine(name), oneLine(hint))
		}
	}
	return nil
}
