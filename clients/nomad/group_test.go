package nomad_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/setpoint-dev/setpoint/clients/agent"
	"github.com/setpoint-dev/setpoint/clients/nomad"
	"github.com/setpoint-dev/setpoint/clients/nomad/nomadtest"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

var web = nomad.Group{Namespace: "default", Job: "web", Name: "web"}

// register registers a job with a group of its name. Its deployment takes two seconds.
func register(t *testing.T, client *api.Client, name, policy string, maximum int64) {
	t.Helper()
	_, _, err := client.Jobs().Register(&api.Job{
		ID: &name, Namespace: new("default"), Type: new("service"),
		TaskGroups: []*api.TaskGroup{{
			Name: &name, Count: new(2), Update: &api.UpdateStrategy{MaxParallel: new(1)},
			Scaling: &api.ScalingPolicy{Min: new(int64(1)), Max: &maximum, Policy: map[string]any{nomad.Key: policy}},
		}},
	}, nil)
	fatal.If(t, err)
}

func TestScale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := nomadtest.Client(t, &nomadtest.Server{})
		register(t, client, "web", "cpu: 60", 10)
		time.Sleep(3 * time.Second)
		ctx := t.Context()
		status, _, err := client.Jobs().ScaleStatus("web", nil)
		fatal.If(t, err)
		job, _, err := client.Jobs().Info("web", nil)
		fatal.If(t, err)
		// Two indexes have the same name, but only one is compared.
		if status.JobModifyIndex == *job.JobModifyIndex {
			t.Error("both indexes are the same, which shows nothing")
		}
		if _, err := nomad.Scale(ctx, client, web, nomad.Scaling{Count: new(int64(3)), JobModifyIndex: status.JobModifyIndex}); !errors.Is(err, agent.ErrMoved) {
			t.Errorf("with the index of the scale status: %v", err)
		}
		if _, err := nomad.Scale(ctx, client, web, nomad.Scaling{Count: new(int64(3)), JobModifyIndex: *job.JobModifyIndex, Message: "cpu above target", Meta: map[string]any{"setpoint.reason": "cpu"}}); err != nil {
			t.Errorf("with that of the job: %v", err)
		}
		time.Sleep(time.Second)
		if _, err := nomad.Scale(ctx, client, web, nomad.Scaling{Count: new(int64(4))}); !errors.Is(err, nomad.ErrDeploying) {
			t.Errorf("while a deployment is active: %v", err)
		}
		if _, err := nomad.Scale(ctx, client, web, nomad.Scaling{Message: "a shadow would have 4"}); err != nil {
			t.Errorf("an event: %v", err)
		}
		time.Sleep(3 * time.Second)
		if _, err := nomad.Scale(ctx, client, web, nomad.Scaling{Count: new(int64(5)), JobModifyIndex: *job.JobModifyIndex}); !errors.Is(err, agent.ErrMoved) {
			t.Errorf("with an old index: %v", err)
		}
		if _, err := nomad.Scale(ctx, client, web, nomad.Scaling{Count: new(int64(11))}); err == nil || !strings.Contains(err.Error(), "11 > 10") {
			t.Errorf("above max: %v", err)
		}
		if _, err := nomad.Scale(ctx, client, nomad.Group{Namespace: "default", Job: "absent", Name: "web"}, nomad.Scaling{Count: new(int64(1))}); !errors.Is(err, agent.ErrGone) {
			t.Errorf("an unknown job: %v", err)
		}
		status, _, err = client.Jobs().ScaleStatus("web", nil)
		fatal.If(t, err)
		group := status.TaskGroups["web"]
		if group.Desired != 3 || len(group.Events) != 2 || group.Events[0].Count != nil || group.Events[1].Message != "cpu above target" || group.Events[1].Meta["setpoint.reason"] != "cpu" {
			t.Errorf("got %+v", group)
		}
	})
}

func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		client := w.own
		register(t, client, "web", "cpu: 60", 10)
		register(t, client, "shop", "cpu: 60", 10)
		told := w.watch(w.adapter())
		step := func(what, want string) {
			t.Helper()
			if got := told.take(); got != want {
				t.Errorf("%s: told %s, want %s", what, got, want)
			}
		}
		pause := func() { time.Sleep(time.Second) }
		step("at first", "[shop.shop web.web]")
		time.Sleep(5 * time.Minute)
		step("while nothing happens", "[]")
		if _, err := nomad.Scale(t.Context(), client, web, nomad.Scaling{Count: new(int64(3))}); err != nil {
			t.Fatal(err)
		}
		step("a scale", "[]")
		register(t, client, "web", "cpu: 70", 10)
		step("another policy", "[web.web]")
		pause()
		snapshot := w.server.Snapshot()
		register(t, client, "late", "cpu: 60", 10)
		step("a new job", "[late.late]")
		pause()
		register(t, client, "shop", "cpu: 60", 12)
		step("another max", "[shop.shop]")
		w.server.Restore(snapshot)
		step("a restore, which wakes nobody", "[]")
		time.Sleep(time.Minute)
		step("a minute after it", "[late.late shop.shop]")
		register(t, client, "shop", "cpu: 60", 13)
		step("the next change, whose index is above all", "[shop.shop]")
		pause()
		if _, _, err := client.Jobs().Deregister("shop", false, nil); err != nil {
			t.Fatal(err)
		}
		step("a job is stopped", "[shop.shop]")
		pause()
		if _, _, err := client.Jobs().Deregister("web", true, nil); err != nil {
			t.Fatal(err)
		}
		step("a job is purged", "[web.web]")
		pause()
		register(t, client, "web", "cpu: 70", 10)
		step("and registered again", "[web.web]")
	})
}

func TestAWatchThatFailsEnds(t *testing.T) {
	for status, text := range map[int]string{403: "Permission denied", 429: "Your IP is issuing too many concurrent connections, please rate limit your calls", 500: "No cluster leader"} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.failing(func(*http.Request) (int, string) { return status, text })
			if err := w.adapter().Watch(t.Context(), func(agent.Key) {}); err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("%d: got %v", status, err)
			}
		})
	}
}
