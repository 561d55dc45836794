package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"go.uber.org/zap"

	"github.com/setpoint-dev/setpoint/clients/samples"
	"github.com/setpoint-dev/setpoint/cmd/internal/agentcmd"
	"github.com/setpoint-dev/setpoint/cmd/internal/clitest"
	"github.com/setpoint-dev/setpoint/cmd/internal/config"
	"github.com/setpoint-dev/setpoint/cmd/internal/doctor"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// engine is a Docker Engine with these services; without any, that of a swarm without a leader.
func engine(t *testing.T, services string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", "1.45")
		w.Header().Set("Content-Type", "application/json")
		switch path := r.URL.Path; {
		case strings.HasSuffix(path, "/_ping"):
		case services == "":
			http.Error(w, `{"message": "rpc error: code = Unknown desc = The swarm does not have a leader. It's possible that too few managers are online."}`, http.StatusServiceUnavailable)
		case strings.HasSuffix(path, "/services"):
			_, _ = w.Write([]byte(services))
		case strings.HasSuffix(path, "/swarm"):
			_, _ = w.Write([]byte(`{"ID": "s1"}`))
		default:
			_, _ = w.Write([]byte(`[]`))
		}
	}))
	t.Cleanup(server.Close)
	return "tcp://" + server.Listener.Addr().String()
}

// What keeps the agent from scaling a service is a problem to doctor, too.
func TestDoctorSaysWhatTheAgentSays(t *testing.T) {
	t.Parallel()
	const (
		replicated = `"Replicated": {"Replicas": 1}`
		limits     = `"Resources": {"Limits": {"NanoCPUs": 1000000000}}, `
	)
	service := func(mode, task, labels string) string {
		return fmt.Sprintf(`[{"ID": "1", "Spec": {"Name": "web", "Labels": {"setpoint.enable": "true", "setpoint.max": "3"%s}, "Mode": {%s}, "TaskTemplate": {%s"ContainerSpec": {"Image": "web"}}}}]`, labels, mode, task)
	}
	wrong := func(names ...string) string {
		for i, name := range names {
			names[i] = fmt.Sprintf(`{"Spec": {"Name": %q, "Labels": {"setpoint.enable": "true", "setpoint.max": "3", "setpoint.cup": "3"}, "Mode": {%s}}}`, name, replicated)
		}
		return "[" + strings.Join(names, ",") + "]"
	}
	for _, tt := range []struct {
		name, services string
		nodes          string // --nodes-address
		asked          bool   // its spec can be asked about
		want           string // a problem; empty: there is none
	}{
		{"all right", service(replicated, limits, ""), ":1", true, ""},
		{"a global service", service(`"Global": {}`, "", ""), ":1", false, "the service web can't be scaled, because it is global"},
		{"managers without a majority", "", ":1", false, "the swarm can't be asked: "},
		{"no usage", service(replicated, limits, ""), "", true, "web is scaled by cpu, and the agent has no source of usage"},
		{"no request", service(replicated, "", ""), ":1", true, "web has no reservation and no limit of cpu"},
		{"a wrong label", service(replicated, limits, `, "setpoint.cup": "3"`), ":1", false, "did you mean cpu?"},
		{"two, not as the engine lists them", wrong("b", "a"), ":1", false, "a: setpoint.cup: there is no such key; did you mean cpu?\nb: setpoint.cup"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, flags := &settings{}, pflag.NewFlagSet("", pflag.ContinueOnError)
			config.List{{Settings: s.list()}}.Bind(flags)
			s.dockerHost, s.nodesAddress = engine(t, tt.services), tt.nodes
			if tt.nodes != "" {
				s.nodesSecret = clitest.File(t, "secret", secret)
			}
			opened, err := s.open(agentcmd.Parts{Settings: &agentcmd.Settings{}, Flags: flags, Sources: &samples.Set{}, Metrics: prometheus.NewRegistry(), Log: zap.NewNop()})
			fatal.If(t, err)
			defer opened.Close()
			// What is wrong here is not asked of the service.
			if asks := opened.Asks(context.Background()); len(asks) > 1 || len(asks) == 1 && (asks[0].Key.String() == "" || asks[0].Request.GetSpec().GetMaxReplicas() != 3) || (len(asks) == 1) != tt.asked {
				t.Errorf("asks %v", asks)
			}
			var problems []string
			for _, check := range opened.Checks {
				for _, f := range check.Run(context.Background()) {
					if f.Level == doctor.Problem {
						problems = append(problems, f.Text)
					}
				}
			}
			got := strings.Join(problems, "\n")
			if strings.Count(got, "web") > 0 && len(problems) > 1 {
				t.Errorf("problems %q, want one of a service", problems)
			}
			if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
				t.Errorf("problems: %q, want %q", got, tt.want)
			}
		})
	}
}
