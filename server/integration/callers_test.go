package integration_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc/codes"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/testpages"
	"github.com/setpoint-dev/setpoint/server"
	"github.com/setpoint-dev/setpoint/server/servertest"
	"github.com/setpoint-dev/setpoint/store"
)

func TestMain(m *testing.M) { servertest.Main(m) }

// callers are the contracts: what each sends, and how it reads an answer.
var callers = []caller{
	{"datadog", "datadog-wpa.json", "targetReplicas", "error.message"},
	{"datadog", "datadog-dpa.json", "targetReplicas", "error.message"},
	{"agones", "agones.json", "response.replicas", "error"},
	{"gpa", "gpa.json", "response.replicas", "error"},
}

type caller struct{ contract, file, replicas, problem string }

func (c caller) path(cluster string) string {
	return "/v1/integrations/" + c.contract + "/clusters/" + cluster
}

func (c caller) body(t testing.TB) string {
	t.Helper()
	return testpages.Read(t, "testdata/"+c.file)
}

// pick is what an answer has at a path of names.
func pick(a *servertest.Answer, path string) any {
	var steps []any
	for step := range strings.SplitSeq(path, ".") {
		steps = append(steps, step)
	}
	return servertest.At(a.Body, steps...)
}

// refused fails the test unless the answer is an error in the caller's form: with a message,
// and without a count that it would scale to.
func (c caller) refused(t *testing.T, a *servertest.Answer) string {
	t.Helper()
	message, _ := pick(a, c.problem).(string)
	if message == "" || a.Header.Get("Content-Type") != "application/json" {
		t.Errorf("%s: HTTP %d is no error in its form: %s", c.contract, a.Code, a.Raw)
	}
	switch c.contract {
	case "datadog":
		if a.Body["targetReplicas"] != nil || a.Body["timestamp"] != nil {
			t.Errorf("%s: an error with a count: %s", c.contract, a.Raw)
		}
	default:
		verdict, _ := a.Body["response"].(map[string]any)
		if verdict == nil || verdict["scale"] != false || a.Code == http.StatusOK {
			t.Errorf("%s: HTTP %d to an error, without a response that holds: %s", c.contract, a.Code, a.Raw)
		}
	}
	return message
}

// openSpec is queueSpec without limits of how fast the count changes.
func openSpec(least, most int32) *setpointv1.TargetSpec {
	spec := servertest.QueueSpec(least, most)
	policies := []*setpointv1.HPAScalingPolicy{{Type: "Pods", Value: 1_000_000, PeriodSeconds: 15}}
	spec.Spec.Behavior = &setpointv1.HorizontalPodAutoscalerBehavior{
		ScaleUp:   &setpointv1.HPAScalingRules{Policies: policies},
		ScaleDown: &setpointv1.HPAScalingRules{Policies: policies, StabilizationWindowSeconds: new(int32)},
	}
	return spec
}

// Each is answered with the count that a poll is, up, down and at rest.
func TestIntegrationsGetTheCount(t *testing.T) {
	for _, c := range callers {
		t.Run(c.file, func(t *testing.T) {
			s := servertest.Start(t)
			s.SetSpec(t, openSpec(1, 500))
			for _, want := range []int{1, 2, 3, 80, 80, 100, 12} {
				s.Observe(t, 2, fmt.Sprint(10*want))
				a := s.Ask(t, http.MethodPost, c.path("demo"), c.body(t))
				a.Expect(t, http.StatusOK)
				if got := pick(a, c.replicas); got != float64(want) {
					t.Errorf("told %v, want %d: %s", got, want, a.Raw)
				}
				s.Clock.Advance(10 * time.Minute)
			}
		})
	}
}

// What Datadog's clients read of a reply.
func TestDatadogsReply(t *testing.T) {
	s := servertest.Start(t)
	s.SetSpec(t, openSpec(1, 500))
	s.Observe(t, 2, "45")
	a := s.Ask(t, http.MethodPost, callers[0].path("demo"), callers[0].body(t))
	want := map[string]any{
		"timestamp": servertest.T0.Format(time.RFC3339Nano), "targetReplicas": 5., "lowerBoundReplicas": 5., "upperBoundReplicas": 5.,
		"observedTargets": []any{map[string]any{"type": "queue", "targetValue": 22.5}},
		"reason":          "external metric queue(nil) above target",
	}
	if got, expected := a.Expect(t, http.StatusOK), want; fmt.Sprint(got) != fmt.Sprint(expected) {
		t.Errorf("replied %v, want %v", got, expected)
	}
	s.Clock.Advance(time.Minute)
	s.Observe(t, 5, "45")
	rest := strings.Replace(callers[0].body(t), `"desiredReplicas":2,"currentReplicas":2`, `"desiredReplicas":5,"currentReplicas":5`, 1)
	if got := s.Ask(t, http.MethodPost, callers[0].path("demo"), rest).Expect(t, http.StatusOK); got["reason"] == "" || got["targetReplicas"] != 5. {
		t.Errorf("at rest replied %v", got)
	}
}

// The bounds of the caller and of the spec both hold.
func TestDatadogsConstraints(t *testing.T) {
	s := servertest.Start(t)
	s.SetSpec(t, openSpec(3, 50))
	for _, tt := range []struct {
		constraints string
		queue       string
		want        any
	}{
		{`{}`, "10", 3.}, {`{"minReplicas":0,"maxReplicas":0}`, "10", 3.}, {`{"minReplicas":7,"maxReplicas":20}`, "10", 7.},
		{`{"minReplicas":7,"maxReplicas":20}`, "1000", 20.}, {`{"minReplicas":1,"maxReplicas":2000000000}`, "1000", 50.},
		{`{"minReplicas":60}`, "10", nil}, {`{"minReplicas":9,"maxReplicas":8}`, "10", nil},
	} {
		s.Observe(t, 3, tt.queue)
		body := fmt.Sprintf(`{"targetRef":{"namespace":"shop","name":"polled"},"state":{"currentReplicas":8},"constraints":%s}`, tt.constraints)
		a := s.Ask(t, http.MethodPost, callers[0].path("demo"), body)
		if a.Expect(t, http.StatusOK)["targetReplicas"] != tt.want {
			t.Errorf("with %s and %s told %s, want %v", tt.constraints, tt.queue, a.Raw, tt.want)
		}
		if tt.want == nil {
			callers[0].refused(t, a)
		}
		s.Clock.Advance(10 * time.Minute)
	}
}

// A target of another name than the object's is named by a setting, of the same namespace and
// cluster.
func TestIntegrationsNameTargets(t *testing.T) {
	s := servertest.Start(t)
	s.SetSpec(t, openSpec(1, 500))
	s.Observe(t, 2, "70")
	for _, tt := range []struct {
		name, contract, body string
		want                 any
		complaint            string
	}{
		{"a setting", "datadog", `{"targetRef":{"namespace":"shop","name":"web"},"settings":{"target":"polled"}}`, 7., ""},
		{"a setting that is null", "datadog", `{"targetRef":{"namespace":"shop","name":"polled"},"settings":{"target":null}}`, 7., ""},
		{"a setting that is none", "datadog", `{"targetRef":{"namespace":"shop","name":"polled"},"settings":{"target":7}}`, nil, "settings.target"},
		{"an empty setting", "datadog", `{"targetRef":{"namespace":"shop","name":"polled"},"settings":{"target":""}}`, nil, "settings.target"},
		{"a whole name", "datadog", `{"targetRef":{"namespace":"shop","name":"web"},"settings":{"target":"clusters/demo/namespaces/shop/targets/polled"}}`, nil, "settings.target"},
		{"another's namespace in a name", "datadog", `{"targetRef":{"namespace":"other","name":"../../shop/targets/polled"}}`, nil, "targetRef.name"},
		{"a namespace by a setting", "datadog", `{"targetRef":{"namespace":"other","name":"polled"},"settings":{"namespace":"shop"}}`, nil, "no spec is stored of clusters/demo/namespaces/other/targets/polled"},
		{"Datadog's cluster", "datadog", `{"targetRef":{"cluster":"prod","namespace":"shop","name":"polled"}}`, 7., ""},
		{"names in other cases", "datadog", `{"TargetRef":{"Namespace":"shop","Name":"polled"}}`, nil, "targetRef.namespace"},
		{"a name twice", "datadog", `{"targetRef":{"namespace":"other","namespace":"shop","name":"polled"}}`, nil, `duplicate field "targetRef.namespace"`},
		{"a name twice, once in another case", "datadog", `{"targetRef":{"namespace":"shop","NAMESPACE":"other","name":"polled"}}`, 7., ""},
		{"nothing", "datadog", `{}`, nil, "targetRef.namespace"},
		{"null", "datadog", `null`, nil, "targetRef.namespace"},
		{"a list", "datadog", `[]`, nil, "a JSON array"},
		{"two values", "datadog", `{} {}`, nil, "not valid JSON"},
		{"no JSON", "datadog", `<xml/>`, nil, "not valid JSON"},
		{"empty", "datadog", ``, nil, "not valid JSON"},
		{"a count that is text", "datadog", `{"targetRef":{"namespace":"shop","name":"polled"},"state":{"currentReplicas":"2"}}`, nil, "state.currentReplicas: Invalid value: a JSON string, must be a whole number"},
		{"a count beyond 32 bits", "datadog", `{"targetRef":{"namespace":"shop","name":"polled"},"state":{"currentReplicas":2147483648}}`, nil, "state.currentReplicas"},
		{"a negative count", "datadog", `{"targetRef":{"namespace":"shop","name":"polled"},"state":{"desiredReplicas":-1}}`, nil, "state.desiredReplicas: Invalid value: -1"},
		{"a negative bound", "datadog", `{"targetRef":{"namespace":"shop","name":"polled"},"constraints":{"maxReplicas":-1}}`, nil, "constraints.maxReplicas: Invalid value: -1"},
		{"what newer callers may send", "datadog", `{"targetRef":{"namespace":"shop","name":"polled","uid":"x"},"novelty":[{"a":1}]}`, 7., ""},
		{"a parameter", "gpa", `{"request":{"uid":"u","namespace":"shop","name":"web","parameters":{"target":"polled"}}}`, 7., ""},
		{"a parameter that is none", "gpa", `{"request":{"uid":"u","namespace":"shop","name":"web","parameters":{"target":"a/b"}}}`, nil, "request.parameters.target"},
		{"a parameter of Agones, which has none", "agones", `{"request":{"uid":"u","namespace":"shop","name":"polled","parameters":{"target":"web"}}}`, 7., ""},
		{"no request", "agones", `{"response":null}`, nil, "request.namespace"},
		{"a negative size", "agones", `{"request":{"uid":"u","namespace":"shop","name":"polled","status":{"replicas":-3}}}`, nil, "request.status.replicas: Invalid value: -3"},
		{"a negative size", "gpa", `{"request":{"uid":"u","namespace":"shop","name":"polled","currentReplicas":-3}}`, nil, "request.currentReplicas: Invalid value: -3"},
	} {
		c := caller{tt.contract, "", map[string]string{"datadog": "targetReplicas"}[tt.contract], map[string]string{"datadog": "error.message"}[tt.contract]}
		if c.replicas == "" {
			c.replicas, c.problem = "response.replicas", "error"
		}
		a := s.Ask(t, http.MethodPost, c.path("demo"), tt.body)
		if tt.want != nil {
			if a.Code != http.StatusOK || pick(a, c.replicas) != tt.want {
				t.Errorf("%s: HTTP %d %s, want %v", tt.name, a.Code, a.Raw, tt.want)
			}
			continue
		}
		if message := c.refused(t, a); !strings.Contains(message, tt.complaint) {
			t.Errorf("%s: refused with %q, want %q", tt.name, message, tt.complaint)
		}
	}
}

// Every error has the caller's form, and keeps the count.
func TestIntegrationsErrorsAreInTheCallersForm(t *testing.T) {
	s := servertest.Start(t, func(su *servertest.Setup) { su.Options.MaxRequestBytes = 1 << 20 })
	for _, c := range callers {
		for _, tt := range []struct {
			name, method, path string
			body               any
			code               int
		}{
			{"no spec", http.MethodPost, c.path("demo"), c.body(t), http.StatusNotFound},
			{"no JSON", http.MethodPost, c.path("demo"), "{", http.StatusBadRequest},
			{"no body", http.MethodPost, c.path("demo"), nil, http.StatusBadRequest},
			{"another method", http.MethodPut, c.path("demo"), c.body(t), http.StatusMethodNotAllowed},
			{"a question in the address", http.MethodGet, c.path("demo"), nil, http.StatusMethodNotAllowed},
			{"a cluster that is none", http.MethodPost, c.path("-"), c.body(t), http.StatusBadRequest},
			{"a cluster with a slash", http.MethodPost, c.path("a%2Fb"), c.body(t), http.StatusNotFound},
			{"no cluster", http.MethodPost, "/v1/integrations/" + c.contract, c.body(t), http.StatusNotFound},
			{"a longer path", http.MethodPost, c.path("demo") + "/namespaces/shop", c.body(t), http.StatusNotFound},
			{"a verb", http.MethodPost, c.path("demo:recommend"), c.body(t), http.StatusNotFound},
			{"text that is no UTF-8", http.MethodPost, c.path("%ff"), c.body(t), http.StatusBadRequest},
			{"10 MB", http.MethodPost, c.path("demo"), strings.Repeat(" ", 10<<20), http.StatusRequestEntityTooLarge},
			{"10 MB without an announcement", http.MethodPost, c.path("demo"), io.MultiReader(strings.NewReader(strings.Repeat(" ", 10<<20))), http.StatusRequestEntityTooLarge},
			{"too deep", http.MethodPost, c.path("demo"), strings.Repeat(`{"a":`, 20_000), http.StatusBadRequest},
			{"too deep, elsewhere", http.MethodPost, c.path("demo"), `{"x":` + strings.Repeat("[", 200_000) + strings.Repeat("]", 200_000) + "}", http.StatusBadRequest},
		} {
			a := s.Ask(t, tt.method, tt.path, tt.body)
			want := tt.code
			if c.contract == "datadog" && tt.name == "no spec" {
				want = http.StatusOK // its users see no more of other answers than the code
			}
			if a.Code != want {
				t.Errorf("%s of %s: HTTP %d, want %d: %s", tt.name, c.contract, a.Code, want, a.Raw)
			}
			if want == http.StatusMethodNotAllowed && a.Header.Get("Allow") != http.MethodPost {
				t.Errorf("%s of %s: allowed is %q", tt.name, c.contract, a.Header.Get("Allow"))
			}
			c.refused(t, a)
		}
	}
	if a := s.Ask(t, http.MethodPost, "/v1/integrations/nobodys/clusters/demo", "{}"); a.Code != http.StatusNotFound || a.Body["code"] != float64(codes.NotFound) ||
		!strings.Contains(string(a.Raw), "it must be /v1/integrations/{agones, datadog, gpa}/clusters/{cluster}") {
		t.Errorf("an unknown contract: HTTP %d %s", a.Code, a.Raw)
	}
}

// What the caller sends beside the JSON changes nothing.
func TestIntegrationsTakeAnyContentType(t *testing.T) {
	s := servertest.Start(t)
	s.SetSpec(t, openSpec(1, 500))
	s.Observe(t, 2, "70")
	for _, c := range callers {
		for _, headers := range [][]string{
			{"Content-Type", "application/json"}, {"Content-Type", "text/plain"}, {"Content-Type", "application/x-protobuf"}, {"Content-Type", "\x7f"},
			{"X-HTTP-Method-Override", "GET"}, {"Grpc-Timeout", "1H"}, {"Accept", "application/xml"}, {"X-Forwarded-For", "10.0.0.1"}, {"X-Forwarded-User", "token:admin"},
			{"Grpc-Metadata-Authorization", "Bearer x"}, {"Setpoint-Gateway-Caller", "1"}, {"Grpc-Metadata-Setpoint-Gateway-Caller", "1"},
		} {
			req := s.Request(t, http.MethodPost, c.path("demo"), c.body(t))
			req.Header.Set(headers[0], headers[1])
			a, err := s.Send(req)
			if headers[1] == "\x7f" && err != nil {
				continue // not even sent
			}
			if err != nil || a.Code != http.StatusOK || pick(a, c.replicas) != 7. {
				t.Errorf("%s with %q: %v", c.contract, headers, err)
			}
		}
		// Nor does what stands in the address beside the path.
		a := s.Ask(t, http.MethodPost, c.path("demo")+"?currentReplicas=1&maxReplicas=3&target=clusters/x/namespaces/y/targets/z&cluster=x", c.body(t))
		if a.Code != http.StatusOK || pick(a, c.replicas) != 7. {
			t.Errorf("%s with a query: HTTP %d %s", c.contract, a.Code, a.Raw)
		}
		// A body that is compressed is none.
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+c.path("demo"), bytes.NewReader([]byte("\x1f\x8b\x08\x00\x00")))
		fatal.If(t, err)
		req.Header.Set("Content-Encoding", "gzip")
		if a, err = s.Send(req); err != nil || a.Code != http.StatusBadRequest {
			t.Fatalf("%s, compressed: %v", c.contract, err)
		}
		c.refused(t, a)
		for timeout, code := range map[string]int{"1n": http.StatusGatewayTimeout, "soon": http.StatusBadRequest} {
			req, err = http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+c.path("demo"), strings.NewReader(c.body(t)))
			fatal.If(t, err)
			req.Header.Set("Grpc-Timeout", timeout)
			a, err := s.Send(req)
			if c.contract == "datadog" && code == http.StatusBadRequest {
				code = http.StatusOK // the response describes the error
			}
			if err != nil || a.Code != code {
				t.Fatalf("%s with a timeout of %s: %v %v", c.contract, timeout, a, err)
			}
			c.refused(t, a)
		}
	}
}

// Whoever may not recommend for a target may not poll it by another contract either. A token
// may be the password of the address.
func TestIntegrationsReachOnlyWhatTheCallerMay(t *testing.T) {
	s := servertest.Guarded(t)
	basic := func(user, password string) string {
		return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
	}
	for _, c := range callers {
		for _, tt := range []struct {
			who, authorization string
			cluster, namespace string
			code               int
		}{
			{"nobody", "", "demo", "shop", http.StatusUnauthorized},
			{"an unknown token", "Bearer " + servertest.UnknownToken, "demo", "shop", http.StatusUnauthorized},
			{"an unknown password", basic("scaler", servertest.UnknownToken), "demo", "shop", http.StatusUnauthorized},
			{"no password", basic("scaler", ""), "demo", "shop", http.StatusUnauthorized},
			{"a token for a user", basic(servertest.ScalerToken, ""), "demo", "shop", http.StatusUnauthorized},
			{"no pair", "Basic " + base64.StdEncoding.EncodeToString([]byte(servertest.ScalerToken)), "demo", "shop", http.StatusUnauthorized},
			{"no base64", "Basic " + servertest.ScalerToken, "demo", "shop", http.StatusUnauthorized},
			{"a password with a second scheme", basic("x", "Bearer "+servertest.ScalerToken), "demo", "shop", http.StatusUnauthorized},
			{"a very long one", basic("x", strings.Repeat("a", 9_000)), "demo", "shop", http.StatusUnauthorized},
			{"a reader", "Bearer " + servertest.ReaderToken, "demo", "shop", http.StatusForbidden},
			{"the scaler", "Bearer " + servertest.ScalerToken, "demo", "shop", http.StatusNotFound},
			{"the scaler, by the address", basic("scaler", servertest.ScalerToken), "demo", "shop", http.StatusNotFound},
			{"the scaler, in another case", "bASIC" + strings.TrimPrefix(basic("scaler", servertest.ScalerToken), "Basic"), "demo", "shop", http.StatusNotFound},
			{"the scaler, elsewhere", "Bearer " + servertest.ScalerToken, "demo", "bank", http.StatusForbidden},
			{"the scaler, in another cluster", basic("scaler", servertest.ScalerToken), "prod", "shop", http.StatusForbidden},
			{"the scaler, in another case of it", basic("scaler", servertest.ScalerToken), "Demo", "shop", http.StatusForbidden},
			{"the scaler, beside it", basic("scaler", servertest.ScalerToken), "demo%20", "shop", http.StatusBadRequest},
		} {
			body := strings.Replace(c.body(t), `"namespace":"shop"`, `"namespace":"`+tt.namespace+`"`, 1)
			req := s.Request(t, http.MethodPost, c.path(tt.cluster), body)
			if tt.authorization != "" {
				req.Header.Set("Authorization", tt.authorization)
			}
			a := s.MustSend(t, req)
			want := tt.code
			if c.contract == "datadog" && want == http.StatusNotFound {
				want = http.StatusOK
			}
			if a.Code != want {
				t.Errorf("%s of %s: HTTP %d, want %d: %s", tt.who, c.contract, a.Code, want, a.Raw)
			}
			if message := c.refused(t, a); strings.Contains(message, servertest.ScalerToken) || strings.Contains(message, servertest.UnknownToken) {
				t.Errorf("%s of %s: told %q", tt.who, c.contract, message)
			}
		}
	}
	// Of our own calls no password is a token.
	req := s.Request(t, http.MethodGet, "/v1/"+servertest.Polled+"/recommendation", nil)
	req.Header.Set("Authorization", basic("scaler", servertest.ScalerToken))
	if a, err := s.Send(req); err != nil || a.Code != http.StatusUnauthorized {
		t.Errorf("our own call: %v %v", a, err)
	}
}

// A thousand unknown targets leave nothing behind.
func TestIntegrationsOfUnknownTargets(t *testing.T) {
	s := servertest.Start(t)
	var asked sync.WaitGroup
	for worker := range 8 {
		asked.Go(func() {
			for i := worker; i < 1000; i += 8 {
				c := callers[i%len(callers)]
				body := strings.Replace(c.body(t), `"name":"polled"`, fmt.Sprintf(`"name":"unknown-%d"`, i), 1)
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+c.path("demo"), strings.NewReader(body))
				if err != nil {
					t.Error(err)
					return
				}
				a, err := s.Send(req)
				if err != nil {
					t.Error(err)
					return
				}
				c.refused(t, a)
			}
		})
	}
	asked.Wait()
	if keys, err := s.Memory.List(t.Context(), store.Filter{}, store.Key{}, 10); err != nil || len(keys) > 0 {
		t.Errorf("left %v, %v", keys, err)
	}
}

// A caller over a limit gets an error in its form.
func TestIntegrationsAreLimited(t *testing.T) {
	s := servertest.Start(t, func(su *servertest.Setup) {
		su.Options.Limits.Identity.Rate, su.Options.Limits.Identity.Burst = 0.001, 1
	})
	s.Ask(t, http.MethodGet, "/v1/"+servertest.Web, nil) // the one that is allowed
	for _, c := range callers {
		a := s.Ask(t, http.MethodPost, c.path("demo"), c.body(t))
		c.refused(t, a)
		if after, err := strconv.Atoi(a.Header.Get("Retry-After")); a.Code != http.StatusTooManyRequests || err != nil || after < 1 {
			t.Errorf("%s: answered %d with Retry-After %q, want 429 and when to ask again", c.path("demo"), a.Code, a.Header.Get("Retry-After"))
		}
	}
	if a := s.Ask(t, http.MethodPost, servertest.RecommendPath(servertest.Web), servertest.WebBody); a.Code != http.StatusTooManyRequests || a.Header.Get("Retry-After") == "" {
		t.Errorf("our own REST: answered %d with Retry-After %q", a.Code, a.Header.Get("Retry-After"))
	}
}

// Slow bodies delay no other call, and get a response when they are complete.
func TestIntegrationsWithSlowBodies(t *testing.T) {
	const slowly = 2 // as many as may be in flight
	s := servertest.Start(t, func(su *servertest.Setup) { su.Options.Limits.InFlight = slowly })
	s.SetSpec(t, openSpec(1, 500))
	s.Observe(t, 2, "70")
	for _, c := range callers {
		body := c.body(t)
		var writers []*io.PipeWriter
		answers := make(chan *servertest.Answer, slowly)
		for range slowly {
			read, write := io.Pipe()
			req := s.Request(t, http.MethodPost, c.path("demo"), read)
			go func() {
				a, err := s.Send(req)
				if err != nil {
					t.Errorf("%s, slowly: %v", c.contract, err)
				}
				answers <- a
			}()
			if _, err := io.WriteString(write, body[:10]); err != nil {
				t.Fatal(err)
			}
			writers = append(writers, write)
		}
		// They have places until their bodies are waited for.
		servertest.Eventually(t, func() bool { return s.Ask(t, http.MethodPost, c.path("demo"), body).Code == http.StatusOK })
		for _, write := range writers {
			if _, err := io.WriteString(write, body[10:]); err != nil {
				t.Fatal(err)
			}
			_ = write.Close()
			if a := <-answers; a != nil && pick(a, c.replicas) != 7. {
				t.Errorf("%s, slowly: HTTP %d %s", c.contract, a.Code, a.Raw)
			}
		}
	}
}

// Calls are counted and logged as polls, and those that are refused before as REST's.
func TestIntegrationsAreCountedAndLogged(t *testing.T) {
	var logs *observer.ObservedLogs
	s, r := servertest.Measured(t, servertest.Logged(zap.InfoLevel, server.LogAllCalls, &logs))
	const method = "setpoint.v1.RecommendationService/GetRecommendation"
	for _, c := range callers {
		before, lined := servertest.Read(t, r), len(servertest.Lines(logs, "call"))
		c.refused(t, s.Ask(t, http.MethodPost, c.path("demo"), c.body(t)))
		c.refused(t, s.Ask(t, http.MethodPost, c.path("demo"), "{"))
		codes := servertest.Reading{"requests_total{code=NotFound,method=" + method + "}": 1, "rest_requests_total{code=4xx}": 2}
		if c.contract == "datadog" {
			codes["rest_requests_total{code=2xx}"], codes["rest_requests_total{code=4xx}"] = 1, 1
		}
		servertest.Read(t, r).Since(before, "requests_", "rest_").Expect(t, codes)
		all := servertest.Lines(logs, "call")[lined:]
		if len(all) != 2 || all[0]["method"] != method || all[0]["target"] != servertest.Polled || all[0]["code"] != "NotFound" ||
			all[1]["method"] != "POST "+c.path("demo") || all[1]["code"] != "InvalidArgument" {
			t.Errorf("%s: the lines are %v", c.contract, all)
		}
	}
}
