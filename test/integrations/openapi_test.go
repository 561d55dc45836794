package integrations

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"

	"github.com/setpoint-dev/setpoint/internal/fatal"
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
	fatal.If(t, err)
	req.Header.Set("Content-Type", "application/json")
	route, parameters, err := d.router.FindRoute(req)
	if err != nil {
		return 0, nil, err
	}
	in := &openapi3filter.RequestValidationInput{Request: req, PathParams: parameters, Route: route,
		Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, IncludeResponseStatus: true, MultiError: true}}
	unfit := openapi3filter.ValidateRequest(t.Context(), in)
	resp, err := d.http.Do(req)
	fatal.If(t, err)
	defer func() { _ = resp.Body.Close() }()
	answer, err = io.ReadAll(resp.Body)
	fatal.If(t, err)
	if unfit == nil {
		unfit = openapi3filter.ValidateResponse(context.Background(), &openapi3filter.ResponseValidationInput{
			RequestValidationInput: in, Status: resp.StatusCode, Header: resp.Header, Body: io.NopCloser(bytes.NewReader(answer)), Options: in.Options,
		})
	}
	return resp.StatusCode, answer, unfit
}

// describe reads the document that a service has.
func describe(t *testing.T, s *service) (*described, *openapi3.T) {
	t.Helper()
	document, err := openapi3.NewLoader().LoadFromData([]byte(s.ask(t, http.MethodGet, "/openapi.json", "")))
	fatal.If(t, err)
	fatal.If(t, document.Validate(t.Context()))
	document.Servers = openapi3.Servers{{URL: s.url}}
	router, err := gorillamux.NewRouter(document)
	fatal.If(t, err)
	return &described{s, router}, document
}

// The document that the service has describes its calls and answers: what it takes fits the schemas, and what lacks a
// required field or has another word neither fits nor is taken.
func TestTheServiceIsAsItsDocumentSays(t *testing.T) {
	s := start(t)
	d, document := describe(t, s)
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
	fatal.If(t, json.Unmarshal([]byte(recommend), &whole))
	schema := document.Paths.Find("/v1/clusters/{cluster}/namespaces/{namespace}/targets/{target}:recommend").Post.RequestBody.Value.Content["application/json"].Schema
	tried := 0
	spoil(schema, whole, "", func(where string, of change) {
		if of == optional {
			return
		}
		tried++
		body, _ := json.Marshal(whole)
		want := 400
		if matchesNothing.MatchString(where) {
			want = 200
		}
		if code, answer, err := d.ask(t, "POST", web+":recommend", string(body)); code != want || err == nil {
			t.Errorf("%s: HTTP %d, by the schemas %v\n%.500s", where, code, err, answer)
		}
	})
	if tried < 40 {
		t.Errorf("only %d fields were tried", tried)
	}
}

// A request lacks each of its fields in turn. The service refuses it, naming the field, if the document has the field
// as required, and takes it otherwise. Fields of which one or the other must be set are required by no schema.
func TestRequiredFieldsAreWhatTheServiceRequires(t *testing.T) {
	s := start(t)
	d, document := describe(t, s)
	s.nanos.Store(time.Now().UnixNano())
	at := func(after time.Duration) string { return time.Now().Add(after).UTC().Format(time.RFC3339) }
	const selector = `{"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "a", "operator": "In", "values": ["x"]}]}`
	const spec = `{"minReplicas": 1, "maxReplicas": 20, "scaleTargetRef": {"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"},
		"behavior": {"scaleUp": {"selectPolicy": "Max", "stabilizationWindowSeconds": 9, "tolerance": "0.1", "policies": [{"type": "Pods", "value": 4, "periodSeconds": 60}]},
			"scaleDown": {"selectPolicy": "Min", "stabilizationWindowSeconds": 9, "policies": [{"type": "Percent", "value": 4, "periodSeconds": 60}]}},
		"metrics": [
			{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}},
			{"type": "ContainerResource", "containerResource": {"name": "memory", "container": "app", "target": {"type": "AverageValue", "averageValue": "1Gi"}}},
			{"type": "Pods", "pods": {"metric": {"name": "rps"}, "target": {"type": "AverageValue", "averageValue": "10"}}},
			{"type": "Object", "object": {"describedObject": {"kind": "Ingress", "name": "web", "apiVersion": "networking.k8s.io/v1"}, "metric": {"name": "hits", "selector": ` + selector + `}, "target": {"type": "Value", "value": "100"}}},
			{"type": "External", "external": {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "10"}, "fallback": {"failureDurationSeconds": 200, "replicas": 3}}}]}`
	const stages = `{"schedules": [{"name": "day", "timeZone": "UTC", "cron": "0 8 * * *", "duration": "3600s", "minReplicas": 3, "maxReplicas": 9, "rampUp": "60s", "rampDown": "60s", "minPace": "PACED"}],
		"freshness": {"maxSampleAge": "60s", "futureTolerance": "5s"}, "combine": {"method": "MAX"}, "guards": {"reversals": {"count": 3, "period": "600s", "hold": "600s"}, "ignoreSurge": true},
		"forecast": {"mode": "FORECAST_ONLY", "season": "DAILY", "lead": "60s", "quantilePercent": 90, "timeZone": "UTC", "maxPercentOfMax": 80},
		"fallbacks": [{"metric": "Resource:cpu", "failureDuration": "60s", "replicas": 3, "direction": "BOTH"}, {"metric": "Pods:rps", "lastGood": {"maxAge": "60s"}}],
		"zeroGuards": [{"metric": "Object:hits", "dropPercent": 50, "confirm": "60s"}]}`
	const options = `{"profile": "v1.36", "tolerance": "0.1", "cpuInitializationPeriod": "300s", "initialReadinessDelay": "30s", "downscaleStabilization": "300s"}`
	const pod = `{"name": "a", "phase": "Running", "startTime": "2026-01-01T00:00:00Z", "ready": {"status": "True", "lastTransitionTime": "2026-01-01T00:01:00Z"}, "containers": [{"name": "app", "requests": {"cpu": "500m"}}],
		"initContainers": [{"name": "i", "restartable": true, "requests": {"cpu": "1m"}}], "overhead": {"cpu": "1m"}, "resources": {"requests": {"cpu": "500m"}}}`
	proposals := `[{"name": "one", "replicas": 4, "role": "FLOOR", "expireTime": "` + at(time.Minute) + `"}]`
	seen := `"pods": [` + pod + `], "podMetrics": [{"pod": "a", "timestamp": "` + at(-10*time.Second) + `", "windowSeconds": 30, "containers": [{"name": "app", "usage": {"cpu": "400m", "memory": "1Gi"}}]}],
		"customMetrics": [{"metric": {"name": "hits"}, "describedObject": {"kind": "Ingress", "name": "web"}, "value": "150", "timestamp": "` + at(-10*time.Second) + `", "windowSeconds": 5}],
		"externalMetrics": [{"metric": {"name": "queue"}, "value": "35", "labels": {"a": "x"}, "timestamp": "` + at(-9*time.Second) + `"}], "proposals": ` + proposals
	const scale = `{"specReplicas": 3, "statusReplicas": 3, "selector": "a=b"}`
	const all, web, workload = "/v1/clusters/demo/namespaces/shop", "/v1/" + target, `{"initialReplicas": 2, "podTemplate": ` + pod + `, "startupDelay": "30s", "usagePerLoad": ["1", "1", "1", "1", "1"], "metricDelay": "5s"}`
	tried := map[change]int{}
	for _, c := range []struct{ method, path, template, body string }{
		{"POST", web + ":recommend", "/v1/clusters/{cluster}/namespaces/{namespace}/targets/{target}:recommend", `{"spec": ` + spec + `, "stages": ` + stages + `, "options": ` + options + `, "scale": ` + scale + `, ` + seen + `, "explain": true, "dryRun": true, "generation": "4", "targetUid": "u",
			"metricErrors": [{"metric": "rps", "message": "no answer", "selector": {"matchLabels": {}}}], "previousStatus": {"currentReplicas": 3, "desiredReplicas": 3, "lastScaleTime": "` + at(-time.Hour) + `", "conditions": [{"type": "AbleToScale", "status": "True", "reason": "r", "message": "m"}]}}`},
		{"POST", web + ":recommend", "/v1/clusters/{cluster}/namespaces/{namespace}/targets/{target}:recommend", `{"spec": {"maxReplicas": 3}, "scale": ` + scale + `, "scaleError": {"reason": "FailedGet", "message": "gone"}}`},
		{"POST", web + ":recommend", "/v1/clusters/{cluster}/namespaces/{namespace}/targets/{target}:recommend", `{"spec": {"maxReplicas": 3}, "scale": ` + scale + `, "selectorProblem": {"reason": "AmbiguousSelector", "message": "two", "autoscalers": ["a"]}}`},
		{"POST", web + ":reportObservation", "/v1/clusters/{cluster}/namespaces/{namespace}/targets/{target}:reportObservation", `{` + seen + `, "scale": ` + scale + `, "observationTime": "` + at(0) + `"}`},
		{"PUT", web + "/spec", "/v1/clusters/{cluster}/namespaces/{namespace}/targets/{target}/spec", `{"spec": ` + spec + `, "stages": ` + stages + `, "options": ` + options + `, "period": "30s", "assumeApplied": true, "observationMaxAge": "60s",
			"shadows": [{"name": "wide", "spec": {"maxReplicas": 40}, "options": ` + options + `, "stages": {"freshness": {"maxSampleAge": "60s"}}}]}`},
		{"PUT", all + "/targets/idle/spec", "/v1/clusters/{cluster}/namespaces/{namespace}/targets/{target}/spec", `{"spec": {"minReplicas": 0, "maxReplicas": 9, "metrics": [{"type": "External", "external": {"metric": {"name": "queue"}, "target": {"type": "Value", "value": "9"}}}]},
			"options": {"scaleToZero": true}, "stages": {"idle": {"activation": {"External:queue": "5"}, "cooldown": "60s", "initialCooldown": "60s"}}}`},
		{"PUT", all + "/targets/both/spec", "/v1/clusters/{cluster}/namespaces/{namespace}/targets/{target}/spec", `{"spec": {"maxReplicas": 9}, "fleet": {"members": [{"target": "` + target + `", "weight": 2, "minReplicas": 1, "maxReplicas": 5}, {"target": "` + target + `2"}],
			"onLost": "SHIFT", "lostAfter": "600s", "staleAfter": "120s", "maxMoves": 2, "surviveOne": true}}`},
		{"POST", all + "/overrides", "/v1/clusters/{cluster}/namespaces/{namespace}/overrides", `{"pin": 2, "floor": 1, "reason": "load test", "startTime": "` + at(time.Minute) + `", "expireTime": "` + at(time.Hour) + `"}`},
		{"POST", "/v1/clusters/demo/agents:announce", "/v1/clusters/{cluster}/agents:announce", `{"agentId": "one-of-two-agents", "platform": "` + strings.Repeat("0f", 32) + `", "namespaces": ["shop"]}`},
		{"POST", "/v1/simulations:run", "/v1/simulations:run", `{"spec": ` + spec + `, "options": ` + options + `, "workload": ` + workload + `, "load": [{"offset": "0s", "value": 3}, {"offset": "60s", "value": 30}], "duration": "120s", "syncPeriod": "15s", "startTime": "` + at(0) + `", "seed": "1"}`},
		{"POST", "/v1/simulations:run", "/v1/simulations:run", `{"specs": [{"name": "x", "spec": {"maxReplicas": 4}, "options": ` + options + `}], "workload": {"usagePerLoad": ["100m"]}, "load": [{"offset": "0s", "value": 3}, {"offset": "60s", "value": 4}], "duration": "60s"}`},
	} {
		var whole map[string]any
		fatal.If(t, json.Unmarshal([]byte(c.body), &whole))
		// A stream's answers are lines, which the schemas of one answer do not fit.
		fits := func(err error) bool {
			return err == nil || strings.HasSuffix(c.path, ":run") && !strings.Contains(err.Error(), "request body")
		}
		ask := func() (int, []byte, error) {
			body, err := json.Marshal(whole)
			fatal.If(t, err)
			return d.ask(t, c.method, c.path, string(body))
		}
		if code, answer, err := ask(); code != 200 || !fits(err) {
			t.Fatalf("%s %s: HTTP %d; %v\n%.2000s", c.method, c.path, code, err, answer)
		}
		schema := document.Paths.Find(c.template).GetOperation(c.method).RequestBody.Value.Content["application/json"].Schema
		spoil(schema, whole, "", func(where string, of change) {
			if of == otherWord {
				return
			}
			tried[of]++
			code, answer, err := ask()
			switch path := strings.TrimPrefix(strings.TrimSuffix(where, " is not there"), "."); {
			case of == required && fits(err):
				t.Errorf("%s: without the required %s it fits the schemas", c.path, path)
			case matchesNothing.MatchString(where):
			case of == required && (code != 400 || !strings.Contains(string(answer), path)):
				t.Errorf("%s: without the required %s HTTP %d, want 400 with its name\n%.500s", c.path, path, code, answer)
			case of == optional && (code != 200 || !fits(err)) && !oneOfSeveral.MatchString(where):
				t.Errorf("%s: without %s, which is not required, HTTP %d; %v\n%.500s", c.path, path, code, err, answer)
			}
		})
	}
	if tried[required] < 90 || tried[optional] < 200 {
		t.Errorf("only %v fields were tried", tried)
	}
}

var (
	// matchesNothing are fields of selectors without which a request is taken: Kubernetes' controller says that such a
	// selector is wrong.
	matchesNothing = regexp.MustCompile(`\.matchExpressions\[0\]\.(key|operator) `)
	// oneOfSeveral are fields of which one must be set, or one that another refers to.
	oneOfSeveral = regexp.MustCompile(`^\.(scale|pin|fleet|specs?|metrics|workload|load|workload\.usagePerLoad|spec\.metrics|spec\.minReplicas|options|options\.scaleToZero) |` +
		`\.(metrics\[\d\]\.\w+|target\.(averageUtilization|averageValue|value)|scaleTargetRef\.apiVersion) |` +
		`\.schedules\[0\]\.(cron|duration|minReplicas) |\.fallbacks\[\d\]\.(replicas|lastGood) `)
)

// A change is what spoil did to a value.
type change int

const (
	required  change = iota // a required field is not there
	optional                // another field is not there
	otherWord               // a field has none of its words
)

// spoil calls back for each field of a value while that is not there, and for each field with a list of words while it
// has another one.
func spoil(of *openapi3.SchemaRef, value any, path string, each func(where string, of change)) {
	for len(of.Value.AllOf) == 1 {
		of = of.Value.AllOf[0]
	}
	switch value := value.(type) {
	case []any:
		for i, element := range value {
			spoil(of.Value.Items, element, fmt.Sprintf("%s[%d]", path, i), each)
		}
	case map[string]any:
		for key, was := range maps.Clone(value) {
			property := of.Value.Properties[key]
			if property == nil { // of a map
				continue
			}
			spoil(property, was, path+"."+key, each)
			if len(property.Value.Enum) > 0 {
				value[key] = "Odd"
				each(path+"."+key+" is another word", otherWord)
			}
			how := optional
			if slices.Contains(of.Value.Required, key) {
				how = required
			}
			delete(value, key)
			each(path+"."+key+" is not there", how)
			value[key] = was
		}
	}
}
