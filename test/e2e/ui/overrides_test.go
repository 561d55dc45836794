//go:build linux

package ui

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp/kb"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

// callers starts a service with a policy that knows these callers, and returns their tokens.
func callers(t *testing.T, policy string, names ...string) (*siteOf, map[string]string) {
	t.Helper()
	program, err := service.Program()
	fatal.If(t, err)
	folder := t.TempDir()
	tokens, entries := map[string]string{}, "tokens:\n"
	for _, identity := range names {
		var entry strings.Builder
		command := exec.CommandContext(t.Context(), program, "token", identity)
		command.Stderr = &entry
		token, err := command.Output()
		if err != nil {
			t.Fatal(err, entry.String())
		}
		tokens[identity] = strings.TrimSpace(string(token))
		entries += entry.String()
	}
	write := func(name, text string) string {
		path := filepath.Join(folder, name)
		fatal.If(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	return site(t, "--auth-tokens-file="+write("tokens.yaml", entries), "--policy-file="+write("policy.yaml", policy)), tokens
}

// as opens a page whose tab has a caller's token.
func (s *siteOf) as(t *testing.T, token, path string) *page {
	t.Helper()
	p := s.blank(t)
	p.expects("status of 401", "status of 403", "status of 400")
	p.goTo("/ui/playground")
	eval[int](p, `(sessionStorage.setItem("setpoint.token", "`+token+`"), 0)`)
	p.goTo(path)
	return p
}

// steady has recommendations made for web-00, which stays at 3 replicas with the load of 30 that it begins with.
func (s *siteOf) steady(t *testing.T, token string) (load *atomic.Int64) {
	load = new(atomic.Int64)
	load.Store(30)
	ctx, cancel := context.WithCancel(metadata.AppendToOutgoingContext(context.Background(), "authorization", "Bearer "+token))
	var fed sync.WaitGroup
	fed.Go(func() {
		for tick := time.NewTicker(500 * time.Millisecond); ctx.Err() == nil; {
			_, _ = s.Recommendations().Recommend(ctx, request("web-00", "queue", int(load.Load())))
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
	})
	t.Cleanup(func() { cancel(); fed.Wait() })
	return load
}

const (
	webPage  = "/ui/clusters/demo/namespaces/shop/targets/web-00"
	theForm  = `document.querySelector("dialog.override-form")`
	theCard  = `document.querySelector(".overrides-card")`
	onAnyone = `
  - {identities: ['token:ops', 'token:reader'], verbs: [read, recommend], clusters: ['*']}
  - {identities: ['token:ops'], verbs: [override], clusters: [demo], namespaces: [shop]}
`
)

// Somebody with the verb holds a target by the keyboard alone, reads beforehand what the answers then say, sees who
// holds it, and ends it. A reader sees the same, without buttons.
func TestOverridesFromThePage(t *testing.T) {
	s, tokens := callers(t, "grants:"+onAnyone, "ops", "reader")
	load := s.steady(t, tokens["ops"])
	p := s.as(t, tokens["ops"], webPage)
	p.wait("no overrides yet", theCard+`?.innerText.includes("None for this target")`)
	p.tabTo(".overrides-card button")
	p.press(kb.Enter)
	p.wait("the form", theForm+`?.open`)
	p.accessible()
	p.screenshot("override-form")

	// What the service refuses of a reason is told while it is typed, in its words.
	_, err := setpointv1.NewOverrideServiceClient(s.Conn()).CreateOverride(metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+tokens["ops"]),
		&setpointv1.CreateOverrideRequest{Parent: request("web-00", "", 0).GetTarget(), Override: &setpointv1.Override{Hold: true, Reason: "a\u202eb", ExpireTime: timestamppb.New(time.Now().Add(time.Hour))}})
	_, words, _ := strings.Cut(fmt.Sprint(err), "Invalid value: ")
	if !strings.HasSuffix(words, "U+202E") {
		t.Fatalf("the service refuses with %v", err)
	}
	p.tabTo(".override-form input[dir]")
	command(p, input.InsertText, input.InsertTextParams{Text: "a\u202eb"}) // as pasting does: no key has it
	p.wait("the service's words at the field", theForm+`.querySelector("#"+CSS.escape(document.activeElement.getAttribute("aria-describedby")))?.innerText.includes(`+quote(words)+`)`)
	p.press(kb.Backspace, kb.Backspace, kb.Backspace)

	// What is missing is told, and focused.
	p.tabTo(".override-form [type=submit]")
	p.press(kb.Enter)
	p.wait("what is missing", `document.activeElement.getAttribute("aria-invalid") === "true" && `+theForm+`.innerText.includes("Say why")`)
	p.press("database migration", kb.Enter)
	p.wait("what will happen", theForm+`.querySelector(".o-sentence") !== null`)
	sure := eval[string](p, theForm+`.querySelector(".o-sentence").innerText`)
	if !strings.HasPrefix(sure, "held at 3 by token:ops until ") || !strings.HasSuffix(sure, `Z: "database migration"`) {
		t.Errorf("it says %q", sure)
	}
	p.accessible()
	p.screenshot("override-sure")
	p.tabTo(".override-form .primary")
	p.press(kb.Enter)
	p.wait("it in the list", theCard+`.querySelectorAll(".override").length === 1`)
	p.wait("focus where it was", `document.activeElement.matches(".overrides-card button")`)
	// The answers say what was said before.
	load.Store(60)
	p.wait("the service's words", `document.querySelector(".adjustments")?.innerText.includes(`+quote(sure)+`)`)
	p.waitText("1 override in force")
	// The first line of the story is the override's, with what the metrics ask for; the chart's gap has its colour.
	p.wait("what holds it, first", `document.querySelector(".story h2 + .adjustments")?.innerText.includes("the recommendation would be 6")`)
	if text := p.text(); strings.Contains(text, "the metrics ask for no change") {
		t.Errorf("beside the override it says that the metrics ask for no change:\n%s", text)
	}
	p.wait("the legend's word", `[...document.querySelectorAll(".legend span")].some(e => e.innerText === "override")`)
	p.screenshot("override-held")
	p.accessible()

	reader := s.as(t, tokens["reader"], webPage)
	reader.wait("the override", theCard+`?.querySelectorAll(".override").length === 1`)
	reader.waitText("database migration")
	reader.waitText("needs the verb «override»")
	if n := eval[int](reader, theCard+`.querySelectorAll("button").length`); n != 0 {
		t.Errorf("a reader has %d buttons", n)
	}
	reader.goTo("/ui/?overrides=")
	reader.wait("it in the list", `document.querySelectorAll(".listed-overrides .override").length === 1`)
	if n := eval[int](reader, `document.querySelectorAll(".listed-overrides button").length`); n != 0 {
		t.Errorf("a reader has %d buttons in the list", n)
	}

	p.tabTo(".override button")
	p.press(kb.Enter)
	p.wait("the question", `document.activeElement.matches(".o-asks .danger")`)
	p.accessible()
	// Decisions come while somebody chooses: the focus stays where it was put.
	p.press(kb.Tab)
	time.Sleep(2 * time.Second)
	if on := eval[string](p, `document.activeElement.innerText`); on != "Keep it" {
		t.Fatalf("the focus has gone from Keep it to %q", on)
	}
	p.press(kb.Enter)
	p.wait("no question, and the focus where it was", `document.querySelector(".o-asks") === null && document.activeElement.matches(".override button")`)
	p.tabTo(".override button")
	p.press(kb.Enter)
	p.wait("the question again", `document.activeElement.matches(".o-asks .danger")`)
	p.press(kb.Enter)
	p.wait("it ended", theCard+`.querySelectorAll(".override").length === 0`)
	p.waitText("None for this target")
}

// A refusal has the service's words: the right went while the form was open. Ends are told on the reader's clock and in UTC.
func TestRefusedOverride(t *testing.T) {
	s, tokens := callers(t, "grants:"+onAnyone, "ops", "reader")
	s.feed(t, 1, tokens["ops"])
	p := s.as(t, tokens["ops"], webPage)
	command(p, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "Asia/Kathmandu"})
	p.goTo(webPage)
	p.wait("the card", theCard+`?.querySelector("button") !== null`)
	p.click(".overrides-card button")
	p.wait("the form", theForm+`?.open`)
	// 08:00 in Kathmandu is 02:15 UTC, all the year.
	eval[int](p, `([...`+theForm+`.querySelectorAll("button")].find(b => b.textContent === "Tomorrow 08:00").click(), 0)`)
	p.wait("both clocks", `/Ends .*08:00:00 \(Asia\/Kat[h]?mandu\), \d{4}-\d\d-\d\d 02:15:00 UTC/.test(`+theForm+`.innerText)`)
	p.fill(`.override-form input[dir]`, "a test")
	p.click(".override-form [type=submit]")
	p.wait("what will happen", theForm+`.querySelector(".o-sentence") !== null`)
	eval[int](p, `(sessionStorage.setItem("setpoint.token", "`+tokens["reader"]+`"), 0)`)
	p.click(".override-form .primary")
	p.wait("the refusal", theForm+`.querySelector("[role=alert]")?.innerText.includes("override")`)
	if text := eval[string](p, theForm+`.querySelector("[role=alert]").innerText`); !strings.Contains(text, "It was not made.") || !strings.Contains(text, "token:reader") {
		t.Errorf("it says %q", text)
	}
	p.accessible()
}

// Texts of strangers are shown as they are, in their places, and change nothing around them; the list has what acts
// on the targets that are listed.
func TestOverridesOfStrangers(t *testing.T) {
	s := site(t)
	s.feed(t, 3, "")
	in := func(d time.Duration) *timestamppb.Timestamp { return timestamppb.New(time.Now().Add(d)) }
	const evil = "<img src=x onerror=alert(1)> " + "é̀́̂̃̄̅"
	for parent, o := range map[string]*setpointv1.Override{
		"clusters/demo":                                   {Ceiling: proto.Int32(40), Reason: evil, ExpireTime: in(time.Hour)},
		"clusters/demo/namespaces/shop":                   {NoScaleDown: true, Reason: strings.Repeat("م", 128) + strings.Repeat("W", 128), ExpireTime: in(2 * time.Hour)},
		"clusters/demo/namespaces/shop/targets/web-01":    {Pin: proto.Int32(5), Reason: "load test", StartTime: in(24 * time.Hour), ExpireTime: in(25 * time.Hour)},
		"clusters/demo/namespaces/other/targets/web-01":   {Hold: true, Reason: "elsewhere", ExpireTime: in(time.Hour)},
		"clusters/other":                                  {Hold: true, Reason: "another cluster", ExpireTime: in(time.Hour)},
		"clusters/demo/namespaces/shop/targets/not-there": {Floor: proto.Int32(2), Reason: "nobody asks", ExpireTime: in(time.Hour)},
	} {
		if _, err := setpointv1.NewOverrideServiceClient(s.Conn()).CreateOverride(t.Context(), &setpointv1.CreateOverrideRequest{Parent: parent, Override: o}); err != nil {
			t.Fatal(err)
		}
	}
	p := s.open(t, "/ui/")
	p.waitText("Overrides 6")
	p.tabTo(`[aria-expanded="false"][title^="Who holds"]`)
	p.press(kb.Enter)
	p.wait("all", `document.querySelectorAll(".listed-overrides .override").length === 6`)
	p.waitText("5 overrides in force, 1 planned")
	p.accessible()
	p.screenshot("override-targets")
	p.size(390, 844)
	if wide := eval[int](p, `Math.max(...[...document.querySelectorAll(".override *")].map(e => Math.ceil(e.getBoundingClientRect().right)))`); wide > 390 {
		t.Errorf("an override reaches to %d of 390 pixels", wide)
	}
	p.size(1280, 800)
	text := eval[string](p, `[...document.querySelectorAll(".override")].map(e => e.textContent).join("\n")`)
	if !strings.Contains(text, "<img src=x onerror=alert(1)>") {
		t.Errorf("the reason is not shown as it is:\n%s", text)
	}
	for query, want := range map[string]int{"web-01": 4, "shop": 4, "not-there": 1, "other": 2} {
		p.goTo("/ui/?q=" + query + "&overrides=")
		p.wait(fmt.Sprintf("%d for %s", want, query), fmt.Sprintf(`document.querySelectorAll(".listed-overrides .override").length === %d`, want))
	}
	p.goTo("/ui/clusters/demo/namespaces/shop/targets/web-01")
	p.wait("the three of a target", theCard+`?.querySelectorAll(".override").length === 3`)
	p.accessible()
	p.screenshot("override-target")
}

// Of many overrides those that end first are shown, and more with each click: each of thousands would be drawn again with
// each tick of the clock.
func TestManyOverrides(t *testing.T) {
	s := site(t)
	s.feed(t, 1, "")
	for i := range 130 {
		o := &setpointv1.Override{Hold: true, Reason: fmt.Sprintf("number %d", i), ExpireTime: timestamppb.New(time.Now().Add(time.Hour + time.Duration(130-i)*time.Minute))}
		parent := fmt.Sprintf("clusters/demo/namespaces/shop/targets/t%d", i)
		if _, err := setpointv1.NewOverrideServiceClient(s.Conn()).CreateOverride(t.Context(), &setpointv1.CreateOverrideRequest{Parent: parent, Override: o}); err != nil {
			t.Fatal(err)
		}
	}
	p := s.open(t, "/ui/?overrides=")
	p.waitText("130 overrides in force")
	const shown = `document.querySelectorAll(".listed-overrides .override").length`
	if n, first := eval[int](p, shown), eval[string](p, `document.querySelector(".listed-overrides .o-why").innerText`); n != 100 || first != "number 129" {
		t.Errorf("%d are shown, first %s", n, first)
	}
	p.click(".listed-overrides > .button")
	p.wait("all", shown+` === 130 && !document.querySelector(".listed-overrides > .button")`)
}

// The bounds by schedules are drawn ahead, and told.
func TestSchedulesAhead(t *testing.T) {
	s := site(t, "--allow-evaluation-time")
	now := time.Now()
	begin := now.Add(20 * time.Minute).Truncate(time.Minute)
	for i := range 60 {
		r := request("web-00", "queue", 30)
		r.EvaluationTime = timestamppb.New(now.Add(time.Duration(i-59) * 15 * time.Second))
		r.Stages = &setpointv1.Stages{Schedules: []*setpointv1.Schedule{{
			Name: "sale", TimeZone: "UTC", At: timestamppb.New(begin), Duration: durationpb.New(30 * time.Minute), MinReplicas: proto.Int32(9),
			RampUp: durationpb.New(10 * time.Minute), RampDown: durationpb.New(5 * time.Minute),
		}}}
		recommend(t, s, r)
	}
	p := s.blank(t)
	p.size(1280, 900)
	p.goTo(webPage)
	p.wait("the schedule's instants", `document.querySelectorAll(".scheduled li").length === 4`)
	for _, want := range []string{`schedule "sale" begins to rise: at least 1, at most 12`, `schedule "sale" starts: at least 9, at most 12`, `schedule "sale" ends: at least 9, at most 12`, `schedule "sale" has fallen: at least 1, at most 12`} {
		p.waitText(want)
	}
	p.wait("the chart's words", `document.querySelector(".chart").getAttribute("aria-label").includes('schedule "sale" starts: at least 9')`)
	p.tabTo(`.segments button[title^="Up to the second"]`)
	p.press(kb.Enter)
	p.wait("the span", `location.search === "?span=ahead"`)
	p.wait("a chart", `document.querySelector(".chart canvas") !== null`)
	// The step line of the minimum is there: its colour, right of now, above the ground.
	p.accessible()
	p.screenshot("schedules-ahead")
}

func quote(s string) string { return fmt.Sprintf("%q", s) }
