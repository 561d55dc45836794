//go:build linux

package nomad

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

// A job that a periodic or a parameterized job starts takes over the ids of its scaling policies.
// The watch goes on, whoever's those policies are.
func TestJobsThatStartJobs(t *testing.T) {
	t.Parallel()
	n := newNomad(t, commonServer(t))
	starts := func(name string, policy map[string]any, how func(*api.Job)) {
		g := n.group(name, 1, "")
		g.Scaling.Policy, g.Update = policy, nil
		job := &api.Job{ID: &name, Name: &name, Namespace: &n.namespace, Type: new("batch"), Datacenters: []string{"*"}, TaskGroups: []*api.TaskGroup{g}}
		how(job)
		n.run(job)
	}
	periodic := func(job *api.Job) {
		job.Periodic = &api.PeriodicConfig{Enabled: new(true), SpecType: new("cron"), Spec: new("0 0 1 1 *")}
	}
	parameterized := func(job *api.Job) { job.ParameterizedJob = &api.ParameterizedJobConfig{} }
	theirs := map[string]any{"check": map[string]any{"cpu": map[string]any{"strategy": map[string]any{"target-value": map[string]any{"target": 70}}}}}
	ours := map[string]any{"setpoint": byQueue}
	starts("nightly", theirs, periodic)
	starts("reports", ours, periodic)
	starts("mails", theirs, parameterized)
	starts("orders", ours, parameterized)
	a := startAgent(t, n, service.Start(t))
	a.awaitState("orders.orders", held("NotScalable"))
	for _, name := range []string{"nightly", "reports"} {
		_, _, err := n.client.Jobs().PeriodicForce(name, nil)
		fatal.If(t, err)
	}
	for _, name := range []string{"mails", "orders", "orders"} {
		_, _, err := n.client.Jobs().Dispatch(name, nil, nil, "", nil)
		fatal.If(t, err)
	}
	a.awaitReconciles(3)
	n.queue.Store(40)
	for i := range 3 { // with a query that waits, each is seen at once
		name := fmt.Sprintf("web-%d", i)
		n.register(name, n.group(name, 1, byQueue))
		began := time.Now()
		n.await(name, 4)
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("%s was scaled after %s", name, took)
		}
	}
	if problem := a.problem(); problem != "" || strings.Contains(a.Log(), "objects are not watched") {
		t.Errorf("the agent has the problem %q", problem)
	}
}

// While a deployment is active the recommendations go on, so that the window afterwards holds what
// it would hold without the deployment.
func TestADeploymentLeavesTheWindow(t *testing.T) {
	t.Parallel()
	n := newNomad(t, commonServer(t))
	const window = 20 * time.Second
	policy := strings.ReplaceAll(byQueue, "stabilizationWindowSeconds: 8", "stabilizationWindowSeconds: 20")
	n.queue.Store(80)
	g := deploys(n.group("web", 8, policy), time.Millisecond)
	g.Update.Canary = new(1)
	job := n.register("web", g)
	n.awaitIdle("web")
	a := startAgent(t, n, service.Start(t))
	a.awaitReconciles(3)
	// A new version waits for the promotion of its canary.
	g.Tasks[0].Env = map[string]string{"VERSION": "2"}
	n.run(job)
	n.eventually(func() error {
		d, _, err := n.client.Jobs().LatestDeployment("web", nil)
		if err == nil && !strings.Contains(d.StatusDescription, "promotion") {
			err = errors.New(d.StatusDescription)
		}
		return err
	})
	n.queue.Store(100)
	a.awaitState("web.web", func(s state) error {
		if s.Hold != nil && !strings.Contains(s.Hold.Message, "it would be scaled from 8 to 10") {
			return errors.New("it does not say what the count would be")
		}
		return held("Deploying")(s)
	})
	n.queue.Store(80)
	time.Sleep(window)
	n.queue.Store(20)
	fell := time.Now()
	a.awaitState("web.web", func(s state) error {
		if s.Hold != nil || s.Decision == nil || s.Decision.Current != 8 || len(s.Decision.Metrics) == 0 || !strings.HasPrefix(s.Decision.Metrics[0], "queue 2.5 ") {
			return errors.New("it is not decided during the deployment")
		}
		return nil
	})
	deployment, _, err := n.client.Jobs().LatestDeployment("web", nil)
	fatal.If(t, err)
	n.eventually(func() error { // once its canary is healthy
		_, _, err := n.client.Deployments().PromoteAll(deployment.ID, nil)
		return err
	})
	n.await("web", 2)
	// On a busy machine the last reading from before the fall is some seconds old.
	if took := time.Since(fell); took < window*3/4 {
		t.Errorf("down %s after the queue fell, want it held by the window of %s: %s", took, window, n.events("web"))
	}
}

// A count of 0 in a job file with a min of 0 is idle, not off; one that somebody scales to is off.
func TestFromZero(t *testing.T) {
	t.Parallel()
	n := newNomad(t, commonServer(t))
	n.queue.Store(40)
	g := n.group("web", 0, byQueue)
	g.Scaling.Min = new(int64(0))
	job := n.register("web", g)
	s := service.Start(t)
	a := startAgent(t, n, s)
	n.await("web", 3)
	n.await("web", 4)
	// The file is run again, by which the count is 0 again.
	job.Meta = map[string]string{"version": "2"}
	n.run(job)
	n.await("web", 4)
	// It is Setpoint's own 0.
	n.queue.Store(0)
	n.await("web", 0)
	s.Restart() // what it remembers in memory is lost
	n.queue.Store(20)
	n.await("web", 2)
	n.scaleBy("web", 0)
	a.awaitReconciles(5)
	a.awaitState("web.web", func(s state) error {
		if s.Decision == nil || !strings.HasPrefix(s.Decision.Inactive, "ScalingDisabled") {
			return errors.New("it does not say that it is off")
		}
		return nil
	})
	if got := n.count("web"); got != 0 {
		t.Errorf("%d allocations, though somebody has switched it off", got)
	}
	n.scaleBy("web", 1)
	n.await("web", 2)
}

// Jobs that can't be placed, whose deployments fail, or whose tasks end are waited for.
func TestJobsThatDoNotRun(t *testing.T) {
	t.Parallel()
	n := newNomad(t, commonServer(t))
	n.queue.Store(40)
	large := n.group("large", 2, byQueue)
	large.Tasks[0].Resources.MemoryMB = new(1 << 22)
	n.register("large", large) // a blocked evaluation, and no deployment
	stuck := deploys(n.group("stuck", 2, byQueue), time.Millisecond)
	stuck.Tasks[0].Resources.MemoryMB = new(1 << 22)
	stuckJob := n.register("stuck", stuck) // a blocked evaluation in a deployment
	ends := n.group("ends", 2, "cpu: 60")
	ends.Tasks[0].Driver, ends.Tasks[0].Config = "raw_exec", map[string]any{"command": "/bin/false"}
	ends.RestartPolicy = &api.RestartPolicy{Attempts: new(0), Mode: new("fail")}
	n.register("ends", ends)
	a := startAgent(t, n, service.Start(t))
	n.await("large", 4)
	a.awaitState("stuck.stuck", held("Deploying"))
	a.awaitState("ends.ends", func(s state) error {
		if s.Error == "" {
			return errors.New("it has no error")
		}
		return nil
	})
	if got := n.count("ends"); got != 2 {
		t.Errorf("%d allocations of a group without a metric, want 2", got)
	}
	// It fits, and is scaled as soon as its deployment is done.
	stuck.Tasks[0].Resources.MemoryMB = new(10)
	n.run(stuckJob)
	n.await("stuck", 4)
	// Stopped, purged and run again.
	for _, purge := range []bool{false, true} {
		_, _, err := n.client.Jobs().Deregister("large", purge, nil)
		fatal.If(t, err)
		fatal.If(t, a.Await("without the group", patience, func() error {
			if strings.Contains(string(a.page("/status.json")), `"large.large"`) {
				return errors.New("it is in the status")
			}
			return nil
		}))
		n.register("large", n.group("large", 2, byQueue))
		n.await("large", 4)
	}
}

// Nomad is killed and started again, with what it has stored and without, and its only node is
// drained. Its clients publish no metrics of allocations, as by default.
func TestNomadComesAndGoes(t *testing.T) {
	t.Parallel()
	s := ownServer(t)
	n := newNomad(t, s)
	n.queue.Store(20)
	n.register("web", n.group("web", 2, byQueue))
	byUsage := n.group("usage", 1, "cpu: 60")
	byUsage.Tasks[0].Driver, byUsage.Tasks[0].Config = "raw_exec", map[string]any{"command": "/bin/sleep", "args": []string{"1h"}}
	n.register("usage", byUsage)
	for i := range 8 {
		name := fmt.Sprintf("other-%d", i)
		n.register(name, n.group(name, 2, byQueue))
	}
	a := startAgent(t, n, service.Start(t))
	a.awaitReconciles(20)
	a.awaitState("usage.usage", func(s state) error {
		if !strings.Contains(s.Error, "publish_allocation_metrics = true") {
			return errors.New("it does not say why there is no usage")
		}
		return nil
	})
	s.kill()
	n.queue.Store(30)
	time.Sleep(5 * time.Second)
	if lines := strings.Count(a.Log(), "not read"); lines > 3 {
		t.Errorf("for one cause it logged %d lines in 5 s", lines)
	}
	fatal.If(t, s.start())
	n.await("web", 3)
	// Drained: allocations have nowhere to go, and the count stays what the queue asks for.
	node := func() string {
		nodes, _, err := n.client.Nodes().List(nil)
		fatal.If(t, err)
		return nodes[len(nodes)-1].ID
	}
	drain := func(spec *api.DrainSpec) {
		_, err := n.client.Nodes().UpdateDrainOpts(node(), &api.DrainOptions{DrainSpec: spec, MarkEligible: spec == nil}, nil)
		fatal.If(t, err)
	}
	drain(&api.DrainSpec{Deadline: -1})
	n.eventually(func() error {
		if running := n.scaleStatus("web").Running; running > 0 {
			return fmt.Errorf("%d allocations run on a drained node", running)
		}
		return nil
	})
	a.awaitReconciles(4)
	if got := n.count("web"); got != 3 {
		t.Errorf("%d allocations while the node is drained, want 3", got)
	}
	n.queue.Store(40)
	n.await("web", 4)
	drain(nil)
	n.eventually(func() error {
		if running := n.scaleStatus("web").Running; running != 4 {
			return fmt.Errorf("%d allocations run, want 4", running)
		}
		return nil
	})
	// All is lost: the agent keeps its groups until Nomad says that they are gone. (No task's process
	// is left, of which nobody would know any more.)
	_, _, err := n.client.Jobs().Deregister("usage", true, nil)
	fatal.If(t, err)
	n.eventually(func() error {
		nodes, _, err := n.client.Allocations().List(&api.QueryOptions{Filter: `JobID == "usage" and ClientStatus == "running"`})
		if err == nil && len(nodes) > 0 {
			err = errors.New("the task runs")
		}
		return err
	})
	s.kill()
	fatal.If(t, s.forget())
	fatal.If(t, s.start())
	n.prepare()
	a.token = n.token("agent")
	fatal.If(t, os.WriteFile(a.tokenFile, []byte(a.token.SecretID), 0o600))
	n.register("web", n.group("web", 2, byQueue))
	n.await("web", 4)
	fatal.If(t, a.Await("without the lost group", patience, func() error {
		if strings.Contains(string(a.page("/status.json")), `"other-0.other-0"`) {
			return errors.New("it is in the status")
		}
		return nil
	}))
}

// Allocations without a place are Pending pods: a total is divided by them, too, so that the agent
// doesn't take two of five that run for all, and says what it sees.
func TestAllocationsWithoutAPlace(t *testing.T) {
	t.Parallel()
	n := newNomad(t, commonServer(t))
	n.queue.Store(44) // five have 8.8 of 10 each
	g := n.group("web", 5, byQueue)
	g.Constraints = []*api.Constraint{api.NewConstraint("", api.ConstraintDistinctHosts, "")}
	n.register("web", g)
	n.eventually(func() error {
		summary, _, err := n.client.Jobs().Summary("web", nil)
		fatal.If(t, err)
		if of := summary.Summary["web"]; of.Running == 0 || of.Running+of.Queued != 5 {
			return fmt.Errorf("%+v", of)
		}
		return nil
	})
	a := startAgent(t, n, service.Start(t))
	a.awaitReconciles(2)
	a.awaitState("web.web", func(s state) error {
		if s.Decision == nil || s.Decision.Notice != "1 of 5 run: Nomad has no room for 4" || s.Decision.Current != 5 {
			return fmt.Errorf("it says %+v", s.Decision)
		}
		return nil
	})
	if got := n.count("web"); got != 5 {
		t.Errorf("%d allocations, want 5", got)
	}
	n.queue.Store(21)
	n.await("web", 3)
	n.eventually(func() error { // Nomad writes the event after the count
		const want = "5 → 3: queue 4.2 (target 10); All metrics below target; 1 of 5 run: Nomad has no room for 4"
		if events := n.scaleStatus("web").Events; len(events) == 0 || events[0].Message != want {
			return fmt.Errorf("the events are %+v, want %q", events, want)
		}
		return nil
	})
}

// Allocations that have failed are pods in a crash loop: idle ones beside them don't lower the count, for which Nomad
// would stop those that run.
func TestAllocationsThatFail(t *testing.T) {
	t.Parallel()
	n := newNomad(t, commonServer(t))
	g := n.group("web", 4, "cpu: 60\nbehavior: {scaleDown: {stabilizationWindowSeconds: 0}}")
	g.Tasks[0].Driver, g.Tasks[0].Config = "raw_exec", map[string]any{"command": "/bin/sh", "args": []string{"-c", "test $NOMAD_ALLOC_INDEX -ge 2 && exec sleep 1h"}}
	g.RestartPolicy = &api.RestartPolicy{Attempts: new(0), Mode: new("fail")}
	g.ReschedulePolicy = &api.ReschedulePolicy{Delay: new(30 * time.Minute), DelayFunction: new("constant"), Unlimited: new(true)}
	n.register("web", g)
	a := startAgent(t, n, service.Start(t))
	a.awaitState("web.web", func(s state) error {
		if s.Decision == nil || s.Decision.Notice != "2 of 4 run: 2 have failed" || len(s.Decision.Metrics) == 0 || !strings.HasPrefix(s.Decision.Metrics[0], "cpu 0%") {
			return fmt.Errorf("it says %+v, of %s", s.Decision, n.tasks("web"))
		}
		return nil
	})
	a.awaitReconciles(3)
	if got := n.count("web"); got != 4 {
		t.Errorf("%d allocations, want 4: %s", got, n.events("web"))
	}
}
