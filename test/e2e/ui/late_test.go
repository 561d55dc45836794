//go:build linux

package ui

import (
	"encoding/base64"
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	cdppage "github.com/chromedp/cdproto/page"
)

// before has a script run before those of each page.
func (p *page) before(source string) {
	p.t.Helper()
	command(p, cdppage.AddScriptToEvaluateOnNewDocument, cdppage.AddScriptToEvaluateOnNewDocumentParams{Source: source})
}

// follow goes to a path of the page as its links do, without loading the page.
func (p *page) follow(path string) {
	p.t.Helper()
	eval[int](p, `(history.pushState(null, "", "`+path+`"), dispatchEvent(new Event("navigate")), 0)`)
}

// The window's title is what it shows.
func TestTitles(t *testing.T) {
	p := site(t).open(t, "/ui/")
	p.expects("status of 404") // nobody has asked for the target
	for _, at := range [][2]string{{"/ui/playground", "Playground"}, {webPage, "web-00"}, {"/ui/nowhere", "Nothing here"}, {"/ui/operations", "Operations"}, {"/ui/", "Targets"}} {
		p.follow(at[0])
		p.wait("the title of "+at[0], `document.title === "`+at[1]+` · Setpoint"`)
	}
}

// All times are by the service's clock: a reader's clock that is two hours ahead changes none.
func TestAReadersClock(t *testing.T) {
	s := site(t)
	recommend(t, s, request("web-00", "queue", 60))
	p := s.blank(t)
	p.before(`{ const real = Date.now; Date.now = () => real() + 2 * 3600e3; }`)
	for path, when := range map[string]string{webPage: ".target-head time", "/ui/": ".row time"} {
		p.goTo(path)
		p.wait("its call, just now: "+path, `/^(just now|\d+ s ago)$/.test(document.querySelector("`+when+`")?.innerText ?? "")`)
	}
	p.goTo("/ui/operations")
	p.wait("up since a moment", `/^(\d+ min )?\d+ s$/.test(document.querySelector(".operations tbody td:nth-of-type(3)")?.innerText ?? "")`)
}

// A chart has whole hours of the reader's clock, and so its days begin at midnight there.
func TestHoursOfTheReader(t *testing.T) {
	s := site(t)
	recommend(t, s, request("web-00", "queue", 60))
	p := s.blank(t)
	command(p, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "Asia/Kathmandu"}) // 5 h 45 min ahead
	p.before(drawnTexts)
	now := time.Now().Unix()
	p.goTo(fmt.Sprintf("%s?span=%d-%d", webPage, now-86400, now))
	p.wait("whole hours", `((hours) => hours.length > 4 && hours.every((l) => l.text.endsWith(":00")))((drawnTexts.get(document.querySelector(".chart canvas")) ?? []).filter((l) => /^\d\d:\d\d$/.test(l.text)))`)
}

// What was chosen on one target's page is chosen on no other's, and a decision that is chosen is marked at once.
func TestEachTargetHasItsOwnPage(t *testing.T) {
	s := site(t)
	for _, name := range []string{"web-00", "web-01"} {
		recommend(t, s, request(name, "queue", 60))
	}
	p := s.open(t, webPage)
	p.click(`.decisions [aria-pressed="false"]`)
	const pressed = `document.querySelector('.decisions [aria-pressed="true"]')?.innerText`
	p.wait("all decisions", pressed+` === "All"`)
	p.wait("a chart", `document.querySelector(".chart canvas") !== null`)
	if !eval[bool](p, `(async () => {
		const canvas = document.querySelector(".chart canvas"), before = canvas.toDataURL();
		document.querySelector("button.decision").click();
		await new Promise((resolve) => setTimeout(resolve, 500));
		return canvas.toDataURL() !== before;
	})()`) {
		t.Error("the chart does not mark the decision that was chosen")
	}
	p.follow("/ui/clusters/demo/namespaces/shop/targets/web-01")
	p.wait("the other target as it begins", `document.querySelector("h1")?.innerText === "web-01" && `+pressed+` === "Changes"`)
}

// A shadow's chart has the count of the workload, and says so.
func TestAShadowsChart(t *testing.T) {
	s := site(t)
	recommend(t, s, request("web-00.-shadow", "queue", 60))
	p := s.open(t, webPage+".-shadow")
	p.waitText("Replicas of the workload")
	p.waitText("A shadow changes nothing: this is the count that the workload had.")
	p.accessible()
}

// An answer that comes after the playground was left starts its engine for nobody.
func TestAPlaygroundThatWasLeft(t *testing.T) {
	s := site(t)
	p := s.blank(t)
	p.before(`{
		window.engines = 0;
		window.Worker = class extends Worker {
			constructor(...of) { super(...of); engines++; }
			terminate() { engines--; super.terminate(); }
		};
		const real = fetch;
		window.fetch = (to, init) => !String(to.url ?? to).includes("/recording?") ? real(to, init) : new Promise((resolve, reject) => {
			window.answer = () => init.signal?.aborted ? reject(init.signal.reason) : resolve(new Response('{"chunks":["AAAA"]}'));
		});
	}`)
	tried := `{"title":"web","recording":"clusters/demo/namespaces/shop/targets/web","spec":{"maxReplicas":9},"load":[[1000000000000,1],[1000000060000,2]]}`
	p.goTo("/ui/playground#try=" + base64.RawURLEncoding.EncodeToString([]byte(tried)))
	p.wait("asked for", `window.answer !== undefined`)
	p.follow("/ui/operations")
	p.waitText("Operations")
	p.waitText("instance serves")
	if n := eval[int](p, `(async () => { answer(); await new Promise((resolve) => setTimeout(resolve, 1000)); return engines; })()`); n != 0 {
		t.Errorf("%d engines run after the playground was left", n)
	}
}
