package integration

import (
	"runtime"
	"strings"
	"testing"
)

// expensive are bodies of MaxBody bytes that are expensive to read.
func expensive() map[string]string {
	fill := func(before, some, after string) string {
		return before + strings.Repeat(some, (MaxBody-len(before)-len(after))/len(some)) + after
	}
	return map[string]string{
		"unknown fields":    fill(`{`, `"a":1,`, `"z":0}`),
		"fields twice":      fill(`{`, `"state":{},`, `"z":0}`),
		"empty objects":     fill(`{"x":[`, `{},`, `0]}`),
		"deep":              `{"x":` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + `,` + fill(`"y":[`, `[[[]]],`, `0]}`),
		"escapes":           fill(`{"x":"`, `\u0041`, `"}`),
		"a long name":       fill(`{"targetRef":{"name":"`, `\u0041`, `"}}`),
		"a long number":     fill(`{"state":{"desiredReplicas":`, `1`, `}}`),
		"a long uid":        fill(`{"request":{"uid":"`, `\u003c`, `"}}`),
		"settings":          fill(`{"settings":{`, `"a":{"a":[]},`, `"z":0}}`),
		"targets":           fill(`{"targets":[`, `{"type":"cpu"},`, `{}]}`),
		"wrong types":       fill(`{"state":{`, `"desiredReplicas":"",`, `"z":0}}`),
		"cases of one name": fill(`{`, `"TARGETREF":{},"targetref":{},`, `"z":0}`),
	}
}

// What a body takes in memory is bounded by its bytes, whatever is in it.
func TestReadTakesNoMoreMemoryThanItsBodyAllows(t *testing.T) {
	const most = 10 * MaxBody
	for name, body := range expensive() {
		for _, contract := range []string{"datadog", "agones", "gpa"} {
			text := []byte(body)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			Contracts[contract].Read("demo", text)
			runtime.ReadMemStats(&after)
			if took := after.TotalAlloc - before.TotalAlloc; took > most {
				t.Errorf("%s of %s: %d bytes for a body of %d, more than %d", name, contract, took, len(text), most)
			}
		}
	}
}
