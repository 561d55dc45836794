package sources

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server"
	"github.com/setpoint-dev/setpoint/server/stored"
	"github.com/setpoint-dev/setpoint/store"
	"github.com/setpoint-dev/setpoint/store/memory"
	"github.com/setpoint-dev/setpoint/test/testserver"
)

// source is a server that answers with JSON, and counts.
type source struct {
	*httptest.Server
	asked  atomic.Int64
	mu     sync.Mutex
	answer http.HandlerFunc // guarded by mu
}

func newSource(t *testing.T) *source {
	s := &source{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.asked.Add(1)
		s.mu.Lock()
		answer := s.answer
		s.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *source) answers(answer http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

func (s *source) says(format string, args ...any) {
	s.answers(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, format, args...)
	})
}

// service is a service with the sources, and its clients.
type service struct {
	targets         setpointv1.TargetServiceClient
	recommendations setpointv1.RecommendationServiceClient
	now             atomic.Int64
}

// pass lets time pass for the service.
func (s *service) pass(d time.Duration) { s.now.Add(int64(d)) }

func serve(t *testing.T, sources *Sources) *service {
	t.Helper()
	s := &service{}
	s.now.Store(time.Now().UnixNano())
	engine := memory.New(memory.Options{LogLength: -1})
	t.Cleanup(func() { _ = engine.Close() })
	options := server.DefaultOptions()
	options.Clock = func() time.Time { return time.Unix(0, s.now.Load()) }
	if sources != nil {
		options.Sources = sources
	}
	srv, err := server.New(engine, engine, options)
	fatal.If(t, err)
	address, _ := testserver.Serve(t, srv)
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	fatal.If(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	s.targets, s.recommendations = setpointv1.NewTargetServiceClient(conn), setpointv1.NewRecommendationServiceClient(conn)
	return s
}

func opened(t *testing.T, o Options) *Sources {
	t.Helper()
	s, err := New(o)
	fatal.If(t, err)
	t.Cleanup(s.Close)
	return s
}

const web = "clusters/prod/namespaces/shop/targets/web"

// queueSpec scales by a queue's length, 10 a replica, that a source tells.
func queueSpec(source string) *setpointv1.TargetSpec {
	return &setpointv1.TargetSpec{
		AssumeApplied: true,
		Spec: &setpointv1.HorizontalPodAutoscalerSpec{
			MaxReplicas: 50,
			Metrics: []*setpointv1.MetricSpec{{Type: "External", External: &setpointv1.ExternalMetricSource{
				Metric: &setpointv1.MetricIdentifier{Name: "queue"},
				Target: &setpointv1.MetricTarget{Type: "AverageValue", AverageValue: proto.String("10")},
			}}},
		},
		Queries: []*setpointv1.MetricQuery{{
			Metric: "External:queue", Source: source,
			Path: "/queue", ValuePath: "{.length}",
		}},
	}
}

func (s *service) set(t *testing.T, name string, spec *setpointv1.TargetSpec) {
	t.Helper()
	if _, err := s.targets.SetTargetSpec(t.Context(), &setpointv1.SetTargetSpecRequest{Name: name, TargetSpec: spec}); err != nil {
		t.Fatal(err)
	}
}

func (s *service) poll(t *testing.T, name string) (int32, error) {
	t.Helper()
	r, err := s.recommendations.GetRecommendation(t.Context(), &setpointv1.GetRecommendationRequest{Target: name})
	return r.GetRecommendation().GetDesiredReplicas(), err
}

func TestAPollFetchesOncePerPeriod(t *testing.T) {
	from := newSource(t)
	from.says(`{"length": 35}`)
	s := serve(t, opened(t, Options{URLs: []string{from.URL}}))
	s.set(t, web, queueSpec(from.URL))
	for range 3 {
		if n, err := s.poll(t, web); n != 4 || err != nil {
			t.Fatalf("got %d, %v, want 4: 35 at 10 a replica", n, err)
		}
	}
	if n := from.asked.Load(); n != 1 {
		t.Errorf("the source was asked %d times in a period", n)
	}
	from.says(`{"length": 80}`)
	s.pass(16 * time.Second)
	if n, err := s.poll(t, web); n != 8 || err != nil {
		t.Errorf("got %d, %v after a period, want 8", n, err)
	}
	if n := from.asked.Load(); n != 2 {
		t.Errorf("the source was asked %d times in two periods", n)
	}
}

func TestEqualPollsAtOnceFetchOnce(t *testing.T) {
	from := newSource(t)
	answer := make(chan struct{})
	from.answers(func(w http.ResponseWriter, r *http.Request) {
		<-answer
		fmt.Fprint(w, `{"length": 35}`)
	})
	sources := opened(t, Options{URLs: []string{from.URL}})
	spec := queueSpec(from.URL)
	key := store.Key{Cluster: "prod", Namespace: "shop", Target: "web"}
	const polls = 20
	var began, ended sync.WaitGroup
	began.Add(polls)
	for range polls {
		ended.Go(func() {
			began.Done()
			fetched, err := sources.Fetch(t.Context(), key, spec, nil)
			if err != nil || len(fetched.ExternalMetrics) != 1 || fetched.ExternalMetrics[0].GetValue() != "35" {
				t.Errorf("got %v, %v", fetched, err)
			}
		})
	}
	began.Wait()
	for from.asked.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	close(answer)
	ended.Wait()
	// One that had only begun may come after the answer.
	if n := from.asked.Load(); n > 2 {
		t.Errorf("the source was asked %d times for %d equal polls", n, polls)
	}
}

func TestWhatASourceMustNotDo(t *testing.T) {
	elsewhere := newSource(t)
	elsewhere.says(`{"length": 35}`)
	for _, tt := range []struct {
		name   string
		answer http.HandlerFunc
		want   string // of the condition
	}{
		{"redirects to another host", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL+"/queue", http.StatusFound)
		}, "is not followed"},
		{"redirects to the metadata service", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://169.254.169.254/latest/meta-data/", http.StatusTemporaryRedirect)
		}, "is not followed"},
		{"huge", func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, `{"length": 35, "x": "`)
			chunk := strings.Repeat("x", 64<<10)
			for range 64 {
				if _, err := fmt.Fprint(w, chunk); err != nil {
					return
				}
			}
		}, "larger than maxBytes"},
		{"slow", func(w http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
		}, "no answer"},
		{"drips", func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				fmt.Fprint(w, " ")
				w.(http.Flusher).Flush()
				time.Sleep(10 * time.Millisecond) // the pace of its bytes is the subject
			}
		}, "no answer"},
		{"NaN", says(`{"length": NaN}`), "not one JSON document"},
		{"NaN in a text", says(`{"length": "NaN"}`), "number"},
		{"1e400", says(`{"length": 1e400}`), ""},
		{"1e400 in a text", says(`{"length": "1e400"}`), ""},
		{"infinite", says(`{"length": "+Inf"}`), ""},
		{"negative", says(`{"length": -5}`), "negative"},
		{"beyond what the controller holds", says(`{"length": 99999999999999999999999}`), ""},
		{"no number", says(`{"length": [1, 2]}`), "number"},
		{"deep", says("%s1%s", strings.Repeat("[", 50_000), strings.Repeat("]", 50_000)), ""},
		{"an error", func(w http.ResponseWriter, r *http.Request) {
			http.Error(w, "secret of the source", http.StatusInternalServerError)
		}, "500"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			from := newSource(t)
			from.answers(tt.answer)
			s := serve(t, opened(t, Options{URLs: []string{from.URL}}))
			s.set(t, web, queueSpec(from.URL))
			began := time.Now()
			n, err := s.poll(t, web)
			if status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %d, %v, want FAILED_PRECONDITION with %q", n, err, tt.want)
			}
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("the answer holds the source's body: %v", err)
			}
			if took := time.Since(began); took > 30*time.Second {
				t.Errorf("it took %s", took)
			}
		})
	}
	t.Cleanup(func() {
		if n := elsewhere.asked.Load(); n > 0 {
			t.Errorf("a redirect was followed %d times", n)
		}
	})
}

func says(format string, args ...any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, format, args...) }
}

// What a spec may not name is refused when it is stored, with one text whether there is such
// a source for others or not.
func TestSpecsThatNameWhatTheyMayNot(t *testing.T) {
	from := newSource(t)
	from.says(`{"length": 35}`)
	file := write(t, "sources: {team-b: {http: {url: '"+from.URL+"'}, namespaces: [clusters/prod/namespaces/other]}}")
	s := serve(t, opened(t, Options{URLs: []string{"http://prometheus.example:9090"}, File: file}))
	texts := map[string]bool{}
	for _, source := range []string{"team-b", "no-such", from.URL, "http://169.254.169.254", "http://prometheus.example:9090/", "http://prometheus.example:9090@169.254.169.254", "HTTP://prometheus.example:9090", "redis://prometheus.example:9090"} {
		_, err := s.targets.SetTargetSpec(t.Context(), &setpointv1.SetTargetSpecRequest{Name: web, TargetSpec: queueSpec(source)})
		if status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: %v", source, err)
			continue
		}
		texts[strings.ReplaceAll(err.Error(), source, "")] = true
	}
	if len(texts) != 1 {
		t.Errorf("several texts tell what there is: %v", texts)
	}
	wrong := queueSpec("http://prometheus.example:9090")
	wrong.Queries[0].Path = "http://169.254.169.254/"
	if _, err := s.targets.SetTargetSpec(t.Context(), &setpointv1.SetTargetSpecRequest{Name: web, TargetSpec: wrong}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("a path that is a URL: %v", err)
	}
	other := "clusters/prod/namespaces/other/targets/web"
	s.set(t, other, queueSpec("team-b"))
	if n, err := s.poll(t, other); n != 4 || err != nil {
		t.Errorf("the namespace with the grant: %d, %v", n, err)
	}
}

// Credentials are of the operator's file; another tenant's spec gets none of them, however it
// names the place.
func TestAnotherTenantsCredentials(t *testing.T) {
	seen := make(chan string, 10)
	from := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Header.Get("Authorization")
		fmt.Fprint(w, `{"length": 35}`)
	}))
	defer from.Close()
	dir := t.TempDir()
	for name, content := range map[string]string{"token": "of-shop", "ca.pem": pemOf(from)} {
		fatal.If(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	file := write(t, fmt.Sprintf("sources:\n  shop:\n    http: {url: '%s', bearerTokenFile: %s, tls: {caFile: %s}}\n    namespaces: [clusters/prod/namespaces/shop]",
		from.URL, filepath.Join(dir, "token"), filepath.Join(dir, "ca.pem")))
	s := serve(t, opened(t, Options{File: file, URLs: []string{from.URL}}))
	s.set(t, web, queueSpec("shop"))
	if n, err := s.poll(t, web); n != 4 || err != nil {
		t.Fatalf("got %d, %v", n, err)
	}
	if got := <-seen; got != "Bearer of-shop" {
		t.Errorf("the source saw %q", got)
	}
	thief := "clusters/prod/namespaces/thief/targets/web"
	if _, err := s.targets.SetTargetSpec(t.Context(), &setpointv1.SetTargetSpecRequest{Name: thief, TargetSpec: queueSpec("shop")}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("another namespace's source was stored: %v", err)
	}
	s.set(t, thief, queueSpec(from.URL)) // by the URL there is no credential, nor the CA
	if n, err := s.poll(t, thief); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("got %d, %v", n, err)
	}
	select {
	case got := <-seen:
		t.Errorf("the source saw %q of another tenant", got)
	default:
	}
}

// A grant that was withdrawn counts at once for specs that were stored before.
func TestASourceThatIsNotAllowedAnyMore(t *testing.T) {
	from := newSource(t)
	from.says(`{"length": 35}`)
	before := opened(t, Options{URLs: []string{from.URL}})
	after := opened(t, Options{URLs: []string{"http://prometheus.example:9090"}})
	key := store.Key{Cluster: "prod", Namespace: "shop", Target: "web"}
	spec := queueSpec(from.URL)
	if v := before.Check(key, spec); len(v) > 0 {
		t.Fatal(v)
	}
	fetched, err := after.Fetch(t.Context(), key, spec, nil)
	if err != nil || len(fetched.ExternalMetrics) != 0 || len(fetched.MetricErrors) != 1 || fetched.MetricErrors[0].GetMetric() != "External:queue" {
		t.Errorf("got %v, %v", fetched, err)
	}
	if from.asked.Load() != 0 {
		t.Error("it was asked")
	}
}

func TestAServerWithoutSources(t *testing.T) {
	s := serve(t, nil)
	_, err := s.targets.SetTargetSpec(t.Context(), &setpointv1.SetTargetSpecRequest{Name: web, TargetSpec: queueSpec("http://prometheus:9090")})
	if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "fetches no metrics") {
		t.Errorf("got %v", err)
	}
}

func TestWhatIsReportedOfAFetchedMetricDoesNotCount(t *testing.T) {
	from := newSource(t)
	from.says(`{"length": 35}`)
	s := serve(t, opened(t, Options{URLs: []string{from.URL}}))
	s.set(t, web, queueSpec(from.URL))
	if _, err := s.recommendations.ReportObservation(t.Context(), &setpointv1.ReportObservationRequest{
		Target: web, ExternalMetrics: []*setpointv1.ExternalMetric{{Metric: &setpointv1.MetricIdentifier{Name: "queue"}, Value: "450"}},
	}); err != nil {
		t.Fatal(err)
	}
	if n, err := s.poll(t, web); n != 4 || err != nil {
		t.Errorf("got %d, %v, want 4: what the source says", n, err)
	}
}

// A source that does not answer takes the turns of its namespace only, and further polls of
// that are refused rather than kept.
func TestASlowSourceIsItsNamespacesOnly(t *testing.T) {
	slow, quick := newSource(t), newSource(t)
	slow.answers(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	quick.says(`{"length": 35}`)
	sources := opened(t, Options{URLs: []string{slow.URL, quick.URL}})
	ctx, cancel := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	var busy atomic.Int64
	for i := range 2 * WaitingOfNamespace {
		waiting.Go(func() {
			_, err := sources.Fetch(ctx, store.Key{Cluster: "prod", Namespace: "slow", Target: fmt.Sprint(i)}, queueSpec(slow.URL), nil)
			if errors.Is(err, stored.ErrBusy) {
				busy.Add(1)
			}
		})
	}
	for deadline := time.Now().Add(30 * time.Second); busy.Load() < WaitingOfNamespace && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	if n := busy.Load(); n < WaitingOfNamespace {
		t.Errorf("%d of %d polls were refused, want %d or more", n, 2*WaitingOfNamespace, WaitingOfNamespace)
	}
	fetched, err := sources.Fetch(t.Context(), store.Key{Cluster: "prod", Namespace: "quick", Target: "web"}, queueSpec(quick.URL), nil)
	if err != nil || len(fetched.ExternalMetrics) != 1 {
		t.Errorf("another namespace: %v, %v", fetched, err)
	}
	cancel()
	waiting.Wait()
}
