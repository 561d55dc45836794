//go:build linux

package ui

import (
	"fmt"
	"strings"
	"time"

	cdppage "github.com/chromedp/cdproto/page"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/process"
)

const (
	// keepAnswer keeps the last answer to GetTarget, from which the page was drawn.
	keepAnswer = `const ask = window.fetch;
window.fetch = async (...a) => {
	const answer = await ask(...a);
	if (/\/targets\/[^/]+$/.test(String(a[0].url ?? a[0]))) window.answer = await answer.clone().text();
	return answer;
};`
	// numbers are what a target's page shows, by place, and the answer.
	numbers = `(() => {
	const text = (e) => (e?.innerText ?? "").replace(/\s+/g, " ").trim(), all = (s) => [...document.querySelectorAll(s)];
	const when = (e) => e.querySelector("time")?.dateTime ?? "";
	return {
		answer: window.answer ?? "",
		count: text(document.querySelector(".big .count")),
		bounds: text(document.querySelector(".big .muted")),
		head: text(document.querySelector(".story h2")),
		asks: all(".sums .asks").map(text),
		sums: all(".sums .sum").map(text),
		steps: all(".steps > div").map(e => text(e.querySelector("dt")) + " " + text(e.querySelector("strong"))),
		next: text(document.querySelector(".next")),
		limits: all(".next dd").map(text),
		changes: all(".next .releases li").filter(e => e.querySelector("strong")).map(e => when(e) + " " + text(e.querySelector("strong"))),
		until: all(".next .releases li.faint").map(when)[0] ?? "",
		header: text(document.querySelector(".target-head")),
		spec: text(document.querySelector(".spec")),
		max: all(".spec > dl > div").map(text).filter(t => t.startsWith("maxReplicas"))[0] ?? "",
	};
})()`
)

// figures are what a target's page shows.
type figures struct {
	Answer, Count, Bounds, Head, Next, Until, Header, Spec, Max string
	Asks, Sums, Steps, Limits, Changes                          []string
}

// told compares each number on the page with the answer that it was drawn from.
func (s *figures) told(target *setpointv1.Target) (wrong []string) {
	is := func(what, got, want string) {
		if got != want {
			wrong = append(wrong, fmt.Sprintf("%s: %q, the service says %q", what, got, want))
		}
	}
	has := func(what, text, part string) {
		if !strings.Contains(text, part) {
			wrong = append(wrong, fmt.Sprintf("%s: %q, the service says %q", what, text, part))
		}
	}
	last := target.GetLastDecision()
	switch from, to := last.GetCurrentReplicas(), last.GetDesiredReplicas(); {
	case from == 0 && strings.Contains(strings.Join(last.GetStates(), " "), "SCALE_UNREADABLE"):
		is("count", s.Count, "?")
	case from == to:
		is("count", s.Count, fmt.Sprint(from))
	default:
		has("count", s.Count, fmt.Sprint(from))
		has("count", s.Count, fmt.Sprint(to))
	}
	e := target.GetExplanation()
	if b := e.GetBounds(); b.GetMaxReplicas() > 0 {
		has("bounds", s.Bounds, fmt.Sprintf("%d to %d allowed", b.GetMinReplicas(), b.GetMaxReplicas()))
	}
	var asks []string
	for _, m := range e.GetMetrics() {
		if m.Proposal != nil {
			ending := map[bool]string{false: "s"}[m.GetProposal() == 1]
			asks = append(asks, fmt.Sprintf("asks for %d replica%s", m.GetProposal(), ending))
		}
	}
	if e != nil {
		is("asks", strings.Join(s.Asks, ", "), strings.Join(asks, ", "))
		is("steps", strings.Join(s.Steps, ", "), strings.Join(stepsOf(e), ", "))
	}
	if used := target.GetSpecInUse(); used == nil {
		has("spec", s.Spec, "Unknown")
	} else {
		is("maximum of the spec", s.Max, fmt.Sprintf("maxReplicas %d", used.GetSpec().GetMaxReplicas()))
		if stored := target.GetTargetSpec(); stored != nil && stored.GetHash() != used.GetHash() {
			has("spec", s.Spec, "Callers send another spec than the stored one")
		}
	}
	return append(wrong, s.coming(target)...)
}

// stepsOf is the way from the proposal to the count.
func stepsOf(e *setpointv1.Explanation) (steps []string) {
	step := func(what string, count int32) {
		text := fmt.Sprint(count) // with the page's thin space, which text() makes an ordinary one
		for i := len(text) - 3; i > 0; i -= 3 {
			text = text[:i] + " " + text[i:]
		}
		steps = append(steps, what+" "+text)
	}
	if p := e.GetProposal(); p != nil {
		step("Metrics", p.GetReplicas())
	}
	if w := e.GetStabilization(); w != nil {
		step("Windows", w.GetStabilizedReplicas())
	}
	if r := e.GetRateLimit(); r.GetDirection() != "" && r.GetDirection() != "None" {
		what := map[string]string{"Up": "Policies, at most", "Down": "Policies, at least"}[r.GetDirection()]
		if r.Limit == nil {
			steps = append(steps, what+" no limit")
		} else {
			step(what, r.GetLimit())
		}
	}
	if b := e.GetBounds(); b != nil {
		step("Bounds", b.GetBoundedReplicas())
	}
	if w := e.GetWithheld(); w != nil {
		step("Withheld", w.GetReplicas())
	}
	if steps != nil {
		step("Decided", e.GetDesiredReplicas())
	}
	return steps
}

// coming compares what the page says will come.
func (s *figures) coming(target *setpointv1.Target) (wrong []string) {
	want := func(what, text, part string) {
		if !strings.Contains(text, part) {
			wrong = append(wrong, fmt.Sprintf("%s: %q, the service says %q", what, text, part))
		}
	}
	at := func(t *timestamppb.Timestamp) string {
		return t.AsTime().Truncate(time.Millisecond).Format("2006-01-02T15:04:05.000Z")
	}
	o := target.GetOutlook()
	switch {
	case time.Now().After(target.GetNotAskedTime().AsTime()):
		want("header", s.Header, "Nobody has asked for")
		want("next", s.Next, "Nobody asks for this target any more")
	case o == nil:
		want("next", s.Next, "Unknown.")
	case strings.Contains(o.GetProblem(), " "): // a sentence, no condition's reason
		want("next", s.Next, "Unknown: "+o.GetProblem()+".")
	case o.GetProblem() != "":
		want("next", s.Next, "Nothing can change:")
	default:
		limits := []string{"Can't rise with the next decision.", "Can't fall with the next decision."}
		if n := o.GetHighestReplicas(); n > o.GetReplicas() {
			limits[0] = fmt.Sprintf("Can rise with the next decision, to at most %d.", n)
		}
		if n := o.GetLowestReplicas(); n < o.GetReplicas() {
			limits[1] = fmt.Sprintf("Can fall with the next decision, to no less than %d.", n)
		}
		want("limits", strings.Join(s.Limits, " "), strings.Join(limits, " "))
		if o.Proposal != nil {
			want("next", s.Next, fmt.Sprintf("If the metrics keep asking for %d", o.GetProposal()))
		}
		var changes []string
		for _, c := range o.GetChanges() {
			about := map[bool]string{true: "about "}[c.GetDoubtful()]
			changes = append(changes, fmt.Sprintf("%s %s%d", at(c.GetTime()), about, c.GetReplicas()))
		}
		want("changes", "["+strings.Join(s.Changes, ", ")+"]", "["+strings.Join(changes, ", ")+"]")
		if o.GetUntilTime() != nil {
			want("until", s.Until, at(o.GetUntilTime()))
		}
		return wrong
	}
	if len(s.Changes) > 0 {
		wrong = append(wrong, fmt.Sprintf("changes to come: %q, the service knows of none", s.Changes))
	}
	return wrong
}

// agrees waits until the page shows the numbers of the answer that it was drawn from.
func (p *page) agrees() (*setpointv1.Target, figures) {
	p.t.Helper()
	for deadline := time.Now().Add(process.Patience); ; time.Sleep(50 * time.Millisecond) {
		got, target := eval[figures](p, numbers), &setpointv1.Target{}
		wrong := []string{"nothing is shown"}
		if got.Answer != "" && got.Count != "" {
			fatal.If(p.t, (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal([]byte(got.Answer), target))
			wrong = got.told(target)
		}
		if len(wrong) == 0 {
			return target, got
		}
		if time.Now().After(deadline) {
			p.t.Errorf("%s\nanswer: %s", strings.Join(wrong, "\n"), got.Answer)
			return target, got
		}
	}
}

// keepsAnswers has the page keep what it was drawn from.
func (p *page) keepsAnswers() {
	p.t.Helper()
	command(p, cdppage.AddScriptToEvaluateOnNewDocument, cdppage.AddScriptToEvaluateOnNewDocumentParams{Source: keepAnswer})
}
