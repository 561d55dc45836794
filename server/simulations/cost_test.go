package simulations

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"runtime"
	"runtime/metrics"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"sigs.k8s.io/yaml"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/process"
	"github.com/setpoint-dev/setpoint/internal/testlength"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/admission"
	"github.com/setpoint-dev/setpoint/server/apierror"
)

// worlds are scenarios in which the count changes all the time: one with every field, one with
// little but steps, and fleets by Setpoint's rules and by the others.
var worlds = map[string]string{"many fields": `
duration: 20m
start: 2026-03-02T00:00:00Z
timezone: Europe/Berlin
seed: 7
price: 0.1
noise: {variation: 0.5, every: 30s}
loop: {syncPeriod: 1s, offset: 1s, applyDelay: 0s, resolution: 15s, scrapeOffset: 1s}
load:
- {scale: 1, onOff: {low: 1, high: 50, "on": 2s, "off": 2s}}
- {scale: 1, constant: 1}
- {scale: 1, points: [{at: 0s, value: 1}, {at: 20m, value: 2}]}
- {scale: 1, step: {from: 1, to: 2, at: 1m}}
- {scale: 1, ramp: {from: 1, to: 2, at: 1m, for: 1m}}
- {scale: 1, daily: {low: 1, high: 2, weekend: 1, peak: "14:00"}}
- {scale: 1, spike: {height: 1, at: 1m, for: 1m}}
- {scale: 1, flashCrowd: {height: 1, at: 1m, rise: 1m, halfLife: 1m}}
- {scale: 1, sawtooth: {low: 1, high: 2, period: 1m}}
- {scale: 1, csv: {file: f, metric: cpu}}
- {scale: 1, prometheus: {file: g, metric: cpu}}
- {scale: 1, recording: {file: h, metric: cpu}}
workload:
  replicas: 5
  containers:
  - {name: app, requests: {cpu: 100m, memory: 1Gi}, limits: {cpu: "1", memory: 1Gi}}
  - {name: proxy, requests: {cpu: 100m, memory: 1Gi}, limits: {cpu: "1", memory: 1Gi}, usage: {cpu: 10m, memory: 10Mi}}
  capacity: 10
  startup: 1s
  startupMax: 2s
  warmup: 1s
  schedulingDelay: 1s
  slots: 100
  nodeDelay: 1s
  drain: 1s
  grace: 1s
  imbalance: 0.1
  queue: {size: 100, timeout: 10s}
  retries: {count: 3, delay: 1s, factor: 2}
  usage:
  - {metric: cpu, perLoad: 10m, idle: 1m, warmup: 1m}
  - {metric: rps, perLoad: 1, idle: 1m, window: 1m, delay: 1s}
  - {metric: queue, perLoad: 1, idle: 1m, window: 1m, delay: 1s, follows: queueAge}
events:
- {at: 1m, kill: 1}
- {at: 2m, crash: 0.5, for: 1m}
- {at: 3m, metrics: late, for: 1m, by: 10s, metric: cpu}
- {at: 4m, metrics: frozen, for: 1m}
- {at: 5m, metrics: zero, for: 10s}
- {at: 6m, metrics: gone, for: 10s}
- {at: 7m, writes: fail, for: 10s}
- {at: 8m, replicas: 3}
- {at: 9m, rollout: {surge: 1, unavailable: 1}}
- {at: 10m, override: {pin: 3, floor: 1, ceiling: 9, noScaleDown: true, noScaleUp: true, reason: load test}, for: 1m}
`, "many steps": `
duration: 3h
loop: {syncPeriod: 1s, resolution: 15s}
load: [{onOff: {low: 1, high: 50, "on": 1s, "off": 1s}}]
noise: {variation: 0, every: 1m}
workload:
  usage: [{metric: queue, perLoad: 1000m, idle: 1m, window: 1s, delay: 0s, follows: offered}]
`, "a fleet": `
duration: 10m
loop: {syncPeriod: 1s, resolution: 15s}
load: [{onOff: {low: 1, high: 50, "on": 2s, "off": 2s}}]
workload:
  replicas: 5
  requests: {cpu: 100m}
  capacity: 10
  usage:
  - {metric: cpu, perLoad: 10m}
  - {metric: rps, perLoad: 1, window: 1m}
  - {metric: queue, perLoad: 1, window: 1m, follows: offered}
fleet:
  staleAfter: 5s
  lostAfter: 10s
  maxMoves: 2
  scopes: {queue: GLOBAL}
  rules: [hold, shift, surviveOne]
  members:
  - {name: a, weight: 2, minReplicas: 0, maxReplicas: 15, replicas: 2, startup: 1s, startupMax: 2s, slots: 100, own: {minReplicas: 1, maxReplicas: 12},
     load: [{scale: 1, onOff: {low: 1, high: 9, "on": 1s, "off": 3s}}, {scale: 1, constant: 1}]}
  - {name: b, weight: 1}
  - {name: c, weight: 1, drained: false}
events:
- {at: 1m, member: b, cluster: down, for: 1m}
- {at: 3m, member: b, calls: late, for: 1m, by: 2s}
- {at: 5m, member: c, writes: late, for: 1m, by: 2s}
- {at: 6m, member: a, replicas: 7}
- {at: 7m, override: {floor: 3}, for: 1m}
`, "rules of others": `
duration: 10m
loop: {syncPeriod: 1s, resolution: 15s}
load: [{onOff: {low: 1, high: 50, "on": 2s, "off": 2s}}]
workload: {replicas: 5, requests: {cpu: 100m}, usage: [{metric: cpu, perLoad: 10m}]}
fleet: {staleAfter: 5s, rules: [karmada, independent], members: [{name: a, weight: 2}, {name: b}]}
events: [{at: 1m, member: b, cluster: down, for: 1m}]
`}

// kit makes requests of a world.
type kit struct {
	*testing.T
	world string
}

// costly is one request under construction.
type costly struct {
	req   *setpointv1.SimulateRequest
	world map[string]any
}

func (k *kit) costly() *costly {
	k.Helper()
	c := &costly{world: map[string]any{}}
	if err := yaml.Unmarshal([]byte(k.world), &c.world); err != nil {
		k.Fatal(err)
	}
	rules := func() *setpointv1.HPAScalingRules {
		return &setpointv1.HPAScalingRules{
			StabilizationWindowSeconds: new(int32(2)), SelectPolicy: new("Max"),
			Policies: []*setpointv1.HPAScalingPolicy{{Type: "Pods", Value: 1000, PeriodSeconds: 15}},
		}
	}
	average := &setpointv1.MetricTarget{Type: "AverageValue", AverageValue: new("5")}
	c.req = &setpointv1.SimulateRequest{
		Seed: new(int64(1)), FiguresOnly: true,
		Files: []*setpointv1.ScenarioFile{
			{Name: "f", Content: "0,1\n60,2\n"},
			{Name: "g", Content: `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[0,"1"],[60,"2"]]}]}}`},
			{Name: "h", Content: `{"name":"t from 2026","calls":[{"time":"2026-03-02T00:00:00Z","request":{"spec":{"metrics":[{"resource":{"name":"cpu"}}]}},"sums":{"metrics":[{"ready":{"pods":1,"usage":1000}}]}}]}`},
		},
		Spec: &setpointv1.HorizontalPodAutoscalerSpec{
			MinReplicas: new(int32(1)), MaxReplicas: 20,
			Metrics: []*setpointv1.MetricSpec{
				{Type: "Pods", Pods: &setpointv1.PodsMetricSource{Metric: &setpointv1.MetricIdentifier{Name: "rps"}, Target: average}},
				{Type: "External", External: &setpointv1.ExternalMetricSource{Metric: &setpointv1.MetricIdentifier{Name: "queue"}, Target: average}},
				{Type: "Resource", Resource: &setpointv1.ResourceMetricSource{Name: "cpu", Target: &setpointv1.MetricTarget{Type: "Utilization", AverageUtilization: new(int32(60))}}},
			},
			Behavior: &setpointv1.HorizontalPodAutoscalerBehavior{ScaleUp: rules(), ScaleDown: rules()},
		},
	}
	if k.world == worlds["many steps"] {
		c.req.Spec.MaxReplicas, c.req.Spec.Metrics = 2, c.req.Spec.Metrics[1:2]
		c.req.Spec.Behavior.ScaleUp.Policies[0].PeriodSeconds, c.req.Spec.Behavior.ScaleDown.Policies[0].PeriodSeconds = 1800, 1800
		c.req.Spec.Behavior.ScaleUp.StabilizationWindowSeconds = new(int32(0))
		c.req.Spec.Behavior.ScaleDown.StabilizationWindowSeconds = new(int32(0))
	}
	if k.world == worlds["rules of others"] {
		c.req.Spec.Metrics = c.req.Spec.Metrics[2:]
	}
	if k.world != worlds["many fields"] {
		c.req.Files = nil
	}
	return c
}

// atom makes a request cost more in one way.
type atom struct {
	name string
	// rank orders the atoms of one request: values before lists of them.
	rank  int
	apply func(*costly)
}

// bounds of what is tried for a number, a duration and a length: those accepted first count.
var (
	largeNumbers   = []float64{9007199254740992, 1e12, 1e9, math.MaxInt32, 1e6, 20_000, 3600, 1800, 1000, 100, 10, 5, 1}
	smallNumbers   = []float64{0, 0.001, 0.01, 1, 2}
	largeDurations = []string{"8784h", "600h", "24h", "1h", "30m", "15m", "10m", "1m", "14s"}
	smallDurations = []string{"0s", "1ns", "1ms", "1s", "2s"}
	lengths        = []int{100_000, 10_000, 1000, 100, 50, 20, 10, 5, 3, 2}
)

// request is the request with its world.
func (c *costly) request(t *testing.T) *setpointv1.SimulateRequest {
	t.Helper()
	data, err := json.Marshal(c.world)
	fatal.If(t, err)
	c.req.Scenario = string(data)
	return c.req
}

// accepted reports whether the request is valid after the change.
func (k *kit) accepted(change func(*costly)) bool {
	k.Helper()
	c := k.costly()
	change(c)
	req := c.request(k.T)
	if apierror.OfStructure(req) != nil {
		return false
	}
	_, violations := readSimulation(k.Context(), req, recommender.DefaultOptions())
	return len(violations) == 0
}

// first adds the first of the changes that is accepted.
func first[V any](k *kit, atoms []atom, name string, rank int, values []V, change func(*costly, V)) []atom {
	k.Helper()
	for _, v := range values {
		apply := func(c *costly) { change(c, v) }
		if k.accepted(apply) {
			return append(atoms, atom{fmt.Sprintf("%s=%v", name, v), rank, apply})
		}
	}
	return atoms
}

// ofWorld returns the atoms of a scenario's value at a path.
func (k *kit) ofWorld(atoms []atom, path []any, value any) []atom {
	k.Helper()
	name := strings.ReplaceAll(strings.Trim(fmt.Sprint(path), "[]"), " ", ".")
	set := func(c *costly, v any) { put(c.world, path, v) }
	switch value := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			atoms = k.ofWorld(atoms, append(slices.Clone(path), key), value[key])
		}
	case []any:
		for i := range value {
			atoms = k.ofWorld(atoms, append(slices.Clone(path), i), value[i])
			atoms = first(k, atoms, fmt.Sprintf("%s×%d", name, i), len(path), lengths, func(c *costly, n int) {
				list, _ := at(c.world, path).([]any)
				for number := range n {
					list = append(list, again(list[i], number))
				}
				set(c, list)
			})
		}
	case float64:
		atoms = first(k, atoms, name, 100, largeNumbers, func(c *costly, v float64) { set(c, v) })
		atoms = first(k, atoms, name, 100, smallNumbers, func(c *costly, v float64) { set(c, v) })
	case string:
		if _, err := time.ParseDuration(value); err == nil {
			atoms = first(k, atoms, name, 100, largeDurations, func(c *costly, v string) { set(c, v) })
			atoms = first(k, atoms, name, 100, smallDurations, func(c *costly, v string) { set(c, v) })
		}
	}
	return atoms
}

func at(in any, path []any) any {
	for _, step := range path {
		switch key := step.(type) {
		case string:
			in = in.(map[string]any)[key]
		case int:
			in = in.([]any)[key]
		}
	}
	return in
}

func put(in any, path []any, v any) {
	in = at(in, path[:len(path)-1])
	switch key := path[len(path)-1].(type) {
	case string:
		in.(map[string]any)[key] = v
	case int:
		in.([]any)[key] = v
	}
}

// again is an element once more, under another name and at another time where it needs one.
func again(element any, number int) any {
	m, isMap := element.(map[string]any)
	if !isMap {
		return element
	}
	m = maps.Clone(m)
	if _, has := m["name"]; has {
		m["name"] = fmt.Sprintf("n%d", number)
	}
	if _, has := m["perLoad"]; has {
		m["metric"] = fmt.Sprintf("m%d", number)
	}
	if _, has := m["value"]; has {
		m["at"] = fmt.Sprintf("%ds", 1201+number)
	}
	return m
}

// ofMessage returns the atoms of a message's value at a path of fields.
func (k *kit) ofMessage(atoms []atom, name string, find func(*costly) protoreflect.Message) []atom {
	k.Helper()
	fields := find(k.costly()).Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		if fd.Name() == "scenario" {
			continue
		}
		name := name + "." + fd.JSONName()
		atoms = k.ofField(atoms, name, fd, find)
	}
	return atoms
}

func (k *kit) ofField(atoms []atom, name string, fd protoreflect.FieldDescriptor, find func(*costly) protoreflect.Message) []atom {
	k.Helper()
	set := func(values ...float64) {
		for _, order := range [][]float64{values, reversed(values)} {
			atoms = first(k, atoms, name, 100, order, func(c *costly, v float64) {
				of := protoreflect.ValueOfInt32(int32(min(v, math.MaxInt32)))
				if fd.Kind() == protoreflect.Int64Kind {
					of = protoreflect.ValueOfInt64(int64(v))
				}
				find(c).Set(fd, of)
			})
		}
	}
	has := find(k.costly()).Has(fd)
	switch {
	case fd.IsMap():
	case fd.IsList():
		n := find(k.costly()).Get(fd).List().Len()
		for i := range n {
			if fd.Message() != nil {
				atoms = k.ofMessage(atoms, fmt.Sprintf("%s[%d]", name, i), func(c *costly) protoreflect.Message { return find(c).Mutable(fd).List().Get(i).Message() })
			}
			atoms = first(k, atoms, fmt.Sprintf("%s×%d", name, i), strings.Count(name, "."), lengths, func(c *costly, n int) {
				list := find(c).Mutable(fd).List()
				for range n - list.Len() {
					list.Append(protoreflect.ValueOfMessage(proto.Clone(list.Get(i).Message().Interface()).ProtoReflect()))
				}
			})
		}
	case fd.Message() != nil && fd.Message().FullName() == "google.protobuf.Duration":
		for _, order := range [][]string{largeDurations, smallDurations} {
			atoms = first(k, atoms, name, 100, order, func(c *costly, v string) {
				d, _ := time.ParseDuration(v)
				find(c).Set(fd, protoreflect.ValueOfMessage(durationpb.New(d).ProtoReflect()))
			})
		}
	case fd.Message() != nil && (has || fd.Name() == "options"):
		atoms = k.ofMessage(atoms, name, func(c *costly) protoreflect.Message { return find(c).Mutable(fd).Message() })
	case fd.Kind() == protoreflect.BoolKind:
		atoms = first(k, atoms, name, 100, []bool{true}, func(c *costly, _ bool) { find(c).Set(fd, protoreflect.ValueOfBool(!find(c).Get(fd).Bool())) })
	case fd.Kind() == protoreflect.Int32Kind || fd.Kind() == protoreflect.Int64Kind:
		set(append(slices.Clone(largeNumbers), 0)...)
	case fd.Name() == "profile":
		for _, profile := range recommender.ProfileNames() {
			atoms = first(k, atoms, name, 100, []string{profile}, func(c *costly, v string) { find(c).Set(fd, protoreflect.ValueOfString(v)) })
		}
	}
	return atoms
}

func reversed[E any](list []E) []E {
	list = slices.Clone(list)
	slices.Reverse(list)
	return list
}

// takenStream is a stream whose caller takes each message after a while.
type takenStream struct {
	grpc.ServerStreamingServer[setpointv1.SimulateResponse]
	ctx   context.Context
	each  time.Duration
	taken int
}

func (s *takenStream) Context() context.Context { return s.ctx }

func (s *takenStream) SendMsg(any) error {
	if s.taken++; s.each > 0 {
		time.Sleep(s.each)
	}
	return nil
}

// spent is what a call took.
type spent struct {
	processor time.Duration
	bytes     int64
}

// measured runs a call and returns its processor time, and how much larger the heap was.
func measured(call func()) spent {
	runtime.GC()
	heap := func() int64 {
		sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		metrics.Read(sample)
		return int64(sample[0].Value.Uint64())
	}
	before, most := heap(), int64(0)
	done, sampled := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(sampled)
		for {
			most = max(most, heap()-before)
			select {
			case <-done:
				return
			case <-time.After(2 * time.Millisecond):
			}
		}
	}()
	from := process.Own()
	call()
	took := process.Own() - from
	close(done)
	<-sampled
	return spent{took, most}
}

// A simulation takes no more time than its work says, and no more memory than its share, whatever
// field of its request is as large or as small as it may be, and whatever two of them.
func TestASimulationsWorkIsItsTime(t *testing.T) {
	testlength.SkipUnderRace(t)
	const work, memory = 1_000_000, 64 << 20
	const longest = 300*time.Millisecond + work*300*time.Nanosecond
	pairs := 40
	if testlength.Full() {
		pairs = 3000
	}
	for name, text := range worlds {
		k := &kit{t, text}
		k.knowsEveryKey()
		atoms := k.ofMessage(k.ofWorld(nil, nil, k.costly().world), "", func(c *costly) protoreflect.Message { return c.req.ProtoReflect() })
		if len(atoms) < 50 {
			t.Fatalf("%s: only %d ways to make a request cost more", name, len(atoms))
		}
		cases := [][]atom{nil}
		for _, a := range atoms {
			cases = append(cases, []atom{a})
		}
		random := rand.New(rand.NewPCG(1, 2))
		for range pairs {
			cases = append(cases, []atom{atoms[random.IntN(len(atoms))], atoms[random.IntN(len(atoms))]})
		}
		s := New(Options{AtOnce: 1, Work: work, Defaults: recommender.DefaultOptions(), Guard: &admission.Guard{}, Time: time.Hour})
		for _, atoms := range cases {
			slices.SortStableFunc(atoms, func(a, b atom) int { return cmp.Compare(b.rank, a.rank) })
			c := k.costly()
			what := name
			for _, a := range atoms {
				a.apply(c)
				what += ", " + a.name
			}
			req := c.request(t)
			var err error
			var got spent
			for range 3 { // the same work takes more time on a busy machine
				if got = measured(func() { err = s.Simulate(req, &takenStream{ctx: t.Context()}) }); got.processor <= longest {
					break
				}
			}
			if got.processor > longest || got.bytes > memory {
				t.Errorf("%s: %s of processor time and %d bytes, more than %s and %d (%v)", what, got.processor, got.bytes, longest, memory, err)
			}
		}
	}
}

// knowsEveryKey fails unless the worlds have each key that a scenario may have.
func (k *kit) knowsEveryKey() {
	k.Helper()
	// Of one container, of another distribution, in place of a pin, and of fleets, which are another world.
	instead := []string{"requests", "limits", "startupP95", "hold", "fleet", "cluster", "member", "calls"}
	var check func(path []any, value any, beside []any)
	check = func(path []any, value any, beside []any) {
		switch value := value.(type) {
		case []any:
			for i := range value {
				check(append(slices.Clone(path), i), value[i], value)
			}
		case map[string]any:
			c := k.costly()
			at(c.world, path).(map[string]any)["no such key, and like none of them"] = 1
			_, violations := readSimulation(k.Context(), c.request(k.T), recommender.DefaultOptions())
			_, known, told := strings.Cut(fmt.Sprint(violations), "known are ")
			if !told {
				k.Fatalf("%v: %v", path, violations)
			}
			known, _, _ = strings.Cut(strings.TrimRight(known, "]}"), "\n")
			for _, key := range strings.Split(known, ", ") {
				key = strings.Fields(strings.Trim(key, "]} "))[0]
				has := func(other any) bool { _, has := other.(map[string]any)[key]; return has }
				if !has(value) && !slices.ContainsFunc(beside, has) && !slices.Contains(instead, key) {
					k.Errorf("%v: the test's world has no %s", path, key)
				}
			}
			for _, key := range slices.Sorted(maps.Keys(value)) {
				if len(path) == 0 || key != "scopes" && key != "load" { // keys of the user's, and the kinds of load once more
					check(append(slices.Clone(path), key), value[key], nil)
				}
			}
		}
	}
	switch k.world {
	case worlds["many fields"]:
		check(nil, k.costly().world, nil)
	case worlds["a fleet"]:
		check([]any{"fleet"}, k.costly().world["fleet"], nil)
	}
}

// The loads of a fleet's members are added up before anything happens: that is work, too.
func TestTheLoadsOfAFleetsMembersAreWork(t *testing.T) {
	t.Parallel()
	k := &kit{t, worlds["rules of others"]}
	c := k.costly()
	var members []any
	for i := range 64 {
		each := fmt.Sprintf("1.%03ds", i) // so that no two points are at one instant
		members = append(members, map[string]any{"name": fmt.Sprint("m", i), "load": []any{map[string]any{"onOff": map[string]any{"low": 1, "high": 2, "on": each, "off": each}}}})
	}
	put(c.world, []any{"fleet", "members"}, members)
	delete(c.world, "events")
	put(c.world, []any{"duration"}, "3h")
	s := New(Options{AtOnce: 1, Work: 2_000_000, Defaults: recommender.DefaultOptions(), Guard: &admission.Guard{}, Time: time.Hour})
	err := s.Simulate(c.request(t), &takenStream{ctx: t.Context()})
	if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "karmada: the simulation is too large: at 0s its 64 members have evaluated") {
		t.Errorf("got %v", err)
	}
}

// What an estimate forgets ends with the time of the work, and says what to make smaller.
func TestASimulationThatTakesTooLongEnds(t *testing.T) {
	t.Parallel()
	k := &kit{t, worlds["many steps"]}
	s := New(Options{AtOnce: 1, Defaults: recommender.DefaultOptions(), Guard: &admission.Guard{}, Time: time.Nanosecond})
	err := s.Simulate(k.costly().request(t), &takenStream{ctx: t.Context()})
	if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "runs for at most 1ns here; shorten the time") {
		t.Errorf("got %v", err)
	}
}

// The time that a caller takes to read is not the simulation's, and is limited, too, however often
// it reads a little.
func TestASlowReaderLosesItsPlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := &kit{t, worlds["many steps"]}
		s := New(Options{AtOnce: 1, Defaults: recommender.DefaultOptions(), Guard: &admission.Guard{}, Time: time.Second})
		req := k.costly().request(t)
		req.FiguresOnly = false
		stream := &takenStream{ctx: t.Context(), each: 50 * time.Second}
		began := time.Now()
		err := s.Simulate(req, stream)
		if took := time.Since(began); status.Code(err) != codes.Aborted || stream.taken < 2 || took > 2*time.Minute+50*time.Second {
			t.Errorf("after %s and %d responses: %v", took, stream.taken, err)
		}
	})
}
