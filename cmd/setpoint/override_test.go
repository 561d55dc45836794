package main

import (
	"encoding/json"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/cmd/internal/clitest"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/testpages"
	"github.com/setpoint-dev/setpoint/server"
)

func TestOverridesAreCreatedListedAndDeleted(t *testing.T) {
	t.Parallel()
	address := clitest.StartServer(t)
	const (
		shop = "clusters/demo/namespaces/shop"
		own  = demoTarget + "/overrides/freeze"
	)
	for _, tt := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"none", []string{"list"}, 0, "no overrides that you may read, in force or planned\n"},
		{"create", []string{"create", demoTarget, "--hold", "--for=2h", "--reason=database migration", "--id=freeze"}, 0, own + " created: hold until 2"},
		{"another one of that name", []string{"create", demoTarget, "--pin=0", "--for=2h", "--reason=x", "--id=freeze"}, cli.ExitFailed, "there is another override " + own + ": choose another --id, or delete it first. A repeated call needs the same --until"},
		{"of a namespace", []string{"create", shop, "--floor=2", "--ceiling=8", "--no-scale-down", "--no-scale-up", "--for=1h", "--reason=x", "--id=limits"}, 0, shop + "/overrides/limits created: floor 2, ceiling 8, no-scale-down, no-scale-up until 2"},
		{"that begins later", []string{"create", "clusters/demo", "--pin=0", "--start=2100-01-01T00:00:00Z", "--for=1h", "--reason=x"}, cli.ExitUsage, "override.startTime: Invalid value: 2100-01-01T00:00:00Z: must be at most 365 days from now"},
		{"a reason that is no text", []string{"create", shop, "--hold", "--for=1h", "--reason=x\u001b[31m"}, cli.ExitUsage, "override.reason: Invalid value: must be one line of text"},
		{"list", []string{"list"}, 0, own + "   hold"},
		{"of the target", []string{"list", demoTarget}, 0, "database migration"},
		{"of the namespace", []string{"list", shop}, 0, own + "   hold"},
		{"of another namespace", []string{"list", "clusters/demo/namespaces/other", "-o=json"}, 0, `"overrides": []`},
		{"as JSON", []string{"list", "clusters/demo", "-o", "json"}, 0, `"reason": "database migration"`},
		{"of the cluster itself", []string{"list", "clusters/other"}, 0, "no overrides of clusters/other that you may read"},
		{"some", []string{"list", "--limit=1"}, 0, "listed 1 overrides, and there are more: --limit=0 lists all"},
		{"no more than all", []string{"list", "--limit=2"}, 0, "BEGINS                 AGE"},
		{"created as YAML", []string{"create", "clusters/demo", "--pin=3", "--for=1h", "--reason=y", "--id=all", "-o=yaml"}, 0, "pin: 3"},
		{"delete", []string{"delete", own}, 0, own + " deleted"},
		{"delete what is gone", []string{"delete", own}, cli.ExitFailed, "there is no override " + own},
		{"delete by the place", []string{"delete", shop, "limits"}, 0, shop + "/overrides/limits deleted"},
		{"delete by a short name", []string{"delete", "hpa/web", "freeze", "-n=shop", "--cluster=demo"}, cli.ExitFailed, "there is no override " + own},
		{"delete by a name for which nobody asked", []string{"delete", "web", "freeze", "-n=shop"}, cli.ExitFailed, "no target web of a namespace shop is known"},
		{"delete by no name", []string{"delete", shop, "a/b"}, cli.ExitUsage, "name: Invalid value"},
	} {
		got := run(t, "", append(append([]string{"override"}, tt.args...), "--server", address)...)
		if got.Code != tt.code || !strings.Contains(got.Stdout+got.Stderr, tt.want) {
			t.Errorf("%s: exit code %d\n%s%s\nwant %q", tt.name, got.Code, got.Stdout, got.Stderr, tt.want)
		}
		if strings.Contains(got.Stdout, "\x1b") {
			t.Errorf("%s: the terminal gets %q", tt.name, got.Stdout)
		}
	}
	// As long as no target is known there, it says so: a name may be mistyped.
	for _, place := range []string{demoTarget, shop, "clusters/demo"} {
		got := run(t, "", "override", "create", place, "--hold", "--for=1d12h", "--reason=x", "--server", address)
		if got.Code != 0 || !strings.Contains(got.Stderr, "known yet") || !strings.Contains(got.Stderr, place) {
			t.Errorf("an override of %s: %d\n%s%s", place, got.Code, got.Stdout, got.Stderr)
		}
	}
	// An override holds.
	if got := run(t, "", "recommend", "-f", demoRequest, "--server", address, "--target", demoTarget); !strings.Contains(got.Stdout, "3") || got.Code != 0 {
		t.Errorf("recommend: %d %s %s", got.Code, got.Stdout, got.Stderr)
	}
	// What the spec of the target limits is said at once.
	for _, tt := range []struct{ flag, want string }{
		{"--pin=5000", "warning: the pin of 5000 is above maxReplicas "}, {"--floor=5000", "warning: the floor of 5000 is above maxReplicas "},
		{"--ceiling=0", "warning: the ceiling of 0 is below minReplicas "}, {"--pin=0", "warning: the pin of 0 is below minReplicas "}, {"--ceiling=5000", ""}, {"--floor=0", ""},
	} {
		got := run(t, "", "override", "create", demoTarget, tt.flag, "--for=1h", "--reason=x", "--server", address)
		if got.Code != 0 || !strings.HasPrefix(got.Stderr, tt.want) || tt.want == "" && got.Stderr != "" {
			t.Errorf("%s: %d %s", tt.flag, got.Code, got.Stderr)
		}
	}
	// Of a fleet the minimums of its members count, too.
	whole := clitest.File(t, "fleet.yaml", `{name: clusters/all/namespaces/shop/targets/web, spec: {scaleTargetRef: {apiVersion: setpoint.dev/v1, kind: Fleet, name: web}, minReplicas: 3, maxReplicas: 9,
		metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 60}}}]}, fleet: {members: [{target: clusters/a/namespaces/shop/targets/web}, {target: clusters/b/namespaces/shop/targets/web}]}}`)
	if got := run(t, "", "specs", "set", "-f", whole, "--server", address); got.Code != 0 {
		t.Errorf("specs set: %d %s%s", got.Code, got.Stdout, got.Stderr)
	}
	if got := run(t, "", "override", "create", "clusters/all/namespaces/shop/targets/web", "--pin=2", "--for=1h", "--reason=x", "--server", address); got.Code != 0 || !strings.Contains(got.Stderr, "below minReplicas 3 of the fleet: it counts as at least 3") {
		t.Errorf("an override of a fleet: %d %s", got.Code, got.Stderr)
	}
	// So is that it does nothing while somebody has switched the target off.
	off := clitest.File(t, "off.json", `{"target": "clusters/demo/namespaces/shop/targets/off", "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "off"}, "maxReplicas": 9,
		"metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}}}]}, "scale": {"specReplicas": 0, "selector": "app=off"}}`)
	if got := run(t, "", "recommend", "-f", off, "--server", address); got.Code != 0 {
		t.Errorf("recommend: %d %s %s", got.Code, got.Stdout, got.Stderr)
	}
	if got := run(t, "", "override", "create", shop+"/targets/off", "--pin=3", "--for=1h", "--reason=x", "--server", address); got.Code != 0 || !strings.HasPrefix(got.Stderr, "warning: the target is at 0 replicas") {
		t.Errorf("an override of what is switched off: %d %s", got.Code, got.Stderr)
	}
	// Which targets of a place are limited it does not look for: it says that they may be.
	for place, want := range map[string]bool{demoTarget: false, shop: true, "clusters/demo": true} {
		got := run(t, "", "override", "create", place, "--pin=3", "--for=1h", "--reason=x", "--server", address)
		if said := strings.HasSuffix(got.Stdout, ", for each target within its minReplicas and maxReplicas\n"); got.Code != 0 || said != want {
			t.Errorf("a pin of %s: %d %s%s", place, got.Code, got.Stdout, got.Stderr)
		}
	}
	for _, place := range []string{demoTarget, shop, "clusters/demo"} {
		ends := time.Now().Add(60 * time.Hour).UTC()
		got := run(t, "", "override", "create", place, "--hold", "--for=2d12h", "--reason=late", "--id=late", "--server", address)
		if got.Code != 0 || got.Stderr != "" || !strings.Contains(got.Stdout, "hold until "+ends.Format("2006-01-02T15:")) && !strings.Contains(got.Stdout, "hold until "+ends.Add(time.Minute).Format("2006-01-02T15:")) {
			t.Errorf("an override of %s with a target, until %s: %d\n%s%s", place, ends, got.Code, got.Stdout, got.Stderr)
		}
		// It is seen before there is a decision.
		if got := run(t, "", "targets", "get", demoTarget, "--server", address); !regexp.MustCompile(`Override +hold until \S+Z by somebody: "late.*" \(`+place+`/overrides/late\)`).MatchString(got.Stdout) || strings.Contains(got.Stdout, "\x1b") {
			t.Errorf("of %s the target says\n%s%s", place, got.Stdout, got.Stderr)
		}
	}
}

// A call that is repeated returns the override that is there, and says since when it is.
func TestARepeatedOverrideSaysWhenItWasCreated(t *testing.T) {
	t.Parallel()
	var later atomic.Int64
	options := server.DefaultOptions()
	options.Clock = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	address := clitest.StartServerWith(t, options)
	until := time.Now().Add(2 * time.Hour).UTC().Format(time.RFC3339)
	create := func() string {
		got := run(t, "", "override", "create", demoTarget, "--hold", "--until", until, "--reason=x", "--id=freeze", "--server", address)
		return got.Stdout + got.Stderr
	}
	const before = -10 * 24 * time.Hour
	later.Store(int64(before))
	day := time.Now().Add(before).UTC().Format("2006-01-02T")
	first := create()
	later.Store(0)
	if again := create(); again != first || !strings.Contains(first, "/overrides/freeze created at "+day) || !strings.Contains(first, ": hold until "+until+"\n") {
		t.Errorf("the first call says %q, the second %q", first, again)
	}
}

// Bad input is refused before a connection is made, all of it at once.
func TestOverridesThatAreRefusedAtOnce(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		args []string
		want []string
	}{
		{"nothing said", []string{"create", "web"}, []string{"--for or --until must say when it ends", "--reason must say why", "it does nothing: set --hold", `"web" needs its namespace: give -n NAMESPACE, or clusters/CLUSTER/namespaces/NAMESPACE/targets/web; a cluster is clusters/web`}},
		{"another kind", []string{"create", "deploy/web", "-n=shop", "--hold", "--for=1h", "--reason=x"}, []string{`"deploy/web" must be clusters/CLUSTER`, "or, for a target, CLUSTER/NAMESPACE/TARGET, or with -n NAMESPACE its name such as web or hpa/web"}},
		{"no namespace", []string{"create", "web", "-n=a/b", "--cluster=c", "--hold", "--for=1h", "--reason=x"}, []string{`"a/b" is no name of a namespace`}},
		{"no cluster", []string{"list", "web", "-n=shop", "--cluster=.."}, []string{`".." is no name of a cluster`}},
		{"two ends", []string{"create", demoTarget, "--hold", "--for=1h", "--until=2026-01-01T00:00:00Z", "--reason=x"}, []string{"--for and --until both"}},
		{"no instants", []string{"create", demoTarget, "--hold", "--start=monday", "--until=2pm", "--reason=x"}, []string{`--start: "monday" is no instant such as 2`, `--until: "2pm" is no instant`}},
		{"negative", []string{"create", demoTarget, "--hold", "--for=-1h", "--reason=x"}, []string{"--for: it lasts -1h0m0s: must be longer than 0s"}},
		{"no time at all", []string{"create", demoTarget, "--hold", "--for=0s", "--reason=x"}, []string{"--for: it lasts 0s: must be longer than 0s"}},
		{"no time and an end", []string{"create", demoTarget, "--hold", "--for=0s", "--until=2026-01-01T00:00:00Z", "--reason=x"}, []string{"--for and --until both"}},
		{"negative counts", []string{"create", demoTarget, "--pin", "-3", "--floor=-1", "--ceiling=-2", "--for=1h", "--reason=x"}, []string{"--pin: -3 is below 0", "--floor: -1 is below 0", "--ceiling: -2 is below 0"}},
		{"no duration", []string{"create", demoTarget, "--hold", "--for=tomorrow", "--reason=x"}, []string{`invalid argument "tomorrow" for "--for" flag: must be a duration such as 90m, 2h or 2d12h`}},
		{"no unit", []string{"create", demoTarget, "--hold", "--for=2", "--reason=x"}, []string{`must be a duration such as 90m, 2h or 2d12h; see`}},
		{"no days", []string{"create", demoTarget, "--hold", "--for=1.5d", "--reason=x"}, []string{`must be a duration such as 90m, 2h or 2d12h`}},
		{"no number", []string{"create", demoTarget, "--pin=3.5"}, []string{`invalid argument "3.5" for "--pin" flag: must be a whole number`}},
		{"no zone", []string{"create", demoTarget, "--hold", "--until=18:00", "--reason=x"}, []string{`--until: "18:00" is no instant such as 2`, "Z or 2", "+01:00: date, time and zone are needed"}},
		{"no such command", []string{"creat", demoTarget}, []string{`unknown command "creat"; did you mean create?; see setpoint override --help`}},
		{"no such command with its flags", []string{"creat", demoTarget, "--hold"}, []string{`unknown command "creat"; did you mean create?; see setpoint override --help`}},
		{"a flag without its command", []string{"--hold", "create"}, []string{"unknown flag: --hold; see setpoint override --help"}},
		{"a flag that is another command's", []string{"list", "clusters/demo", "--hold"}, []string{"unknown flag: --hold; see setpoint override list --help"}},
		{"no place", []string{"create", "--hold"}, []string{"an argument is missing"}},
		{"list nowhere", []string{"list", "clusters/"}, []string{`"clusters/" must be clusters/CLUSTER`}},
		{"delete nothing", []string{"delete"}, []string{"an argument is missing"}},
		{"delete without a namespace", []string{"delete", "web", "freeze"}, []string{`"web" needs its namespace: give -n NAMESPACE`}},
		{"limit", []string{"list", "--limit=-1"}, []string{"--limit: -1 is negative"}},
	} {
		got := run(t, "", append(append([]string{"override"}, tt.args...), "--server=127.0.0.1:1")...)
		if got.Code != cli.ExitUsage {
			t.Errorf("%s: exit code %d, %s", tt.name, got.Code, got.Stderr)
		}
		for _, want := range tt.want {
			if !strings.Contains(got.Stderr, want) {
				t.Errorf("%s: %s\nwant %q", tt.name, got.Stderr, want)
			}
		}
	}
}

// A target's name is enough where its cluster is told or is the only one that has it; what begins later says so, and
// the list has the oldest first, with when they began.
func TestOverridesByTheNameOfATarget(t *testing.T) {
	t.Parallel()
	address := clitest.StartServer(t)
	const namespace = "-n=shop"
	name := demoTarget[strings.LastIndexByte(demoTarget, '/')+1:]
	later := time.Now().Add(24 * time.Hour).UTC().Format(time.RFC3339)
	decide := func(target string) step {
		return step{"decide " + target, []string{"recommend", "-f", demoRequest, "--target", target}, 0, []string{""}}
	}
	for _, tt := range []step{
		{"not known", []string{"override", "create", name, namespace, "--hold", "--for=1h", "--reason=x"}, cli.ExitFailed, []string{"no target " + name + " of a namespace shop is known that you may read: give --cluster CLUSTER"}},
		{"told", []string{"override", "create", "hpa/" + name, namespace, "--cluster=eu", "--no-scale-up", "--for=1h", "--reason=x", "--id=told"}, 0, []string{"clusters/eu/namespaces/shop/targets/" + name + "/overrides/told created"}},
		decide(demoTarget),
		{"planned", []string{"override", "create", "HPA/" + name, namespace, "--floor=3", "--start=" + later, "--for=1h", "--reason=x", "--id=planned"}, 0, []string{demoTarget + "/overrides/planned created: floor 3 from " + later + " until "}},
		{"known", []string{"override", "create", name, namespace, "--hold", "--for=1h", "--reason=x", "--id=known"}, 0, []string{demoTarget + "/overrides/known created: hold until "}},
		{"list", []string{"override", "list", name, namespace}, 0, []string{"/known ", "/planned ", "   " + later + "   planned   "}},
		decide("clusters/eu/namespaces/shop/targets/" + name),
		{"two of the name", []string{"override", "list", name, namespace}, cli.ExitFailed, []string{"2 targets have this name, ", demoTarget, ": give --cluster CLUSTER"}},
		decide("clusters/a/namespaces/shop/targets/" + name), decide("clusters/b/namespaces/shop/targets/" + name), decide("clusters/c/namespaces/shop/targets/" + name),
		{"more than are named", []string{"override", "list", name, namespace}, cli.ExitFailed, []string{"5 targets have this name, ", " and 1 more: give --cluster CLUSTER"}},
		{"one of two", []string{"override", "list", "asr/" + name, namespace, "--cluster=eu"}, 0, []string{"/overrides/told   no-scale-up   " + time.Now().UTC().Format("2006-01-02T")}},
	} {
		got := run(t, "", append(tt.args, "--server", address)...)
		rest := got.Stdout + got.Stderr
		for _, want := range tt.want {
			_, after, ok := strings.Cut(rest, want)
			if got.Code != tt.code || !ok {
				t.Errorf("%s: exit code %d\n%s%s\nwant %q", tt.name, got.Code, got.Stdout, got.Stderr, want)
			}
			rest = after
		}
	}
}

// step is a command and what it says, in this order.
type step struct {
	name string
	args []string
	code int
	want []string
}

// A member of a fleet has no history, and is known all the same: by its decisions, by its name alone, and by its short name.
func TestOverridesOfAMember(t *testing.T) {
	t.Parallel()
	address := clitest.StartServer(t)
	var of map[string]any
	text := testpages.Read(t, demoRequest)
	fatal.If(t, json.Unmarshal([]byte(text), &of))
	of["fleet"] = "clusters/all/namespaces/shop/targets/fo"
	asked, err := json.Marshal(of)
	fatal.If(t, err)
	request := clitest.File(t, "member.json", string(asked))
	const east = "clusters/east/namespaces/shop/targets/fo"
	calls := func(cluster string) step {
		return step{cluster + " calls", []string{"recommend", "-f", request, "--target", "clusters/" + cluster + "/namespaces/shop/targets/fo"}, 0, nil}
	}
	override := func(name string, code int, want string, args ...string) step {
		return step{name, append(append([]string{"override"}, args...), "--hold", "--for=1h", "--reason=x"), code, []string{want}}
	}
	for _, tt := range []step{
		{"create", []string{"fleet", "create", "all/shop/fo", "--max=20", "--cpu=60", "--member=east", "--member=west"}, 0, nil},
		override("before it called", 0, "the target is not known yet", "create", "east/shop/fo", "--id=early"),
		calls("east"), calls("west"), calls("east"),
		override("a member", 0, east+"/overrides/live created", "create", "east/shop/fo", "--id=live"),
		override("its namespace", 0, "clusters/east/namespaces/shop/overrides/n created", "create", "clusters/east/namespaces/shop", "--id=n"),
		override("its cluster", 0, "clusters/west/overrides/c created", "create", "clusters/west", "--id=c"),
		override("a cluster without one", 0, "no target that you may read is known yet in clusters/north:", "create", "clusters/north", "--id=c"),
		override("its fleet", 0, "clusters/all/namespaces/shop/targets/fo/overrides/all created", "create", "all/shop/fo", "--id=all"),
		override("a name alone", cli.ExitFailed, "3 targets have this name, clusters/all/namespaces/shop/targets/fo, clusters/east/namespaces/shop/targets/fo", "create", "fo", "-n=shop"),
		calls("east"),
		{"its decisions", []string{"targets", "decisions", "east/shop/fo"}, 0, []string{`NONE      held at 3 by somebody until `}},
		{"targets beside fleets", []string{"targets", "list"}, 0, []string{"there are fleets: setpoint fleet list has them"}},
		{"targets in one state", []string{"targets", "list", "--state=max"}, 0, []string{"TARGET"}},
		{"a fleet as a target", []string{"targets", "explain", "all/shop/fo"}, cli.ExitFailed, []string{"setpoint fleet show"}},
		{"delete", []string{"fleet", "delete", "all/shop/fo"}, 0, nil},
		{"decisions of a deleted fleet", []string{"targets", "decisions", "all/shop/fo"}, cli.ExitFailed, []string{"no history"}},
		{"create anew", []string{"fleet", "create", "all/shop/fo", "--max=20", "--cpu=60", "--member=east", "--member=west"}, 0, nil},
		{"decisions of the new fleet, which has none", []string{"targets", "decisions", "all/shop/fo"}, 0, []string{"OUTCOME   REASON\n"}},
	} {
		got := run(t, "", append(tt.args, "--server", address)...)
		said := got.Stdout + got.Stderr
		if got.Code != tt.code || len(tt.want) > 0 && !strings.Contains(said, tt.want[0]) || strings.Contains(said, "known yet") != (tt.name == "before it called" || tt.name == "a cluster without one") {
			t.Errorf("%s: exit code %d\n%s\nwant %q", tt.name, got.Code, said, tt.want)
		}
	}
}
