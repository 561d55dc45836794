package main

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/setpoint-dev/setpoint/server"
	"github.com/setpoint-dev/setpoint/store/memory"
)

// startWithAdmin serves on free ports and returns the URLs of REST and of the admin
// address.
func startWithAdmin(t *testing.T) (rest, admin string) {
	t.Helper()
	s := defaultSettings()
	s.GRPCAddress, s.RESTAddress, s.AdminAddress = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	metrics := newRegistry()
	options := s.options()
	options.Registerer = metrics
	engine := memory.New(memory.Options{})
	srv, err := server.New(engine, engine, options)
	if err != nil {
		t.Fatal(err)
	}
	l, err := listen(&s)
	if err != nil {
		t.Fatal(err)
	}
	stopAdmin := serveAdmin(l.admin, srv, metrics, zap.NewNop())
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ctx, l.grpc, l.rest) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
		stopAdmin()
		_ = engine.Close()
	})
	url := func(l net.Listener) string { return "http://" + l.Addr().String() }
	return url(l.rest), url(l.admin)
}

// get makes a request and returns its code and body.
func get(t *testing.T, method, url string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func TestAdminPages(t *testing.T) {
	t.Parallel()
	_, admin := startWithAdmin(t)
	for path, want := range map[string]string{
		"/metrics":                        "setpoint_requests_total{",
		"/healthz":                        "ok",
		"/debug/pprof/":                   "goroutine",
		"/debug/pprof/heap?debug=1":       "heap profile",
		"/debug/pprof/goroutine?debug=2":  "goroutine 1",
		"/debug/pprof/profile?seconds=1":  "",
		"/debug/pprof/trace?seconds=0.01": "go 1.",
		"/debug/pprof/symbol":             "num_symbols",
		"/":                               "/debug/buildinfo",
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			if code, body := get(t, http.MethodGet, admin+path); code != http.StatusOK || !strings.Contains(body, want) {
				t.Errorf("got %d without %q: %.200s", code, want, body)
			}
		})
	}
	code, body := get(t, http.MethodGet, admin+"/debug/buildinfo")
	var info buildInfo
	if err := json.Unmarshal([]byte(body), &info); err != nil || code != http.StatusOK || info.Version == "" || info.GoVersion == "" {
		t.Errorf("build info: %d %s (%v)", code, body, err)
	}
}

func TestTheAdminIndexListsAllPages(t *testing.T) {
	t.Parallel()
	_, admin := startWithAdmin(t)
	_, index := get(t, http.MethodGet, admin+"/")
	for _, page := range adminPages(nil, newRegistry()) {
		if !strings.Contains(index, `href="`+page.Path+`"`) {
			t.Errorf("%s is not listed", page.Path)
		}
	}
	if code, _ := get(t, http.MethodGet, admin+"/nothing"); code != http.StatusNotFound {
		t.Errorf("/nothing answers %d", code)
	}
}

// The command line may hold a password.
func TestTheAdminAddressDoesNotTellTheCommandLine(t *testing.T) {
	t.Parallel()
	_, admin := startWithAdmin(t)
	if code, _ := get(t, http.MethodGet, admin+"/debug/pprof/cmdline"); code != http.StatusNotFound {
		t.Errorf("it answers %d", code)
	}
}

// Who may ask for recommendations may not look into the process.
func TestThePublicAddressServesNoAdminPages(t *testing.T) {
	t.Parallel()
	rest, _ := startWithAdmin(t)
	paths := []string{"/debug/pprof/heap", "/debug/pprof/cmdline", "/debug/vars", "/debug/"}
	for _, page := range adminPages(nil, newRegistry()) {
		if page.Path != "/healthz" && page.Path != "/readyz" { // for load balancers
			paths = append(paths, page.Path)
		}
	}
	for _, path := range paths {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			if code, body := get(t, method, rest+path); code != http.StatusNotFound {
				t.Errorf("%s %s answers %d: %.100s", method, path, code, body)
			}
		}
	}
}

func TestObserveSettingsAreChecked(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		flag   string
		change func(*observeSettings)
	}{
		{"access-log", func(s *observeSettings) { s.AccessLog = "some" }},
		{"target-metrics-limit", func(s *observeSettings) { s.TargetMetricsLimit = 0 }},
		{"trace-ratio", func(s *observeSettings) { s.TraceRatio = 1.1 }},
		{"trace-ratio", func(s *observeSettings) { s.TraceRatio = -0.1 }},
		{"otlp-endpoint", func(s *observeSettings) { s.OTLPEndpoint = "collector" }},
		{"otlp-endpoint", func(s *observeSettings) { s.OTLPEndpoint = "ftp://collector:4317" }},
		{"otlp-endpoint", func(s *observeSettings) { s.OTLPEndpoint = "https://user:secret@collector:4317" }},
		{"otlp-endpoint", func(s *observeSettings) { s.OTLPEndpoint, s.OTLPInsecure = "https://collector:4317", true }},
	} {
		s := defaultSettings()
		tt.change(&s.Observe)
		err := s.validate()
		if err == nil || !strings.Contains(err.Error(), "--"+tt.flag+": ") {
			t.Errorf("%+v: got %v, want a word on --%s", s.Observe, err, tt.flag)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("the error tells the password: %v", err)
		}
	}
	for _, endpoint := range []string{"collector:4317", "[::1]:4317", "http://collector:4317", "https://collector"} {
		s := defaultSettings()
		s.Observe.OTLPEndpoint = endpoint
		if err := s.validate(); err != nil {
			t.Errorf("%s: %v", endpoint, err)
		}
	}
}

func TestTracingIsOffUnlessThereIsAnEndpoint(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1") // for other programs of the machine
	s := defaultObserveSettings()
	traces, stop, err := s.openTracing(t.Context(), zap.NewNop())
	if err != nil || traces != nil {
		t.Errorf("got %v, %v", traces, err)
	}
	stop()
	s.OTLPEndpoint = "127.0.0.1:1"
	begun := time.Now()
	traces, stop, err = s.openTracing(t.Context(), zap.NewNop())
	if err != nil || traces == nil {
		t.Fatalf("got %v, %v", traces, err)
	}
	stop()
	if took := time.Since(begun); took > traceFlush {
		t.Errorf("it took %s", took)
	}
}
