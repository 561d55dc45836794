package main

import (
	"encoding/json"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/agent"
)

// agentPages are what the agent's admin address serves.
func agentPages(a *agent.Agent, metrics prometheus.Gatherer) []adminPage {
	return append([]adminPage{
		{"/metrics", "metrics for Prometheus", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{})},
		{"/healthz", "whether the process lives", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte("ok\n"))
		})},
		{"/readyz", "whether the cluster has been read", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if err := a.Ready(); err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
				return
			}
			_, _ = w.Write([]byte("ok\n"))
		})},
		{shadowPath, "how shadows agree with the controller in charge", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(a.Shadows())
		})},
	}, debugPages()...)
}
