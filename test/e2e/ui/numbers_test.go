//go:build linux

package ui_test

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	cdppage "github.com/chromedp/cdproto/page"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/process"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
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
	step := func(what string, count int32) { steps = append(steps, fmt.Sprintf("%s %d", what, count)) }
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
			if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal([]byte(got.Answer), target); err != nil {
				p.t.Fatal(err)
			}
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

// history has a target asked for every minute, with a load each, the last so many seconds ago; the
// count follows.
func (s *siteOf) history(t *testing.T, ask *setpointv1.RecommendRequest, ago int, loads ...int) {
	t.Helper()
	for i, load := range loads {
		ask.EvaluationTime = timestamppb.New(time.Now().Add(-time.Duration(ago+60*(len(loads)-1-i)) * time.Second))
		if ask.ExternalMetrics != nil {
			ask.ExternalMetrics[0].Value = fmt.Sprint(load)
		}
		got := recommend(t, s, ask).GetDesiredReplicas()
		if ask.Scale != nil {
			ask.Scale.SpecReplicas, ask.Scale.StatusReplicas = got, &got
		}
	}
}

// Live targets in all states: each number on the page is the service's.
func TestATargetsPageShowsTheServicesNumbers(t *testing.T) {
	s := site(t, "--allow-evaluation-time")
	policies := func(n, seconds int32) *setpointv1.HPAScalingRules {
		return &setpointv1.HPAScalingRules{StabilizationWindowSeconds: new(int32), Policies: []*setpointv1.HPAScalingPolicy{{Type: "Pods", Value: n, PeriodSeconds: seconds}}}
	}
	for _, tc := range []struct {
		name  string
		loads []int
		// away is how many seconds ago the last call was.
		away int
		edit func(*setpointv1.RecommendRequest)
		// stored is the maximum of a stored spec; 0: none is stored.
		stored int32
		says   []string
	}{
		{name: "steady", loads: []int{30, 30, 30}, says: []string{"It stays at 3."}},
		{name: "held", loads: []int{95, 95, 70, 40, 40}, says: []string{"stays at 10 replicas", "The metrics ask for 4, the count is 10: held by a higher recommendation in the window of 5 min"}},
		{name: "limited", loads: []int{95, 95, 95, 95}, edit: func(r *setpointv1.RecommendRequest) {
			r.Spec.Behavior = &setpointv1.HorizontalPodAutoscalerBehavior{ScaleUp: policies(2, 600), ScaleDown: policies(1, 600)}
		}, says: []string{"stays at 5 replicas", "If the metrics keep asking for 10"}},
		{name: "steps", loads: []int{120, 120, 120, 50, 50}, edit: func(r *setpointv1.RecommendRequest) {
			r.Spec.Behavior = &setpointv1.HorizontalPodAutoscalerBehavior{ScaleDown: &setpointv1.HPAScalingRules{StabilizationWindowSeconds: new(int32(300)), Policies: policies(2, 60).Policies}}
		}, says: []string{"If the metrics keep asking for 5", "held by the policies' limit of 10"}},
		{name: "maximum", loads: []int{250, 250, 250, 250, 250}, says: []string{"stays at 12 replicas", "asks for 25, lacks 13", "held by the maximum of 12"}},
		{name: "failing", loads: []int{0, 0, 0}, edit: func(r *setpointv1.RecommendRequest) {
			r.Scale.SpecReplicas, r.ExternalMetrics = 4, nil
			r.MetricErrors = []*setpointv1.MetricError{{Metric: "queue", Message: "the queue is away"}}
		}, says: []string{"stays at 4 replicas", "the queue is away"}},
		{name: "disabled", loads: []int{50, 50, 50}, edit: func(r *setpointv1.RecommendRequest) { r.Scale.SpecReplicas = 0 }, says: []string{"stays at 0 replicas", "Set it to 1 or more"}},
		{name: "unread", loads: []int{0, 0, 0}, edit: func(r *setpointv1.RecommendRequest) {
			r.Scale, r.ScaleError = nil, &setpointv1.ScaleError{Message: "forbidden"}
		}, says: []string{"forbidden", "the count is unknown"}},
		{name: "away", loads: []int{30, 40, 30, 30}, away: 3000, says: []string{"usually somebody asks every 1 min"}},
		{name: "stored", loads: []int{40, 40, 40}, stored: 7, says: []string{"Callers send another spec than the stored one"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ask := request(tc.name, "queue", 0)
			if tc.edit != nil {
				tc.edit(ask)
			}
			if tc.stored > 0 {
				other := request(tc.name, "queue", 0)
				other.Spec.MaxReplicas = tc.stored
				if _, err := s.Targets().SetTargetSpec(t.Context(), &setpointv1.SetTargetSpecRequest{Name: other.GetTarget(), TargetSpec: &setpointv1.TargetSpec{Spec: other.GetSpec()}}); err != nil {
					t.Fatal(err)
				}
			}
			p := s.blank(t)
			p.keepsAnswers()
			s.history(t, ask, tc.away, tc.loads...)
			p.goTo("/ui/" + ask.GetTarget())
			target, got := p.agrees()
			if target.GetSpecInUse() == nil || target.GetOutlook() == nil || target.GetExplanation() == nil {
				t.Errorf("the service does not know all of it: %s", got.Answer)
			}
			for _, text := range tc.says {
				p.waitText(text)
			}
			p.accessible()
			p.screenshot("target-" + tc.name)
		})
	}
}

// keepsAnswers has the page keep what it was drawn from.
func (p *page) keepsAnswers() {
	p.t.Helper()
	command(p, cdppage.AddScriptToEvaluateOnNewDocument, cdppage.AddScriptToEvaluateOnNewDocumentParams{Source: keepAnswer})
}

// The docs' own examples, by the docs' own command: page and explain have the same numbers.
func TestThePageExplainsTheDocsExamples(t *testing.T) {
	program, err := service.Program()
	if err != nil {
		t.Fatal(err)
	}
	s := site(t, "--allow-evaluation-time")
	for _, name := range []string{"decision", "missing-pods-down"} {
		t.Run(name, func(t *testing.T) {
			file := "../../../docs/concepts/scenarios/" + name + ".yaml"
			run := func(more ...string) string {
				out, err := exec.CommandContext(t.Context(), program, append([]string{"recommend", "-f", file}, more...)...).CombinedOutput()
				if err != nil {
					t.Fatalf("%v: %s", err, out)
				}
				return string(out)
			}
			explained := strings.ReplaceAll(run(), "\u00a0", " ")
			target := "clusters/docs/namespaces/shop/targets/" + name
			var answer struct{ DesiredReplicas int }
			if err := json.Unmarshal([]byte(run("-o", "json", "--server", s.GRPCAddr(), "--insecure", "--target", target)), &answer); err != nil {
				t.Fatal(err)
			}
			p := s.blank(t)
			p.keepsAnswers()
			p.goTo("/ui/" + target)
			answered, got := p.agrees()
			if first, _, _ := strings.Cut(explained, "\n"); !strings.HasSuffix(first, got.Head) {
				t.Errorf("the page: %q, explain: %q", got.Head, first)
			}
			// "6 pods × 1.55 = 9.3 → 10": explain says of the pods more.
			for _, sum := range got.Sums {
				if _, product, ok := strings.Cut(sum, "×"); ok && !strings.Contains(explained, "×"+product) {
					t.Errorf("the page: %q, explain:\n%s", sum, explained)
				}
			}
			if len(got.Sums) == 0 {
				t.Errorf("the page shows nothing of %v", answered.GetExplanation())
			}
		})
	}
}
