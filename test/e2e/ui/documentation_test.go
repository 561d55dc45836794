//go:build linux

package ui_test

import (
	"os/exec"
	"testing"

	"github.com/chromedp/chromedp/kb"
)

// The site of the documentation, read from files: legible in the light and in the dark and on a
// telephone, and of use without a mouse.
func TestTheDocumentationSite(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "run", "./docs/site/build", folder)
	build.Dir = "../../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	s := &siteOf{origin: "file://" + folder}
	p := s.blank(t)
	p.mayAsk("file://")
	for name, checked := range map[string]bool{
		"/index.html": true, "/docs/index.html": false, "/docs/start/rest.html": true, "/docs/concepts/policies.html": true,
		"/docs/guides/simulation.html": false, "/docs/guides/kubernetes.html": false, "/docs/reference/cli/setpoint.html": false,
		"/docs/reference/metrics.html": false, "/docs/reference/api/RecommendationService.Recommend.html": true, "/docs/runbooks/index.html": true,
	} {
		p.goTo(name)
		for _, scheme := range []string{"light", "dark"} {
			if p.scheme(scheme); checked { // of the long ones that would take half a minute each
				p.accessible()
			}
		}
		// Wide parts scroll by themselves.
		for _, width := range []int64{390, 800, 1280} {
			p.size(width, 800)
			if over := eval[int](p, "document.documentElement.scrollWidth - innerWidth"); over > 0 {
				t.Errorf("%s is %d pixels wider than a window of %d", name, over, width)
			}
		}
	}

	// From anywhere, by keyboard: a flag, and its description.
	p.goTo("/docs/concepts/zero.html")
	p.press("/")
	p.wait("in the search", `document.activeElement.id === "_question"`)
	eval[int](p, `(document.activeElement.value = "", 0)`) // the tool's key types its character in any case
	p.press("--history-limit")
	p.wait("found", `document.querySelector("[aria-selected=true] b")?.textContent === "--history-limit"`)
	p.accessible() // with the list open
	p.press(kb.Enter)
	p.wait("at the flag", `location.pathname.includes("/docs/reference/") && location.hash !== ""`)
	p.press(kb.Escape)

	// On a telephone the menu opens and closes by keys.
	p.size(390, 844)
	p.goTo("/docs/concepts/zero.html")
	p.tabTo("#_menu")
	p.press(kb.Enter)
	p.wait("the menu", `document.querySelector("#_groups a[aria-current=page]")?.getClientRects().length > 0`)
	p.accessible()
	p.screenshot("documentation")
}
