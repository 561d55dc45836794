package explain

import (
	"fmt"
	"io"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/printable"
	"github.com/setpoint-dev/setpoint/recommender"
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

// WriteShadows writes how the shadows of a target differ, as a part of its own below an explanation; nothing without any.
func WriteShadows(w io.Writer, shadows []*setpointv1.ShadowState) error {
	if len(shadows) == 0 {
		return nil
	}
	text := "\nShadows\n"
	for _, s := range shadows {
		text += "  " + Shadow(s) + "\n"
	}
	_, err := io.WriteString(w, text)
	return err
}

// Shadow says how a shadow differs: "next: 12 beside 14, 3 of 40 decisions differ (7.5 %), by up to -2; 86 % of the
// replicas over 10m0s".
func Shadow(s *setpointv1.ShadowState) string {
	switch {
	case s.GetProblem() != "":
		return clean(s.GetName()) + ": off: " + clean(s.GetProblem())
	case s.GetComparedDecisions() == 0:
		return clean(s.GetName()) + ": nothing is decided yet"
	}
	line := fmt.Sprintf("%s: %d beside %d, %d of %d decisions differ (%s)", clean(s.GetName()), s.GetDesiredReplicas(), s.GetLiveReplicas(),
		s.GetDifferentDecisions(), s.GetComparedDecisions(), printable.Percent(s.GetDifferentDecisions(), s.GetComparedDecisions()))
	if s.GetDifferentDecisions() > 0 {
		line += fmt.Sprintf(", by up to %+d", s.GetLargestDifference())
	}
	if live := s.GetLiveReplicaSeconds(); live > 0 {
		line += fmt.Sprintf("; %s of the replicas over %s", printable.Percent(s.GetShadowReplicaSeconds(), live), span(s.GetObservedDuration().AsDuration()))
	}
	return line
}

// WriteForecast writes what the forecast said at a target's last decision, as a part of its own; nothing without one. An
// explanation that was computed elsewhere does not know the target's past.
func WriteForecast(w io.Writer, adjustments []*setpointv1.Adjustment) error {
	for _, a := range adjustments {
		if a.GetStage() == recommender.StageForecast.String() {
			_, err := io.WriteString(w, "\nForecast at the last decision\n  "+Adjustment(a)+"\n")
			return err
		}
	}
	return nil
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
		line := clockTime(now, until) + " → unknown"
		if why := clean(o.GetUntilReason()); why != "" { // earlier services give none
			line += ": " + why
		}
		lines = append(lines, line)
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
