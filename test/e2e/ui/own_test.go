//go:build linux

package ui

import (
	"fmt"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"
)

// Who brings a spec and a load of their own sees no word, no noise and no spec of the example that the page began with, the
// load at its own time, and is told that cores are no requests per second.
func TestThePlaygroundOfOnesOwn(t *testing.T) {
	p := site(t).open(t, "/ui/playground")
	p.size(1280, 900)
	p.hasRun()
	p.waitText("A flash crowd comes in the evening")
	p.spec(`apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  name: checkout
  managedFields: [{manager: kubectl, operation: Update}]
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: checkout}
  minReplicas: 2
  maxReplicas: 30
  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 70}}}]
status: {currentReplicas: 3}
`)
	const example = `document.querySelector(".pg-preset select").selectedOptions[0].innerText`
	p.wait("one's own", example+` === "Your own" && document.querySelectorAll("[role=tab]").length === 1`)
	// Prometheus' answer about cores: a wave from 2 to 6 within two hours, beginning at 13:30.
	began := time.Date(2026, 5, 11, 13, 30, 0, 0, time.UTC)
	var values []string
	for i := range 121 {
		values = append(values, fmt.Sprintf(`[%d,"%.3f"]`, began.Add(time.Duration(i)*time.Minute).Unix(), 4-2*math.Cos(float64(i)/60*math.Pi)))
	}
	p.upload(`[aria-label="Load"] input[type=file]`, "cores.json", `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[`+strings.Join(values, ",")+`]}]}}`)
	p.waitText("cores.json")
	p.waitText("Does the file have another unit?")
	p.accessible()
	if text := p.text(); strings.Contains(text, "flash crowd comes") || strings.Contains(text, "A day in a shop\n") && !strings.Contains(text, "Your own") {
		t.Errorf("the example still speaks:\n%s", text)
	}
	field := func(name string) string {
		return eval[string](p, `[...document.querySelectorAll(".pg-field")].find(l => l.querySelector("span").innerText === "`+name+`").querySelector("input").value`)
	}
	if noise, duration := field("Noise"), field("Duration"); noise != "0" || duration != "" {
		t.Errorf("a recorded load has noise %q, and is cut to %q", noise, duration)
	}
	if parts := eval[int](p, `document.querySelectorAll(".pg-part").length`); parts != 1 {
		t.Errorf("beside the file are %d parts of the load", parts-1)
	}
	eval[int](p, `([...document.querySelectorAll(".pg-unfit button")].find(b => b.innerText === "The file is usage, in cores").click(), 0)`)
	p.wait("cores", `document.querySelector(".pg-unfit") === null && document.querySelector(".pg-status").textContent.includes("evaluations")`)
	// Of six cores 70 % of half a core each are some 17 pods.
	p.wait("as many as cores need", `/to 1[5-9],/.test(document.querySelector(".pg-figures").textContent)`)
	// A click is explained at the time that the legend tells, which is the file's.
	p.clickChart("Replicas", 0.5)
	p.agreesOnTheTime()
	if at := eval[string](p, `document.querySelector(".pg-story h3").textContent`); !regexp.MustCompile(`14:(29|30)`).MatchString(at) {
		t.Errorf("the middle of 13:30 to 15:30 is %s", at)
	}
	p.screenshot("playground-own")
}
