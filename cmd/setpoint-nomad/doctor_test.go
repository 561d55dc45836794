package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/hashicorp/nomad/api"

	"github.com/setpoint-dev/setpoint/clients/nomad"
	"github.com/setpoint-dev/setpoint/clients/nomad/nomadtest"
	"github.com/setpoint-dev/setpoint/cmd/internal/doctor"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// What keeps the agent from scaling a group is a problem to doctor, too.
func TestDoctorSaysWhatTheAgentSays(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, block string
		change      func(*api.Job)
		want        string // a problem; empty: there is none
	}{
		{"all right", "cpu: 60", nil, ""},
		{"an unknown key", "cup: 60", nil, "did you mean cpu?"},
		{"an unknown source", "metric: {q: {source: nowhere, query: up, average: 10}}", nil, `setpoint.metric.q.source: there is no source "nowhere"; none is configured`},
		{"a periodic job", "cpu: 60", func(j *api.Job) { j.Periodic = &api.PeriodicConfig{Spec: new("@daily")} }, "the job can't be scaled, because it is periodic"},
		{"a parameterized job", "cpu: 60", func(j *api.Job) { j.Type, j.ParameterizedJob = new("batch"), &api.ParameterizedJobConfig{} }, "the job can't be scaled, because it is parameterized"},
		{"a misspelt block", "", func(j *api.Job) { j.TaskGroups[0].Scaling.Policy = map[string]any{"Setpiont": "cpu: 60"} }, "the policy has a block Setpiont, which nobody reads: did you mean setpoint?"},
		{"a batch job", "cpu: 60", func(j *api.Job) { j.Type = new("batch") }, "the job can't be scaled, because it is of type batch"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			client := nomadtest.Client(t, &nomadtest.Server{})
			job := &api.Job{ID: new("web"), Namespace: new("default"), Type: new("service"), TaskGroups: []*api.TaskGroup{{
				Name: new("web"), Count: new(2), Scaling: &api.ScalingPolicy{Min: new(int64(1)), Max: new(int64(9)), Policy: map[string]any{nomad.Key: tt.block}},
				Tasks: []*api.Task{{Name: "app"}},
			}}}
			if tt.change != nil {
				tt.change(job)
			}
			if _, _, err := client.Jobs().Register(job, nil); err != nil {
				t.Fatal(err)
			}
			platform, err := nomad.New(client, nomad.Options{})
			fatal.If(t, err)
			p := &patient{client: client, platform: platform, namespace: "*"}
			var problems []string
			for _, f := range p.policies(t.Context()) {
				if f.Level == doctor.Problem {
					problems = append(problems, f.Text)
				}
			}
			if got := strings.Join(problems, "\n"); tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
				t.Errorf("problems: %q, want %q", got, tt.want)
			}
			// The service is asked about the others.
			if (len(p.asks) == 1) != (tt.want == "") || len(p.asks) == 1 && p.asks[0].Request.GetSpec().GetMaxReplicas() != 9 {
				t.Errorf("asks %v", p.asks)
			}
		})
	}
}

// What can't be asked for is not granted.
func TestDoctorDoesNotTakeAFailureForARight(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"": "the token has what is needed in default", "/v1/scaling/policies": "list-scaling-policies can't be checked: ", "/v1/scaling/policy/": "read-scaling-policy can't be checked: ",
		"/v1/job/": "read-job can't be checked: ",
	} {
		server := &nomadtest.Server{Intercept: func(r *http.Request) (int, string) {
			if path != "" && strings.HasPrefix(r.URL.Path, path) {
				return http.StatusInternalServerError, "no cluster leader"
			}
			return 0, ""
		}}
		p := &patient{client: nomadtest.Client(t, server), namespace: "default"}
		found := p.rights(t.Context())
		if len(found) != 1 || !strings.Contains(found[0].Text, want) || (found[0].Level == doctor.Problem) != (path != "") {
			t.Errorf("%s fails: %+v, want %q", path, found, want)
		}
	}
}

// All groups with a problem are named, however many.
func TestDoctorNamesAllGroups(t *testing.T) {
	t.Parallel()
	const groups = 45
	job := &api.Job{ID: new("web"), Namespace: new("default"), Type: new("service")}
	for i := range groups {
		job.TaskGroups = append(job.TaskGroups, &api.TaskGroup{
			Name: new(fmt.Sprint("g", i)), Count: new(2), Tasks: []*api.Task{{Name: "app"}},
			Scaling: &api.ScalingPolicy{Min: new(int64(1)), Max: new(int64(9)), Policy: map[string]any{nomad.Key: "cup: 60"}},
		})
	}
	client := nomadtest.Client(t, &nomadtest.Server{})
	if _, _, err := client.Jobs().Register(job, nil); err != nil {
		t.Fatal(err)
	}
	platform, err := nomad.New(client, nomad.Options{})
	fatal.If(t, err)
	if found := (&patient{client: client, platform: platform, namespace: "*"}).policies(t.Context()); len(found) != groups+1 {
		t.Errorf("%d findings, want one for each of %d groups, and the first", len(found), groups)
	}
}

// A mistyped namespace, in which any right may be had, is a problem.
func TestDoctorNamesANamespaceThatIsNotThere(t *testing.T) {
	t.Parallel()
	server := &nomadtest.Server{Intercept: func(r *http.Request) (int, string) {
		if r.URL.Path == "/v1/namespaces" {
			return http.StatusOK, `[{"Name":"default"},{"Name":"shop"}]`
		}
		return 0, ""
	}}
	for namespace, want := range map[string]string{"shop": "the token has what is needed in shop", "shp": "there is no namespace shp"} {
		found := (&patient{client: nomadtest.Client(t, server), namespace: namespace}).rights(t.Context())
		if len(found) != 1 || !strings.Contains(found[0].Text, want) {
			t.Errorf("%s: %+v, want %q", namespace, found, want)
		}
	}
}

// One thing that is missing is one problem, in however many namespaces.
func TestDoctorTellsAMissingRightOnce(t *testing.T) {
	t.Parallel()
	server := &nomadtest.Server{Intercept: func(r *http.Request) (int, string) {
		switch {
		case r.URL.Path == "/v1/namespaces":
			return http.StatusOK, `[{"Name":"default"},{"Name":"shop"}]`
		case strings.HasSuffix(r.URL.Path, "/scale"):
			return http.StatusForbidden, "Permission denied"
		}
		return 0, ""
	}}
	found := (&patient{client: nomadtest.Client(t, server), namespace: "*"}).rights(t.Context())
	if len(found) != 1 || found[0].Text != "the token lacks scale-job in default, shop" {
		t.Errorf("got %+v", found)
	}
}
