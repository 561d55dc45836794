package integrations

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
)

// described asks as a caller that knows the service by its OpenAPI document, as generated clients do.
type described struct {
	*service
	router routers.Router
}

// ask makes a call. What is wrong with the call or its answer is in the error.
func (d *described) ask(t *testing.T, method, path, body string) (code int, answer []byte, err error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, d.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	route, parameters, err := d.router.FindRoute(req)
	if err != nil {
		return 0, nil, err
	}
	in := &openapi3filter.RequestValidationInput{Request: req, PathParams: parameters, Route: route,
		Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, IncludeResponseStatus: true, MultiError: true}}
	unfit := openapi3filter.ValidateRequest(t.Context(), in)
	resp, err := d.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if answer, err = io.ReadAll(resp.Body); err != nil {
		t.Fatal(err)
	}
	if unfit == nil {
		unfit = openapi3filter.ValidateResponse(context.Background(), &openapi3filter.ResponseValidationInput{
			RequestValidationInput: in, Status: resp.StatusCode, Header: resp.Header, Body: io.NopCloser(bytes.NewReader(answer)), Options: in.Options,
		})
	}
	return resp.StatusCode, answer, unfit
}

// The document that the service has describes its calls and answers: what it takes fits the schemas, and what lacks a
// required field or has another word neither fits nor is taken.
func TestTheServiceIsAsItsDocumentSays(t *testing.T) {
	s := start(t)
	document, err := openapi3.NewLoader().LoadFromData([]byte(s.ask(t, http.MethodGet, "/openapi.json", "")))
	if err != nil {
		t.Fatal(err)
	}
	if err := document.Validate(t.Context()); err != nil {
		t.Fatal(err)
	}
	document.Servers = openapi3.Servers{{URL: s.url}}
	router, err := gorillamux.NewRouter(document)
	if err != nil {
		t.Fatal(err)
	}
	d := &described{s, router}
	at := func(after time.Duration) string { return time.Now().Add(after).UTC().Format(time.RFC3339) }
	s.nanos.Store(time.Now().UnixNano())
	const metrics = `"metrics": [
		{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}},
		{"type": "ContainerResource", "containerResource": {"name": "memory", "container": "app", "target": {"type": "AverageValue", "averageValue": "1Gi"}}},
		{"type": "Pods", "pods": {"metric": {"name": "rps"}, "target": {"type": "AverageValue", "averageValue": "10"}}},
		{"type": "Object", "object": {"describedObject": {"kind": "Ingress", "name": "web"}, "metric": {"name": "hits"}, "target": {"type": "Value", "value": "100"}}},
		{"type": "External", "external": {"metric": {"name": "queue", "selector": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}, "target": {"type": "AverageValue", "averageValue": "10"}}}]`
	const spec = `{"maxReplicas": 20, "behavior": {"scaleUp": {"selectPolicy": "Max", "policies": [{"type": "Pods", "value": 4, "periodSeconds": 60}]}}, ` + metrics + `}`
	const stages = `{"schedules": [{"name": "day", "timeZone": "UTC", "cron": "0 8 * * *", "duration": "3600s", "minReplicas": 3}], "freshness": {"maxSampleAge": "60s"},
		"combine": {"method": "MAX"}, "forecast": {"mode": "FORECAST_ONLY", "timeZone": "UTC"}}`
	seen := `"scale": {"specReplicas": 3, "statusReplicas": 3},
		"pods": [{"name": "a", "phase": "Running", "startTime": "2026-01-01T00:00:00Z", "ready": {"status": "True", "lastTransitionTime": "2026-01-01T00:01:00Z"},
			"containers": [{"name": "app", "requests": {"cpu": "500m"}}]}],
		"podMetrics": [{"pod": "a", "timestamp": "` + at(-10*time.Second) + `", "windowSeconds": 30, "containers": [{"name": "app", "usage": {"cpu": "400m", "memory": "1Gi"}}]}],
		"customMetrics": [{"metric": {"name": "hits"}, "describedObject": {"kind": "Ingress", "name": "web"}, "value": "150"}],
		"externalMetrics": [{"metric": {"name": "queue"}, "value": "35"}]`
	recommend := `{"spec": ` + spec + `, ` + seen + `, "stages": ` + stages + `, "explain": true, "metricErrors": [{"metric": "rps", "message": "no answer"}],
		"proposals": [{"name": "one", "replicas": 4, "role": "FLOOR", "expireTime": "` + at(time.Minute) + `"}]}`
	const web, all = "/v1/" + target, "/v1/clusters/demo/namespaces/shop"
	last := ""
	for _, c := range []struct {
		method, path, body string
		code               int
	}{
		{"POST", web + ":recommend", recommend, 200},
		{"POST", web + ":reportScale", `{"recommendationId": "LAST", "outcome": "APPLIED"}`, 200},
		{"POST", "/v1/targets:batchRecommend", `{"requests": [{"target": "` + target + `", "spec": ` + spec + `, ` + seen + `}, {"target": "` + target + `", "spec": {"maxReplicas": 1, "minReplicas": 2}}]}`, 200},
		{"PUT", web + "/spec", `{"spec": ` + spec + `, "stages": ` + stages + `, "shadows": [{"name": "wide", "spec": {"maxReplicas": 40}}]}`, 200},
		{"POST", web + ":reportObservation", `{` + seen + `}`, 200},
		{"GET", web + "/recommendation?currentReplicas=3", "", 200},
		{"POST", all + "/overrides", `{"pin": 2, "reason": "load test", "expireTime": "` + at(time.Hour) + `"}`, 200},
		{"GET", "/v1/clusters/demo/overrides", "", 200},
		{"POST", web + ":recommend", recommend, 200},
		{"PUT", all + "/targets/both/spec", `{"spec": {"maxReplicas": 9, "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}]},
			"fleet": {"members": [{"target": "` + target + `"}, {"target": "clusters/demo/namespaces/shop/targets/api"}], "onLost": "SHIFT"}}`, 200},
		{"GET", all + "/targets/both/fleet", "", 200},
		{"GET", web, "", 200},
		{"GET", web + "/spec", "", 200},
		{"GET", web + "/decisions", "", 200},
		{"GET", web + "/recording", "", 501},
		{"GET", all + "/targets?withSpecInUse=true", "", 200},
		{"GET", all + "/targetSpecs", "", 200},
		{"GET", "/v1/caller", "", 200},
		{"GET", "/v1/callers", "", 200},
		{"GET", "/v1/instances", "", 200},
		{"GET", "/v1/store", "", 200},
		{"GET", all + "/targets/none", "", 404},
		{"GET", all + "/targets?pageToken=x", "", 400},
		{"DELETE", web, "", 200},
	} {
		code, answer, err := d.ask(t, c.method, c.path, strings.ReplaceAll(c.body, "LAST", last))
		if code != c.code || err != nil {
			t.Errorf("%s %s: HTTP %d, want %d; %v\n%.2000s", c.method, c.path, code, c.code, err, answer)
		}
		var made struct{ RecommendationID string }
		if json.Unmarshal(answer, &made) == nil && made.RecommendationID != "" {
			last = made.RecommendationID
		}
	}

	// Each required field of the request is taken out, and each word replaced, in turn.
	var whole map[string]any
	if err := json.Unmarshal([]byte(recommend), &whole); err != nil {
		t.Fatal(err)
	}
	schema := document.Paths.Find("/v1/clusters/{cluster}/namespaces/{namespace}/targets/{target}:recommend").Post.RequestBody.Value.Content["application/json"].Schema
	tried := 0
	spoil(schema, whole, "", func(where string) {
		tried++
		body, _ := json.Marshal(whole)
		want := 400
		if strings.Contains(where, "Metrics[0].metric.name") || strings.Contains(where, ".operator") {
			want = 200 // such a sample is of no metric; of a selector Kubernetes' controller says that it is wrong
		}
		if code, answer, err := d.ask(t, "POST", web+":recommend", string(body)); code != want || err == nil {
			t.Errorf("%s: HTTP %d, by the schemas %v\n%.500s", where, code, err, answer)
		}
	})
	if tried < 40 {
		t.Errorf("only %d fields were tried", tried)
	}
}

// spoil calls back for each required field of a value while that is not there, and for each field with a list of words
// while it has another one.
func spoil(of *openapi3.SchemaRef, value any, path string, each func(where string)) {
	for len(of.Value.AllOf) == 1 {
		of = of.Value.AllOf[0]
	}
	switch value := value.(type) {
	case []any:
		for i, element := range value {
			spoil(of.Value.Items, element, fmt.Sprintf("%s[%d]", path, i), each)
		}
	case map[string]any:
		for key, was := range value {
			property := of.Value.Properties[key]
			if property == nil { // of a map
				continue
			}
			spoil(property, was, path+"."+key, each)
			if len(property.Value.Enum) > 0 {
				value[key] = "Odd"
				each(path + "." + key + " is another word")
			}
			if strings.Contains(" "+strings.Join(of.Value.Required, " ")+" ", " "+key+" ") {
				delete(value, key)
				each(path + "." + key + " is not there")
			}
			value[key] = was
		}
	}
}
