package explain

import (
	"fmt"
	"io"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// WriteOutlook writes what comes next, as a part of its own below an explanation.
func WriteOutlook(w io.Writer, o *setpointv1.Outlook, now time.Time) error {
	text := "\nWhat comes next\n"
	for _, line := range Outlook(o, now) {
		text += "  " + line + "\n"
	}
	_, err := io.WriteString(w, text)
	return err
}

// Outlook says what comes next, one change a line.
func Outlook(o *setpointv1.Outlook, now time.Time) []string {
	switch {
	case o == nil:
		return []string{"unknown"}
	case strings.Contains(o.GetProblem(), " "): // a sentence, no condition's reason
		return []string{"unknown: " + clean(o.GetProblem())}
	case o.GetProblem() != "":
		return []string{"no change can come: " + clean(o.GetProblem())}
	}
	lines := []string{fmt.Sprintf("%s: %d to %d possible", clockTime(now, o.GetStartTime()), o.GetLowestReplicas(), o.GetHighestReplicas())}
	if o.Proposal != nil {
		lines[0] += fmt.Sprintf("; the metrics ask for %d", o.GetProposal())
	}
	if hold := holdText(now, o.GetHold()); hold != "" {
		lines[0] += ", " + hold
	}
	for _, c := range o.GetChanges() {
		line := fmt.Sprintf("%s → %d", clockTime(now, c.GetTime()), c.GetReplicas())
		if c.GetDoubtful() {
			line += " (if the load is not within tolerance by then)"
		}
		if hold := holdText(now, c.GetHold()); hold != "" {
			line += ", " + hold
		}
		lines = append(lines, line)
	}
	if until := o.GetUntilTime(); until != nil {
		lines = append(lines, clockTime(now, until)+" → unknown")
	}
	return lines
}

// holdText is "held by ScaleDownStabilized (300 s) until 14:39:58"; empty for none.
func holdText(now time.Time, h *setpointv1.OutlookHold) string {
	if h == nil {
		return ""
	}
	text := "held"
	if h.GetReason() != "" {
		text += " by " + clean(h.GetReason())
	}
	if h.WindowSeconds != nil {
		text += fmt.Sprintf(" (%d s)", h.GetWindowSeconds())
	}
	if h.LimitReplicas != nil {
		text += fmt.Sprintf(" at %d", h.GetLimitReplicas())
	}
	if h.GetUntilTime() != nil {
		text += " until " + clockTime(now, h.GetUntilTime())
	}
	return text
}

// clockTime is the UTC time of day; what comes later than within a day has its date.
func clockTime(now time.Time, t *timestamppb.Timestamp) string {
	at := t.AsTime()
	if at.Sub(now).Abs() > 12*time.Hour {
		return at.Format(time.RFC3339)
	}
	return at.Format(time.TimeOnly)
}
