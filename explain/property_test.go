package explain

import (
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"google.golang.org/protobuf/reflect/protopath"
	"google.golang.org/protobuf/reflect/protorange"
	"google.golang.org/protobuf/reflect/protoreflect"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/testlength"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/replay"
)

// TestEveryStepRenders explains all steps of all recordings.
func TestEveryStepRenders(t *testing.T) {
	for _, file := range testlength.FirstUnderRace(t, 1, []string{"curated", "fuzz"}) {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			steps := 0
			for scenario := range scenarios(t, file) {
				play(t, scenario, func(step int, req *setpointv1.RecommendRequest, resp *setpointv1.RecommendResponse) {
					steps++
					where := fmt.Sprintf("%s step %d", scenario.Name, step)
					for _, problem := range problems(t, req, resp, 60+steps%80) {
						t.Errorf("%s: %s", where, problem)
					}
				})
				if t.Failed() {
					return
				}
			}
			if steps < 1500 {
				t.Errorf("only %d steps", steps)
			}
		})
	}
}

// TestEveryStepRendersByEveryProfile explains the curated steps as other versions decide
// them.
func TestEveryStepRendersByEveryProfile(t *testing.T) {
	for _, profile := range recommender.ProfileNames() {
		t.Run(profile, func(t *testing.T) {
			t.Parallel()
			steps := 0
			for scenario := range scenarios(t, "curated") {
				if profile == scenario.Config.Profile {
					continue
				}
				config := scenario.Config
				config.Profile = profile
				other := *scenario
				other.Config = config
				play(t, &other, func(step int, req *setpointv1.RecommendRequest, resp *setpointv1.RecommendResponse) {
					steps++
					if got := resp.GetExplanation().GetProfile(); got != profile {
						t.Fatalf("decided by %s", got)
					}
					for _, problem := range problems(t, req, resp, 60+steps%80) {
						t.Errorf("%s step %d: %s", scenario.Name, step, problem)
					}
				})
			}
			if steps < 500 {
				t.Errorf("only %d steps", steps)
			}
		})
	}
}

// An answer is of a server that may be wrong, or of another version: without any one of its fields, and with
// numbers that no list has, it is explained.
func TestAnswersThatAreWrong(t *testing.T) {
	t.Parallel()
	for _, profile := range recommender.ProfileNames() {
		req := checkout(3, "web-%d", func(int) int { return 900 })
		req.Options = &setpointv1.RecommendOptions{Profile: profile}
		resp := decide(t, replay.NewEngine(), req, "")
		explained := func(where string) {
			defer func() {
				if wrong := recover(); wrong != nil {
					t.Errorf("%s: %s: %v", profile, where, wrong)
				}
			}()
			if err := Write(io.Discard, nil, resp, Options{AllPods: true}); err != nil {
				t.Errorf("%s: %s: %v", profile, where, err)
			}
			Summary(resp)
		}
		err := protorange.Range(resp.ProtoReflect(), func(v protopath.Values) error {
			last := v.Index(-1)
			field, of := last.Step.FieldDescriptor(), v.Index(-2).Value
			if last.Step.Kind() != protopath.FieldAccessStep || field.IsList() || field.IsMap() {
				return nil
			}
			if field.Kind() == protoreflect.Int32Kind {
				for _, n := range []int32{-1, math.MinInt32, math.MaxInt32} {
					of.Message().Set(field, protoreflect.ValueOfInt32(n))
					explained(fmt.Sprint(v.Path, "=", n))
				}
			}
			of.Message().Clear(field)
			explained(v.Path.String())
			of.Message().Set(field, last.Value)
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// problems returns the problems of the text for an answer.
func problems(t *testing.T, req *setpointv1.RecommendRequest, resp *setpointv1.RecommendResponse, width int) []string {
	t.Helper()
	var b strings.Builder
	if err := Write(&b, req, resp, Options{Width: width}); err != nil {
		return []string{err.Error()}
	}
	text := b.String()
	out := textProblems(text, width)
	c := newCase(req, resp, nil)
	summary := Summary(resp)
	if strings.Contains(summary, "\n") {
		out = append(out, "the summary is of several lines: "+summary)
	}
	head, _, _ := strings.Cut(text, "\n")
	for _, s := range []string{head, summary} {
		if problem := countProblem(s, resp); problem != "" {
			out = append(out, problem)
		}
	}
	if len(c.verdict().why) == 0 {
		out = append(out, "no why: "+head)
	}
	for _, m := range c.metrics {
		out = append(out, arithmeticProblems(m)...)
	}
	return append(out, clauseProblems(c)...)
}

// textProblems returns the problems that no text may have.
func textProblems(text string, width int) []string {
	var out []string
	for _, bad := range []string{"NaN", "%!", "<nil>", "\t", "\x1b", nbsp, "  ,", " ;", "::"} {
		if strings.Contains(text, bad) {
			out = append(out, fmt.Sprintf("contains %q:\n%s", bad, text))
		}
	}
	for line := range strings.SplitSeq(text, "\n") {
		if strings.TrimRight(line, " ") != line {
			out = append(out, fmt.Sprintf("trailing space in %q", line))
		}
		if tooWide(line, width) {
			out = append(out, fmt.Sprintf("wider than %d: %q", width, line))
		}
	}
	if strings.Contains(text, "\n\n\n") || strings.HasPrefix(text, "\n") || !strings.HasSuffix(text, "\n") {
		out = append(out, "blank lines in the wrong place:\n"+text)
	}
	return out
}

// tooWide reports whether a line is too wide although its last word could have been wrapped.
func tooWide(line string, width int) bool {
	if utf8.RuneCountInString(line) <= width {
		return false
	}
	last := strings.LastIndexByte(line, ' ')
	return utf8.RuneCountInString(strings.TrimRight(line[:max(last, 0)], " ")) > width
}

var (
	changes = regexp.MustCompile(`(-?\d+) → (-?\d+) replica`)
	stays   = regexp.MustCompile(`stays at (-?\d+) replica`)
	passes  = regexp.MustCompile(`^(\d+) passes, (up|down) to (\d+) is allowed`)
	leaves  = regexp.MustCompile(`last known count: (-?\d+)`)
)

// countProblem checks the counts that a verdict names.
func countProblem(head string, resp *setpointv1.RecommendResponse) string {
	from, to := fmt.Sprint(resp.GetCurrentReplicas()), fmt.Sprint(resp.GetDesiredReplicas())
	if from != to {
		if m := changes.FindStringSubmatch(head); m == nil || m[1] != from || m[2] != to {
			return fmt.Sprintf("not %s to %s: %s", from, to, head)
		}
		return ""
	}
	m := stays.FindStringSubmatch(head)
	if m == nil {
		m = leaves.FindStringSubmatch(head)
	}
	if to == "0" && resp.GetExplanation().GetPath() == pathScaleUnavailable && strings.Contains(head, "(no count is known)") {
		return ""
	}
	if m == nil || m[1] != to {
		return fmt.Sprintf("not at %s: %s", to, head)
	}
	return ""
}

// arithmeticProblems checks that shown calculations yield the proposal.
func arithmeticProblems(m *metric) []string {
	var out []string
	if m.GetRule() == proportional {
		text, _, _ := strings.Cut(m.product(), " (HPA's")
		if last := text[strings.LastIndexByte(text, ' ')+1:]; last != number(m.GetProposal()) {
			out = append(out, fmt.Sprintf("%s: %q does not come to %d", m.label, m.product(), m.GetProposal()))
		}
	}
	if m.assumed() != "" && len(m.GetPods()) > 0 && m.secondPass() == "" {
		out = append(out, fmt.Sprintf("%s: the sums of the second pass do not come to the ratio %v", m.label, m.GetDampenedUsageRatio()))
	}
	return out
}

// clauseProblems checks that the verdict mentions everything that changed the count.
func clauseProblems(c *oneCase) []string {
	if c.trace.GetPath() != pathMetrics {
		return nil
	}
	var out []string
	s, b := c.trace.GetStabilization(), c.trace.GetBounds()
	held := c.heldText()
	if c.habits.delays {
		held = c.delayedText()
	}
	if (s.GetProposedReplicas() != s.GetStabilizedReplicas()) != (held != "") {
		out = append(out, "stabilization: "+held)
	}
	if (b.GetWantedReplicas() != b.GetBoundedReplicas()) != (c.boundText() != "") {
		out = append(out, "bounds: "+c.boundText())
	}
	if r := c.trace.GetRateLimit(); r != nil {
		said := c.rateOutcome(r)
		if m := passes.FindStringSubmatch(said); m != nil && (m[2] == "up") != (atoi(m[1]) <= atoi(m[3])) && m[1] != m[3] {
			out = append(out, "rate limit: "+said)
		}
	}
	return out
}

func atoi(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}
