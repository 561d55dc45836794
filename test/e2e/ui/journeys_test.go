//go:build linux

package ui

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server/signin/signintest"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

// downloads makes the page keep downloads, by name, in window.saved.
const downloads = `(() => {
	window.saved = {};
	const blobs = {}, make = URL.createObjectURL;
	URL.createObjectURL = b => { const url = make(b); blobs[url] = b; return url; };
	HTMLAnchorElement.prototype.click = function () { if (this.download) blobs[this.href].text().then(t => window.saved[this.download] = t); };
	return 0;
})()`

// upload gives a file to an input, as choosing one does.
func (p *page) upload(selector, name, content string) {
	p.t.Helper()
	p.wait(selector, `document.querySelector(`+strconv.Quote(selector)+`) !== null`)
	eval[bool](p, `(() => {
		const to = document.querySelector(`+strconv.Quote(selector)+`), files = new DataTransfer();
		files.items.add(new File([`+strconv.Quote(content)+`], `+strconv.Quote(name)+`));
		to.files = files.files;
		return to.dispatchEvent(new Event("change", {bubbles: true}));
	})()`)
}

// choose chooses a value of a select.
func (p *page) choose(label, value string) {
	p.t.Helper()
	selector := `[aria-label=` + strconv.Quote(label) + `]`
	p.wait(label, `document.querySelector(`+strconv.Quote(selector)+`) !== null`)
	eval[bool](p, `(() => { const s = document.querySelector(`+strconv.Quote(selector)+`); s.value = `+strconv.Quote(value)+`; return s.dispatchEvent(new Event("change", {bubbles: true})); })()`)
}

// saved waits for a file that the page gives to be saved.
func (p *page) saved(name string) string {
	p.t.Helper()
	p.wait("saved "+name, `window.saved[`+strconv.Quote(name)+`] !== undefined`)
	return eval[string](p, `window.saved[`+strconv.Quote(name)+`]`)
}

// A target's spec and recorded load are tried with another spec.
func TestTryingAnotherSpec(t *testing.T) {
	s := believable(t)
	p := s.blank(t)
	p.size(1280, 900)
	p.goTo("/ui/clusters/eu-west/namespaces/shop/targets/checkout")
	p.waitText("When it could next change")
	p.wait("decisions", `document.querySelectorAll("button.decision").length > 3`)
	p.click(".actions a")
	p.wait("in the playground", `location.pathname === "/ui/playground"`)
	p.hasRun()
	p.wait("both specs", `document.querySelectorAll('[role=tab]').length === 2`)
	text := eval[string](p, `document.querySelector(".pg-editor").shadowRoot.querySelector(".cm-content").innerText`)
	for _, want := range []string{"maxReplicas: 18", "http_requests_per_second", `averageValue`} {
		if !strings.Contains(text, want) {
			t.Errorf("the spec lacks %q:\n%s", want, text)
		}
	}
	// The load is what the service recorded, whose bounds are told.
	p.wait("the recording", `/Load and count of \d+ recorded decisions, of [\d.]+ hours. It was within \d+ and \d+ replicas/.test(document.body.innerText)`)
	p.wait("its interval", `[...document.querySelectorAll(".pg-field")].find(l => l.innerText.startsWith("Evaluated every")).querySelector("input").value === "15s"`)
	// With its own spec the simulated count goes up as it did, and does with another.
	p.wait("changes", `document.querySelectorAll(".pg-change").length > 0 || /to 1[0-9],/.test(document.querySelector(".pg-figures").textContent)`)
	p.accessible()
	p.screenshot("tried")
}

// The editor completes the API's fields, explains them, and wraps long lines.
func TestTheEditorCompletes(t *testing.T) {
	s := site(t)
	p := s.blank(t)
	p.size(1280, 900)
	p.goTo("/ui/playground")
	p.hasRun()
	p.spec("apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: web}\nspec:\n  maxReplicas: 5\n  behavior:\n    scaleDown:\n      stab")
	const tooltip = `document.querySelector(".pg-editor").shadowRoot.querySelector(".cm-tooltip-autocomplete")`
	eval[int](p, `(document.querySelector(".pg-editor").shadowRoot.querySelector(".cm-content").focus(), 0)`)
	p.press(kb.End)
	p.press("i")
	p.wait("what completes it", tooltip+`?.innerText.includes("stabilizationWindowSeconds")`)
	// The editor ignores Enter within 75 ms after showing a completion: the key was meant for
	// the text.
	p.wait("seen for a moment", `performance.now() - (window.seen ??= performance.now()) > 200`)
	// The page once looped forever here: typed text came back after more typing.
	p.press(kb.Enter)
	p.wait("completed", `document.querySelector(".pg-editor").shadowRoot.querySelector(".cm-content").innerText.includes("stabilizationWindowSeconds")`)
	p.spec("spec: {maxReplicas: 5} # " + strings.Repeat("a long line ", 100))
	p.wait("a wrapped line", `((box) => box.innerText.includes("a long line") && box.scrollWidth <= box.clientWidth)(document.querySelector(".pg-editor").shadowRoot.querySelector(".cm-scroller"))`)

	// Tab indents: keys alone lead out of it, and both readers and listeners are told how.
	p.waitText("Tab indents. Escape, then Tab, leaves the editor.")
	p.wait("told to listeners", `document.querySelector(".pg-editor").shadowRoot.querySelector(".cm-content").getAttribute("aria-label").includes("Escape, then Tab")`)
	eval[int](p, `(document.querySelector(".pg-editor").shadowRoot.querySelector(".cm-content").focus(), 0)`)
	p.press(kb.Escape, kb.Tab)
	p.wait("elsewhere", `!document.activeElement.matches(".pg-editor")`)
}

// A state is saved to a file and opened from it; another file is refused with an explanation.
// Load can also come from a file.
func TestPlaygroundFiles(t *testing.T) {
	s := site(t)
	p := s.blank(t)
	p.size(1280, 900)
	p.goTo("/ui/playground")
	p.hasRun()
	eval[int](p, downloads)
	p.spec("apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: web}\nspec: {maxReplicas: 7}\n")
	p.wait("a run with at most 7", `/to 7,/.test(document.querySelector(".pg-figures").textContent)`)
	p.activate(`.pg-actions button:nth-of-type(2)`)
	state := p.saved("playground.json")

	other := (&siteOf{origin: s.origin}).open(t, "/ui/playground")
	other.size(1280, 900)
	other.hasRun()
	const file = `input[aria-label="Open a file"]`
	other.upload(file, "x.json", `{"version": 2}`)
	other.waitText("it is of version 2, this page reads version 1")
	other.upload(file, "x.json", "no JSON")
	other.waitText("The file can't be read: it has no playground. Open reads what Save has written")
	other.upload(file, "x.json", strings.Replace(state, `"specs": [`, `"specs": ["a", "b",`, 1))
	other.waitText("it has 3 specs, at most 2")
	other.activate(`#pg-tab-1`)
	other.upload(file, "playground.json", state)
	other.wait("its only spec", `document.querySelectorAll("[role=tab]").length === 1 && document.querySelector("[role=tab]").getAttribute("aria-selected") === "true"`)
	other.wait("what was saved", `/to 7,/.test(document.querySelector(".pg-figures").textContent)`)

	// A notice is of the state that it speaks of.
	other.upload(file, "x.json", "no JSON")
	other.waitText("The file can't be read")
	other.activate(`[aria-label="Remove part 2"]`)
	other.wait("no notice of what was before", `document.querySelector(".pg-notice") === null`)
	eval[int](other, `(Object.defineProperty(navigator, "clipboard", {value: undefined}), 0)`) // as without TLS
	other.activate(`.pg-actions .primary`)
	other.waitText("The link is in the address bar: ")
	eval[int](other, `(location.hash = "#try=%%%", 0)`)
	other.waitText("The link can't be read: it is of another version, or damaged.")
	other.choose("Shape of part 1", "file")
	var csv strings.Builder
	for i := range 200 {
		fmt.Fprintf(&csv, "%d,%d\n", i*60, 100+i)
	}
	other.upload(`.pg-file input`, "load.csv", csv.String())
	other.waitText("load.csv")
	other.hasRun()
	other.wait("no problem", `document.querySelector(".pg-problems") === null`)
	other.upload(`.pg-file input`, "load.csv", "0,1\n60,NaN\n120,2\n")
	other.waitText("1 sample of the file without a value, or with NaN, is left out.")
	other.upload(`.pg-file input`, "load.csv", "0,1\n60,Infinity\n120,2\n")
	other.waitText("line 2: the value is +Inf, must be between 0 and 1e+12")
	other.upload(`.pg-file input`, "load.csv", "time,load\nhello,world\n")
	other.wait("what is wrong with the file", `/line|number|hello|time/.test(document.querySelector(".pg-problems")?.textContent ?? "")`)
}

// Setpoint's own programs and others read the playground's exports.
func TestPlaygroundExports(t *testing.T) {
	program, err := service.Program()
	fatal.If(t, err)
	s := site(t)
	p := s.blank(t)
	p.size(1280, 900)
	p.goTo("/ui/playground")
	p.hasRun()
	eval[int](p, downloads)
	for _, tc := range []struct {
		kind, file string
		want       []string
	}{
		{"hpa", "hpa.yaml", []string{"kind: HorizontalPodAutoscaler", "autoscaling/v2", "maxReplicas: 50"}},
		{"autoscaler", "autoscaler.yaml", []string{"kind: Autoscaler", "autoscaling.setpoint.dev/v1"}},
		{"k6", "load.k6.js", []string{"export", "scenarios"}},
	} {
		p.choose("Export", tc.kind)
		text := p.saved(tc.file)
		for _, want := range tc.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s lacks %q:\n%s", tc.file, want, text)
			}
		}
		if tc.kind == "k6" {
			continue
		}
		name := filepath.Join(t.TempDir(), tc.file)
		fatal.If(t, os.WriteFile(name, []byte(text), 0o600))
		if out, err := exec.CommandContext(t.Context(), program, "lint", name).CombinedOutput(); err != nil && strings.Contains(string(out), "rror:") {
			t.Errorf("setpoint lint %s: %v\n%s", tc.file, err, out)
		}
	}
}

// The button leads to the issuer and back to where one was.
func TestTheButtonOfTheIssuer(t *testing.T) {
	issuer := signintest.Start(t)
	s := withIssuer(t, issuer)
	p := s.blank(t)
	p.expects(refusedFirst)
	p.mayAsk(issuer.URL)
	p.goTo("/ui/operations")
	p.waitText("Sign in to Setpoint")
	p.tabTo(`.signin a.button`)
	p.press(kb.Enter)
	p.wait("back at the page", `location.pathname === "/ui/operations"`)
	p.waitText("oidc:corp:alice")
	if refusals := issuer.Refusals(); len(refusals) > 0 {
		t.Errorf("the issuer refused %q", refusals)
	}
}
