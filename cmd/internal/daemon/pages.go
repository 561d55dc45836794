package daemon

import (
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/pprof"
	"runtime/debug"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
)

// Page is something that an admin address serves.
type Page struct {
	Path, About string
	Handler     http.Handler
}

// MetricsPage serves the metrics of a gatherer; registry receives its error metrics, nil: none.
func MetricsPage(metrics prometheus.Gatherer, registry prometheus.Registerer) Page {
	return Page{"/metrics", "metrics for Prometheus", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{Registry: registry, MaxRequestsInFlight: metricsInFlight})}
}

// metricsInFlight bounds concurrent gathering.
const metricsInFlight = 8

// DebugPages are the pages of every process. They exclude pprof's command line, which may
// contain the password of a Redis URL.
func DebugPages() []Page {
	return []Page{
		{"/debug/buildinfo", "what the process was built from", http.HandlerFunc(answerBuildInfo)},
		{"/debug/pprof/", "profiles, for go tool pprof", http.HandlerFunc(pprof.Index)},
		{"/debug/pprof/profile", "what the processors do for ?seconds=30", http.HandlerFunc(pprof.Profile)},
		{"/debug/pprof/trace", "the runtime's trace of ?seconds=1", http.HandlerFunc(pprof.Trace)},
		{"/debug/pprof/symbol", "names of program counters", http.HandlerFunc(pprof.Symbol)},
	}
}

// Routes serves pages, and an index of them at /.
func Routes(pages []Page) http.Handler {
	mux := http.NewServeMux()
	for _, page := range pages {
		mux.Handle("GET "+page.Path, page.Handler)
	}
	mux.Handle("POST /debug/pprof/symbol", http.HandlerFunc(pprof.Symbol))
	mux.Handle("GET /debug/pprof/cmdline", http.NotFoundHandler())
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, indexPage(pages))
	})
	return mux
}

// withoutProfiles serves all pages except those about the inside of the process: their readers
// would learn names of callers and targets, and could keep a processor busy.
func withoutProfiles(pages http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", pages)
	mux.HandleFunc("/debug/pprof/", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "profiles are not served on an address that other machines reach, unless setpoint serve runs with --admin-profiles", http.StatusForbidden)
	})
	return mux
}

// indexPage lists the pages. It fills in no template, for the reason of the server's page
// of documentation.
func indexPage(pages []Page) string {
	var text strings.Builder
	fmt.Fprintf(&text, `<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Setpoint</title>
<h1>Setpoint %s</h1>
<ul>
`, html.EscapeString(cli.Version()))
	for _, p := range pages {
		path := html.EscapeString(p.Path)
		fmt.Fprintf(&text, "<li><a href=%q>%s</a>: %s\n", path, path, html.EscapeString(p.About))
	}
	text.WriteString("</ul></html>\n")
	return text.String()
}

// BuildInfo is the answer of /debug/buildinfo.
type BuildInfo struct {
	Version   string            `json:"version"`
	Commit    string            `json:"commit"`
	Date      string            `json:"date"`
	GoVersion string            `json:"goVersion"`
	Module    string            `json:"module"`
	Settings  map[string]string `json:"settings"`
	Modules   map[string]string `json:"modules"`
}

func answerBuildInfo(w http.ResponseWriter, _ *http.Request) {
	build := cli.ThisBuild()
	answer := BuildInfo{Version: build.Version, Commit: build.Commit, Date: build.Date, Settings: map[string]string{}, Modules: map[string]string{}}
	if info, ok := debug.ReadBuildInfo(); ok {
		answer.GoVersion, answer.Module = info.GoVersion, info.Main.Path
		for _, s := range info.Settings {
			answer.Settings[s.Key] = s.Value
		}
		for _, m := range info.Deps {
			if m.Replace != nil {
				m = m.Replace
			}
			answer.Modules[m.Path] = m.Version
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}
