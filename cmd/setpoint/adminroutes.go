package main

import (
	"encoding/json"
	"html/template"
	"net/http"
	"net/http/pprof"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// adminPage is something that the admin address serves.
type adminPage struct {
	Path, About string
	handler     http.Handler
}

// adminPages are all but the index. Of pprof's pages the command line is not served: it
// may hold the password of a Redis URL.
func adminPages(health http.Handler, metrics *prometheus.Registry) []adminPage {
	return append([]adminPage{
		{"/metrics", "metrics for Prometheus", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{Registry: metrics})},
		{"/healthz", "whether the process lives", health},
		{"/readyz", "whether it is to be sent calls", health},
	}, debugPages()...)
}

// debugPages are those that every process has.
func debugPages() []adminPage {
	return []adminPage{
		{"/debug/buildinfo", "what the process was built from", http.HandlerFunc(answerBuildInfo)},
		{"/debug/pprof/", "profiles, for go tool pprof", http.HandlerFunc(pprof.Index)},
		{"/debug/pprof/profile", "what the processors do for ?seconds=30", http.HandlerFunc(pprof.Profile)},
		{"/debug/pprof/trace", "the runtime's trace of ?seconds=1", http.HandlerFunc(pprof.Trace)},
		{"/debug/pprof/symbol", "names of program counters", http.HandlerFunc(pprof.Symbol)},
	}
}

// adminRoutes serves them, and an index at /.
func adminRoutes(health http.Handler, metrics *prometheus.Registry) http.Handler {
	return routes(adminPages(health, metrics))
}

// routes serves pages, and an index of them at /.
func routes(pages []adminPage) http.Handler {
	mux := http.NewServeMux()
	for _, page := range pages {
		mux.Handle("GET "+page.Path, page.handler)
	}
	mux.Handle("POST /debug/pprof/symbol", http.HandlerFunc(pprof.Symbol))
	mux.Handle("GET /debug/pprof/cmdline", http.NotFoundHandler())
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_ = adminIndex.Execute(w, struct {
			Version string
			Pages   []adminPage
		}{version(), pages})
	})
	return mux
}

// withoutProfiles serves all pages but those that look into the process: whoever reads them
// learns names of callers and targets, and can keep a processor busy.
func withoutProfiles(pages http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", pages)
	mux.HandleFunc("/debug/pprof/", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "profiles are not served on an address that other machines reach, unless setpoint serve is told --admin-profiles", http.StatusForbidden)
	})
	return mux
}

var adminIndex = template.Must(template.New("index").Parse(`<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Setpoint</title>
<h1>Setpoint {{.Version}}</h1>
<ul>
{{range .Pages}}<li><a href="{{.Path}}">{{.Path}}</a>: {{.About}}
{{end}}</ul></html>
`))

// buildInfo is what /debug/buildinfo answers.
type buildInfo struct {
	Version   string            `json:"version"`
	GoVersion string            `json:"goVersion"`
	Module    string            `json:"module"`
	Settings  map[string]string `json:"settings"`
	Modules   map[string]string `json:"modules"`
}

func answerBuildInfo(w http.ResponseWriter, _ *http.Request) {
	answer := buildInfo{Version: version(), Settings: map[string]string{}, Modules: map[string]string{}}
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
