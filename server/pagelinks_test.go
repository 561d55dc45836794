package server_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/server"
	"github.com/setpoint-dev/setpoint/server/servertest"
)

func TestLinksOfThePage(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ link, problem string }{
		{"Grafana=https://grafana.example/d/hpa?var-ns={namespace}&var-target={target}", ""},
		{"Argo CD=https://{cluster}.argo.example:8443/applications/{namespace}/{target}#{cluster}", ""},
		{"Grafana", "must be NAME=URL"},
		{"=https://a.example", "must be NAME=URL"},
		{"a=javascript:alert({target})", "must be a URL of http or https"},
		{"a={cluster}://b.example", "must be a URL of http or https"},
		{"a=//b.example/{target}", "must be a URL of http or https"},
		{"a=https://user:password@b.example", "without a user"},
		{"a=https://grafana.{cluster}/x", "the host must not end"},
		{"a=https://{target}:80/x", "the host must not end"},
		{"a=https://b.example/{pod}", "{pod}: only {cluster}, {namespace} and {target}"},
		{"a=https://b.example/" + strings.Repeat("x", 2000), "at most 2000"},
	} {
		got, err := server.ParsePageLinks([]string{tt.link})
		if tt.problem == "" && (err != nil || got[0].Name+"="+got[0].URL != tt.link) || tt.problem != "" && (err == nil || !strings.Contains(err.Error(), tt.problem)) {
			t.Errorf("%s: %v, %v, want %q", tt.link, got, err, tt.problem)
		}
	}
	if _, err := server.ParsePageLinks(make([]string, server.MaxPageLinks+1)); err == nil {
		t.Error("too many are taken")
	}
	links, _ := server.ParsePageLinks([]string{"Grafana=https://grafana.example/{target}"})
	s := servertest.Start(t, servertest.WithPage, func(su *servertest.Setup) { su.Options.PageLinks = links })
	if a := s.Ask(t, http.MethodGet, "/ui/config.json", nil); !strings.HasSuffix(string(a.Raw), `,"links":[{"name":"Grafana","url":"https://grafana.example/{target}"}]}`) {
		t.Errorf("the page is told %s", a.Raw)
	}
}
