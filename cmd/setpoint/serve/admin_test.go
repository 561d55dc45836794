package serve

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/setpoint-dev/setpoint/cmd/internal/daemon"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server"
	"github.com/setpoint-dev/setpoint/server/tracing"
	"github.com/setpoint-dev/setpoint/store/memory"
)

// startWithAdmin serves on free ports and returns the URLs of REST and of the admin
// address.
func startWithAdmin(t *testing.T, changes ...func(*settings, *listeners)) (rest, admin string) {
	t.Helper()
	s := defaultSettings()
	s.GRPCAddress, s.RESTAddress, s.AdminAddress = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	metrics := newRegistry()
	options := s.options()
	options.Registerer = metrics
	engine := memory.New(memory.Options{})
	srv, err := server.New(engine, engine, options)
	fatal.If(t, err)
	l, err := listen(&s)
	fatal.If(t, err)
	admin = "http://" + l.admin.Addr().String()
	for _, change := range changes {
		change(&s, &l)
	}
	stopAdmin := serveAdmin(l.admin, srv, metrics, s.AdminProfiles, s.Server.AllowedHosts, zap.NewNop())
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
	// It is ready a little after it listens.
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		if code, _ := get(t, http.MethodGet, admin+"/readyz"); code != http.StatusServiceUnavailable {
			return "http://" + l.rest.Addr().String(), admin
		}
		if time.Since(began) > 30*time.Second {
			t.Fatal("the server does not get ready")
		}
	}
}

// get sends a request and returns its code and body.
func get(t *testing.T, method, url string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	fatal.If(t, err)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	fatal.If(t, err)
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	fatal.If(t, err)
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
	var info daemon.BuildInfo
	if err := json.Unmarshal([]byte(body), &info); err != nil || code != http.StatusOK || info.Version == "" || info.GoVersion == "" || info.Commit == "" {
		t.Errorf("build info: %d %s (%v)", code, body, err)
	}
	if _, metrics := get(t, http.MethodGet, admin+"/metrics"); !strings.Contains(metrics, `setpoint_build_info{commit="`+info.Commit+`",date="`+info.Date+`",goversion="`+info.GoVersion+`",version="`+info.Version+`"} 1`) {
		t.Error("setpoint_build_info does not say what /debug/buildinfo says")
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

// The command line may contain a password.
func TestTheAdminAddressDoesNotTellTheCommandLine(t *testing.T) {
	t.Parallel()
	_, admin := startWithAdmin(t)
	if code, _ := get(t, http.MethodGet, admin+"/debug/pprof/cmdline"); code != http.StatusNotFound {
		t.Errorf("it answers %d", code)
	}
}

// elsewhere is a listener that other machines may be able to reach.
type elsewhere struct {
	net.Listener
	address string
}

// Addr implements net.Listener.
func (l elsewhere) Addr() net.Addr { return &net.TCPAddr{IP: net.ParseIP(l.address), Port: 9091} }

func TestProfilesAreServedToThisMachineOnlyUnlessThatIsWanted(t *testing.T) {
	t.Parallel()
	profiles := []string{"/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/symbol", "/debug//pprof/heap", "//debug/pprof/heap"}
	alone := []string{"/debug/pprof/profile?seconds=1", "/debug/pprof/trace"} // a process allows one at a time
	for _, tt := range []struct {
		name, address string
		wanted        bool
		code          int
	}{
		{"loopback", "127.0.0.1", false, http.StatusOK},
		{"loopback of IPv6", "::1", false, http.StatusOK},
		{"all interfaces", "0.0.0.0", false, http.StatusForbidden},
		{"all interfaces of IPv6", "::", false, http.StatusForbidden},
		{"an address of the network", "192.0.2.1", false, http.StatusForbidden},
		{"wanted on all interfaces", "::", true, http.StatusOK},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, admin := startWithAdmin(t, func(s *settings, l *listeners) {
				s.AdminProfiles, l.admin = tt.wanted, elsewhere{l.admin, tt.address}
			})
			asked := profiles
			if tt.code != http.StatusOK {
				asked = slices.Concat(profiles, alone)
			}
			for _, path := range asked {
				if code, body := get(t, http.MethodGet, admin+path); code != tt.code || code != http.StatusOK && !strings.Contains(body, "--admin-profiles") {
					t.Errorf("%s answers %d, want %d: %.100s", path, code, tt.code, body)
				}
			}
			if code, _ := get(t, http.MethodPost, admin+"/debug/pprof/symbol"); code != tt.code {
				t.Errorf("POST of symbol answers %d, want %d", code, tt.code)
			}
			for _, path := range []string{"/", "/metrics", "/healthz", "/debug/buildinfo"} {
				if code, _ := get(t, http.MethodGet, admin+path); code != http.StatusOK {
					t.Errorf("%s answers %d", path, code)
				}
			}
		})
	}
}

// Callers of the API can't read the process' internals.
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
		change func(*settings)
	}{
		{"access-log", func(s *settings) { s.Server.LogCalls = "some" }},
		{"target-metrics-limit", func(s *settings) { s.Server.TargetMetrics = 0 }},
		{"trace-ratio", func(s *settings) { s.Tracing.Ratio = 1.1 }},
		{"trace-ratio", func(s *settings) { s.Tracing.Ratio = -0.1 }},
		{"otlp-endpoint", func(s *settings) { s.Tracing.Endpoint = "collector" }},
		{"otlp-endpoint", func(s *settings) { s.Tracing.Endpoint = "ftp://collector:4317" }},
		{"otlp-endpoint", func(s *settings) { s.Tracing.Endpoint = "https://user:secret@collector:4317" }},
		{"otlp-endpoint", func(s *settings) { s.Tracing.Endpoint, s.Tracing.Insecure = "https://collector:4317", true }},
	} {
		s := defaultSettings()
		tt.change(&s)
		err := s.validate()
		if err == nil || !strings.Contains(err.Error(), "--"+tt.flag+": ") {
			t.Errorf("%+v: got %v, want a word on --%s", s.Tracing, err, tt.flag)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("the error tells the password: %v", err)
		}
	}
	for _, endpoint := range []string{"collector:4317", "[::1]:4317", "http://collector:4317", "https://collector"} {
		s := defaultSettings()
		s.Tracing.Endpoint = endpoint
		if err := s.validate(); err != nil {
			t.Errorf("%s: %v", endpoint, err)
		}
	}
}

func TestTracingIsOffUnlessThereIsAnEndpoint(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1") // for other programs of the machine
	var o tracing.Options
	traces, stop, err := openTracing(t.Context(), o, zap.NewNop())
	if err != nil || traces != nil {
		t.Errorf("got %v, %v", traces, err)
	}
	stop()
	o.Endpoint = "127.0.0.1:1"
	wantQuick(t, func() {
		traces, stop, err := openTracing(t.Context(), o, zap.NewNop())
		if err != nil || traces == nil {
			t.Fatalf("got %v, %v", traces, err)
		}
		stop()
	})
}

// wantQuick fails the test if something that should take about a second takes longer in every
// attempt: the quickest attempt counts, because the machine may be busy.
func wantQuick(t *testing.T, do func()) {
	t.Helper()
	const tries, most = 5, 3 * time.Second
	for n := 1; ; n++ {
		begun := time.Now()
		do()
		took := time.Since(begun)
		t.Logf("it took %s", took)
		if took <= most {
			return
		}
		if n == tries {
			t.Fatalf("it took more than %s each time", most)
		}
	}
}

// A collector that is unreachable, or accepts data and never answers, does not delay a stop for
// long.
func TestACollectorThatIsAwayHoldsUpNoStop(t *testing.T) {
	t.Parallel()
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	fatal.If(t, err)
	defer func() { _ = mute.Close() }() // nothing accepts
	// A port that was free may have another owner now; nothing listens on the first one.
	for name, address := range map[string]string{"mute": mute.Addr().String(), "gone": "127.0.0.1:1"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := tracing.Options{Endpoint: address, Insecure: true, Ratio: 1}
			wantQuick(t, func() {
				traces, stop, err := openTracing(t.Context(), o, zap.NewNop())
				fatal.If(t, err)
				_, span := traces.Message(t.Context(), "anything")
				if span == nil {
					t.Fatal("nothing is traced")
				}
				span.End()
				stop()
			})
		})
	}
}

// A web page whose host name resolves to this machine must not read the operators' pages.
func TestAdminPagesOnLoopbackAreForThisMachine(t *testing.T) {
	t.Parallel()
	_, admin := startWithAdmin(t, func(s *settings, _ *listeners) { s.Server.AllowedHosts = []string{"proxy.example"} })
	for host, want := range map[string]int{"": 200, "localhost:9091": 200, "proxy.example": 200, "evil.example": 403} {
		for _, path := range []string{"/metrics", "/healthz", "/debug/buildinfo", "/debug/pprof/heap"} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, admin+path, nil)
			fatal.If(t, err)
			req.Host = host
			client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
			resp, err := client.Do(req)
			fatal.If(t, err)
			_ = resp.Body.Close()
			if resp.StatusCode != want {
				t.Errorf("%s by the name %q: HTTP %d, want %d", path, host, resp.StatusCode, want)
			}
		}
	}
}
