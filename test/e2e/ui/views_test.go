//go:build linux

package ui

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// firstRow is the name in the first row of the list.
const firstRow = `document.querySelector("#row-0 a")?.innerText`

// From the list to a target and back by keyboard only; the URL keeps the search.
func TestTheListByKeyboard(t *testing.T) {
	s := site(t)
	s.feed(t, 30, "")
	p := s.blank(t)
	p.goTo("/ui/?sort=name")
	p.waitText("30 targets")
	p.press("/")
	p.wait("in the search field", `document.activeElement.type === "search"`)
	p.run(chromedp.SendKeys(chromedp.CSS("input[type=search]"), "web-2"))
	// The key's own character arrives, too: the protocol sends it separately, whichever handler
	// took the key.
	p.waitText("10 of 30")
	p.press(kb.ArrowDown)
	p.wait("in the list", `document.activeElement.role === "grid"`)
	p.press(kb.ArrowDown, kb.ArrowDown, kb.End, kb.Home, kb.ArrowDown)
	p.wait("at the second row", `document.querySelector(".row.active a").innerText === "web-21"`)
	p.press(kb.Enter)
	p.wait("at the target", `location.pathname === "/ui/clusters/demo/namespaces/shop/targets/web-21"`)
	p.waitText("When it could next change")
	eval[int](p, "history.back(), 0")
	p.waitText("10 of 30")
	p.wait("back with the search", `location.search.includes("web-2") && document.querySelector("input[type=search]").value.endsWith("web-2")`)
	p.wait("at the row that was left", `document.querySelector(".row.active a").innerText === "web-21"`)
	p.tabTo("input[type=search]")
	p.press(kb.Escape)
	p.waitText("30 targets")
	p.wait("at the top of another list", `document.querySelector(".grid").scrollTop === 0 && document.querySelector(".row.active a").innerText === "web-00"`)
	eval[int](p, `document.querySelector(".grid").scrollTop = 480`)
	p.wait("further down, and drawn", `document.querySelector("#row-20")`)
	p.click("#row-12 a") // which is in view: a click scrolls to what is not
	p.waitText("When it could next change")
	eval[int](p, "history.back(), 0")
	p.wait("as far down as before", `document.querySelector(".grid")?.scrollTop === 480`)
}

// A menu closes with Escape, and with a click elsewhere.
func TestMenusClose(t *testing.T) {
	s := site(t)
	s.feed(t, 1, "")
	p := s.open(t, "/ui/")
	p.waitText("1 target")
	const menu = `document.querySelector(".about")`
	p.tabTo(".about summary")
	p.press(kb.Enter)
	p.wait("open", menu+`.open`)
	p.press(kb.Escape)
	p.wait("closed, with the focus where it was", `!`+menu+`.open && document.activeElement.matches(".about summary")`)
	p.press(kb.Enter)
	p.wait("open again", menu+`.open`)
	p.click(".found")
	p.wait("closed by a click elsewhere", `!`+menu+`.open`)
}

// States filter, columns sort, and a shared URL shows the same.
func TestTheListIsFilteredAndSorted(t *testing.T) {
	s := site(t)
	for i := range 6 {
		request := request(fmt.Sprintf("busy-%d", i), "queue", 20+20*i)
		request.Scale.SpecReplicas = 10
		if i == 2 {
			request.ExternalMetrics = nil
			request.MetricErrors = []*setpointv1.MetricError{{Metric: "queue", Message: "the queue is away"}}
		}
		recommend(t, s, request)
	}
	p := s.blank(t)
	p.size(1280, 900) // wide enough for every column
	p.goTo("/ui/?state=failing")
	p.waitText("1 of 6")
	p.waitText("the queue is away")
	p.wait("pressed", `document.querySelector(".tile.is-failing").getAttribute("aria-pressed") === "true"`)
	p.click(".tile:first-child")
	p.waitText("6 targets")
	p.wait("no filter in the URL", `location.search === ""`)
	p.click(".c-replicas button")
	p.wait("the most replicas first", firstRow+` === "busy-5" && location.search === "?sort=-replicas"`)
	p.click(".c-replicas button")
	p.wait("the least replicas first", `location.search === "?sort=replicas" && `+firstRow+` !== "busy-5"`)
	p.goTo("/ui/?q=nothing+like+it")
	p.waitText("No target matches")
	p.accessible()
	p.click(".no-match button")
	p.waitText("6 targets")
}

// Before any request: the page explains how to send one, and its command works.
func TestAnEmptyListTeaches(t *testing.T) {
	s := site(t)
	p := s.open(t, "/ui/")
	p.waitText("No targets yet")
	p.accessible()
	p.screenshot("empty")
	command := eval[string](p, `document.querySelector(".copyable pre").innerText`)
	if output, err := exec.Command("sh", "-c", command+" --fail-with-body -sS").CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", command, err, output)
	} else if !strings.Contains(string(output), `"desiredReplicas":5`) {
		t.Errorf("the command is answered with %s", output)
	}
	p.goTo("/ui/")
	p.waitText("1 target")
}

// A target's page: its state, the reasons, its spec, and when that could change.
func TestATargetTellsItsStory(t *testing.T) {
	s := site(t, "--allow-evaluation-time")
	ask := request("web", "queue", 95)
	if _, err := s.Targets().SetTargetSpec(t.Context(), &setpointv1.SetTargetSpecRequest{
		Name: ask.GetTarget(), TargetSpec: &setpointv1.TargetSpec{Spec: ask.GetSpec()},
	}); err != nil {
		t.Fatal(err)
	}
	// 3 → 6 by the older rules' limit, → 10; then fewer are wanted, and the window holds 10.
	replicas := int32(3)
	for _, load := range []string{"95", "95", "40", "40"} {
		ask.Scale.SpecReplicas = replicas
		ask.ExternalMetrics[0].Value = load
		replicas = recommend(t, s, ask).GetDesiredReplicas()
	}
	p := s.open(t, "/ui/"+ask.GetTarget())
	p.waitText("stays at 10 replicas")
	p.waitText("recent recommendations were higher than current one")
	p.waitText("replicas, 1 to 12 allowed")
	p.waitText("asks for 4 replicas")
	if n := eval[int](p, `document.querySelectorAll("[aria-live] time, [role=status] time").length`); n != 0 {
		t.Errorf("a screen reader says %d times anew as time passes", n)
	}
	if asked := eval[bool](p, `performance.getEntriesByType("resource").some((e) => e.name.includes("/recording") || e.name.includes("playground-worker"))`); asked {
		t.Error("the page asks for a recording, though the log has all bounds")
	}
	p.accessible()
	p.screenshot("target")
	// Who looks for what was at 03:10 knows that time, not how long ago it is.
	p.wait("when it was", `/^\d\d:\d\d:\d\d · (just now|\d+ \w+ ago)$/.test(document.querySelector(".decision .d-time").innerText)`)
	p.tabTo("button.decision")
	p.press(kb.ArrowDown, kb.Enter)
	p.waitText("The decision you chose")
	p.wait("names of conditions in one line", `[...document.querySelectorAll(".conditions th")].every((e) => { const range = document.createRange(); range.selectNodeContents(e.firstChild); return range.getClientRects().length === 1; })`)
	p.waitText("3 → 6 replicas (scale up)")
	p.waitText("external metric queue(nil) above target")
	p.wait("a link to the decision", `new URLSearchParams(location.search).get("decision")`)
	chosen := eval[string](p, `location.pathname + location.search`)
	p.goTo(chosen)
	p.waitText("3 → 6 replicas (scale up)")
	p.accessible()
	tried := eval[string](p, `(() => {
		const text = document.querySelector('.actions a').hash.replace(/^#[^=]*=/, "");
		return new TextDecoder().decode(Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), c => c.charCodeAt(0)));
	})()`)
	var opened struct {
		Spec struct{ MaxReplicas int }
		Load [][2]float64
	}
	if err := json.Unmarshal([]byte(tried), &opened); err != nil || opened.Spec.MaxReplicas != 12 || len(opened.Load) != 4 || opened.Load[3][1] != 40 {
		t.Errorf("the playground is opened with %s: %v", tried, err)
	}
}

// A target whose spec comes with each request has bounds, windows and proposals as well.
func TestATargetWithoutAStoredSpec(t *testing.T) {
	s := site(t, "--allow-evaluation-time")
	ask := request("web", "queue", 60)
	for _, load := range []string{"60", "40"} {
		ask.ExternalMetrics[0].Value = load
		ask.Scale.SpecReplicas = recommend(t, s, ask).GetDesiredReplicas()
	}
	p := s.open(t, "/ui/"+ask.GetTarget())
	p.waitText("replicas, 1 to 12 allowed")
	p.waitText("asks for 4 replicas")
	p.waitText("Spec in use")
}

// Names of targets and metrics, and messages, are shown and never run.
func TestNothingRunsThatSomebodyWrote(t *testing.T) {
	s := site(t)
	const attack = `<img src=x onerror="console.error('ran')"><script>console.error('ran')</script>`
	ask := request("web", `queue"><svg onload=console.error('ran')>`, 50)
	ask.Spec.ScaleTargetRef = &setpointv1.CrossVersionObjectReference{Kind: "<b>Kind", Name: "javascript:console.error('ran')", ApiVersion: "apps/v1"}
	ask.RequestId = attack
	recommend(t, s, ask)
	ask.RequestId += "2"
	ask.ExternalMetrics = nil
	ask.MetricErrors = []*setpointv1.MetricError{{Metric: ask.Spec.Metrics[0].External.Metric.Name, Message: attack}}
	recommend(t, s, ask)
	if _, err := s.Targets().SetTargetSpec(t.Context(), &setpointv1.SetTargetSpecRequest{
		Name: ask.GetTarget(), TargetSpec: &setpointv1.TargetSpec{Spec: ask.GetSpec()},
	}); err != nil {
		t.Fatal(err)
	}
	p := s.blank(t)
	p.size(1280, 900)
	p.goTo("/ui/?q=%3Cimg%20src%3Dx%3E")
	p.waitText("<img src=x>")
	p.goTo("/ui/")
	p.waitText("onerror=")
	p.goTo("/ui/" + ask.GetTarget())
	p.waitText("<b>Kind")
	p.waitText(attack)
	p.waitText("<svg onload")
	if n := eval[int](p, `document.querySelectorAll("main img, main script, main b, main svg, main a[href^=javascript]").length`); n != 0 {
		t.Errorf("%d elements were made of what somebody wrote", n)
	}
}

// Names and messages of maximum length push nothing out of the page, wide or narrow.
func TestGiantNames(t *testing.T) {
	s := site(t)
	name := strings.Repeat("n", 253)
	ask := request(name, strings.Repeat("m", 253), 50)
	ask.Target = fmt.Sprintf("clusters/%[1]s/namespaces/%[1]s/targets/%[1]s", name)
	ask.ExternalMetrics = nil
	ask.MetricErrors = []*setpointv1.MetricError{{Metric: ask.Spec.Metrics[0].External.Metric.Name, Message: strings.Repeat("e", 8000)}}
	recommend(t, s, ask)
	p := s.blank(t)
	for _, path := range []string{"/ui/", "/ui/" + ask.GetTarget()} {
		for _, width := range []int64{1280, 390} {
			p.size(width, 844)
			p.goTo(path)
			p.waitText("Failing")
			if got := eval[[]int](p, `[document.documentElement.scrollWidth, innerWidth, document.querySelector("main").scrollWidth, document.querySelector("main").clientWidth]`); got[0] > got[1] || got[2] > got[3] {
				t.Errorf("%.20s… at %d: the page is %d of %d wide, its content %d of %d", path, width, got[0], got[1], got[2], got[3])
			}
		}
	}
}

// A user signs in, with credentials of the service only, and sees what the policy allows.
func TestSigningInWithAToken(t *testing.T) {
	s, tokens := callers(t, "grants:\n  - {identities: ['token:reader'], verbs: [read, recommend], clusters: ['*'], namespaces: ['*']}\n", "reader", "stranger")
	s.feed(t, 3, tokens["reader"])
	p := s.blank(t)
	p.expects("status of 401", "status of 403")
	p.goTo("/ui/?sort=-replicas")
	p.waitText("Sign in to Setpoint")
	p.accessible()
	p.screenshot("signin")
	p.fill("#token", "sp_not-a-token")
	p.press(kb.Enter)
	p.waitText("does not know this token")
	p.fill("#token", tokens["reader"])
	p.press(kb.Enter)
	p.waitText("3 targets")
	p.wait("at the same place", `location.search === "?sort=-replicas"`)
	p.waitText("token:reader")
	for _, width := range []int64{320, 375, 480, 1280} { // the bar has room for who is signed in
		p.size(width, 800)
		if got := eval[int64](p, `Math.max(document.documentElement.scrollWidth, Math.ceil(document.querySelector(".who").getBoundingClientRect().right))`); got > width {
			t.Errorf("at %d the page is %d wide", width, got)
		}
	}
	p.goTo("/ui/operations")
	p.waitText("callers with the right operate")
	// The session ends while the page is open, and goes on where it was.
	eval[int](p, `(sessionStorage.setItem("setpoint.token", "sp_expired"), 0)`)
	p.waitText("Your session has ended")
	p.accessible()
	p.fill("#token", tokens["reader"])
	p.press(kb.Enter)
	p.waitText("callers with the right operate")
	if cookie := eval[string](p, "document.cookie + JSON.stringify(localStorage)"); strings.Contains(cookie, tokens["reader"]) {
		t.Error("the token outlives the tab")
	}
	p.tabTo(".who summary")
	p.press(kb.Enter)
	p.tabTo(".who button")
	p.press(kb.Enter)
	p.waitText("Sign in to Setpoint")
	if text := p.text(); strings.Contains(text, "web-0") || strings.Contains(text, "has ended") {
		t.Errorf("after signing out stands %s", text)
	}
	// Who may read nothing is told so once, and nothing asks again and again.
	p.goTo("/ui/")
	p.fill("#token", tokens["stranger"])
	p.press(kb.Enter)
	p.waitText("does not let you read this")
	const asked = `performance.getEntriesByType("resource").filter(r => new URL(r.name).pathname.startsWith("/v1/clusters/")).length`
	before := eval[int](p, asked)
	p.wait("longer than it waits elsewhere", `performance.now() - (window.began ??= performance.now()) > 7000`)
	if after := eval[int](p, asked); after != before || eval[int](p, `document.querySelectorAll(".problem").length`) != 1 {
		t.Errorf("%d requests about targets, and %d after a while; the page shows\n%s", before, after, p.text())
	}
}

// The service itself: instances, store, callers.
func TestOperations(t *testing.T) {
	s := site(t)
	s.feed(t, 5, "")
	p := s.open(t, "/ui/operations")
	p.waitText("instance serves")
	p.waitText("Serving")
	p.waitText("memory of this process")
	p.wait("five targets counted", `[...document.querySelectorAll(".facts div")].some(e => e.innerText.replace(/\s+/g, " ") === "Targets 5")`)
	p.accessible()
	p.screenshot("operations")
}

// paced has ten thousand targets' decisions made as agents have them made: each target's every 15 s.
func (s *siteOf) paced(t *testing.T, targets, batch int) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var fed sync.WaitGroup
	fed.Go(func() {
		tick := time.NewTicker(15 * time.Second * time.Duration(batch) / time.Duration(targets))
		defer tick.Stop()
		for round := 0; ; round++ {
			requests := make([]*setpointv1.RecommendRequest, batch)
			for i := range requests {
				requests[i] = request(fmt.Sprintf("web-%05d", (round*batch+i)%targets), "queue", 10+(round*31+i)%90)
			}
			_, _ = s.Recommendations().BatchRecommend(ctx, &setpointv1.BatchRecommendRequest{Requests: requests})
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	})
	stop = func() { cancel(); fed.Wait() }
	t.Cleanup(stop)
	return stop
}

// busy is how long the page's main thread has worked so far, and on what, in processor time: other
// programs of the machine don't add to it.
type busy struct{ All, Script, Layout, Style time.Duration }

func (b busy) since(a busy) busy {
	return busy{b.All - a.All, b.Script - a.Script, b.Layout - a.Layout, b.Style - a.Style}
}

func (p *page) busy() (b busy) {
	p.t.Helper()
	to := map[string]*time.Duration{"TaskDuration": &b.All, "ScriptDuration": &b.Script, "LayoutDuration": &b.Layout, "RecalcStyleDuration": &b.Style}
	for _, m := range command(p, performance.GetMetrics, cdp.Empty{}).Metrics {
		if to[m.Name] != nil {
			*to[m.Name] = time.Duration(m.Value * float64(time.Second)).Round(time.Millisecond)
		}
	}
	return b
}

// counted is one of the numbers that the browser counts of a page.
func (p *page) counted(name string) int {
	p.t.Helper()
	for _, m := range command(p, performance.GetMetrics, cdp.Empty{}).Metrics {
		if m.Name == name {
			return int(m.Value)
		}
	}
	p.t.Fatalf("the browser does not count %s", name)
	return 0
}

// mostMade is how many elements a frame of scrolling may make: four rows come into view, of some 25 each.
const mostMade = 2

// light compares what comes over the wire with the promise, and tells when there was something to see.
func (p *page) light() {
	p.t.Helper()
	type loaded struct{ Wire, Paint float64 }
	got := eval[loaded](p, `(() => {
		const files = performance.getEntriesByType("resource").filter(r => new URL(r.name).pathname.startsWith("/ui/"));
		return {
			Wire: files.reduce((sum, r) => sum + r.transferSize, performance.getEntriesByType("navigation")[0].transferSize),
			Paint: performance.getEntriesByName("first-contentful-paint")[0].startTime,
		};
	})()`)
	p.t.Logf("%.1f KiB over the wire before the page can be used; the first paint after %.0f ms", got.Wire/1024, got.Paint)
	if got.Wire <= 0 || got.Wire > 200<<10 {
		p.t.Errorf("%.0f bytes over the wire before the page can be used, at most 200 KiB", got.Wire)
	}
}

// Ten thousand targets that are decided about every 15 s, while somebody scrolls: all are listed, only
// those that are seen are in the page, what comes over the wire before it can be used stays within its
// budget, and decisions add little to what the page does for a frame of scrolling. How long frames take
// is told, not judged: that is the machine's as much as the page's.
func TestTenThousandTargets(t *testing.T) {
	s := site(t)
	const targets, batch = 10_000, 500
	for first := 0; first < targets; first += batch {
		requests := make([]*setpointv1.RecommendRequest, batch)
		for i := range requests {
			requests[i] = request(fmt.Sprintf("web-%05d", first+i), "queue", 10+(first+i)%90)
		}
		if _, err := s.Recommendations().BatchRecommend(t.Context(), &setpointv1.BatchRecommendRequest{Requests: requests}); err != nil {
			t.Fatal(err)
		}
	}
	p := s.open(t, "/ui/")
	p.wait("all listed", `document.querySelector("[role=grid]")?.getAttribute("aria-rowcount") === "10001"`)
	p.waitText("Live")
	command(p, performance.Enable, performance.EnableParams{TimeDomain: performance.EnableTimeDomainThreadTicks})
	type measured struct {
		Rows, Frames, Over50 int
		Median, P99, Longest float64
		LongTasks            int
	}
	frames := func(step int) measured {
		return eval[measured](p, fmt.Sprintf(`(async () => {
		const grid = document.querySelector("[role=grid]"), frames = [];
		let longTasks = 0;
		const observer = new PerformanceObserver(l => longTasks += l.getEntries().length);
		observer.observe({entryTypes: ["longtask"]});
		let rows = 0, last = performance.now();
		for (let i = 0; i < 300; i++) {
			grid.scrollTop += %d;
			await new Promise(requestAnimationFrame);
			const now = performance.now();
			frames.push(now - last);
			last = now;
			rows = Math.max(rows, document.querySelectorAll(".row").length);
		}
		observer.disconnect();
		frames.sort((a, b) => a - b);
		return {Rows: rows, Frames: frames.length, Over50: frames.filter(f => f > 50).length, Median: frames[150], P99: frames[296], Longest: frames[299], LongTasks: longTasks};
	})()`, step))
	}
	// Rows that come into view take the elements of those that go.
	eval[int](p, `(() => {
		window.made = 0;
		for (const make of ["createElement", "createElementNS"]) {
			const real = document[make];
			document[make] = function (...what) { window.made++; return real.apply(this, what); };
		}
		return 0;
	})()`)
	work := func() (measured, time.Duration) {
		before, made := p.busy(), eval[int](p, "window.made")
		got := frames(180)
		if made = eval[int](p, "window.made") - made; made > mostMade*got.Frames {
			t.Errorf("%d elements were made in %d frames of scrolling, at most %d a frame", made, got.Frames, mostMade)
		}
		t.Logf("%d elements were made", made)
		all := p.busy().since(before)
		each := (all.All / time.Duration(got.Frames)).Round(10 * time.Microsecond)
		t.Logf("%+v; the page worked for %s a frame, %+v in all", got, each, all)
		return got, each
	}
	// The page is drawn when something has changed, four times a second at most, and not for each frame.
	drawn := func(when string, most int) {
		const seconds = 3
		before := p.counted("RecalcStyleCount")
		eval[bool](p, fmt.Sprintf(`new Promise(done => setTimeout(() => done(true), %d000))`, seconds))
		n := p.counted("RecalcStyleCount") - before
		if t.Logf("%s it was drawn %d times in %d s", when, n, seconds); n > most*seconds {
			t.Errorf("%s it was drawn %d times in %d s, at most %d a second", when, n, seconds, most)
		}
	}
	time.Sleep(time.Second) // what came with the list
	drawn("while nothing is decided", 5)
	_, scrolling := work()
	if scrolling == 0 {
		t.Fatal("the browser does not tell how long the page has worked")
	}
	stop := s.paced(t, targets, batch)
	got, both := work()
	drawn("while targets are decided about", 15)
	stop()
	if got.Rows == 0 || got.Rows > 100 {
		t.Errorf("%d rows are in the page, which shows some 15", got.Rows)
	}
	if both > 4*scrolling {
		t.Errorf("the page works for %s a frame while targets are decided about, and for %s while they are not", both, scrolling)
	}
	p.light()
	p.fill("input[type=search]", "web-09999")
	p.waitText("1 of 10\u2009000")
}

func recommend(t *testing.T, s *siteOf, request *setpointv1.RecommendRequest) *setpointv1.RecommendResponse {
	t.Helper()
	response, err := s.Recommendations().Recommend(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	return response
}

// drawnTexts keeps what charts write since they were cleared, by canvas: text, left and right edge, and the height of its middle.
const drawnTexts = `window.drawnTexts = new Map();
	for (const [name, draw] of [["clearRect"], ["fillText", (g, text, x, y) => {
		const width = g.measureText(text).width;
		const left = g.textAlign === "right" || g.textAlign === "end" ? x - width : g.textAlign === "center" ? x - width / 2 : x;
		window.drawnTexts.get(g.canvas)?.push({text, left, right: left + width, y: y + 6 * ({top: 1, bottom: -1}[g.textBaseline] ?? 0)});
	}]]) {
		const real = CanvasRenderingContext2D.prototype[name];
		CanvasRenderingContext2D.prototype[name] = function (...args) {
			draw ? draw(this, ...args) : window.drawnTexts.set(this.canvas, []);
			return real.apply(this, args);
		};
	}`

// Labels of a chart can be read, wide and narrow: none overlaps another one, none is outside, and the axis has numbers however
// large the counts and what is asked for are.
func TestLabelsOfChartsCanBeRead(t *testing.T) {
	s := site(t, "--allow-evaluation-time")
	now := time.Now()
	play := func(name string, replicas int32, change func(i int, r *setpointv1.RecommendRequest)) {
		for i := range 120 {
			r := request(name, "queue", 0)
			r.EvaluationTime, r.Scale.SpecReplicas = timestamppb.New(now.Add(time.Duration(i-119)*15*time.Second)), replicas
			change(i, r)
			replicas = recommend(t, s, r).GetDesiredReplicas()
		}
	}
	play("many", 40_000, func(i int, r *setpointv1.RecommendRequest) {
		r.Spec.MaxReplicas, r.ExternalMetrics[0].Value = 2_000_000, fmt.Sprint(400_000+9_000_000*(i/60))
	})
	play("crowded", 3, func(i int, r *setpointv1.RecommendRequest) {
		r.Spec.MinReplicas, r.Spec.MaxReplicas, r.ExternalMetrics[0].Value = proto.Int32(int32(1+i/12%4)), int32(8+i/10%3), fmt.Sprint(40+60*(i/9%2))
	})
	p := s.blank(t)
	command(p, cdppage.AddScriptToEvaluateOnNewDocument, cdppage.AddScriptToEvaluateOnNewDocumentParams{Source: drawnTexts})
	for name, numbers := range map[string]string{"many": "200k", "crowded": "2"} {
		for _, width := range []int64{1280, 390} {
			p.size(width, 900)
			p.goTo("/ui/clusters/demo/namespaces/shop/targets/" + name)
			const texts = `(window.drawnTexts.get(document.querySelector(".chart canvas")) ?? [])`
			p.wait("bounds and numbers", texts+`.some(l => l.text.startsWith("minimum")) && `+texts+`.some(l => l.text === "`+numbers+`")`)
			type label struct {
				Text           string
				Left, Right, Y float64
			}
			labels := eval[[]label](p, texts)
			for i, a := range labels {
				if a.Left < 0 || a.Right > float64(width) {
					t.Errorf("%s at %d pixels: %q is cut off", name, width, a.Text)
				}
				for _, b := range labels[:i] {
					if a.Left < b.Right && b.Left < a.Right && math.Abs(a.Y-b.Y) < 11 {
						t.Errorf("%s at %d pixels: %q and %q overlap", name, width, a.Text, b.Text)
					}
				}
			}
		}
	}
}

// The first reading of a metric is a point: no line leads to it.
func TestOneReadingIsAPoint(t *testing.T) {
	s := site(t)
	recommend(t, s, request("web-00", "queue", 30))
	p := s.blank(t)
	p.scheme("light")
	p.goTo(webPage)
	p.wait("a point in the colour of the metric", `(c => c && [...new Uint32Array(c.getContext("2d").getImageData(0, 0, c.width, c.height).data.buffer)].includes(0xff005ed5))(document.querySelectorAll(".chart canvas")[1])`)
}

// Where the pointer is, charts tell the decision that a click would choose: when it was, its count, and what was read.
func TestChartsTellWhatThePointerIsAt(t *testing.T) {
	s := site(t, "--allow-evaluation-time")
	now := time.Now()
	replicas := int32(3)
	for i := range 60 {
		r := request("web-00", "queue", 30)
		if i >= 30 {
			r.ExternalMetrics[0].Value = "90123m"
		}
		r.Scale.SpecReplicas, r.EvaluationTime = replicas, timestamppb.New(now.Add(time.Duration(i-60)*30*time.Second))
		replicas = recommend(t, s, r).GetDesiredReplicas()
	}
	p := s.blank(t)
	p.size(1280, 1000)
	p.goTo(webPage)
	p.wait("the charts", `document.querySelectorAll(".chart .u-over").length === 2 && document.querySelectorAll("button.decision").length > 0`)
	type box struct{ X, Y, Width float64 }
	at := eval[box](p, `(() => { const r = document.querySelector(".chart .u-over").getBoundingClientRect(); return {X: r.left, Y: r.top + r.height / 2, Width: r.width}; })()`)
	said := make(map[string]bool)
	for i := range 100 {
		command(p, input.DispatchMouseEvent, input.DispatchMouseEventParams{Type: input.DispatchMouseEventTypeMouseMoved, X: at.X + at.Width*float64(i)/100, Y: at.Y})
		for _, text := range eval[[]string](p, `[...document.querySelectorAll(".chart-told")].map(e => e.innerText)`) {
			said[text] = true
		}
		if dots := eval[int](p, `[...document.querySelectorAll(".u-cursor-pt")].filter(e => e.getBoundingClientRect().right > e.parentElement.getBoundingClientRect().left).length`); dots > 1 {
			t.Fatalf("%d dots for one reading at the pointer", dots)
		}
	}
	first, change := now.Add(-30*time.Minute).Format(time.TimeOnly), now.Add(-15*time.Minute).Format(time.TimeOnly)
	for _, want := range []string{
		first + ": 3 replicas, metrics ask for 3", first + ": 10 per replica",
		change + ": 3 → 6 replicas, metrics ask for 10", change + ": 30.041 per replica",
	} {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(said)), func(text string) bool { return strings.HasSuffix(text, want) }) {
			t.Errorf("nowhere it says %q, but %q", want, slices.Sorted(maps.Keys(said)))
		}
	}
	command(p, input.DispatchMouseEvent, input.DispatchMouseEventParams{Type: input.DispatchMouseEventTypeMouseMoved, X: 5, Y: 5})
	p.wait("nothing once the pointer is elsewhere", `[...document.querySelectorAll(".chart-told")].every(e => e.innerText === "")`)
}

// The chart's bounds are those that were in force. The log of this service has no repeats, and so only the recording
// says since when the second ones were.
func TestBoundsThatWereInForce(t *testing.T) {
	s := site(t, "--allow-evaluation-time", "--decision-log-repeats=0")
	now := time.Now()
	const all, edited = 60, 20
	at := func(i int) time.Time { return now.Add(time.Duration(i-all) * 15 * time.Second) }
	for i := range all {
		load := 30
		if i == 0 || i == all-1 {
			load = 50 // a change, which the log has, with the decisions next to it
		}
		r := request("web-00", "queue", load)
		r.EvaluationTime = timestamppb.New(at(i))
		if i >= edited {
			r.Spec.MinReplicas, r.Spec.MaxReplicas = proto.Int32(2), 20
		}
		recommend(t, s, r)
	}
	p := s.blank(t)
	p.goTo(webPage)
	p.wait("the bounds and their instant", fmt.Sprintf(`/Bounds: 1 to 12; from [^;]* %s 2 to 20[.]/.test(document.querySelector(".chart")?.getAttribute("aria-label"))`, at(edited).Format(time.TimeOnly)))
	p.accessible()
	p.screenshot("bounds-in-force")
}

// Whoever drags in a chart looks closer, at an address that shows others the same; a double click leads back. The counts of the day
// before are shown where they are kept.
func TestAPartOfTheTimeIsShown(t *testing.T) {
	s := site(t, "--allow-evaluation-time")
	now := time.Now()
	const quarters = 30 * 4
	replicas := int32(3)
	for i := range quarters {
		r := request("web-00", "queue", []int{30, 90}[i/8%2])
		r.Scale.SpecReplicas, r.EvaluationTime = replicas, timestamppb.New(now.Add(time.Duration(i-quarters)*15*time.Minute))
		replicas = recommend(t, s, r).GetDesiredReplicas()
	}
	p := s.blank(t)
	p.size(1280, 1000)
	p.goTo(webPage + "?span=all")
	const (
		shown  = `Number(/, (\d+) changes? shown/.exec(document.querySelector(".chart")?.getAttribute("aria-label"))?.[1])`
		span   = `new URLSearchParams(location.search).get("span") ?? ""`
		legend = `document.querySelector(".legend").innerText`
		button = `(text => [...document.querySelectorAll("[aria-label='Time shown'] button")].find(b => b.innerText.includes(text)))`
	)
	p.wait("all changes", shown+` > 10`)
	all := eval[int](p, shown)
	type box struct{ X, Y, Width float64 }
	at := eval[box](p, `(() => { document.querySelector(".chart").scrollIntoView({block: "center"}); const r = document.querySelector(".chart .u-over").getBoundingClientRect(); return {X: r.left, Y: r.top + r.height / 2, Width: r.width}; })()`)
	mouse := func(kind input.DispatchMouseEventType, share float64, clicks int64) {
		command(p, input.DispatchMouseEvent, input.DispatchMouseEventParams{Type: kind, X: at.X + share*at.Width, Y: at.Y, Button: "left", Buttons: 1, ClickCount: clicks})
	}
	mouse(input.DispatchMouseEventTypeMouseMoved, 0.25, 0)
	mouse(input.DispatchMouseEventTypeMousePressed, 0.25, 1)
	for _, share := range []float64{0.3, 0.4, 0.5} {
		mouse(input.DispatchMouseEventTypeMouseMoved, share, 0)
	}
	mouse(input.DispatchMouseEventTypeMouseReleased, 0.5, 1)
	p.wait("what was dragged", `/^\d+-\d+$/.test(`+span+`)`)
	var from, to int64
	if _, err := fmt.Sscanf(eval[string](p, span), "%d-%d", &from, &to); err != nil {
		t.Fatal(err)
	}
	// 30 hours, and 6 % of them ahead.
	length := 30 * time.Hour.Seconds() * 1.06
	if got := float64(to - from); math.Abs(got-length/4) > length/50 {
		t.Errorf("a quarter of %.0f s are %.0f s", length, got)
	}
	if chosen := eval[bool](p, `location.search.includes("decision=")`); chosen {
		t.Error("what was dragged counts as a click")
	}
	log, err := s.Targets().ListDecisions(t.Context(), &setpointv1.ListDecisionsRequest{Parent: "clusters/demo/namespaces/shop/targets/web-00", PageSize: 1000})
	if err != nil {
		t.Fatal(err)
	}
	want := 0
	for _, d := range log.GetDecisions() {
		if at := d.GetTime().AsTime().Unix(); d.GetDesiredReplicas() != d.GetCurrentReplicas() && at >= from && at <= to {
			want++
		}
	}
	if want == 0 || want >= all {
		t.Fatalf("%d of %d changes are in what was dragged", want, all)
	}
	p.wait("these changes", fmt.Sprintf(`%s === %d`, shown, want))
	p.screenshot("part-of-the-time")

	other := s.open(t, eval[string](p, `location.pathname + location.search`))
	other.wait("the same changes", fmt.Sprintf(`%s === %d`, shown, want))
	other.accessible()
	eval[bool](other, button+`("Day before").click(), true`)
	other.wait("that the day before is not kept", legend+`.includes("no count of the day before is kept")`)
	eval[bool](other, button+`("✕").click(), true`)
	other.wait("the day before, in the last hour", legend+`.includes("count a day before") && location.search === "?compare=day"`)
	other.screenshot("the-day-before")

	for _, kind := range []input.DispatchMouseEventType{input.DispatchMouseEventTypeMousePressed, input.DispatchMouseEventTypeMouseReleased} {
		mouse(kind, 0.5, 1)
	}
	for _, kind := range []input.DispatchMouseEventType{input.DispatchMouseEventTypeMousePressed, input.DispatchMouseEventTypeMouseReleased} {
		mouse(kind, 0.5, 2)
	}
	p.wait("back by a double click", span+` === ""`)
}
