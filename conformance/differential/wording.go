package differential

import (
	"regexp"

	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
)

// malformedSelector matches the beginning of an error of Kubernetes' selector parser,
// which continues to the end of the text. The library's words change in almost every
// release; Setpoint uses those of its own library, even as an older controller.
var malformedSelector = regexp.MustCompile(`\[?((values|key|operator)(\[[^\]]*\])*: Invalid value: |` +
	`(values|key): |` +
	`for '?(in|In|exact-match|Gt)'?,? .*(operators|operator)|values set must be empty|` +
	`invalid label (key|value)|"[^"]*" is not a valid (label|pod) selector operator|` +
	`unable to parse requirement|couldn't parse the selector string|found ')`)

// rewords reports whether the version's library has other words than Setpoint's for
// malformed selectors.
func (v Version) rewords() bool { return v.Profile != reference && v.Profile != "v1.37" }

// sameWords rewrites texts about malformed selectors on both sides, for versions whose
// library has other words than Setpoint's.
func (v Version) sameWords(expects []recording.Expect, outcomes []recording.Outcome) ([]recording.Expect, []recording.Outcome) {
	if !v.rewords() {
		return expects, outcomes
	}
	expects, outcomes = append([]recording.Expect(nil), expects...), append([]recording.Outcome(nil), outcomes...)
	for i := range expects {
		e := &expects[i]
		e.Conditions, e.Events = append([]recording.Condition(nil), e.Conditions...), append([]recording.Event(nil), e.Events...)
		for j := range e.Conditions {
			reword(&e.Conditions[j].Message.Value)
		}
		for j := range e.Events {
			reword(&e.Events[j].Message.Value)
		}
		reword(&e.Error.Value)
	}
	for i := range outcomes {
		o := &outcomes[i]
		if o.Status != nil {
			o.Status = proto.Clone(o.Status).(*setpointv1.HorizontalPodAutoscalerStatus)
			for _, c := range o.Status.GetConditions() {
				reword(&c.Message)
			}
		}
		events := make([]*setpointv1.Event, len(o.Events))
		for j, event := range o.Events {
			events[j] = proto.Clone(event).(*setpointv1.Event)
			reword(&events[j].Message)
		}
		o.Events = events
		reword(&o.Error)
	}
	return expects, outcomes
}

// wordsSelectorsOtherwise reports whether outcomes of the version have such a text.
func (v Version) wordsSelectorsOtherwise(expects []recording.Expect) bool {
	if !v.rewords() {
		return false
	}
	for i := range expects {
		for _, event := range expects[i].Events {
			if malformedSelector.MatchString(event.Message.Value) {
				return true
			}
		}
		for _, condition := range expects[i].Conditions {
			if malformedSelector.MatchString(condition.Message.Value) {
				return true
			}
		}
	}
	return false
}

func reword(text *string) {
	if at := malformedSelector.FindStringIndex(*text); at != nil {
		*text = (*text)[:at[0]] + "<what is wrong with the selector>"
	}
}
