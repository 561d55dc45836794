//go:build linux

package ui_test

import "testing"

// The page is served, runs under its own policy, and shows what the service has.
func TestFleetOfALiveService(t *testing.T) {
	s := site(t)
	s.feed(t, 12, "")
	p := s.open(t, "/")
	p.wait("at /ui/", `location.pathname === "/ui/"`)
	p.waitText("web-00")
	p.accessible()
	p.screenshot("fleet")
}

// The API's description keeps working under its policy.
func TestDocumentation(t *testing.T) {
	p := site(t).open(t, "/docs/")
	p.waitText("RecommendationService")
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

// A kit that detects nothing would let everything pass.
func TestTheKitSeesWhatAPageMustNotDo(t *testing.T) {
	p := site(t).open(t, "/healthz")
	eval[int](p, `console.error("told"); setTimeout(() => { throw new Error("thrown") }); fetch("http://localhost:1/elsewhere").catch(() => {}); 0`)
	for _, want := range []string{"console: told", "exception: Uncaught Error: thrown", "request to another origin: http://localhost:1/elsewhere"} {
		p.waitWrong(want)
	}
	p.forget()
}
