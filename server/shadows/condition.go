package shadows

import (
	"fmt"
	"regexp"
	"strconv"
	"time"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/printable"
	"github.com/setpoint-dev/setpoint/server/conversion"
)

// Condition is what must have held of a shadow before it is promoted.
type Condition struct {
	// replicas asks for its replica time, as a part of that in force; else it is the decisions that differed.
	replicas bool
	percent  float64
	over     time.Duration
	// span is over as it was written: "7 days".
	span string
}

var conditions = regexp.MustCompile(`^(different|replicas)\s*<\s*([0-9]{1,4}(?:\.[0-9]{1,3})?)\s*%\s*over\s+([0-9]{1,5})\s*(m|minutes?|h|hours?|d|days?)$`)

// ParseCondition reads a condition, nil: it is empty, or says what is wrong with it.
func ParseCondition(text string) (c *Condition, problem string) {
	if text == "" {
		return nil, ""
	}
	parts := conditions.FindStringSubmatch(text)
	if parts == nil {
		return nil, fmt.Sprintf(`Invalid value: %q: must be such as "different < 2 %% over 7 days" or "replicas < 105 %% over 12 hours"`, text)
	}
	c = &Condition{replicas: parts[1] == "replicas", span: parts[3] + " " + parts[4]}
	c.percent, _ = strconv.ParseFloat(parts[2], 64)
	n, _ := strconv.Atoi(parts[3])
	unit := map[byte]time.Duration{'m': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour}[parts[4][0]]
	if c.over = time.Duration(n) * unit; c.over <= 0 || c.over.Milliseconds() > longest {
		return nil, fmt.Sprintf("Invalid value: %q: the time must be above 0 and at most 30 days", text)
	}
	return c, ""
}

// Refusal is why the shadow of that name in a record is not to be promoted at an instant; empty: it is. A nil condition
// asks nothing: a promotion can be taken back at once, and where the former spec has metrics that are read no more.
func Refusal(kept []byte, shadow *setpointv1.Shadow, c *Condition, now time.Time) string {
	if c == nil {
		return ""
	}
	k := decode(kept)
	for _, spec := range k.GetSpecs() {
		h := historyFor(k, spec)
		switch {
		case spec.GetName() != shadow.GetName():
			continue
		case spec.GetHash() != conversion.HashOfSpec(shadow.GetSpec(), shadow.GetOptions(), shadow.GetStages()):
			// Who stored the spec last was stopped before it wrote the shadows.
			return "decisions were compared with another spec of that name: wait for the next poll, or store the spec again"
		case h.GetProblem() != "":
			return "it decides nothing: " + h.GetProblem()
		case len(h.GetSpans()) == 0:
			return "nothing was decided since it is a shadow: wait for the next decision"
		}
		return c.refusal(spansOf(h.GetSpans()).since(now.Add(-c.over).UnixMilli()))
	}
	return "no decision has seen it yet: wait for the next one"
}

// refusal is why comparisons do not meet the condition; empty: they do.
func (c *Condition) refusal(o span) string {
	what, part, of, none := "of its decisions differed", o.different, o.compared, "nothing was decided"
	if c.replicas {
		of, part = o.replicaSeconds() // what callers see of them
		what, none = "of the replicas in force is what it would have used", "nothing ran"
	}
	if of > 0 {
		what = printable.Percent(part, of) + " " + what
	} else {
		what = none
	}
	known := fmt.Sprintf("%s in the %s observed (%d decisions)", what, printable.Age(time.Duration(o.observed)*time.Millisecond), o.compared)
	switch {
	case float64(o.observed) < 0.9*float64(c.over.Milliseconds()):
		return fmt.Sprintf("it was not observed for nine tenths of %s: %s", c.span, known)
	case 100*float64(part) >= c.percent*float64(of):
		return fmt.Sprintf("it is not below %g %%: %s", c.percent, known)
	}
	return ""
}
