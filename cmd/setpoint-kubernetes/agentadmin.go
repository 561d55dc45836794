package main

import (
	"encoding/json"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/agent"
	"github.com/setpoint-dev/setpoint/cmd/internal/daemon"
)

// agentPages are what the agent's admin address serves.
func agentPages(a *agent.Agent, metrics prometheus.Gatherer) []daemon.Page {
	return append([]daemon.Page{
		daemon.MetricsPage(metrics, nil),
		{Path: "/healthz", About: "whether the process lives", Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte("ok\n"))
		})},
		{Path: "/readyz", About: "whether the cluster has been read", Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if err := a.Ready(); err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
				return
			}
			_, _ = w.Write([]byte("ok\n"))
		})},
		{Path: shadowPath, About: "how shadows agree with the controller in charge", Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(a.Shadows())
		})},
	}, daemon.DebugPages()...)
}
