//go:build linux

package ui

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/process"
	"github.com/setpoint-dev/setpoint/test/e2e/kit"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

var errNoChromium = errors.New("there is no Chromium: run scripts/chromium.sh")

// leftovers is the folder for temporary files that Chromium leaves behind; "": it was not started.
var leftovers string

// browser is Chromium, started once for all tests of a process; endBrowser ends it.
var browser = sync.OnceValues(func() (context.Context, error) {
	program := os.Getenv("CHROMIUM")
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); program == "" && err == nil {
			program = found
		}
	}
	if program == "" {
		return nil, errNoChromium
	}
	var err error
	if leftovers, err = os.MkdirTemp("", "setpoint-ui-"); err != nil {
		return nil, err
	}
	allocator, _ := chromedp.NewExecAllocator(context.Background(),
		chromedp.ExecPath(program),
		chromedp.Headless,
		chromedp.NoSandbox, // tests run as root in CI, where Chromium has no other choice
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-popup-blocking", true),
		chromedp.Env("TMPDIR="+leftovers),
		chromedp.WSURLReadTimeout(process.Patience),
	)
	ctx, _ := chromedp.NewContext(allocator)
	return ctx, chromedp.Do(ctx)
})

// endBrowser ends Chromium, if it was started, for good.
func endBrowser() {
	if leftovers == "" {
		return
	}
	if ctx, err := browser(); err == nil {
		_ = chromedp.Cancel(ctx)
	}
	_ = os.RemoveAll(leftovers)
}

// siteOf is a service whose page is tested.
type siteOf struct {
	*service.Instance
	origin string
}

// site starts a service.
func site(t *testing.T, flags ...string) *siteOf {
	t.Helper()
	s := service.Start(t, flags...)
	return &siteOf{Instance: s, origin: "http://" + s.RESTAddr()}
}

// page is a tab of its own, with its own cookies and storage.
type page struct {
	t      *testing.T
	ctx    context.Context
	origin string

	mu sync.Mutex
	// Guarded by mu: the problems so far, and the expected ones.
	wrong   []string
	allowed []*regexp.Regexp
	// origins may be asked beside the page's own. Guarded by mu.
	origins map[string]bool
}

func (s *siteOf) open(t *testing.T, path string) *page {
	t.Helper()
	p := s.blank(t)
	p.goTo(path)
	return p
}

// blank opens an empty page, so that the test can declare expectations first.
func (s *siteOf) blank(t *testing.T) *page {
	t.Helper()
	base, err := browser()
	if err != nil {
		if errors.Is(err, errNoChromium) {
			kit.Cannot(t, err.Error())
		}
		t.Fatal(err)
	}
	p := &page{t: t, origin: s.origin, origins: make(map[string]bool)}
	var cancel context.CancelFunc
	p.ctx, cancel = chromedp.NewContext(base, chromedp.WithNewBrowserContext(), chromedp.WithListener(p.look))
	t.Cleanup(cancel)
	p.run(chromedp.Steps()) // opens the tab
	command(p, network.Enable, network.EnableParams{})
	command(p, log.Enable, cdp.Empty{})
	command(p, runtime.Enable, cdp.Empty{})
	command(p, cdppage.AddScriptToEvaluateOnNewDocument, cdppage.AddScriptToEvaluateOnNewDocumentParams{
		Source: `addEventListener("securitypolicyviolation", e => console.error("policy of content: " + e.violatedDirective + " " + e.blockedURI + " " + e.sourceFile + ":" + e.lineNumber));`,
	})
	t.Cleanup(p.check)
	return p
}

// look records forbidden events of a page.
func (p *page) look(event any) {
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		text := e.ExceptionDetails.Text
		if e.ExceptionDetails.Exception != nil {
			text += " " + e.ExceptionDetails.Exception.Description
		}
		p.note("exception: " + text)
	case *runtime.EventConsoleAPICalled:
		if e.Type == "error" || e.Type == "assert" {
			var words []string
			for _, a := range e.Args {
				words = append(words, strings.Trim(string(a.Value), `"`)+a.Description)
			}
			p.note("console: " + strings.Join(words, " "))
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError {
			p.note(fmt.Sprintf("%s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL))
		}
	case *network.EventRequestWillBeSent:
		to, err := url.Parse(e.Request.URL)
		if err != nil || to.Scheme == "data" || to.Scheme == "blob" || to.Scheme == "about" {
			return
		}
		origin := to.Scheme + "://" + to.Host
		p.mu.Lock()
		known := origin == p.origin || p.origins[origin]
		p.mu.Unlock()
		if !known {
			p.note("request to another origin: " + e.Request.URL)
		}
	case *cdppage.EventJavascriptDialogOpening:
		p.note("dialog: " + e.Message)
	}
}

// networkChanged is what Chromium says of connections that it ended, also those to this machine,
// because addresses of the machine changed: Docker's networks come and go beside these tests. The
// page asks again.
const networkChanged = "net::ERR_NETWORK_CHANGED"

func (p *page) note(what string) {
	if strings.Contains(what, networkChanged) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, allowed := range p.allowed {
		if allowed.MatchString(what) {
			return
		}
	}
	p.wrong = append(p.wrong, what)
}

// expects says that something may happen from now on that fails a test otherwise.
func (p *page) expects(expressions ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, each := range expressions {
		p.allowed = append(p.allowed, regexp.MustCompile(each))
	}
}

// mayAsk allows another origin, such as an issuer's.
func (p *page) mayAsk(origin string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.origins[origin] = true
}

// waitWrong waits until something went wrong.
func (p *page) waitWrong(what string) {
	p.t.Helper()
	for deadline := time.Now().Add(process.Patience); ; time.Sleep(20 * time.Millisecond) {
		p.mu.Lock()
		seen := strings.Join(p.wrong, "\n")
		p.mu.Unlock()
		if strings.Contains(seen, what) {
			return
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("not seen: %s; seen:\n%s", what, seen)
		}
	}
}

// forget clears the problems.
func (p *page) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wrong = nil
}

// check fails the test for the problems so far.
func (p *page) check() {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, what := range p.wrong {
		p.t.Errorf("the page: %s", what)
	}
	p.wrong = nil
}

// run runs actions without a result, in order.
func (p *page) run(actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	result(p, chromedp.Steps(actions...))
}

// result returns an action's result, with the patience of a busy machine.
func result[T any](p *page, action chromedp.Action[T]) T {
	p.t.Helper()
	type outcome struct {
		value T
		err   error
	}
	done := make(chan outcome, 1)
	go func() { // with the page's own context, which the tab lives as long as
		value, err := chromedp.Run(p.ctx, action)
		done <- outcome{value, err}
	}()
	select {
	case got := <-done:
		if got.err != nil {
			p.check()
			p.t.Fatal(got.err)
		}
		return got.value
	case <-time.After(process.Patience):
		p.check()
		p.t.Fatalf("no end of an action in %s", process.Patience)
	}
	panic("unreachable")
}

// command runs a command of the DevTools protocol.
func command[P, R any](p *page, c cdp.Command[P, R], parameters P) R {
	p.t.Helper()
	return result(p, func(ctx context.Context, t *chromedp.Target) (R, error) { return cdp.Call(ctx, t, c, parameters) })
}

// goTo goes to a path of the site.
func (p *page) goTo(path string) {
	p.t.Helper()
	p.run(navigate(p.origin + path))
}

// navigate goes to an address, also of another origin.
func navigate(address string) chromedp.Action[chromedp.Void] {
	return func(ctx context.Context, tab *chromedp.Target) (none chromedp.Void, err error) {
		for range 5 {
			none, err = chromedp.Navigate(address)(ctx, tab)
			if failed := (*chromedp.LoadError)(nil); !errors.As(err, &failed) || failed.ErrorText != networkChanged {
				break
			}
		}
		return none, err
	}
}

// eval returns the value of an expression, or of the promise that it yields.
func eval[T any](p *page, expression string) T {
	p.t.Helper()
	return result(p, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
}

// wait waits until an expression is true.
func (p *page) wait(what, expression string) {
	p.t.Helper()
	for deadline := time.Now().Add(process.Patience); ; time.Sleep(50 * time.Millisecond) {
		if eval[bool](p, "!!("+expression+")") {
			return
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("never %s; the page shows:\n%s", what, p.text())
		}
	}
}

// waitText waits until the page shows a text.
func (p *page) waitText(text string) {
	p.t.Helper()
	quoted, _ := json.Marshal(text)
	p.wait("shown "+text, "document.body && document.body.innerText.includes("+string(quoted)+")")
}

// text is the page's visible text.
func (p *page) text() string {
	p.t.Helper()
	return eval[string](p, `document.body ? document.body.innerText : ""`)
}

// press presses keys one after the other, as chromedp's package kb has them, or text.
func (p *page) press(keys ...string) {
	p.t.Helper()
	for _, key := range keys {
		p.run(chromedp.KeyEvent(key))
	}
}

// tabTo presses Tab until the focused element matches a CSS selector: an element that can't be
// reached so is unusable without a mouse.
func (p *page) tabTo(selector string) {
	p.t.Helper()
	quoted, _ := json.Marshal(selector)
	for range 200 {
		if eval[bool](p, "!!document.activeElement && document.activeElement.matches("+string(quoted)+")") {
			return
		}
		p.press(kb.Tab)
	}
	p.t.Fatalf("Tab does not lead to %s; it has led to %s", selector, eval[string](p, "document.activeElement.outerHTML.slice(0, 300)"))
}

// click clicks the first match of a CSS selector, once it is there.
func (p *page) click(selector string) {
	p.t.Helper()
	p.run(chromedp.Click(chromedp.CSS(selector)))
}

// fill types text into the first match of a CSS selector.
func (p *page) fill(selector, text string) {
	p.t.Helper()
	p.run(chromedp.WaitVisible(chromedp.CSS(selector)), chromedp.SendKeys(chromedp.CSS(selector), text))
}

// accessible fails the test for serious or critical findings of axe-core in both themes. The page is shown in its own
// again after that.
func (p *page) accessible() {
	p.t.Helper()
	source, err := os.ReadFile(filepath.Join(p.repository(), "test", "e2e", "ui", "node_modules", "axe-core", "axe.min.js"))
	if err != nil {
		if os.Getenv("CI") != "" {
			p.t.Fatalf("there is no axe-core: run scripts/chromium.sh: %v", err)
		}
		p.t.Log("NOT CHECKED for accessibility: there is no axe-core; run scripts/chromium.sh")
		return
	}
	eval[int](p, string(source)+"\n;0")
	themes := []string{"dark", "light"}
	if eval[bool](p, `matchMedia("(prefers-color-scheme: dark)").matches`) {
		slices.Reverse(themes)
	}
	for _, theme := range themes {
		p.scheme(theme)
		eval[float64](p, `new Promise(requestAnimationFrame)`) // scripts are told before it
		p.wait("in the theme "+theme, `matchMedia("(prefers-color-scheme: `+theme+`)").matches && document.getAnimations().every((a) => a.playState !== "running" || a.effect?.getComputedTiming().endTime === Infinity)`)
		p.accessibleIn(theme)
	}
}

func (p *page) accessibleIn(theme string) {
	p.t.Helper()
	type violation struct {
		ID, Impact, Help string
		Nodes            []struct {
			HTML           string `json:"html"`
			FailureSummary string `json:"failureSummary"`
		}
	}
	for _, v := range eval[[]violation](p, `axe.run(document, {resultTypes: ["violations"], preload: false}).then(r => r.violations.map(({id, impact, help, nodes}) => ({id, impact, help, nodes: nodes.slice(0, 3).map(({html, failureSummary}) => ({html, failureSummary}))})))`) {
		if v.Impact != "serious" && v.Impact != "critical" {
			p.t.Logf("axe, %s, %s: %s: %s", theme, v.Impact, v.ID, v.Help)
			continue
		}
		p.t.Errorf("axe, %s, %s: %s: %s: %+v", theme, v.Impact, v.ID, v.Help, v.Nodes)
	}
}

// scheme has the page shown "dark" or "light".
func (p *page) scheme(name string) {
	p.t.Helper()
	command(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}}})
}

// size has the page shown so large, in CSS pixels.
func (p *page) size(width, height int64) {
	p.t.Helper()
	command(p, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: height, DeviceScaleFactor: 1})
}

// repository is its root: tests of other packages look at pages, too.
func (p *page) repository() string {
	p.t.Helper()
	root, err := process.Repository()
	fatal.If(p.t, err)
	return root
}

// screenshot keeps pictures of the page in bin/e2e-ui: dark, light, and narrow.
func (p *page) screenshot(name string) {
	p.t.Helper()
	folder := filepath.Join(p.repository(), "bin", "e2e-ui")
	fatal.If(p.t, os.MkdirAll(folder, 0o755))
	for _, look := range []struct {
		name, scheme  string
		width, height int64
	}{{"dark", "dark", 1280, 800}, {"light", "light", 1280, 800}, {"narrow", "light", 390, 844}} {
		p.scheme(look.scheme)
		p.size(look.width, look.height)
		picture := result(p, chromedp.CaptureScreenshot())
		fatal.If(p.t, os.WriteFile(filepath.Join(folder, name+"-"+look.name+".png"), picture, 0o644))
	}
	p.size(1280, 800)
}
