//go:build linux

package ui

import (
	"fmt"
	"io"
	"log"
	"math"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/test/e2e/kit"
)

// The page is served, runs under its own policy, and shows what the service has.
func TestTargetsOfALiveService(t *testing.T) {
	s := site(t)
	s.feed(t, 12, "")
	p := s.open(t, "/")
	p.wait("at /ui/", `location.pathname === "/ui/"`)
	p.waitText("web-00")
	p.accessible()
	p.screenshot("targets")
}

// A page that was left holds no stream, also where the browser keeps it for the way back: without TLS a browser has six
// connections to a service, and the seventh page would wait until one of them is closed. Back on a page its decisions go on.
func TestPagesThatWereLeftHoldNoStream(t *testing.T) {
	s := site(t)
	s.feed(t, 8, "")
	p := s.blank(t)
	const patience = 20 * time.Second // Chromium itself ends streams of pages that it keeps, after up to a minute
	watchers := func(n float64) {
		t.Helper()
		kit.Eventually(t, patience, "one stream of one page", func() error {
			if got := s.Metric("setpoint_watchers"); got != n {
				return fmt.Errorf("there are %g", got)
			}
			return nil
		})
	}
	for i := range 8 {
		p.goTo(fmt.Sprintf("/ui/clusters/demo/namespaces/shop/targets/web-%02d", i))
		p.wait("its decisions", `document.querySelector(".big .count")`)
		watchers(1)
	}
	eval[bool](p, `setTimeout(() => history.back()), true`)
	p.wait("back", `location.pathname.endsWith("-06")`)
	watchers(1)
}

// Windows that are seen at once share what connections a browser has without TLS: each has its numbers, and some poll.
func TestEightWindowsAreAllThere(t *testing.T) {
	s := site(t)
	s.feed(t, 8, "")
	p := s.open(t, "/ui/")
	p.waitText("web-00")
	opened := eval[int](p, `(window.others = Array.from({length: 7}, (_, i) => open("/ui/clusters/demo/namespaces/shop/targets/web-0" + i, "_blank", "popup,width=900,height=700"))).filter(w => w).length`)
	if opened != 7 {
		t.Fatalf("%d windows were opened", opened)
	}
	p.wait("all windows with their counts", `others.every(w => w.document.querySelector(".big .count")?.innerText.match(/[0-9]/))`)
	if hidden := eval[int](p, `others.filter(w => w.document.hidden).length`); hidden > 0 {
		t.Fatalf("%d windows are hidden: they hold no stream anyway", hidden)
	}
	// Each goes on: what is asked for now comes to all of them, and an own request is answered.
	if code := eval[int](p, `fetch("/v1/caller").then(r => r.status)`); code != http.StatusOK {
		t.Errorf("a request beside them: %d", code)
	}
	if n := s.Metric("setpoint_watchers"); n == 0 || n > 4 {
		t.Errorf("%g streams of eight windows", n)
	}
	eval[int](p, `others.forEach(w => w.close()), 0`)
}

// While an upgrade runs, a balancer asks instances of two versions for the files of one page. It loads itself again until it
// has them all, but not for ever.
func TestFilesOfAnotherVersion(t *testing.T) {
	s := believable(t)
	to, err := url.Parse(s.origin)
	fatal.If(t, err)
	var lost, pages atomic.Int32 // requests for files with a hash that are still to fail; loads of the page
	proxy := &httputil.ReverseProxy{FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0), Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }}
	shown := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/ui/" {
			pages.Add(1)
		}
		if strings.HasPrefix(r.URL.Path, "/ui/assets/") && r.URL.Path != "/ui/assets/early.js" && lost.Add(-1) >= 0 {
			http.NotFound(w, r)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(shown.Close)
	during := &siteOf{Instance: s.Instance, origin: shown.URL}
	lost.Store(40) // more than twice what a page has
	p := during.blank(t)
	p.expects("status of 404", "MIME type", "preload")
	p.goTo("/ui/")
	p.waitText("checkout")
	if n := pages.Load(); n < 3 {
		t.Errorf("the page was loaded %d times", n)
	}
	lost.Store(math.MaxInt32)
	p = during.blank(t)
	p.expects("status of 404", "MIME type", "preload")
	p.before(`sessionStorage.setItem("setpoint.again", "60")`)
	p.goTo("/ui/")
	p.waitText("could not be loaded")
}

// A proxy may show the service below a path, which it takes away; no setting says it.
func TestThePageBelowAPath(t *testing.T) {
	s := believable(t)
	to, err := url.Parse(s.origin)
	fatal.If(t, err)
	proxy := &httputil.ReverseProxy{FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0), Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }}
	mux := http.NewServeMux()
	mux.Handle("/scaling/setpoint/", http.StripPrefix("/scaling/setpoint", proxy))
	shown := httptest.NewServer(mux)
	t.Cleanup(shown.Close)
	below := &siteOf{Instance: s.Instance, origin: shown.URL}
	p := below.open(t, "/scaling/setpoint/")
	p.waitText("checkout")
	p.click(`.row a[href^="/scaling/setpoint/ui/clusters/"]`)
	p.waitText("Spec in use")
	p.goTo(eval[string](p, `location.pathname`)) // read anew, from five segments deep
	p.waitText("Spec in use")
	// Browsers may ask for the icon only when another view is shown.
	if icon := eval[string](p, `(history.pushState(null, "", "/scaling/setpoint/ui/playground"), document.querySelector("link[rel=icon]").href)`); icon != below.origin+"/scaling/setpoint/ui/favicon.svg" {
		t.Errorf("the icon is %s", icon)
	}
	p.goTo("/scaling/setpoint/docs")
	p.waitText("RecommendationService")
}

// The API's description keeps working under its policy.
func TestDocumentation(t *testing.T) {
	p := site(t).open(t, "/docs/")
	p.waitText("RecommendationService")
	p.accessible()
	p.size(320, 800)
	eval[int](p, `([...document.querySelectorAll(".opblock-summary-control")].find(e => e.innerText.includes(":recommend")).click(), 0)`)
	p.waitText("Try it out")
	p.click(".try-out__btn")
	p.waitText("Execute")
	p.accessible()
	if wide := eval[int](p, `document.documentElement.scrollWidth`); wide > 320 {
		t.Errorf("at 320 the page is %d wide", wide)
	}
	p.screenshot("documentation")
	background := func(scheme, chosen, want string) {
		t.Helper()
		p.scheme(scheme)
		eval[int](p, `(localStorage.setItem("setpoint.theme", "`+chosen+`"), 0)`)
		p.goTo("/docs/")
		p.wait("as chosen", `getComputedStyle(document.body).backgroundColor === "`+want+`"`)
	}
	background("dark", "", "rgb(13, 16, 22)")
	background("dark", "light", "rgb(250, 250, 250)")
	background("light", "dark", "rgb(13, 16, 22)")
}

// Injected content that the policy forbids must neither run nor be loaded.
func TestThePolicyOfContentHolds(t *testing.T) {
	s := site(t)
	p := s.blank(t)
	p.mayAsk("https://evil.example") // which the browser says before it refuses to
	p.expects("policy of content: script-src", "policy of content: img-src", "Content Security Policy", "Content-Security-Policy")
	p.goTo("/ui/")
	got := eval[string](p, `new Promise(done => {
		const script = document.createElement("script");
		script.textContent = "window.ran = 'inline'";
		document.body.append(script);
		const other = document.createElement("script");
		other.src = "https://evil.example/x.js";
		other.onload = () => done("loaded");
		other.onerror = () => done(window.ran || "nothing");
		document.body.append(other);
	})`)
	if got != "nothing" {
		t.Errorf("a script that is not ours: %s", got)
	}
}

// The name of a metric does not turn round the text beside it: it is rendered without what is not seen.
func TestNoNameChangesHowOtherTextIsShown(t *testing.T) {
	s := site(t)
	if _, err := s.Recommendations().Recommend(t.Context(), request("web", "queue\u202eetisoppo", 30)); err != nil {
		t.Fatal(err)
	}
	s.open(t, "/ui/").waitText("queue\ufffdetisoppo")
}

// A page of another site makes the browser send a GET, as an image, as a script, and as a link that
// is followed. None of them decides.
func TestAnotherSiteMakesTheServiceDecideNothing(t *testing.T) {
	s := site(t)
	const target = "clusters/demo/namespaces/shop/targets/web"
	spec := request("web", "queue", 300).GetSpec()
	if _, err := s.Targets().SetTargetSpec(t.Context(), &setpointv1.SetTargetSpecRequest{Name: target, TargetSpec: &setpointv1.TargetSpec{Spec: spec, AssumeApplied: true}}); err != nil {
		t.Fatal(err)
	}
	report := &setpointv1.ReportObservationRequest{Target: target, ExternalMetrics: request("web", "queue", 300).GetExternalMetrics()}
	if _, err := s.Recommendations().ReportObservation(t.Context(), report); err != nil {
		t.Fatal(err)
	}
	asked := s.origin + "/v1/" + target + "/recommendation?maxReplicas=1"
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<img src="%[1]s" onload="window.got = 'taken'" onerror="window.got = 'refused'"><a href="%[1]s">all targets</a>`, asked)
	}))
	defer other.Close()
	elsewhere := strings.Replace(other.URL, "127.0.0.1", "localhost", 1) // another site than 127.0.0.1
	p := s.blank(t)
	p.mayAsk(elsewhere)
	p.expects("403", "favicon")
	p.run(navigate(elsewhere))
	p.wait("the image", `window.got`)
	eval[bool](p, `fetch("`+asked+`", {mode: "no-cors"}).then(() => true, () => true)`)
	eval[int](p, `document.querySelector("a").click(), 0`)
	p.waitText("another web site may not ask this")
	if got, err := s.Targets().GetTarget(t.Context(), &setpointv1.GetTargetRequest{Name: target}); status.Code(err) != codes.NotFound {
		t.Errorf("it was decided: %v, %v", got, err)
	}
	// Who types the address is answered.
	p.run(navigate(asked))
	p.waitText("desiredReplicas")
}

// A kit that detects nothing would let everything pass.
func TestTheKitSeesWhatAPageMustNotDo(t *testing.T) {
	p := site(t).open(t, "/healthz")
	eval[int](p, `console.error("told"); setTimeout(() => { throw new Error("thrown") }); fetch("http://localhost:1/elsewhere").catch(() => {}); 0`)
	for _, want := range []string{"console: told", "exception: Uncaught Error: thrown", "request to another origin: http://localhost:1/elsewhere"} {
		p.waitWrong(want)
	}
	p.forget()
}
