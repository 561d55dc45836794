package check

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording/recordingtest"
	"github.com/setpoint-dev/setpoint/hpa"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/testlength"
	"github.com/setpoint-dev/setpoint/internal/testpages"
	"github.com/setpoint-dev/setpoint/lint"
	"github.com/setpoint-dev/setpoint/replay"
)

const examples = "../examples/simulation/"

// flight is the recording of the examples.
func flight() []Recording {
	return []Recording{{Name: examples + "flight.jsonl.gz", Open: func() (io.ReadCloser, error) { return os.Open(examples + "flight.jsonl.gz") }}}
}

// recorded is a recording of some scenarios.
func recorded(t *testing.T, scenarios ...*recording.Scenario) []Recording {
	t.Helper()
	var out bytes.Buffer
	w := recording.NewWriter(&out)
	for _, s := range scenarios {
		fatal.If(t, w.Write(s))
	}
	return []Recording{{Name: "recorded.jsonl", Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(out.Bytes())), nil }}}
}

// run checks a change of one file.
func run(t *testing.T, old, now, rules string, recordings []Recording) *Report {
	t.Helper()
	s, err := ReadSettings("rules", []byte(rules))
	fatal.If(t, err)
	c := &Changes{Old: NewSide(asIs), New: NewSide(asIs)}
	if old != "" {
		err = c.Old.Read("web.yaml", strings.NewReader(old))
	}
	if err == nil {
		err = c.New.Read("web.yaml", strings.NewReader(now))
	}
	fatal.If(t, err)
	got, err := Run(t.Context(), &Input{Settings: s, Changes: c, Recordings: recordings, Tell: func(err error) { t.Log(err) }})
	fatal.If(t, err)
	return got
}

// of is the result of a rule.
func of(t *testing.T, r *Report, rule string) Result {
	t.Helper()
	for _, s := range r.Specs {
		for _, result := range s.Results {
			if result.Rule == rule {
				return result
			}
		}
	}
	return Result{}
}

// The figures are those of the back-test, one place for each.
func TestFiguresAreThoseOfTheBackTest(t *testing.T) {
	testlength.SkipUnderRace(t)
	t.Parallel()
	old, careful := testpages.Read(t, examples+"hpa.yaml"), testpages.Read(t, examples+"careful.yaml")
	got := run(t, old, careful, "rules: {different: 10}", flight())
	h := got.Specs[0].History
	reader, err := os.Open(examples + "flight.jsonl.gz")
	fatal.If(t, err)
	defer func() { _ = reader.Close() }()
	scenario, err := recording.NewReader("", reader).Next()
	fatal.If(t, err)
	specs := side(t, "a.yaml", careful).specs
	want, err := replay.RunBacktest(t.Context(), scenario, questionOf(&specs[0], nil))
	fatal.If(t, err)
	loop := want.ClosedLoop
	if h.Old.ReplicaHours != loop.Recorded.ReplicaHours || h.New.ReplicaHours != loop.Other.ReplicaHours || h.New.Changes != loop.Other.Ups+loop.Other.Downs ||
		h.New.Most != loop.Other.Most || math.Abs(h.New.OpenReplicaHours-want.Other.ReplicaHours) > 1e-9 || h.DifferentSteps != want.Different || h.CoveredSeconds != want.CoveredSeconds || !h.AsOld {
		t.Errorf("%+v, want %+v", h, want)
	}
	for rule, status := range map[string]Status{
		"replica-hours": Failed, "used-replicas": Passed, "changes-per-hour": Warned, "at-maximum": Failed, "short-of-capacity": Unknown, "different": Failed, "model-miss": Passed, "history": Passed,
	} {
		if r := of(t, got, rule); r.Status != status {
			t.Errorf("%s: %+v, want %s", rule, r, status)
		}
	}
	// The model that is asked to reproduce what happened is a model: it is not the recording itself.
	if m := h.Model; m.Seconds != h.CoveredSeconds || m.Recorded != h.Old.ReplicaHours || m.SameSeconds == m.Seconds || m.SameSeconds < 0.95*m.Seconds || m.MissPercent() > 1 {
		t.Errorf("%+v of %+v", m, h)
	}
	// A spec that is what it was decides what it did.
	same := run(t, careful, strings.Replace(old, "maxReplicas: 50", "maxReplicas: 51", 1), "rules: {different: off}", flight())
	if h := same.Specs[0].History; h.AsOld || h.Old.ReplicaHours != loop.Other.ReplicaHours {
		t.Errorf("the old spec is not the recording's: %+v", h.Old)
	}
}

// A day or a spec without recordings is told, and a rule decides whether that fails.
func TestWithoutHistoryLintAlone(t *testing.T) {
	t.Parallel()
	for rules, want := range map[string]Status{"": Warned, "rules: {history: error}": Failed, "rules: {history: off}": Unknown} {
		got := run(t, scaler("web", 5), scaler("web", 6), rules, nil)
		if got.Specs[0].Verdict != want || (want == Failed) != (got.Verdict == Failed) {
			t.Errorf("%q: %s, want %s", rules, outline(got), want)
		}
		if r := of(t, got, "history"); r.Status != want || !strings.Contains(r.Why, "not checked by history") {
			t.Errorf("%+v", r)
		}
		if len(got.Specs[0].Results) != 1 {
			t.Errorf("figures without a history: %+v", got.Specs[0].Results)
		}
	}
	// A recording that its own spec does not reproduce says nothing of another.
	wrong := first(t)
	wrong.Steps[0].Expect.DesiredReplicas += 3
	got := run(t, "", scaler("web", 9), "", recorded(t, renamed(wrong)))
	if r := of(t, got, "history"); r.Status != Warned || !strings.Contains(r.Why, "decides otherwise at 1 of") {
		t.Errorf("%+v", r)
	}
}

// first is a scenario of the real controllers.
func first(t *testing.T) *recording.Scenario {
	t.Helper()
	for s := range recordingtest.Scenarios(t, "../clients/kubernetes/recording/testdata/curated.jsonl.gz") {
		if len(s.Steps) > 1 && s.Steps[0].Expect != nil {
			return s
		}
	}
	t.Fatal("there is none")
	return nil
}

func renamed(s *recording.Scenario) *recording.Scenario {
	s.HPA.Namespace, s.HPA.Name = "shop", "web"
	return s
}

// Findings that were there before fail only if the team says so.
func TestLintFailsByWhatTheChangeBrings(t *testing.T) {
	t.Parallel()
	twice := strings.Replace(scaler("web", 5), "minReplicas: 2", "minReplicas: 5", 1) // min-equals-max
	for name, tt := range map[string]struct {
		old, now, rules string
		want            Status
		existing        int
	}{
		"new":               {scaler("web", 5), twice, "rules: {history: off}", Failed, 0},
		"old":               {twice, strings.Replace(twice, "60", "61", 1), "rules: {history: off}", Unknown, 1},
		"old, which counts": {twice, strings.Replace(twice, "60", "61", 1), "rules: {history: off}\nlint: {existing: true}", Failed, 0},
		"left out":          {scaler("web", 5), twice, "rules: {history: off}\nlint: {ignore: [min-equals-max]}", Unknown, 0},
		"only told":         {scaler("web", 5), twice, "rules: {history: off}\nlint: {failOn: error}", Warned, 0},
		"never":             {scaler("web", 5), twice, "rules: {history: off}\nlint: {failOn: never}", Warned, 0},
	} {
		got := run(t, tt.old, tt.now, tt.rules, nil)
		if got.Specs[0].Verdict != tt.want || got.Specs[0].Existing != tt.existing {
			t.Errorf("%s: %s, %d existing, %+v", name, outline(got), got.Specs[0].Existing, got.Specs[0].Findings)
		}
	}
}

// A spec that the API server would take and the service refuses is no spec.
// While a file has an autoscaler of both kinds, or of several clusters, with one name, each has what is its own.
func TestWhatIsWrongIsOfItsOwnSpec(t *testing.T) {
	t.Parallel()
	const stored = "spec: {minReplicas: 2, maxReplicas: %d, metrics: [{type: External, external: {metric: {name: q}, target: {type: AverageValue, averageValue: \"10\"}}}]}\n"
	for name, tt := range map[string]struct{ first, second, tight, wrong string }{
		"kinds":    {scaler("web", 5), own("web", 5), scaler("web", 2), strings.Replace(scaler("web", 5), "minReplicas: 2", "minReplicas: 0", 1)},
		"clusters": {ofCluster("a", stored, 5), ofCluster("b", stored, 5), ofCluster("a", stored, 2), strings.Replace(ofCluster("a", stored, 5), "minReplicas: 2", "minReplicas: 0", 1)},
	} {
		second := strings.Replace(tt.second, "maxReplicas: 5", "maxReplicas: 6", 1)
		for _, first := range []string{tt.tight, tt.wrong} {
			got := run(t, tt.first+"---\n"+tt.second, first+"---\n"+second, "rules: {history: off}", nil)
			if len(got.Specs) != 2 || got.Specs[0].Verdict != Failed || got.Specs[1].Verdict == Failed || got.Specs[0].Line >= got.Specs[1].Line || got.Specs[0].title() == got.Specs[1].title() {
				t.Errorf("%s: %s\nof\n%s---\n%s", name, outline(got), first, second)
			}
		}
	}
}

func TestARefusedSpecFails(t *testing.T) {
	t.Parallel()
	const fleet = "name: clusters/all/namespaces/shop/targets/web\nspec: {maxReplicas: 5, metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 30}}}]}\n" +
		"fleet: {maxMoves: 3, members: [{target: clusters/a/namespaces/shop/targets/web}, {target: clusters/b/namespaces/shop/targets/web}]}\n"
	annotated := func(text string) string {
		return strings.Replace(scaler("web", 5), "name: web", "name: web, annotations: {"+text+"}", 1)
	}
	for why, one := range map[string]struct{ old, now string }{
		"minReplicas":        {scaler("web", 5), strings.Replace(scaler("web", 5), "minReplicas: 2", "minReplicas: 0", 1)},
		"fleet.maxMoves":     {fleet, strings.Replace(fleet, "maxMoves: 3", "maxMoves: -1", 1)},
		"nope: there is no":  {scaler("web", 5), annotated(`setpoint.dev/stages: "nope: 1"`)},
		"setpoint.dev/fleet": {scaler("web", 5), annotated("setpoint.dev/fleet: nope")},
	} {
		// What lint says of another spec is told all the same.
		got := run(t, one.old, one.now+"---\n"+strings.ReplaceAll(annotated("setpoint.dev/lint-ignore: nope"), "web", "api"), "rules: {history: off}", nil)
		if r := of(t, got, refused); got.Verdict != Failed || r.Status != Failed || !strings.Contains(r.Why, why) {
			t.Errorf("%s: %s: %+v", why, outline(got), r)
		}
		if notes := strings.Join(got.Notes, "\n"); !strings.Contains(notes, "nope") || strings.Contains(notes, why) {
			t.Errorf("%s: the notes are %s", why, notes)
		}
		// A spec that was refused before can be mended.
		if got := run(t, one.now, one.old, "rules: {history: off}", nil); got.Verdict != Passed || of(t, got, refused) != (Result{}) || got.Specs[0].What == Same && why != "setpoint.dev/fleet" {
			t.Errorf("%s, mended: %s", why, outline(got))
		}
	}
	// A change of a fleet alone is a change.
	if got := run(t, fleet, strings.Replace(fleet, "maxMoves: 3", "maxMoves: 4", 1), "rules: {history: off}", nil); len(got.Specs) != 1 || got.Specs[0].What != Changed {
		t.Errorf("a fleet: %s", outline(got))
	}
}

// maxReplicas below what was used fails, unless it was so before.
func TestUsedReplicas(t *testing.T) {
	t.Parallel()
	at := func(most int32) *change {
		specs := side(t, "web.yaml", scaler("web", int(most))).specs
		return &change{new: &specs[0]}
	}
	h := &History{Recordings: 1, CoveredSeconds: 100}
	for i := range 100 {
		h.points = append(h.points, point{length: time.Second, recorded: int32(i/10 + 1)})
	}
	for _, tt := range []struct {
		old, now int32
		limit    float64
		want     Status
	}{{20, 10, 99, Passed}, {20, 9, 99, Failed}, {20, 9, 90, Passed}, {8, 9, 99, Warned}, {9, 8, 99, Failed}} {
		s := Defaults()
		s.limits["usedReplicas"] = Limit{tt.limit, Error}
		c := at(tt.now)
		c.old = at(tt.old).new
		c.what = Changed
		for _, r := range s.results(c, h) {
			if r.Rule == "used-replicas" && r.Status != tt.want {
				t.Errorf("%+v: %+v", tt, r)
			}
		}
	}
}

// What breaks a limit does not read as if it did not.
func TestFiguresShowTheirSideOfTheLimit(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		f, limit float64
		want     string
	}{
		{5, 5, "5.0 %"}, {12.34, 5, "12.3 %"}, {5.04, 5, "5.04 %"}, {4.96, 5, "4.96 %"}, {5.0004, 5, "5.0004 %"}, {0.03, 0, "0.03 %"}, {0, 0, "0.0 %"}, {5 + 1e-12, 5, "5.0 %"},
		{-9.96, -10, "-9.96 %"}, {math.Nextafter(0.1, 1), 0.1, "0.1 %"},
	} {
		if got := percent(tt.f, tt.limit); got != tt.want {
			t.Errorf("%g beside the limit %g: %s, want %s", tt.f, tt.limit, got, tt.want)
		}
	}
	h := &History{
		Recordings: 1, CoveredSeconds: 24*3600 - 0.5, Steps: 100_000, DifferentSteps: 1, bound: [2]bool{true, true}, LimitKnown: true,
		Old: Figures{ReplicaHours: 1000, AtMaximumSeconds: 30}, New: Figures{ReplicaHours: 1050.3, AtMaximumSeconds: 30, ShortSeconds: 866},
		Model: Model{Seconds: 1, Recorded: 1000, Modelled: 1000.1},
	}
	s := Defaults()
	for key, limit := range map[string]float64{"atMaximum": 0, "different": 0, "modelMiss": 0.00001, "history": 24} {
		s.limits[key] = Limit{limit, Error}
	}
	specs := side(t, "web.yaml", scaler("web", 50)).specs
	got := make(map[string]string)
	for _, r := range s.results(&change{old: &specs[0], new: &specs[0], what: Changed}, h) {
		got[r.Rule] = r.Title + ": " + r.New
	}
	for rule, want := range map[string]string{
		"replica-hours": "at most 5 % more replica hours than the old spec: 1050 (+5.03 %)", "at-maximum": "at most 0 % of the time at maxReplicas: 0.03 %",
		"short-of-capacity": "at most 1 % of the time short of capacity: 1.002 %", "different": "another count at no more than 0 % of the recorded evaluations: 1 of 100000 (0.001 %)",
		"model-miss": "the model misses the recorded replica hours by at most 0.00001 %: 0.01 %", "history": "at least 24 hours of recordings: 23.9999 h",
	} {
		if got[rule] != want {
			t.Errorf("%s: %q, want %q", rule, got[rule], want)
		}
	}
}

func TestMostInAnHour(t *testing.T) {
	t.Parallel()
	at := func(minutes ...int) (out []time.Time) {
		for _, m := range minutes {
			out = append(out, time.Unix(int64(m)*60, 0))
		}
		return out
	}
	for _, tt := range []struct {
		at   []time.Time
		want int
	}{{nil, 0}, {at(0), 1}, {at(0, 59, 60), 2}, {at(120, 0, 61, 119), 3}, {at(0, 60, 120), 1}} {
		if got := mostInAnHour(tt.at); got != tt.want {
			t.Errorf("%v: %d, want %d", tt.at, got, tt.want)
		}
	}
}

// Bars span the whole time, and a short peak is seen.
func TestPlot(t *testing.T) {
	t.Parallel()
	var points []point
	for i := range 1000 {
		p := point{at: time.Unix(int64(i), 0), length: time.Second, recorded: 2, old: 2, next: 1}
		if i == 500 {
			p.next = 8
		}
		points = append(points, p)
	}
	p := plotOf(points)
	if got, want := line(p.New, 8), strings.Repeat("▁", 30)+"█"+strings.Repeat("▁", 29); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := line(p.Old, 8); got != strings.Repeat("▂", columns) {
		t.Error(got)
	}
	if got := plotOf(points[:3]); len(got.New) != 3 {
		t.Errorf("%+v", got)
	}
	if got := line([]int32{0, 1, 1000}, 1000); got != " ▁█" {
		t.Errorf("%q", got)
	}
}

// A note that fails the check is among what is broken, as any other finding.
func TestWhatIsBrokenHasNotesThatFail(t *testing.T) {
	t.Parallel()
	for severity, want := range map[lint.Severity]int{lint.Note: 1, lint.Warning: 0} {
		s := &SpecReport{failOn: severity, Findings: []lint.Finding{{Rule: "a-note", Severity: lint.Note}}}
		if got := s.broken(); len(got) != want {
			t.Errorf("it fails on a %s: %q is broken", severity, got)
		}
	}
}

// Names and texts come from a stranger's pull request: they are shown, and do nothing.
func TestTheSummaryIsSafeAndBounded(t *testing.T) {
	t.Parallel()
	evil := "<script>|@team [x](https://evil.example) `a` ![i](y) \x1b[31m\nnext"
	r := &Report{Verdict: Failed, Range: evil, Files: []Result{{Rule: refused, Status: Failed, Title: "t", File: evil, Why: evil}}, Notes: []string{evil}}
	for i := range 400 {
		r.Specs = append(r.Specs, &SpecReport{Verdict: Failed, Object: fmt.Sprintf("shop/%s%d", evil, i), Kind: "Autoscaler", File: evil, What: Changed,
			Results: []Result{{Rule: "replica-hours", Status: Failed, Title: "t", Old: evil, New: evil, Why: strings.Repeat(evil, 100)}}})
	}
	var out, junit bytes.Buffer
	fatal.If(t, r.WriteMarkdown(&out))
	text := out.String()
	if len(text) > 64<<10 {
		t.Errorf("%d bytes", len(text))
	}
	outside := ""
	for i, part := range strings.Split(text, "`") { // between two of them is code
		if i%2 == 0 {
			outside += part
		}
	}
	for _, bad := range []string{"<script", "@team", "[x](", "![i]", "https://evil", "\x1b"} {
		if at := strings.Index(strings.ReplaceAll(outside, `\`+bad[:1], "-"), bad); at >= 0 {
			t.Errorf("%q is in it: %q", bad, outside[max(0, at-30):at+30])
		}
	}
	if !strings.Contains(text, "have no room here") || !strings.Contains(text, "and 200 more") {
		t.Error("nothing says what is left out")
	}
	fatal.If(t, r.WriteJUnit(&junit))
	decoder := xml.NewDecoder(&junit)
	for {
		if _, err := decoder.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// The same input gives the same bytes.
func TestReportsAreDeterministic(t *testing.T) {
	t.Parallel()
	var all [2]string
	for i := range all {
		got := run(t, scaler("web", 5)+"---\n"+scaler("api", 5), scaler("web", 6)+"---\n"+scaler("api", 7), "", recorded(t, first(t)))
		var out bytes.Buffer
		for _, write := range []func(io.Writer) error{got.WriteText, got.WriteMarkdown, got.WriteJUnit, got.WriteJSON, func(w io.Writer) error { return got.WriteSARIF(w, "v1") }} {
			fatal.If(t, write(&out))
		}
		all[i] = out.String()
	}
	if all[0] != all[1] {
		t.Errorf("%s\n%s", all[0], all[1])
	}
}

// A check that is interrupted ends at once.
func TestACheckCanBeInterrupted(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	stop()
	c := &Changes{Old: side(t, "web.yaml", testpages.Read(t, examples+"hpa.yaml")), New: side(t, "web.yaml", testpages.Read(t, examples+"careful.yaml"))}
	c.Old.specs, c.New.specs = nil, nil
	if _, err := Run(ctx, &Input{Settings: Defaults(), Changes: c, Recordings: flight()}); err == nil || ctx.Err() == nil {
		t.Errorf("%v", err)
	}
}

// What has no bound is refused with what to do.
func TestChecksAreBounded(t *testing.T) {
	t.Parallel()
	refuses := func(name string, err error, want string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	var many strings.Builder
	for i := range MaxChanges + 1 {
		many.WriteString("---\n" + scaler(fmt.Sprintf("web-%d", i), 5))
	}
	c := &Changes{Old: NewSide(asIs), New: NewSide(asIs)}
	fatal.If(t, c.New.Read("web.yaml", strings.NewReader(many.String())))
	_, err := Run(t.Context(), &Input{Settings: Defaults(), Changes: c})
	refuses("changes", err, "501 autoscalers change, more than 500")

	specs := side(t, "web.yaml", scaler("web", 5)).specs
	changes := []*change{{new: &specs[0], what: Added}}
	full := func(scenarios, steps int) *histories {
		return &histories{changes: changes, measured: make(map[*change]*History), others: make(map[string]bool), scenarios: scenarios, steps: steps}
	}
	for name, h := range map[string]*histories{"more than 20000 scenarios": full(MaxScenarios, 0), "more than 1000000 steps": full(0, MaxSteps-1)} {
		refuses(name, h.file(t.Context(), recorded(t, renamed(first(t)))[0], func(err error) { t.Error(err) }), name)
	}
	gone := full(0, 0)
	gone.changes = []*change{{old: &side(t, "web.yaml", scaler("web", 5)).specs[0], what: Removed}}
	if err := gone.file(t.Context(), flight()[0], func(err error) { t.Error(err) }); err != nil || len(gone.others) > 0 {
		t.Errorf("the recording of what is removed is of others, which do not change: %v, %v", gone.others, err)
	}
	if h := full(MaxScenarios-1, 0); h.file(t.Context(), recorded(t, renamed(first(t)))[0], func(err error) { t.Error(err) }) != nil {
		t.Error("the last scenario is refused")
	}
}

// The same time counts once, however many recordings have it, whichever part of them.
func TestTheSameTimeCountsOnce(t *testing.T) {
	t.Parallel()
	h := &History{}
	at := func(from, to int) (all []replay.Instant) {
		for i := from; i < to; i++ {
			all = append(all, replay.Instant{Time: time.Unix(int64(i)*60, 0), Length: time.Minute, Recorded: 4, Closed: 4, From: 4 - int32(i%2)})
		}
		return all
	}
	add := func(instants []replay.Instant) {
		b := &replay.Backtest{Instants: instants, ClosedLoop: &replay.ClosedLoop{}}
		h.add(b, b, b)
	}
	for range 3 {
		add(at(0, 60))
	}
	add(at(30, 90))
	add(at(120, 150))
	add(at(100, 130))
	h.finish()
	// 0 to 90 and 100 to 150; where one span meets the next its last instant counts once.
	if h.CoveredSeconds < 138*60 || h.CoveredSeconds > 140*60 || h.New.Changes > 70 || h.New.ReplicaHours > 4*140./60 || h.Model.Seconds != h.CoveredSeconds || h.Steps+h.AlreadySteps != 300 {
		t.Errorf("%+v", h)
	}
	// The order of files says nothing, and where a scenario ends the next one goes on.
	var orders []*History
	for _, order := range [][2]int{{0, 1}, {1, 0}} {
		all := []backtests{}
		for _, k := range order {
			// From 0 to 60, whose last step stands for no time, and from 30 to 90, between those of the first.
			instants := at(30*k, 30*k+60)
			for i := range instants {
				instants[i].Time = instants[i].Time.Add(time.Duration(20*k) * time.Second)
			}
			instants[59].Length = 0
			b := &replay.Backtest{Instants: instants, ClosedLoop: &replay.ClosedLoop{}}
			all = append(all, backtests{false, b, b, b})
		}
		h := &History{backtests: all}
		h.finish()
		orders = append(orders, h)
	}
	if a, b := orders[0], orders[1]; !reflect.DeepEqual(a, b) || a.CoveredSeconds != 89*60+20 || a.Model.Seconds != a.CoveredSeconds || a.Steps != 60+31 || a.AlreadySteps != 29 {
		t.Errorf("%+v\n%+v", a, b)
	}
	// A change at the first step is one, in the table and by the rule.
	h = &History{}
	add(at(1, 2))
	if h.finish(); h.New.Changes != 1 || h.New.MostInAnHour != 1 {
		t.Errorf("%+v", h.New)
	}
}

// What a recording without CPU limits hides is not known because another one has some: of a tenth of the time it may be unknown.
func TestALimitIsKnownOfTheTimeThatHasIt(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		limited, not int
		known        bool
	}{{0, 60, false}, {60, 0, true}, {54, 6, true}, {53, 7, false}, {1, 59, false}} {
		h := &History{}
		for i, n := range []int{c.limited, c.not} {
			b := &replay.Backtest{ClosedLoop: &replay.ClosedLoop{LimitKnown: i == 0}}
			for minute := range n {
				b.Instants = append(b.Instants, replay.Instant{Time: time.Unix(int64(i*3600+minute*60), 0), Length: time.Minute, Closed: 4, From: 4})
			}
			if n > 0 {
				h.backtests = append(h.backtests, backtests{false, b, b, b})
			}
		}
		if h.finish(); h.LimitKnown != c.known {
			t.Errorf("%d minutes with limits and %d without: known %t", c.limited, c.not, h.LimitKnown)
		}
	}
}

// A shadow's workload is scaled by another autoscaler: what was recorded of it is what there was, not what the shadow
// decided, and says nothing of the model.
func TestTheRecordingOfAShadow(t *testing.T) {
	t.Parallel()
	const target = "clusters/demo/namespaces/shop/targets/web.-shadow"
	metric := func(each int) string {
		return fmt.Sprintf(`metrics: [{type: External, external: {metric: {name: queue}, target: {type: AverageValue, averageValue: "%d"}}}]`, each)
	}
	scaling := func(each int) string {
		return "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {namespace: shop, name: web}\n" +
			"spec: {minReplicas: 1, maxReplicas: 20, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}, " + metric(each) + "}\n"
	}
	s := &recording.Scenario{Name: target + " from then", Source: "service"}
	for i := range 300 {
		request := fmt.Sprintf(`{"target": %q, "scale": {"specReplicas": 4, "statusReplicas": 4}, "spec": {"minReplicas": 1, "maxReplicas": 20,
			"metrics": [{"type": "External", "external": {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "10"}}}]}}`, target)
		s.Calls = append(s.Calls, recording.Call{
			Time: time.Unix(1767571200+15*int64(i), 0).UTC(), Request: json.RawMessage(request), Unreported: true,
			Sums: &recording.Sums{Pods: 4, Ready: 4, Metrics: []recording.MetricSums{{Series: 1, Sum: 90_000}}},
		})
	}
	got := run(t, scaling(15), scaling(30), "", recorded(t, s))
	h := got.Specs[0].History
	if h == nil || h.usable() != nil {
		t.Fatalf("%s: %+v", outline(got), h)
	}
	// The shadow wants 8, the old spec 6, and the new one 3 after five minutes.
	if h.Used != [4]int32{4, 4, 4, 4} || h.Old.Most != 6 || h.Old.Changes != 1 || h.New.Least != 3 || h.New.Most != 4 || h.New.Changes != 1 || h.AsOld || h.Unmade != 1 || h.Model.Seconds != 0 {
		t.Errorf("%+v", h)
	}
	if r := of(t, got, "model-miss"); r != (Result{}) {
		t.Errorf("the model is judged by a shadow: %+v", r)
	}
	if rests := strings.Join(h.rests(), "\n"); !strings.Contains(rests, "1 recording has counts that its own spec did not make") {
		t.Error(rests)
	}
}

func broken(name string, named, base bool) Recording {
	return Recording{Name: name, Named: named, Base: base, Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("{\n")), nil }}
}

// A recording that can't be read is told with the reason; one that the change removes does not help it.
func TestRecordingsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	got := run(t, scaler("web", 5), scaler("web", 6), "", []Recording{broken("x.jsonl", false, false)})
	if r := of(t, got, "history"); r.Status != Warned || !strings.Contains(r.Why, "that can be read: x.jsonl:1:") || !strings.Contains(strings.Join(got.Notes, ""), "x.jsonl:1:") {
		t.Errorf("%+v, %v", r, got.Notes)
	}
	got = run(t, scaler("web", 5), scaler("web", 6), "", []Recording{broken("x.jsonl", false, true)})
	if r := of(t, got, "history"); got.Verdict != Failed || !strings.Contains(r.Why, "removes or alters") {
		t.Errorf("%+v", r)
	}
	c := &Changes{Old: NewSide(asIs), New: NewSide(asIs)}
	if _, err := Run(t.Context(), &Input{Settings: Defaults(), Changes: c, Recordings: []Recording{broken("x.jsonl", true, false)}, Tell: func(error) {}}); err == nil || !strings.Contains(err.Error(), "x.jsonl can't be read") {
		t.Errorf("%v", err)
	}
}

// A recording belongs to the autoscaler whose name it has; a stored spec without one takes those of one target.
func TestRecordingsOfOthersAreNotUsed(t *testing.T) {
	t.Parallel()
	const stored = "spec: {maxReplicas: %d, metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 60}}}]}\n"
	other := func(name string) *recording.Scenario {
		s := renamed(first(t))
		s.HPA.Name = name
		return s
	}
	got := run(t, scaler("web", 5), scaler("web", 6), "", recorded(t, other("api")))
	if r := of(t, got, "history"); !strings.Contains(r.Why, "there is no recording of it") || got.Specs[0].History != nil {
		t.Errorf("%+v", r)
	}
	if got = run(t, scaler("web", 5), scaler("web", 6), "", recorded(t, other("web.-shadow"))); got.Specs[0].History == nil {
		t.Error("the recording of its shadow is not used")
	}
	var many []*recording.Scenario
	for i := range maxProblems + 11 {
		many = append(many, other(fmt.Sprintf("api-%02d", i)))
	}
	if got = run(t, scaler("web", 5), scaler("web", 6), "", recorded(t, many...)); !strings.HasSuffix(strings.Join(got.Notes, "\n"), " and 11 more") {
		t.Errorf("notes: %q", got.Notes)
	}
	if got = run(t, fmt.Sprintf(stored, 5), fmt.Sprintf(stored, 6), "", recorded(t, other("api"))); got.Specs[0].History == nil || got.Specs[0].History.Other != "shop/api" {
		t.Errorf("%+v", got.Specs[0])
	}
	got = run(t, fmt.Sprintf(stored, 5), fmt.Sprintf(stored, 6), "", recorded(t, other("api"), other("zzz")))
	if r := of(t, got, "history"); !strings.Contains(r.Why, "of several autoscalers") {
		t.Errorf("%+v", r)
	}
	// One that has a name has the recordings of that.
	const named = "name: clusters/demo/namespaces/shop/targets/api\n" + stored
	got = run(t, fmt.Sprintf(stored, 5), fmt.Sprintf(named, 6), "", recorded(t, other("zzz"), other("api"), other("web")))
	if h := got.Specs[0].History; h == nil || h.Recordings != 1 || h.Other != "" || got.Specs[0].Object != "shop/api" || h.usable() != nil {
		t.Errorf("%+v", got.Specs[0])
	}
	// A name has a cluster, too: a change of one is not judged by the load of another.
	in := func(cluster string) *recording.Scenario {
		s := other("api")
		s.Steps[0].Request = &setpointv1.RecommendRequest{Target: "clusters/" + cluster + "/namespaces/shop/targets/api"}
		return s
	}
	h := &histories{measured: make(map[*change]*History), others: make(map[string]bool)}
	for _, name := range []string{"clusters/demo/namespaces/shop/targets/api", "clusters/staging/namespaces/shop/targets/api", ""} {
		spec := &lint.Spec{Autoscaler: &hpa.Autoscaler{Object: in("demo").HPA, Stored: &setpointv1.TargetSpec{Name: name}}, Kind: "Autoscaler"}
		h.changes = append(h.changes, &change{what: Changed, new: spec})
	}
	for _, cluster := range []string{"demo", "staging", "third"} {
		h.added = cluster == "third"
		fatal.If(t, h.take(t.Context(), "", in(cluster)))
	}
	for i, cluster := range []string{"demo", "staging", "demo"} {
		if got := h.measured[h.changes[i]]; got.cluster != cluster || len(got.backtests)+got.UnusableCount != 1 || (got.mixed != nil) != (i == 2) {
			t.Errorf("%s: %+v", cluster, got)
		}
	}
	for _, r := range Defaults().results(h.changes[2], h.measured[h.changes[2]]) {
		if r.Rule == "history" && (r.Status != Failed || !strings.Contains(r.Why, "several clusters, demo and ")) {
			t.Errorf("what the range adds must not be a way around the rules: %+v", r)
		}
	}
	// Rules of a target are those of what it was taken to be.
	const rules = "rules: {history: off}\ntargets: [{match: shop/api, rules: {history: 1000}}]"
	got = run(t, fmt.Sprintf(stored, 5), fmt.Sprintf(stored, 6), rules, recorded(t, other("api")))
	if r := of(t, got, "history"); r.Status != Failed || !strings.Contains(r.Title, "1000") {
		t.Errorf("%+v", r)
	}
}

// What is not recorded takes its room in the plot, and is marked.
func TestPlotMarksGaps(t *testing.T) {
	t.Parallel()
	at := func(minute int, count int32) point {
		return point{time.Unix(0, 0).Add(time.Duration(minute) * time.Minute), time.Minute, count, count, count}
	}
	h := History{AsOld: true, Plot: plotOf([]point{at(0, 4), at(1, 0), at(8, 2), at(9, 8)})}
	if text := h.draw(); !strings.HasPrefix(text, "old      ▄··█ ") || !strings.Contains(text, "UTC (· not recorded)") {
		t.Errorf("%s", text)
	}
	h.Plot = plotOf([]point{at(0, 4), at(1, 0)})
	if text := h.draw(); !strings.HasPrefix(text, "old      █  ") || strings.Contains(text, "not recorded") {
		t.Errorf("%s", text)
	}
}
