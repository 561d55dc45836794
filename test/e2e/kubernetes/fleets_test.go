//go:build linux

package kubernetes

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/store/redis/redistest"
	"github.com/setpoint-dev/setpoint/test/e2e/kubernetes/kubetest"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

// line is the way from a cluster to the service, which can be cut.
type line struct {
	net.Listener
	to string

	mu    sync.Mutex
	isCut bool
	open  map[net.Conn]bool
}

func newLine(t *testing.T, to string) *line {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	l := &line{Listener: listener, to: to, open: map[net.Conn]bool{}}
	var ended sync.WaitGroup
	ended.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			ended.Go(func() { l.carry(conn) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		l.cut(true)
		ended.Wait()
	})
	return l
}

// GRPCAddr is where an agent calls.
func (l *line) GRPCAddr() string { return l.Addr().String() }

func (l *line) carry(from net.Conn) {
	defer from.Close()
	to, err := net.Dial("tcp", l.to)
	if err != nil {
		return
	}
	defer to.Close()
	if !l.keep(from, to) {
		return
	}
	var both sync.WaitGroup
	for _, one := range [][2]net.Conn{{from, to}, {to, from}} {
		both.Go(func() {
			_, _ = io.Copy(one[1], one[0])
			_ = one[1].Close()
		})
	}
	both.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, from)
	delete(l.open, to)
}

// keep remembers connections, to cut them; false: the line is cut.
func (l *line) keep(all ...net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, conn := range all {
		l.open[conn] = true
	}
	return !l.isCut
}

// cut cuts the line, or mends it.
func (l *line) cut(isCut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isCut = isCut; isCut {
		for conn := range l.open {
			_ = conn.Close()
		}
	}
}

// fleetOf is a fleet of two clusters: one with an Autoscaler that may have no replicas, one with a
// HorizontalPodAutoscaler. Each has a queue of its own, and a pod is for ten in the queues of both.
type fleetOf struct {
	t          *testing.T
	s          *service.Instance
	typed      *plugin
	name       string
	east, west *place
	// places are those of the members, by name.
	places []*place
	line   *line // the west's
	agents []*agent
}

func newFleet(t *testing.T, flags ...string) *fleetOf {
	t.Helper()
	return newFleetWith(t, nil, flags...)
}

// newFleetWith has a third cluster between them, like the west; nil: none.
func newFleetWith(t *testing.T, north *kubetest.Cluster, flags ...string) *fleetOf {
	t.Helper()
	s := service.Start(t, "--redis", redistest.Start(t, persistent).URL())
	east := newPlace(t, withAutoscalers(t, kubetest.Shared(t)), autoscalers, "fleet")
	west := &place{t: t, c: kubetest.SharedWithoutNative(t), kind: hpas, namespace: east.namespace}
	places, members := []*place{east, west}, []string{"east", "west"}
	if north != nil {
		places, members = []*place{east, {t: t, c: north, kind: hpas, namespace: east.namespace}, west}, []string{"east", "north", "west"}
	}
	for _, p := range places[1:] {
		p.c.Kubectl(t, "create", "namespace", p.namespace)
	}
	f := &fleetOf{t: t, s: s, typed: newPlugin(t, east.c, s), name: "clusters/all/namespaces/" + east.namespace + "/targets/" + app, east: east, west: west, places: places, line: newLine(t, s.GRPCAddr())}
	spec := bounded(2, 20, metric(external(averageValue("10"))))(app)
	// At a period of a second an agent may call before its Deployment shows the count that it was given. Without the guard, as in
	// kubernetes/kubernetes#141134, what the clusters show on their way to a count would become the count.
	meta := metav1.ObjectMeta{Name: app, Annotations: map[string]string{"setpoint.dev/stages": `{"guards": {"ignoreSurge": true}}`}}
	manifest, err := json.Marshal(&autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: meta, Spec: spec})
	must(t, err)
	file := textFile(t, strings.Replace(string(manifest), "{", `{"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",`, 1))
	create := []string{"create", "all/" + east.namespace + "/" + app, "-f", file, "--scope=External:" + app + "=per-member", "--period=1s", "--stale-after=3s", "--lost-after=9s"}
	for _, name := range members {
		create = append(create, "--member="+name)
	}
	f.typeIn(append(create, flags...)...)
	for i, p := range places {
		p.c.Deployment(t, p.namespace, app, 2)
		queue("20", 2).do(p, app)
		p.awaitReplicas(app, 2)
		if i == 0 {
			p.add(app, bounded(0, 20, metric(external(averageValue("10"))))(app), `options={"scaleToZero": true}`, `fleet="`+f.name+`"`)
		} else {
			p.add(app, spec)
			p.c.Kubectl(t, "annotate", "hpa", app, "-n", p.namespace, "setpoint.dev/fleet="+f.name)
		}
	}
	f.agents = append(f.agents, startAgent(t, east.c, east.namespace, s, "--source=autoscaler", "--cluster=east", "--sync-period=1s"),
		startAgent(t, west.c, west.namespace, f.line, "--source=hpa", "--cluster=west", "--sync-period=1s"))
	if north != nil {
		f.agents = append(f.agents, startAgent(t, north, east.namespace, s, "--source=hpa", "--cluster=north", "--sync-period=1s"))
	}
	return f
}

// typeIn types kubectl setpoint fleet.
func (f *fleetOf) typeIn(args ...string) string {
	f.t.Helper()
	return f.typed.command(f.t, append([]string{"fleet"}, args...)...)
}

func (f *fleetOf) get() *setpointv1.Fleet {
	f.t.Helper()
	got, err := setpointv1.NewFleetServiceClient(f.s.Conn()).GetFleet(f.t.Context(), &setpointv1.GetFleetRequest{Name: f.name})
	must(f.t, err)
	if total := got.GetFleet().GetShareTotal(); total > 20 {
		f.t.Fatalf("the shares add up to %d, above the fleet's maximum", total)
	}
	return got.GetFleet()
}

// length sets the queues, of the clusters in the order of their names.
func (f *fleetOf) length(queues ...string) {
	f.t.Helper()
	for i, p := range f.places {
		queue(queues[i], 0).do(p, app)
	}
}

// await waits until the Deployments want so many pods, the fleet gives these shares, and the states are these.
func (f *fleetOf) await(what string, east, west int32, states string) {
	f.t.Helper()
	f.awaitAll(what, states, east, west)
}

// awaitAll is await, of the clusters in the order of their names; unseen is the count of one whose API server is away.
func (f *fleetOf) awaitAll(what, states string, counts ...int32) {
	f.t.Helper()
	await(f.t, what, func() string { return f.differs(states, counts) })
}

// awaitOneOf is awaitAll where the instant of a decision, which is chance, says which of the counts it comes to.
func (f *fleetOf) awaitOneOf(what, states string, all ...[]int32) {
	f.t.Helper()
	await(f.t, what, func() (differs string) {
		for _, counts := range all {
			if differs = f.differs(states, counts); differs == "" {
				return ""
			}
		}
		return differs
	})
}

const unseen = -1

// differs says what is otherwise; empty: nothing is.
func (f *fleetOf) differs(states string, counts []int32) string {
	f.t.Helper()
	got := f.get()
	var said []string
	var has []int32
	sum := int32(0)
	for i, m := range got.GetMembers() {
		state := m.GetState()
		if counts[i] == unseen && (state == "STALE" || state == "FRESH" && m.GetError() != "") {
			state = "BLIND" // as long as the agent's watches hold it still tells its replicas, and that it reads no metric
		}
		if m.GetDrained() {
			state += " drained"
		}
		said, sum = append(said, state), sum+m.GetShare()
	}
	for i, p := range f.places {
		n := int32(unseen)
		if counts[i] != unseen {
			n = p.replicas(app)
		}
		has = append(has, n)
	}
	if !slices.Equal(has, counts) || strings.Join(said, ", ") != states || sum != got.GetShareTotal() {
		return fmt.Sprintf("there are %v, %s; %v", has, strings.Join(said, ", "), got)
	}
	return ""
}

// stays looks for a while whether the counts stay.
func (f *fleetOf) stays(what string, east, west int32) {
	f.t.Helper()
	for range 20 { // four periods
		if has := [2]int32{f.east.replicas(app), f.west.replicas(app)}; has != [2]int32{east, west} {
			f.t.Fatalf("%s: there are %v, want [%d %d]; %v", what, has, east, west, f.get())
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// Two clusters are scaled as one. A silent one keeps what it has; a lost one's share goes to the other; when it
// returns nothing is moved. Drained it becomes empty, and promoted it gets its part again. The shares never add up
// to more than the fleet's maximum, and a member never decides alone.
func TestAFleetOfTwoClustersShiftsWhatIsLost(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "--on-lost=shift", "--lost-after=60s") // on a busy machine three steps took 40
	f.await("both take part", 2, 2, "FRESH, FRESH")
	f.length("70", "30")
	f.await("a ramp", 5, 5, "FRESH, FRESH")
	f.length("30", "30")
	f.await("and down", 3, 3, "FRESH, FRESH")
	f.length("70", "30")
	f.await("and up", 5, 5, "FRESH, FRESH")
	f.west.tells(app, "share of fleet: 5 of 10")

	// The west is cut off. What it does not tell is unknown: nothing is removed, what is known may add.
	f.line.cut(true)
	f.await("the west is silent", 5, 5, "FRESH, STALE")
	f.length("10", "0")
	f.stays("a silent member", 5, 5)
	f.west.awaitCondition(app, "AbleToScale=False/RecommenderUnavailable")
	f.length("120", "0")
	f.await("the east needs more", 7, 5, "FRESH, STALE")
	f.await("the west is lost", 12, 5, "FRESH, LOST")
	if said := f.typeIn("show", f.name); !strings.Contains(said, "1 fresh, 1 lost") || !strings.Contains(said, "west/"+f.west.namespace+"/"+app) {
		t.Errorf("it is shown as\n%s", said)
	}
	f.east.tells(app, " of 12 of fleet clusters/all/namespaces/NAMESPACE/targets/"+app+"; lost members: 1")
	f.length("120", "50")
	f.line.cut(false)
	f.await("the west returns, and nothing is moved", 12, 5, "FRESH, FRESH")
	f.stays("nothing is moved", 12, 5)

	// An agent crashes, and another one takes over in time.
	f.agents[1].Kill()
	f.agents[1].Start()
	f.agents[1].AwaitReady()
	f.stays("another agent", 12, 5)

	f.typeIn("drain", f.name, "east")
	f.await("the east becomes empty", 0, 17, "FRESH drained, FRESH")
	f.typeIn("promote", f.name, "east")
	queue("70", 0).do(f.west, app) // what is added makes up for it
	// A decision between the two commands moves a replica.
	f.awaitOneOf("the east takes part again", "FRESH, FRESH", []int32{2, 17}, []int32{3, 16})
	for _, p := range []*place{f.east, f.west} {
		for _, event := range p.events(app) {
			if strings.Contains(event, "AnswerRefused") {
				t.Errorf("%s: %s", p.kind.name, event)
			}
		}
	}
}

// A lost member's share is kept for it unless the fleet says otherwise, and one that was killed comes back to it.
func TestAFleetOfTwoClustersKeepsWhatIsLost(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.await("both take part", 2, 2, "FRESH, FRESH")
	f.length("70", "30")
	f.await("a ramp", 5, 5, "FRESH, FRESH")
	f.agents[1].Kill()
	f.await("the west is silent", 5, 5, "FRESH, STALE")
	f.length("20", "20")
	f.await("the west is lost", 5, 5, "FRESH, LOST")
	f.stays("a lost member", 5, 5)
	f.length("140", "0")
	f.await("the east needs more", 9, 5, "FRESH, LOST")
	f.length("90", "50")
	f.agents[1].Start()
	f.agents[1].AwaitReady()
	f.await("the west is there again", 9, 5, "FRESH, FRESH")
	f.length("20", "20")
	f.await("and down", 2, 2, "FRESH, FRESH")
	// Nobody decides while the service is away; the counts are those of its end.
	f.s.Kill()
	f.length("70", "30")
	f.east.awaitCondition(app, "AbleToScale=False/RecommenderUnavailable")
	f.stays("no service", 2, 2)
	f.s.Restart()
	f.await("the service again", 5, 5, "FRESH, FRESH")
	// A fleet that is gone scales nobody: its members do not decide alone.
	f.typeIn("delete", f.name)
	f.length("150", "150")
	for _, p := range []*place{f.east, f.west} {
		p.awaitCondition(app, "AbleToScale=False/RecommendationRefused")
		if said := p.condition(app, "AbleToScale"); !strings.Contains(said, "there is no fleet") {
			t.Errorf("a member without its fleet says %s", said)
		}
	}
	f.stays("no fleet", 5, 5)
}

// Three clusters are scaled as one, and the API server of one is killed. Its agent can see nothing, and says so: the member is blind,
// however long, and never lost. Nothing falls anywhere, the others take what is known to be more, and it goes on when it sees again.
func TestAFleetOfThreeClustersOutlivesAnAPIServer(t *testing.T) {
	t.Parallel()
	north := kubetest.Start(t, kubetest.Config{})
	f := newFleetWith(t, north, "--on-lost=shift", "--lost-after=4s")
	f.awaitAll("all take part", "FRESH, FRESH, FRESH", 2, 2, 2)
	// The agents read one after the other: no sum on the way may be within the tolerance of the last one.
	f.length("40", "40", "40")
	f.awaitAll("a ramp", "FRESH, FRESH, FRESH", 4, 4, 4)
	f.length("70", "40", "40")
	f.awaitAll("and up", "FRESH, FRESH, FRESH", 5, 5, 5)
	f.length("40", "40", "40")
	f.awaitAll("and down", "FRESH, FRESH, FRESH", 4, 4, 4)

	north.KillAPIServer()
	f.awaitAll("the north sees nothing", "FRESH, BLIND, FRESH", 4, unseen, 4)
	f.length("10", "0", "10")
	for range 30 { // six periods: longer than until a silent member is lost
		if differs := f.differs("FRESH, BLIND, FRESH", []int32{4, unseen, 4}); differs != "" {
			t.Fatalf("a blind member: %s", differs)
		}
		time.Sleep(200 * time.Millisecond)
	}
	f.length("150", "0", "10")
	// As long as the north still tells its replicas it has a part in what is more, which it takes when it sees again.
	f.awaitOneOf("the others take more", "FRESH, BLIND, FRESH", []int32{6, unseen, 6}, []int32{6, unseen, 5})
	must(t, north.StartAPIServer())
	f.awaitOneOf("the north sees again, and nothing is moved", "FRESH, FRESH, FRESH", []int32{6, 4, 6}, []int32{6, 5, 5})
	f.length("20", "20", "20")
	f.awaitAll("and down", "FRESH, FRESH, FRESH", 2, 2, 2)
}
