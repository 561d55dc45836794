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
	line       *line  // the west's
	agent      *agent // the west's
}

func newFleet(t *testing.T, flags ...string) *fleetOf {
	t.Helper()
	s := service.Start(t, "--redis", redistest.Start(t, persistent).URL())
	east := newPlace(t, withAutoscalers(t, kubetest.Shared(t)), autoscalers, "fleet")
	west := &place{t: t, c: kubetest.SharedWithoutNative(t), kind: hpas, namespace: east.namespace}
	west.c.Kubectl(t, "create", "namespace", west.namespace)
	f := &fleetOf{t: t, s: s, typed: newPlugin(t, east.c, s), name: "clusters/all/namespaces/" + east.namespace + "/targets/" + app, east: east, west: west, line: newLine(t, s.GRPCAddr())}
	spec := bounded(2, 20, metric(external(averageValue("10"))))(app)
	// At a period of a second an agent may call before its Deployment shows the count that it was given. Without the guard, as in
	// kubernetes/kubernetes#141134, what the clusters show on their way to a count would become the count.
	meta := metav1.ObjectMeta{Name: app, Annotations: map[string]string{"setpoint.dev/stages": `{"guards": {"ignoreSurge": true}}`}}
	manifest, err := json.Marshal(&autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: meta, Spec: spec})
	must(t, err)
	file := textFile(t, strings.Replace(string(manifest), "{", `{"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",`, 1))
	create := []string{"create", "all/" + east.namespace + "/" + app, "-f", file, "--scope=External:" + app + "=per-member", "--period=1s", "--stale-after=3s", "--lost-after=9s", "--member=east", "--member=west"}
	f.typeIn(append(create, flags...)...)
	for _, p := range []*place{east, west} {
		p.c.Deployment(t, p.namespace, app, 2)
		queue("20", 2).do(p, app)
		p.awaitReplicas(app, 2)
	}
	east.add(app, bounded(0, 20, metric(external(averageValue("10"))))(app), `options={"scaleToZero": true}`, `fleet="`+f.name+`"`)
	west.add(app, spec)
	west.c.Kubectl(t, "annotate", "hpa", app, "-n", west.namespace, "setpoint.dev/fleet="+f.name)
	startAgent(t, east.c, east.namespace, s, "--source=autoscaler", "--cluster=east", "--sync-period=1s")
	f.agent = startAgent(t, west.c, west.namespace, f.line, "--source=hpa", "--cluster=west", "--sync-period=1s")
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

// length sets the queues.
func (f *fleetOf) length(east, west string) {
	f.t.Helper()
	queue(east, 0).do(f.east, app)
	queue(west, 0).do(f.west, app)
}

// await waits until the Deployments want so many pods, the fleet gives these shares, and the states are these.
func (f *fleetOf) await(what string, east, west int32, states string) {
	f.t.Helper()
	f.awaitOneOf(what, states, [2]int32{east, west})
}

// awaitOneOf is await where the instant of a decision, which is chance, says which of the counts it comes to.
func (f *fleetOf) awaitOneOf(what, states string, all ...[2]int32) {
	f.t.Helper()
	await(f.t, what, func() string {
		got := f.get()
		var said []string
		sum := int32(0)
		for _, m := range got.GetMembers() {
			state := m.GetState()
			if m.GetDrained() {
				state += " drained"
			}
			said, sum = append(said, state), sum+m.GetShare()
		}
		has := [2]int32{f.east.replicas(app), f.west.replicas(app)}
		if !slices.Contains(all, has) || strings.Join(said, ", ") != states || sum != got.GetShareTotal() {
			return fmt.Sprintf("there are %v, %s; %v", has, strings.Join(said, ", "), got)
		}
		return ""
	})
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
	f.agent.kill()
	f.agent.start()
	f.agent.awaitReady()
	f.stays("another agent", 12, 5)

	f.typeIn("drain", f.name, "east")
	f.await("the east becomes empty", 0, 17, "FRESH drained, FRESH")
	f.typeIn("promote", f.name, "east")
	queue("70", 0).do(f.west, app) // what is added makes up for it
	// A decision between the two commands moves a replica.
	f.awaitOneOf("the east takes part again", "FRESH, FRESH", [2]int32{2, 17}, [2]int32{3, 16})
	for _, p := range []*place{f.east, f.west} {
		for _, event := range p.events(app) {
			if strings.Contains(event, "AnswerRefused") {
				t.Errorf("%s: %s", p.kind.name, event)
			}
		}
	}
}
