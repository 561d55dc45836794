// Package explain explains a recommendation to people: the verdict first, then each metric's
// arithmetic with its numbers, how the pods counted, the effects of windows, policies and
// bounds, and the conditions.
//
//	req.Explain = true
//	resp, err := client.Recommend(ctx, req)
//	err = explain.Write(os.Stdout, req, resp, explain.Options{})
//
// It decides nothing: every sentence comes from the answer's trace, and arithmetic is shown
// only if its result equals the number in the trace. Programs read the trace itself.
package explain

import (
	"cmp"
	"errors"
	"io"
	"strings"
	"time"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// Options are for Write. The zero value is plain text, 100 columns wide.
type Options struct {
	// Color marks the text with ANSI colors.
	Color bool
	// Width is in columns; 0: 100, and at least 40. Words that are longer, such
	// as names, stick out.
	Width int
	// AllPods lists every pod. Otherwise, of more than 20 pods only those that did not
	// simply count are listed.
	AllPods bool
	// Zone is the time zone of instants. Nil: UTC.
	Zone *time.Location
	// Missing says why an answer has no explanation; empty: explain was not set.
	Missing string
	// Ahead are the bounds by schedules from the evaluation time on, in the order of time, as an outlook has
	// them.
	Ahead []*setpointv1.OutlookBounds
	// Unasked reports whether the answer was computed without the service that the target has: it knows no overrides,
	// of which the status in the request may tell.
	Unasked bool
}

// Widths of the text, in columns.
const (
	defaultWidth = 100
	minimumWidth = 40
)

// Write explains the answer to a request. Without the request, which may be nil, names and some
// of the arithmetic are missing. An answer without an explanation gives the verdict and the
// conditions only.
func Write(w io.Writer, req *setpointv1.RecommendRequest, resp *setpointv1.RecommendResponse, opts Options) error {
	if resp == nil {
		return errors.New("no response to explain")
	}
	p := &page{width: opts.Width, color: opts.Color}
	p.width = cmp.Or(p.width, defaultWidth)
	p.width = max(p.width, minimumWidth)
	c := newCase(req, resp, opts.Zone)
	c.missing, c.unasked = opts.Missing, opts.Unasked
	c.writeVerdict(p)
	c.writeStages(p)
	c.writeAhead(p, opts.Ahead)
	if c.trace != nil {
		c.writeMetrics(p)
		c.writePods(p, opts.AllPods)
		if !c.habits.delays {
			c.writeStabilization(p)
		}
		c.writeRateLimit(p)
		c.writeBounds(p)
		if c.habits.delays {
			c.writeDelays(p)
		}
	}
	c.writeConditions(p)
	c.writeEvents(p)
	if c.trace != nil {
		c.writeHistory(p)
		c.writeWarnings(p)
	}
	_, err := io.WriteString(w, p.text.String())
	return err
}

// Summary returns the verdict in one line, without the target's name: "3 → 5
// replicas (scale up): cpu is at 90 % of request, target 60 %: …". It is shorter
// for an answer without an explanation.
func Summary(resp *setpointv1.RecommendResponse) string {
	c := newCase(nil, resp, nil)
	v := c.verdict()
	parts := make([]string, 0, len(v.why))
	for _, s := range v.why {
		parts = append(parts, s.text)
	}
	if len(parts) == 0 {
		return spaces(v.head)
	}
	return spaces(v.head + ": " + strings.Join(parts, "; "))
}
