// Package ui tests the web page as its users meet it: the real service, as a process with live
// data, and Chromium.
//
//	s := site(t, "--redis", url)
//	s.feed(t, 20)
//	p := s.open(t, "/ui/")
//	p.waitText("web-00")
//	p.accessible()
//	p.screenshot("targets")
//
// A page must do nothing that it may not: an error on the console, an exception that nobody
// caught, a violation of the policy of content, or a request to another origin fails the test,
// unless it said that it expects it (page.expects). scripts/chromium.sh installs the browser and
// axe-core.
package ui
