package agenttest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/agent"
	"github.com/setpoint-dev/setpoint/clients/setpoint/answertest"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// Run runs the suite against an adapter. Each test gets its own world and server, made in its
// bubble; everything they start stops with the test.
func Run(t *testing.T, newWorld func(t *testing.T) World, newServer func(testing.TB) setpointv1.RecommendationServiceServer) {
	for _, tt := range []struct {
		name string
		test func(*testing.T, *kit)
	}{
		{"the count follows the load, and its outcome is reported", follows},
		{"a dry run changes nothing", dryRun},
		{"a shadow changes nothing", shadows},
		{"a write that fails is reported as failed", failedWrite},
		{"while the service is away counts are held, and one probe a second is sent", away},
		{"a deleted object is forgotten", vanished},
		{"an object recreated under its name has a new history", madeAgain},
		{"an object recreated while the service is asked gets no count of the former", replaced},
		{"a count changed by others is decided again", moved},
		{"failed reads are retried with back-off", unread},
		{"an answer of a newer service is followed", newer},
		{"a member of a fleet tells it when the platform can't be read", blind},
		{"nothing is read or requested between reconciles", quiet},
		{"a stopping agent finishes reconciles in flight", stops},
		{"a starting agent continues where its predecessor stopped", restarts},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { tt.test(t, newKit(t, newWorld, newServer)) })
		})
	}
	for _, tampering := range answertest.Tamperings() {
		t.Run("an invalid answer is not followed/"+tampering.Name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { refuses(t, newKit(t, newWorld, newServer), tampering) })
		})
	}
}

// kit is the state of one test.
type kit struct {
	World
	service *Service
	t       *testing.T
	reads   atomic.Int64 // of objects and of the inputs of decisions
	fleet   string       // of all objects; empty: none
	driver  *agent.Driver
	log     *zap.Logger
	stop    func() error
}

func newKit(t *testing.T, newWorld func(t *testing.T) World, newServer func(testing.TB) setpointv1.RecommendationServiceServer) *kit {
	k := &kit{t: t, log: zaptest.NewLogger(t, zaptest.Level(zap.WarnLevel)), service: NewService(newServer(t)), World: newWorld(t), stop: func() error { return nil }}
	t.Cleanup(func() { _ = k.stop() })
	return k
}

// start starts an agent, replacing the previous one.
func (k *kit) start(options agent.Options) {
	k.t.Helper()
	if err := k.stop(); err != nil {
		k.t.Error(err)
	}
	options.Cluster, options.Period, options.FirstWait, options.Log = "demo", Period, -1, k.log
	var err error
	k.driver, err = agent.NewDriver(&counting{k.Platform(), &k.reads, k.fleet}, agent.Service{Calls: k.service}, options, agent.DriverOptions{})
	fatal.If(k.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- k.driver.Run(ctx) }()
	k.stop = func() error {
		cancel()
		k.stop = func() error { return nil }
		return <-ended
	}
}

// counting counts reads, and makes all objects members of a fleet if there is one.
type counting struct {
	agent.Watched
	reads *atomic.Int64
	fleet string
}

func (c *counting) Object(ctx context.Context, key agent.Key, before *agent.Object) (*agent.Object, error) {
	c.reads.Add(1)
	o, err := c.Watched.Object(ctx, key, before)
	if o != nil && c.fleet != "" {
		member := *o
		member.Fleet, o = c.fleet, &member
	}
	return o, err
}

func (c *counting) Observe(ctx context.Context, o *agent.Object) (*agent.Observation, error) {
	c.reads.Add(1)
	return c.Watched.Observe(ctx, o)
}

func (c *counting) Tell(ctx context.Context, t *agent.Telling) {
	if teller, ok := c.Watched.(agent.Teller); ok {
		teller.Tell(ctx, t)
	}
}

// reconciles waits for n periods and a bit.
func reconciles(n int) {
	time.Sleep(time.Duration(n)*(Period+Period/8) + time.Second)
	synctest.Wait()
}

func want[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func follows(t *testing.T, k *kit) {
	key := k.Create(Workload{Name: "web", Replicas: 4})
	k.start(agent.Options{})
	reconciles(2)
	want(t, "replicas on target", k.Replicas("web"), 4)
	want(t, "changes on target", k.Changes(), 0)
	began := time.Now()
	for i, n := range []int32{7, 10, 2} {
		k.Want("web", n)
		reconciles(2)
		want(t, "replicas", k.Replicas("web"), n)
		want(t, "changes", k.Changes(), i+1)
		reports := k.service.Reports()
		if len(reports) != i+1 {
			t.Fatalf("%d reports, want %d", len(reports), i+1)
		}
		want(t, "outcome", reports[i].GetOutcome(), "APPLIED")
	}
	k.Want("web", 50)
	reconciles(2)
	want(t, "replicas where more are wanted than there may be", k.Replicas("web"), MaxReplicas)
	asked := k.service.Asked()
	ids := map[string]bool{}
	for i, q := range asked {
		ids[q.Request.GetRequestId()] = true
		if suffix := "/targets/" + key.Name; !strings.HasSuffix(q.Request.GetTarget(), suffix) || !strings.HasPrefix(q.Request.GetTarget(), "clusters/demo/namespaces/") {
			t.Errorf("asked about %s, want …%s", q.Request.GetTarget(), suffix)
		}
		if !q.Request.GetRestartAfterPause() {
			t.Error("after an outage nothing would hold back the first step down")
		}
		// After its first reconcile an object joins the beat of its group.
		if i > 1 && q.At.Sub(asked[i-1].At) < Period {
			t.Errorf("question %d came %s after the one before", i, q.At.Sub(asked[i-1].At))
		}
	}
	want(t, "request ids", len(ids), len(asked))
	if n, most := k.service.AskedSince(began), int(time.Since(began)/Period)+1; n < most-2 || n > most {
		t.Errorf("%d reconciles in %s", n, time.Since(began))
	}
}

func dryRun(t *testing.T, k *kit) {
	key := k.Create(Workload{Name: "web", Replicas: 4})
	k.Want("web", 8)
	k.start(agent.Options{Shadow: true})
	nothingApplied(t, k, key)
}

func shadows(t *testing.T, k *kit) {
	key := k.Create(Workload{Name: "web", Replicas: 4, Shadow: true})
	k.Want("web", 8)
	k.start(agent.Options{})
	nothingApplied(t, k, key)
}

// nothingApplied checks that a shadow is evaluated but nothing is applied.
func nothingApplied(t *testing.T, k *kit, key agent.Key) {
	t.Helper()
	reconciles(5)
	want(t, "replicas", k.Replicas("web"), 4)
	want(t, "changes", k.Changes(), 0)
	want(t, "reports", len(k.service.Reports()), 0)
	asked := k.service.Asked()
	if len(asked) < 5 {
		t.Fatalf("%d questions in five reconciles", len(asked))
	}
	// The service must not take the shadow's decisions for the applied ones.
	if name := asked[0].Request.GetTarget(); !strings.HasSuffix(name, "/"+key.Name+agent.ShadowSuffix) {
		t.Errorf("it is asked about as %s, not as %s%s", name, key.Name, agent.ShadowSuffix)
	}
	if report := k.driver.Shadows(); len(report.Objects) == 1 {
		want(t, "what it wants by the report", report.Objects[0].Ours.Replicas, 8)
	}
}

func failedWrite(t *testing.T, k *kit) {
	k.Create(Workload{Name: "web", Replicas: 4})
	k.Want("web", 8)
	k.FailWrites(errors.New("no right to do that"))
	k.start(agent.Options{})
	reconciles(3)
	want(t, "replicas", k.Replicas("web"), 4)
	reports := k.service.Reports()
	if len(reports) == 0 {
		t.Fatal("nothing was reported")
	}
	for _, r := range reports {
		if r.GetOutcome() != "FAILED" || !strings.Contains(r.GetMessage(), "no right to do that") {
			t.Errorf("reported %s: %s", r.GetOutcome(), r.GetMessage())
		}
	}
	if n := len(k.service.Asked()); n > 4 {
		t.Errorf("asked %d times in three reconciles", n)
	}
	k.FailWrites(nil)
	reconciles(2)
	want(t, "replicas in the end", k.Replicas("web"), 8)
}

func away(t *testing.T, k *kit) {
	const n = 20
	name := func(i int) string { return fmt.Sprintf("web-%02d", i) }
	for i := range n {
		k.Create(Workload{Name: name(i), Replicas: 4})
	}
	k.start(agent.Options{})
	reconciles(2)
	k.service.Away(true)
	for i := range n {
		k.Want(name(i), 8)
	}
	began := time.Now()
	reconciles(10)
	want(t, "changes while away", k.Changes(), 0)
	seconds := int(time.Since(began) / time.Second)
	// All may have been under way when it went.
	if asked := k.service.AskedSince(began); asked > n+seconds || asked < seconds-2*int(Period/time.Second) {
		t.Errorf("asked %d times in %d s", asked, seconds)
	}
	k.service.Away(false)
	time.Sleep(1100 * time.Millisecond)
	synctest.Wait()
	for i := range n {
		want(t, "replicas of "+name(i)+" a second after its return", k.Replicas(name(i)), 8)
	}
}

func refuses(t *testing.T, k *kit, tampering answertest.Tampering) {
	k.Create(Workload{Name: "web", Replicas: 4})
	k.Want("web", 5)
	k.service.Tamper(tampering.Change)
	k.start(agent.Options{})
	reconciles(3)
	want(t, "replicas", k.Replicas("web"), 4)
	want(t, "changes", k.Changes(), 0)
	want(t, "reports", len(k.service.Reports()), 0)
	if n := len(k.service.Asked()); n < 3 || n > 5 {
		t.Errorf("asked %d times in three reconciles", n)
	}
	k.service.Tamper(nil)
	reconciles(2)
	want(t, "replicas once the answers are right", k.Replicas("web"), 5)
}

func newer(t *testing.T, k *kit) {
	k.Create(Workload{Name: "web", Replicas: 4})
	k.Want("web", 5)
	k.service.Tamper(answertest.Newer)
	k.start(agent.Options{})
	reconciles(3)
	want(t, "replicas", k.Replicas("web"), 5)
	want(t, "reports", len(k.service.Reports()), 1)
}

func vanished(t *testing.T, k *kit) {
	key := k.Create(Workload{Name: "web", Replicas: 4})
	k.Create(Workload{Name: "other", Replicas: 4})
	k.start(agent.Options{})
	reconciles(2)
	target := targetOf(k, "/"+key.Name)
	before := len(k.service.Deletes())
	k.Remove("web")
	gone := time.Now()
	reconciles(5)
	deletes := k.service.Deletes()[before:]
	if len(deletes) != 1 || deletes[0].GetName() != target.GetTarget() || deletes[0].GetTargetUid() != target.GetTargetUid() {
		t.Errorf("forgotten: %v, want %s of %s", deletes, target.GetTarget(), target.GetTargetUid())
	}
	for _, q := range k.service.Asked() {
		if q.Request.GetTarget() == target.GetTarget() && q.At.After(gone) {
			t.Errorf("asked about it %s after it went", q.At.Sub(gone))
		}
	}
	objects := k.driver.Objects()
	if len(objects) != 1 || objects[0] == key {
		t.Errorf("kept: %v", objects)
	}
}

// targetOf returns the last request about a target whose name ends in suffix.
func targetOf(k *kit, suffix string) *setpointv1.RecommendRequest {
	var last *setpointv1.RecommendRequest
	for _, q := range k.service.Asked() {
		if strings.HasSuffix(q.Request.GetTarget(), suffix) {
			last = q.Request
		}
	}
	return last
}

func madeAgain(t *testing.T, k *kit) {
	key := k.Create(Workload{Name: "web", Replicas: 4, Steady: true})
	k.Want("web", 9)
	k.start(agent.Options{})
	reconciles(4)
	first := targetOf(k, "/"+key.Name)
	want(t, "replicas of the first", k.Replicas("web"), 9)
	k.Remove("web")
	k.Create(Workload{Name: "web", Replicas: 3, Steady: true}) // before a watcher saw the first one go
	reconciles(3)
	second := targetOf(k, "/"+key.Name)
	want(t, "replicas of the second, which what the first was recommended would raise", k.Replicas("web"), 3)
	if uid := second.GetTargetUid(); uid == "" || uid == first.GetTargetUid() {
		t.Errorf("asked with the uid %q, before with %q", uid, first.GetTargetUid())
	}
	if !slices.ContainsFunc(k.service.Deletes(), func(d *setpointv1.DeleteTargetRequest) bool {
		return d.GetName() == first.GetTarget() && d.GetTargetUid() == first.GetTargetUid()
	}) {
		t.Errorf("the first one's history is not forgotten: %v", k.service.Deletes())
	}
}

func replaced(t *testing.T, k *kit) {
	k.Create(Workload{Name: "web", Replicas: 4})
	k.start(agent.Options{})
	reconciles(1)
	k.Want("web", 8)
	again := sync.OnceFunc(func() {
		k.Remove("web")
		k.Create(Workload{Name: "web", Replicas: 4})
	})
	k.service.Tamper(func(*setpointv1.RecommendResponse) { again() })
	reconciles(3)
	want(t, "replicas", k.Replicas("web"), 4)
	want(t, "changes", k.Changes(), 0)
}

func moved(t *testing.T, k *kit) {
	k.Create(Workload{Name: "web", Replicas: 4})
	k.start(agent.Options{})
	reconciles(1)
	k.Want("web", 8)
	k.BeforeWrite(func() { k.Scale("web", 6) })
	asked := len(k.service.Asked())
	reconciles(1)
	want(t, "replicas", k.Replicas("web"), 8)
	questions := k.service.Asked()[asked:]
	if len(questions) < 2 || questions[0].Request.GetScale().GetSpecReplicas() != 4 || questions[1].Request.GetScale().GetSpecReplicas() != 6 {
		t.Fatalf("asked %d times, want about 4 replicas and then about 6", len(questions))
	}
	if wait := questions[1].At.Sub(questions[0].At); wait > time.Second {
		t.Errorf("decided again after %s", wait)
	}
	reports := k.service.Reports()
	want(t, "reports", len(reports), 1)
}

func unread(t *testing.T, k *kit) {
	k.Create(Workload{Name: "web", Replicas: 4})
	k.start(agent.Options{})
	reconciles(1)
	k.FailReads(errors.New("it does not answer"))
	began, before := time.Now(), k.reads.Load()
	reconciles(10)
	want(t, "changes", k.Changes(), 0)
	// After 1, 2, 4 and 8 s, and with each reconcile; each read is of an object and its inputs.
	if n, most := k.reads.Load()-before, 2*(5+int64(time.Since(began)/Period)); n > most || n < 5 {
		t.Errorf("%d reads in %s, want at most %d", n, time.Since(began), most)
	}
	k.FailReads(nil)
	k.Want("web", 8)
	reconciles(2)
	want(t, "replicas in the end", k.Replicas("web"), 8)
}

// member is a service that gives the only member of a fleet the share that it has.
type member struct {
	setpointv1.UnimplementedRecommendationServiceServer
}

func (member) Recommend(_ context.Context, req *setpointv1.RecommendRequest) (*setpointv1.RecommendResponse, error) {
	const has = 4
	return &setpointv1.RecommendResponse{
		RequestId: new(req.GetRequestId()), CurrentReplicas: has, DesiredReplicas: has, Action: "NONE", EvaluationTime: timestamppb.Now(),
		Status: &setpointv1.HorizontalPodAutoscalerStatus{CurrentReplicas: has, DesiredReplicas: has},
		Fleet:  &setpointv1.FleetShare{State: "FRESH", ShareTotal: has, DesiredReplicas: has, DecisionTime: timestamppb.Now()},
	}, nil
}

// The fleet takes a silent member for lost. One whose agent calls is not, so all agents call, from the second failed read on
// once in each period, and that with what the fleet needs: its metrics, and no count.
func blind(t *testing.T, k *kit) {
	k.Create(Workload{Name: "web", Replicas: 4})
	k.fleet, k.service = "clusters/all/namespaces/shop/targets/web", NewService(member{})
	k.start(agent.Options{})
	reconciles(2)
	k.FailReads(errors.New("it does not answer"))
	for before := k.reads.Load(); k.reads.Load() == before; synctest.Wait() {
		time.Sleep(100 * time.Millisecond)
	}
	k.FailReads(nil)
	reconciles(1)
	seen := k.service.Asked()
	last := seen[len(seen)-1]
	for _, q := range seen {
		if q.Request.GetScaleError() != nil {
			t.Error("it tells of a read that fails once")
		}
	}
	k.FailReads(errors.New("it does not answer"))
	began := time.Now()
	reconciles(20)
	want(t, "changes", k.Changes(), 0)
	told := 0
	for _, q := range k.service.Asked()[len(seen):] {
		if wait := q.At.Sub(last.At); wait < Period || wait > 2*Period {
			t.Errorf("a call %s after the one before", wait)
		}
		if last = q; q.Request.GetScaleError() == nil {
			continue
		}
		told++
		if e := q.Request.GetScaleError().GetMessage(); !strings.Contains(e, "it does not answer") && !strings.Contains(e, "listed") ||
			q.Request.Scale != nil || q.Request.GetFleet() != k.fleet || !proto.Equal(q.Request.GetSpec(), seen[0].Request.GetSpec()) {
			t.Fatalf("it told %v", q.Request)
		}
	}
	if wait := time.Since(last.At); wait > 2*Period {
		t.Errorf("the last call was %s ago", wait)
	}
	if most := int(time.Since(began)/Period) + 1; told < most/2 || told > most {
		t.Errorf("it told %d times in %s that it can't be seen", told, time.Since(began))
	}
	k.FailReads(nil)
	reconciles(2)
	if now := targetOf(k, "web"); now.GetScaleError() != nil || now.GetScale().GetSpecReplicas() != 4 {
		t.Errorf("in the end it tells %v", now)
	}
}

func quiet(t *testing.T, k *kit) {
	k.Create(Workload{Name: "web", Replicas: 4})
	k.start(agent.Options{})
	reconciles(3)
	began, reads, asked := time.Now(), k.reads.Load(), len(k.service.Asked())
	reconciles(20)
	most := int64(time.Since(began)/Period) + 1
	if n := int64(len(k.service.Asked()) - asked); n > most {
		t.Errorf("%d questions in %s", n, time.Since(began))
	}
	if n := k.reads.Load() - reads; n > 2*most {
		t.Errorf("%d reads in %s", n, time.Since(began))
	}
}

func stops(t *testing.T, k *kit) {
	k.Create(Workload{Name: "web", Replicas: 4})
	k.start(agent.Options{})
	reconciles(1)
	k.Want("web", 8)
	stopped := make(chan error, 1)
	k.BeforeWrite(func() {
		go func() { stopped <- k.stop() }()
		time.Sleep(time.Second)
	})
	reconciles(2)
	select {
	case err := <-stopped:
		if err != nil {
			t.Error(err)
		}
	default:
		t.Fatal("it has not stopped, or nothing was to be written")
	}
	want(t, "replicas", k.Replicas("web"), 8)
	reports := k.service.Reports()
	if len(reports) != 1 || reports[0].GetOutcome() != "APPLIED" {
		t.Errorf("reported: %v", reports)
	}
	reads, asked := k.reads.Load(), len(k.service.Asked())
	reconciles(5)
	want(t, "reads after the end", k.reads.Load(), reads)
	want(t, "questions after the end", len(k.service.Asked()), asked)
}

func restarts(t *testing.T, k *kit) {
	k.Create(Workload{Name: "web", Replicas: 4, Steady: true})
	k.Want("web", 9)
	k.start(agent.Options{})
	reconciles(4)
	want(t, "replicas", k.Replicas("web"), 9)
	k.Want("web", 3)
	k.start(agent.Options{})
	reconciles(2)
	want(t, "replicas after a start, which what was recommended holds", k.Replicas("web"), 9)
}
