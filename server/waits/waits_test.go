package waits_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/files"
	"github.com/setpoint-dev/setpoint/server"
	"github.com/setpoint-dev/setpoint/server/auth"
	"github.com/setpoint-dev/setpoint/server/auth/policy"
	"github.com/setpoint-dev/setpoint/server/servertest"
	"github.com/setpoint-dev/setpoint/server/stored"
	"github.com/setpoint-dev/setpoint/server/validation"
	"github.com/setpoint-dev/setpoint/server/waits"
	"github.com/setpoint-dev/setpoint/store"
)

func TestMain(m *testing.M) { servertest.Main(m) }

// Targets of the caller whose calls wait, and of another tenant.
const (
	slowTarget   = "clusters/a/namespaces/slow/targets/web"
	victimTarget = "clusters/b/namespaces/shop/targets/web"
	victimToken  = "sp_victim-0123456789abcdefghijklmnopqrs"
)

// slowToken is a token of one of the callers whose calls wait.
func slowToken(i int) string { return fmt.Sprintf("sp_slow-%02d-0123456789abcdefghijklmnopqrs", i) }

const slowCallers = 20

// waiting is a service with calls that wait, and whatever they wait for.
type waiting struct {
	*servertest.Service
	issuer  string
	metrics *prometheus.Registry
	// hold is closed at the end: until then sources of cluster a answer nothing, and its records
	// are not loaded if stuck is set.
	hold  chan struct{}
	stuck atomic.Bool
	// fetching counts the polls that wait for a source.
	fetching atomic.Int64
	// overloaded makes the processors seem busy: then few calls may run.
	overloaded atomic.Bool
	// refused and answered count the attacking calls.
	refused, answered atomic.Int64
	calls             sync.WaitGroup
}

// Check implements stored.Sources, as does Fetch.
func (w *waiting) Check(store.Key, *setpointv1.TargetSpec) []validation.Violation { return nil }

// Fetch waits for the sources of cluster a.
func (w *waiting) Fetch(ctx context.Context, key store.Key, _ *setpointv1.TargetSpec, _ []string) (*stored.Fetched, error) {
	if key.Cluster == "a" {
		w.fetching.Add(1)
		defer w.fetching.Add(-1)
		w.wait(ctx)
	}
	return &stored.Fetched{ExternalMetrics: []*setpointv1.ExternalMetric{{Metric: &setpointv1.MetricIdentifier{Name: "queue"}, Value: "30"}}}, nil
}

func (w *waiting) wait(ctx context.Context) {
	select {
	case <-w.hold:
	case <-ctx.Done():
	}
}

func startWaiting(t *testing.T, kind waits.Kind) *waiting {
	t.Helper()
	w := &waiting{metrics: prometheus.NewRegistry(), hold: make(chan struct{})}
	provider := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { w.wait(r.Context()) }))
	t.Cleanup(provider.Close)
	w.issuer = provider.URL
	dir, tokens := t.TempDir(), "tokens:\n"
	add := func(identity, token string) {
		sum := sha256.Sum256([]byte(token))
		tokens += fmt.Sprintf("  - {identity: %s, sha256: %q}\n", identity, hex.EncodeToString(sum[:]))
	}
	add("victim", victimToken)
	for i := range slowCallers {
		add(fmt.Sprint("slow-", i), slowToken(i))
	}
	for name, text := range map[string]string{"tokens": tokens, "oidc": fmt.Sprintf("issuers:\n  - {issuer: %s, audiences: [setpoint]}\n", w.issuer)} {
		fatal.If(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	authenticator, err := auth.New(auth.Options{
		TokensFile: filepath.Join(dir, "tokens"), OIDCFile: filepath.Join(dir, "oidc"), Files: files.Options{Interval: -1},
	})
	fatal.If(t, err)
	t.Cleanup(authenticator.Close)
	p, err := policy.Parse("policy.yaml", []byte(`grants: [{identities: ["token:victim"], clusters: [b], verbs: ["*"]}, {identities: ["token:slow-*"], clusters: [a], verbs: ["*"]}]`))
	fatal.If(t, err)
	began := time.Now()
	w.Service = servertest.Start(t, func(su *servertest.Setup) {
		su.Options.Registerer = w.metrics
		su.Options.Access = &server.Access{Authenticator: authenticator, Policy: files.Fixed(p)}
		su.Options.Sources = w
		su.Options.MaxSimulations = 1
		if kind == waits.Issuer { // who is not known yet holds no place at all
			su.Options.Limits.InFlight = 4
		}
		su.Options.Limits.Shedding.Off = false
		su.Options.Limits.Shedding.MinRunning = 8
		su.Options.Limits.Shedding.Waited = func() time.Duration {
			if w.overloaded.Load() {
				return 1000 * time.Since(began)
			}
			return 0
		}
		su.Store.OnLoad = func(ctx context.Context, key store.Key, load servertest.LoadFunc) (store.Record, error) {
			if key.Cluster == "a" && w.stuck.Load() {
				w.wait(ctx)
			}
			return load(ctx, key)
		}
	})
	for token, target := range map[string]string{slowToken(0): slowTarget, victimToken: victimTarget} {
		spec := servertest.QueueSpec(1, 50)
		spec.AssumeApplied = true
		spec.Queries = []*setpointv1.MetricQuery{{Metric: "External:queue", Source: "any", Path: "/", ValuePath: "{.length}"}}
		if _, err := w.Targets.SetTargetSpec(servertest.As(t.Context(), token), &setpointv1.SetTargetSpecRequest{Name: target, TargetSpec: spec}); err != nil {
			t.Fatal(err)
		}
		request := servertest.WebRequest(t, servertest.WithTarget(target))
		request.EvaluationTime = nil
		if _, err := w.Recommendations.Recommend(servertest.As(t.Context(), token), request); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// attack makes a call again and again while it is refused: many arrive at once.
func (w *waiting) attack(ctx context.Context, call func() (refused bool)) {
	w.calls.Go(func() {
		for ctx.Err() == nil {
			if !call() {
				w.answered.Add(1)
				return
			}
			w.refused.Add(1)
			time.Sleep(20 * time.Millisecond)
		}
	})
}

// rest makes a REST call with a token.
func (w *waiting) rest(ctx context.Context, token, method, path string, body []byte, headers ...string) (*servertest.Answer, error) {
	r, err := http.NewRequestWithContext(ctx, method, w.URL+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if len(body) == 0 {
		r.Body, r.ContentLength = http.NoBody, 0
	}
	r.Header.Set("Authorization", "Bearer "+token)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return w.Send(r)
}

// attackREST makes a REST call of one of the slow callers wait.
func (w *waiting) attackREST(ctx context.Context, i int, method, path string, body []byte, headers ...string) {
	w.attack(ctx, func() bool {
		a, err := w.rest(ctx, slowToken(i%slowCallers), method, path, body, headers...)
		return err == nil && a.Code == http.StatusTooManyRequests
	})
}

// Honest calls, by name: all answer at once.
const (
	honestCaller    = "GET /v1/caller"
	honestPoll      = "a poll over REST"
	honestPollGRPC  = "a poll over gRPC"
	honestFast      = "a recommendation over REST"
	honestGRPC      = "a recommendation over gRPC"
	honestLarge     = "a body of some kilobytes over REST"
	honestLargeGRPC = "a message of some kilobytes over gRPC"
	honestList      = "a list over REST"
	honestListGRPC  = "a list over gRPC"
)

// honest are the calls of another tenant.
func (w *waiting) honest(t *testing.T) map[string]func(context.Context) error {
	request := servertest.WebRequest(t, servertest.WithTarget(victimTarget))
	request.EvaluationTime = nil
	larger := servertest.WebRequest(t, servertest.WithTarget(victimTarget))
	larger.EvaluationTime = nil
	for i := range 50 {
		larger.Pods = append(larger.Pods, &setpointv1.Pod{Name: fmt.Sprintf("further-pod-with-a-long-name-%d", i), Phase: "Running"})
	}
	body := func(r *setpointv1.RecommendRequest) []byte {
		clone := servertest.WebRequest(t)
		clone.Reset()
		clone.Spec, clone.Scale, clone.Pods, clone.PodMetrics = r.GetSpec(), r.GetScale(), r.GetPods(), r.GetPodMetrics()
		clone.CustomMetrics, clone.ExternalMetrics = r.GetCustomMetrics(), r.GetExternalMetrics()
		data, err := protojson.Marshal(clone)
		fatal.If(t, err)
		return data
	}
	rest := func(method, path string, body []byte, headers ...string) func(context.Context) error {
		return func(ctx context.Context) error {
			a, err := w.rest(ctx, victimToken, method, path, body, headers...)
			if err == nil && a.Code != http.StatusOK {
				err = fmt.Errorf("%d %s", a.Code, a.Raw)
			}
			return err
		}
	}
	grpc := func(call func(context.Context) error) func(context.Context) error {
		return func(ctx context.Context) error { return call(servertest.As(ctx, victimToken)) }
	}
	return map[string]func(context.Context) error{
		honestCaller: rest(http.MethodGet, "/v1/caller", nil),
		honestPoll:   rest(http.MethodGet, "/v1/"+victimTarget+"/recommendation", nil),
		honestPollGRPC: grpc(func(ctx context.Context) error {
			_, err := w.Recommendations.GetRecommendation(ctx, &setpointv1.GetRecommendationRequest{Target: victimTarget})
			return err
		}),
		honestFast: rest(http.MethodPost, "/v1/"+victimTarget+":recommend", body(request)),
		honestGRPC: grpc(func(ctx context.Context) error {
			_, err := w.Recommendations.Recommend(ctx, request)
			return err
		}),
		// With a deadline it goes through the gateway.
		honestLarge: rest(http.MethodPost, "/v1/"+victimTarget+":recommend", body(larger), "Grpc-Timeout", "20S"),
		honestLargeGRPC: grpc(func(ctx context.Context) error {
			_, err := w.Recommendations.Recommend(ctx, larger)
			return err
		}),
		honestList: rest(http.MethodGet, "/v1/clusters/b/namespaces/shop/targets", nil),
		honestListGRPC: grpc(func(ctx context.Context) error {
			_, err := w.Targets.ListTargets(ctx, &setpointv1.ListTargetsRequest{Parent: "clusters/b/namespaces/shop"})
			return err
		}),
	}
}

// waitOf has calls of the slow callers wait, and returns when they do.
type waitOf struct {
	begin func(ctx context.Context, t *testing.T, w *waiting)
	// but are the honest calls that need the same, and wait for it, too.
	but []string
}

// allWaits are all that calls wait for.
var allWaits = map[waits.Kind]waitOf{
	waits.Fetch: {begin: func(ctx context.Context, t *testing.T, w *waiting) {
		const polls = 400 // there are 256 places in the gateway
		for i := range polls {
			w.attackREST(ctx, i, http.MethodGet, fmt.Sprintf("/v1/%s/recommendation?maxReplicas=%d", slowTarget, 1+i), nil)
			w.attack(ctx, func() bool {
				_, err := w.Recommendations.GetRecommendation(servertest.As(ctx, slowToken(i%slowCallers)), &setpointv1.GetRecommendationRequest{Target: slowTarget, MaxReplicas: new(int32(1 + i))})
				return status.Code(err) == codes.ResourceExhausted
			})
		}
		servertest.Eventually(t, func() bool { return w.fetching.Load() == 2*polls })
	}},
	waits.Simulation: {begin: func(ctx context.Context, t *testing.T, w *waiting) {
		// One that nobody reads has the only place.
		first, err := w.Simulations.Simulate(servertest.As(ctx, slowToken(0)), &setpointv1.SimulateRequest{
			Scenario: servertest.DayOfWeb, Specs: []*setpointv1.SimulatedSpec{{Spec: servertest.SimulatedSpec(60, 30)}}, Explain: true,
		})
		if err == nil {
			_, err = first.Recv()
		}
		fatal.If(t, err)
		body, err := json.Marshal(map[string]any{"scenario": servertest.DayOfWeb + "# " + strings.Repeat("x", 8<<10), "figuresOnly": true, "specs": []any{map[string]any{"spec": json.RawMessage(`{"maxReplicas": 3}`)}}})
		fatal.If(t, err)
		for i := range slowCallers {
			w.attackREST(ctx, i, http.MethodPost, "/v1/simulations:run", body)
		}
		servertest.Eventually(t, func() bool { return w.refused.Load() > 0 })
	}},
	waits.Large: {begin: func(ctx context.Context, t *testing.T, w *waiting) {
		w.stuck.Store(true)
		n := 16*runtime.GOMAXPROCS(0) + 30 // more than fit
		for i := range n {
			w.attack(ctx, func() bool {
				_, err := w.Recommendations.Recommend(servertest.As(ctx, slowToken(i%slowCallers)), large(t, slowTarget))
				return status.Code(err) == codes.ResourceExhausted
			})
		}
		servertest.Eventually(t, func() bool {
			return servertest.Read(t, w.metrics)["calls_in_flight"] >= float64(n) && servertest.Read(t, w.metrics)["large_requests_bytes"] >= 16<<20
		})
	}},
	waits.List: {but: []string{honestList, honestListGRPC}, begin: func(ctx context.Context, t *testing.T, w *waiting) {
		w.stuck.Store(true)
		n := 40 * runtime.GOMAXPROCS(0)
		for i := range n {
			w.attackREST(ctx, i, http.MethodGet, fmt.Sprintf("/v1/clusters/a/namespaces/slow/targets?pageSize=%d", 1+i), nil)
		}
		servertest.Eventually(t, func() bool { return servertest.Read(t, w.metrics)["calls_in_flight"] >= float64(n) })
	}},
	waits.Translation: {but: []string{honestLarge, honestList}, begin: func(ctx context.Context, t *testing.T, w *waiting) {
		w.stuck.Store(true)
		n := 40 * runtime.GOMAXPROCS(0)
		body := []byte(`{"spec": {"maxReplicas": 3}, "scale": {"specReplicas": 1}` + strings.Repeat(" ", 8<<10) + "}")
		for i := range n {
			w.attackREST(ctx, i, http.MethodPost, "/v1/"+slowTarget+":recommend", body, "Grpc-Timeout", "100S")
		}
		servertest.Eventually(t, func() bool { return servertest.Read(t, w.metrics)["calls_in_flight"] >= float64(n) })
	}},
	waits.Issuer: {begin: func(ctx context.Context, t *testing.T, w *waiting) {
		const n = 100
		exhausted := func(err error) bool { return status.Code(err) == codes.ResourceExhausted }
		for i := range n {
			token := madeUp(w.issuer, i)
			w.attack(ctx, func() bool {
				a, err := w.rest(ctx, token, http.MethodGet, "/v1/caller", nil)
				return err != nil || a.Code == http.StatusTooManyRequests
			})
			w.attack(ctx, func() bool {
				_, err := w.Recommendations.Recommend(servertest.As(ctx, token), servertest.WebRequest(t, servertest.WithTarget(slowTarget)))
				return exhausted(err)
			})
			w.attack(ctx, func() bool {
				stream, err := w.Recommendations.StreamRecommend(servertest.As(ctx, token))
				if err == nil {
					_, err = stream.Recv()
				}
				return exhausted(err)
			})
		}
		// Beyond some, callers with unknown keys are refused rather than kept.
		servertest.Eventually(t, func() bool {
			// Who waits is answered once the issuer has not for long enough: counted in this order nobody
			// is counted twice, and nobody is left who still tries to get a place.
			answered := float64(w.answered.Load())
			return answered+servertest.Read(t, w.metrics)["calls_waiting"] >= 3*n
		})
	}},
}

// madeUp returns a JWT that claims an issuer, signed by an unknown key.
func madeUp(issuer string, n int) string {
	part := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	return part(fmt.Sprintf(`{"alg":"ES256","kid":"k%d"}`, n)) + "." + part(fmt.Sprintf(`{"iss":%q,"exp":9999999999}`, issuer)) + "." + part(strings.Repeat("s", 64))
}

// answered is how long a call may take that others' waits don't hold up: much shorter than these.
const answered = 20 * time.Second

// While calls wait, for whatever it is, other tenants are answered at once, and refused nothing, also
// while the processors are busy and few calls may run.
func TestCallsThatWaitAreInNobodysWay(t *testing.T) {
	t.Parallel()
	for kind := range allWaits {
		if !slices.Contains(waits.Kinds(), kind) {
			t.Errorf("%d is nothing that calls wait for", kind)
		}
	}
	for _, kind := range waits.Kinds() {
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			of, known := allWaits[kind]
			if !known {
				t.Fatal("add to allWaits what makes calls wait for this")
			}
			w := startWaiting(t, kind)
			honest := w.honest(t)
			for name, call := range honest {
				if err := call(t.Context()); err != nil {
					t.Fatalf("%s before: %v", name, err)
				}
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer w.calls.Wait()
			defer close(w.hold)
			defer cancel()
			of.begin(ctx, t, w)
			w.overloaded.Store(true)
			for began := time.Now(); time.Since(began) < time.Second; {
				for name, call := range honest {
					if slices.Contains(of.but, name) {
						continue
					}
					asked, gone := context.WithTimeout(t.Context(), answered)
					err := call(asked)
					gone()
					if err != nil {
						t.Fatalf("%s while calls wait: %v", name, err)
					}
				}
			}
		})
	}
}
