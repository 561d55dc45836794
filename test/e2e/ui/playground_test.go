//go:build linux

package ui

import (
	"encoding/base64"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp/kb"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/testpages"
)

// hasRun waits until a simulation is over, and shows its figures.
func (p *page) hasRun() {
	p.t.Helper()
	p.wait("a run", `/evaluations/.test(document.querySelector(".pg-status")?.textContent ?? "") && document.querySelector(".pg-figures") !== null`)
}

// activate clicks the element of a selector, wherever it is scrolled to.
func (p *page) activate(selector string) {
	p.t.Helper()
	p.wait(selector, `document.querySelector(`+strconv.Quote(selector)+`) !== null`)
	eval[int](p, `(document.querySelector(`+strconv.Quote(selector)+`).click(), 0)`)
}

// spec replaces the text of the spec's editor, as pasting over all of it does.
func (p *page) spec(text string) {
	p.t.Helper()
	eval[int](p, `(document.querySelector(".pg-editor").shadowRoot.querySelector(".cm-content").focus(), 0)`)
	for _, kind := range []input.DispatchKeyEventType{input.DispatchKeyEventTypeKeyDown, input.DispatchKeyEventTypeKeyUp} {
		command(p, input.DispatchKeyEvent, input.DispatchKeyEventParams{Type: kind, Key: "a", Code: "KeyA", WindowsVirtualKeyCode: 65, Modifiers: 2})
	}
	eval[bool](p, `(() => {
		const clipboardData = new DataTransfer();
		clipboardData.setData("text/plain", `+strconv.Quote(text)+`);
		return document.querySelector(".pg-editor").shadowRoot.querySelector(".cm-content").dispatchEvent(new ClipboardEvent("paste", {clipboardData, bubbles: true, cancelable: true}));
	})()`)
}

// clickChart clicks the chart of a card, so far from its left edge.
func (p *page) clickChart(card string, share float64) {
	p.t.Helper()
	type place struct{ X, Y float64 }
	at := eval[place](p, `(() => { const over = document.querySelector('[aria-label^="`+card+`"] .u-over'); over.scrollIntoView({block: "center"}); const r = over.getBoundingClientRect(); return {X: r.left + r.width * `+strconv.FormatFloat(share, 'g', -1, 64)+`, Y: r.top + r.height / 2}; })()`)
	for _, kind := range []input.DispatchMouseEventType{input.DispatchMouseEventTypeMouseMoved, input.DispatchMouseEventTypeMousePressed, input.DispatchMouseEventTypeMouseReleased} {
		command(p, input.DispatchMouseEvent, input.DispatchMouseEventParams{Type: kind, X: at.X, Y: at.Y, Button: "left", ClickCount: 1})
	}
}

// agreesOnTheTime checks that the legend, the heading and the text of an explained click tell one time.
func (p *page) agreesOnTheTime() {
	p.t.Helper()
	const clock = `/\d\d:\d\d:\d\d/.exec(`
	p.wait("the story of the click", `document.querySelector(".pg-story h3") !== null`)
	times := eval[[]string](p, `[`+clock+`document.querySelector('[aria-label="Replicas over time"] .u-legend').textContent)[0], `+clock+`document.querySelector(".pg-story h3").textContent)[0], `+clock+`document.querySelector(".pg-story pre").textContent)[0]]`)
	if times[0] != times[1] || times[1] != times[2] {
		p.t.Errorf("legend, heading and text of one click: %q", times)
	}
}

// The engine that TestMain compiled is as large as its page tells.
// Not what lies in web/engine, where a release that another test builds meanwhile puts its own.
func TestTheEngineIsAsLargeAsItsPageTells(t *testing.T) {
	t.Parallel()
	const root = "../../../"
	for text, file := range map[string]string{"The result is # MB:": "bin/engine/engine.wasm", "(# MB in builds that are no release": "bin/engine/compressed-/engine.wasm.br"} {
		info, err := os.Stat(root + file)
		fatal.If(t, err)
		testpages.Figure(t, root+"docs/decisions/the-engine-in-the-browser.md", text, float64(info.Size())/1e6, 0.05)
	}
}

// The playground, by users' actions in it.
func TestPlaygroundOfTheService(t *testing.T) {
	p := site(t).open(t, "/ui/playground")
	p.size(1280, 800)
	p.hasRun()
	if took := eval[string](p, `document.querySelector(".pg-status").textContent`); !strings.Contains(took, "5\u2009760 evaluations × 2") {
		t.Errorf("a day of two specs: %q", took)
	} else {
		t.Log(took)
	}
	p.wait("marks of what is better", `document.querySelectorAll(".pg-best").length > 2`)
	p.accessible()
	p.screenshot("playground")

	// A step is explained: by its entry in the list, and by a click on the picture.
	p.activate(`.pg-changes summary`)
	p.activate(`.pg-change`)
	p.wait("the story of a step", `/Conditions/.test(document.querySelector(".pg-story pre")?.textContent ?? "")`)
	p.accessible()
	p.screenshot("playground-story")
	before := eval[string](p, `document.querySelector(".pg-story pre").textContent`)
	p.activate(`.pg-story [aria-label="The next step"]`)
	p.wait("the next step", `document.querySelector(".pg-story pre").textContent !== `+strconv.Quote(before))
	p.activate(`.pg-story [aria-label="Close"]`)
	p.clickChart("Replicas", 0.41)
	p.agreesOnTheTime()
	p.activate(`.pg-story [aria-label="The next change"]`)
	p.wait("a change", `/→/.test(document.querySelector(".pg-story pre").textContent.split("\n")[0])`)
	p.activate(`.pg-story .pg-tabs button`) // the other spec at the same step
	p.wait("the other spec", `/, Spec B$/.test(document.querySelector(".pg-story h3").textContent)`)

	// Both specs are in one chart, with their difference as text, and as much beside them as wanted.
	if charts := eval[int](p, `document.querySelectorAll('[aria-label="Replicas over time"] .uplot').length`); charts != 1 {
		t.Errorf("%d charts of replicas", charts)
	}
	if height := eval[float64](p, `document.querySelector('[aria-label="Replicas over time"] .u-over').clientHeight`); height < 280 {
		t.Errorf("the plot is %g px high", height)
	}
	p.wait("the lines that differ", `/A and B differ in 8 lines/.test(document.querySelector(".pg-diff summary")?.textContent ?? "")`)

	// Mistakes are shown beside their line, in the API's words; the last run stays.
	p.spec("apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: web}\nspec: {maxReplicas: 0}\n")
	p.wait("the API's rule", `/spec.maxReplicas.*Required value/.test(document.querySelector(".pg-problems")?.textContent ?? "")`)
	p.wait("that the results are older", `document.querySelector(".pg-former .pg-notice") !== null`)
	p.accessible()
	p.wait("a mark in the editor", `document.querySelector(".pg-editor").shadowRoot.querySelector(".cm-lint-marker-error") !== null`)
	p.spec("apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: web}\nspec: {maxReplicas: 5}\n")
	p.wait("a run with at most 5", `/to 5,/.test(document.querySelector(".pg-figures").textContent)`)

	// A link has all of it: another tab shows the same.
	p.activate(`.pg-actions .primary`)
	p.wait("a link", `location.hash.startsWith("#p")`)
	link := eval[string](p, `location.pathname + location.hash`)
	other := (&siteOf{origin: p.origin}).open(t, link)
	other.size(1280, 800)
	other.hasRun()
	other.wait("what the link has", `/to 5,/.test(document.querySelector(".pg-figures").textContent)`)
	bad := (&siteOf{origin: p.origin}).open(t, strings.SplitN(link, "#", 2)[0]+"#p1=AAAA")
	bad.wait("what is wrong with a link", `/can't be read/.test(document.querySelector(".pg-notice")?.textContent ?? "")`)

	// A link whose spec is wrong has no results, and waits for none; its recorded load says how much of the time it covers.
	const tried = `{"title": "web", "spec": {"maxReplicas": 0}, "load": [[1778160600000, 1], [1778164200000, 2]]}`
	wrong := (&siteOf{origin: p.origin}).open(t, "/ui/playground#try="+base64.RawURLEncoding.EncodeToString([]byte(tried)))
	wrong.wait("that there are no results", `/no results/.test(document.querySelector(".pg-results .pg-notice")?.textContent ?? "") && document.querySelector(".pg-results .loading") === null`)
	wrong.activate(`section[aria-label="Specs"] > .pg-tabs > .button`) // of two that are alike
	wrong.spec("apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: web}\nspec: {maxReplicas: 5}\n")
	wrong.wait("how much is covered", `/covers 8\.3 % of the time/.test(document.querySelector(".pg-results")?.textContent ?? "")`)
	wrong.activate(`[aria-label="Replicas over time"] > .pg-tabs > button`)
	wrong.wait("the story of the first step", `/Conditions/.test(document.querySelector(".pg-story pre")?.textContent ?? "")`)

	// Load drawn by hand, with the keyboard only.
	p.activate(`[aria-label="Remove part 2"]`)
	eval[bool](p, `(() => { const s = document.querySelector('[aria-label="Shape of part 1"]'); s.value = "drawn"; return s.dispatchEvent(new Event("change", {bubbles: true})); })()`)
	p.wait("points", `document.querySelectorAll(".pg-point").length === 6`)
	eval[int](p, `(document.querySelectorAll(".pg-point")[2].focus(), 0)`)
	was := eval[float64](p, `Number(document.querySelectorAll(".pg-point")[2].getAttribute("aria-valuenow"))`)
	p.press(kb.ArrowUp, kb.ArrowUp)
	p.wait("a point that was moved", `Number(document.querySelectorAll(".pg-point")[2].getAttribute("aria-valuenow")) > `+strconv.FormatFloat(was, 'g', -1, 64))
	p.press(kb.Enter)
	p.wait("a point more", `document.querySelectorAll(".pg-point").length === 7`)
	p.hasRun()
	p.accessible()
	p.screenshot("playground-drawn")

	// A fleet runs by each of its rules.
	eval[bool](p, `(() => { const s = document.querySelector(".pg-preset select"); s.value = [...s.options].find((o) => /fleet/.test(o.text)).value; return s.dispatchEvent(new Event("change", {bubbles: true})); })()`)
	p.wait("its rules", `[...document.querySelectorAll(".pg-figures thead th")].map((h) => h.textContent).join() === "Figure,hold,shift,surviveOne"`)
	p.wait("its members", `/replicas of west/.test(document.querySelector(".pg-figures").textContent)`)
	p.accessible()
	p.screenshot("playground-fleet")
}
