//go:build linux

// Package panels runs the queries of the dashboards and alerts on a real Prometheus, so that
// no panel is empty and no metric is misspelt.
//
//	url := panels.Prometheus(t, map[string]string{"setpoint": admin})
//	panels.AwaitFilled(t, url, "setpoint-store.json", nil, nil)
package panels

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/process"
	"github.com/setpoint-dev/setpoint/test/e2e/kit"
)

// patience is how long a panel may stay empty. It takes seconds on an idle machine.
const patience = 2 * time.Minute

var client = http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// Require skips the test if a program of the Prometheus package is missing, or fails it in CI.
func Require(t *testing.T, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		kit.Cannot(t, "there is no "+program+" on PATH; scripts/prometheus.sh installs it")
	}
}

// Prometheus starts a server that scrapes the admin addresses of jobs every half second, and
// returns its URL. It ends with the test.
func Prometheus(t *testing.T, jobs map[string]string) string {
	t.Helper()
	Require(t, "prometheus")
	reserved, err := process.Reserve(1)
	fatal.If(t, err)
	t.Cleanup(reserved.Release)
	dir := t.TempDir()
	config := []byte("global: {scrape_interval: 500ms, scrape_timeout: 500ms}\nscrape_configs:\n")
	for _, job := range slices.Sorted(maps.Keys(jobs)) {
		// The metrics of single targets have the label namespace themselves.
		config = fmt.Appendf(config, "- {job_name: %q, honor_labels: true, static_configs: [{targets: [%q]}]}\n", job, jobs[job])
	}
	file := filepath.Join(dir, "prometheus.yml")
	fatal.If(t, os.WriteFile(file, config, 0o600))
	server, err := process.Start(process.Command{
		Name: "prometheus", Program: "prometheus", Log: filepath.Join(dir, "log"),
		Args: []string{"--config.file=" + file, "--storage.tsdb.path=" + filepath.Join(dir, "data"), "--web.listen-address=" + reserved.Address(0), "--log.level=warn"},
	})
	fatal.If(t, err)
	t.Cleanup(server.Kill)
	address := "http://" + reserved.Address(0)
	fatal.If(t, server.Await("ready", patience, func() error { return process.OK(&client, address+"/-/ready") }))
	return address
}

// dashboard is the relevant part of Grafana's model.
type dashboard struct {
	Panels []struct {
		Type    string
		Title   string
		Targets []struct{ Expr string }
	}
	Templating struct {
		List []struct{ Name, Definition string }
	}
}

// Folder has the dashboards and alerts, seen from the folder of a test in test/e2e.
const Folder = "../../../deploy/helm/setpoint/files"

// OfKubernetes reports whether a row of setpoint-agent.json is only filled by Kubernetes' agent with sources, not by every
// platform's.
func OfKubernetes(row string) bool {
	return row == "Kubernetes" || strings.HasPrefix(row, "Leader ") || strings.HasPrefix(row, "Metric sources ")
}

// AwaitFilled waits until each panel of a dashboard shows a number, and each variable has a
// value. rows selects the panels by their row, "" for those before the first; nil selects all.
// vars are the variables of single targets.
func AwaitFilled(t *testing.T, prometheus, file string, rows func(row string) bool, variables map[string]string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(Folder, "dashboards", file))
	fatal.If(t, err)
	var d dashboard
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	questions := map[string][]string{}
	for _, v := range d.Templating.List {
		if v.Definition != "" {
			questions["variable "+v.Name] = []string{valuesOf(t, v.Definition)}
		}
	}
	row := ""
	for _, p := range d.Panels {
		if p.Type == "row" {
			row = p.Title
			continue
		}
		if rows != nil && !rows(row) {
			continue
		}
		name := row + ": " + p.Title
		if questions[name] != nil {
			t.Errorf("%s has two panels %q", file, name)
		}
		for _, target := range p.Targets {
			questions[name] = append(questions[name], target.Expr)
		}
	}
	if len(questions) < 3 {
		t.Fatalf("%s: %d questions, which can't be all", file, len(questions))
	}
	settled := replacer(variables)
	deadline := time.Now().Add(patience)
	for {
		var empty []string
		for name, exprs := range questions {
			if err := filled(t.Context(), prometheus, exprs, settled); err != nil {
				empty = append(empty, fmt.Sprintf("%s: %v", name, err))
			} else {
				delete(questions, name)
			}
		}
		if len(questions) == 0 {
			return
		}
		if time.Now().After(deadline) {
			slices.Sort(empty)
			t.Errorf("%s: empty after %v:\n  %s", file, patience, strings.Join(empty, "\n  "))
			return
		}
		time.Sleep(200 * time.Millisecond)
	}
}

var labelValues = regexp.MustCompile(`^label_values\((.+), ?(\w+)\)$`)

// valuesOf is the query for the values of a variable.
func valuesOf(t *testing.T, definition string) string {
	t.Helper()
	parts := labelValues.FindStringSubmatch(definition)
	if parts == nil {
		t.Fatalf("the variable %q is no label_values(metric, label)", definition)
	}
	return fmt.Sprintf(`count by (%s) (%s) > 0`, parts[2], parts[1])
}

// replacer replaces Grafana's variables: those of a single target, else all jobs and
// instances, and an interval since the start.
func replacer(variables map[string]string) *strings.Replacer {
	var pairs []string
	for name, value := range variables {
		pairs = append(pairs, "$"+name, value)
	}
	return strings.NewReplacer(append(pairs, "$__rate_interval", "5m", "$job", ".*", "$instance", ".*")...)
}

// filled returns why none of the queries has a number, nil if one has. Every query must be
// valid and find a series.
func filled(ctx context.Context, prometheus string, exprs []string, settled *strings.Replacer) error {
	numbers := 0
	for _, expr := range exprs {
		values, err := Query(ctx, prometheus, settled.Replace(expr))
		if err != nil {
			return err
		}
		if len(values) == 0 {
			return fmt.Errorf("no series: %s", expr)
		}
		for _, v := range values {
			if !math.IsNaN(v) {
				numbers++
			}
		}
	}
	if numbers == 0 {
		return fmt.Errorf("no numbers: %s", strings.Join(exprs, "; "))
	}
	return nil
}

// Query returns the present values of a PromQL expression.
func Query(ctx context.Context, prometheus, expr string) ([]float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, prometheus+"/api/v1/query?query="+url.QueryEscape(expr), http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return nil, err
	}
	var answer struct {
		Status, Error string
		Data          struct {
			Result []struct{ Value [2]any }
		}
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return nil, fmt.Errorf("%s: %w", expr, err)
	}
	if answer.Status != "success" {
		return nil, fmt.Errorf("%s: %w", expr, errors.New(answer.Error))
	}
	values := make([]float64, len(answer.Data.Result))
	for i, r := range answer.Data.Result {
		text, ok := r.Value[1].(string)
		if !ok {
			return nil, fmt.Errorf("%s: a value is %v", expr, r.Value)
		}
		if values[i], err = strconv.ParseFloat(text, 64); err != nil {
			return nil, fmt.Errorf("%s: %w", expr, err)
		}
	}
	return values, nil
}
