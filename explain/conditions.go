package explain

import (
	"slices"
	"strings"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/adjusted"
)

// Statuses of conditions.
const (
	conditionTrue  = "True"
	conditionFalse = "False"
)

// writeConditions writes the conditions of the status.
func (c *oneCase) writeConditions(p *page) {
	conditions := c.resp.GetStatus().GetConditions()
	if len(conditions) == 0 {
		return
	}
	p.heading("Conditions", "")
	t := &table{header: []string{"TYPE", "STATUS", "SINCE", "REASON"}, right: make([]bool, 4)}
	for _, cond := range conditions {
		since := none
		if cond.GetLastTransitionTime() != nil {
			since = c.clock.at(cond.GetLastTransitionTime())
		}
		text := clean(cond.GetReason())
		if message := clean(cond.GetMessage()); message != "" {
			text += ": " + message
		}
		t.add(conditionStyle(cond), clean(cond.GetType()), clean(cond.GetStatus()), since, text)
	}
	t.write(p)
	if stale := c.stale(); len(stale) > 0 {
		p.line(2, 2, dim, "Left from an earlier evaluation: "+strings.Join(stale, ", ")+".")
	}
	if c.final != c.current {
		text := "Once the change is applied AbleToScale reads SucceededRescale"
		if c.req.GetOptions().GetScaleToZero() {
			text += ", and ScaledToZero is set again"
		}
		p.line(2, 2, dim, text+".")
	}
}

func conditionStyle(cond *setpointv1.HorizontalPodAutoscalerCondition) style {
	switch {
	case cond.GetStatus() == conditionFalse && (cond.GetType() == "AbleToScale" || cond.GetType() == "ScalingActive"):
		return red
	case cond.GetStatus() == conditionTrue && cond.GetType() == "ScalingLimited":
		return yellow
	}
	return plain
}

// stale returns the conditions that this evaluation did not set.
func (c *oneCase) stale() []string {
	var set []string
	switch c.trace.GetPath() {
	case pathScaleUnavailable, pathAboveMax, pathBelowMin:
		set = []string{"AbleToScale"}
	case pathScalingDisabled, pathSelectorFailed, pathMetricsFailed:
		set = []string{"AbleToScale", "ScalingActive"}
	default:
		return nil
	}
	var stale []string
	for _, cond := range c.resp.GetStatus().GetConditions() {
		// ScaledToZero is a memory rather than a finding.
		if kind := cond.GetType(); !slices.Contains(set, kind) && kind != "ScaledToZero" {
			stale = append(stale, clean(kind))
		}
	}
	return stale
}

// writeEvents writes the events and the error of the evaluation.
func (c *oneCase) writeEvents(p *page) {
	events := c.resp.GetEvents()
	changes := c.final != c.current
	if len(events) == 0 && !changes && c.resp.GetError() == "" {
		return
	}
	p.heading("Events", "")
	for _, e := range events {
		s := plain
		if e.GetType() == "Warning" {
			s = yellow
		}
		p.line(2, 2, s, clean(e.GetType()+" "+e.GetReason()+": "+e.GetMessage()))
	}
	if changes {
		p.line(2, 2, plain, "Once applied: Normal SuccessfulRescale: New size: "+number(c.final)+"; reason: "+clean(adjusted.Reason(c.resp.GetReason(), adjusted.Messages(c.resp.GetAdjustments())...)))
	}
	if text := clean(c.resp.GetError()); text != "" {
		p.line(2, 2, red, "The reconcile returns the error: "+text)
	}
}
