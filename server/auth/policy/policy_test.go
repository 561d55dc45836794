package policy_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/files"
	"github.com/setpoint-dev/setpoint/internal/testpages"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/auth"
	"github.com/setpoint-dev/setpoint/server/auth/policy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func parse(t testing.TB, text string) *policy.Policy {
	t.Helper()
	p, err := policy.Parse("policy.yaml", []byte(text))
	fatal.If(t, err)
	return p
}

// who is an identity of the method that its name begins with.
func who(name string, groups ...string) *auth.Identity {
	if name == auth.AnonymousName {
		return auth.Anonymous
	}
	method, _, _ := strings.Cut(name, ":")
	return &auth.Identity{Name: name, Method: auth.Method(method), Groups: auth.NewGroups(groups...)}
}

func example(t testing.TB) *policy.Policy {
	t.Helper()
	data := testpages.Read(t, filepath.Join("testdata", "policy.yaml"))
	return parse(t, data)
}

func TestExampleGrants(t *testing.T) {
	p := example(t)
	const mesh = "certificate:uri:spiffe://example.com/ns/shop/sa/scaler"
	alice := who("oidc:corp:alice", "oidc:corp:dev", "oidc:corp:sre")
	tests := []struct {
		name      string
		identity  *auth.Identity
		verb      policy.Verb
		cluster   string
		namespace string
		want      bool
	}{
		{"what is granted", who("token:agent-shop"), policy.Recommend, "prod-eu", "shop", true},
		{"a namespace by wildcard", who("token:agent-shop"), policy.Recommend, "prod-eu", "shop-2", true},
		{"another verb", who("token:agent-shop"), policy.Read, "prod-eu", "shop", false},
		{"another namespace", who("token:agent-shop"), policy.Recommend, "prod-eu", "workshop", false},
		{"another cluster", who("token:agent-shop"), policy.Recommend, "prod-us", "shop", false},
		{"a cluster that the name is part of", who("token:agent-shop"), policy.Recommend, "prod-eu-2", "shop", false},
		{"another identity", who("token:agent"), policy.Recommend, "prod-eu", "shop", false},
		{"an identity that begins alike", who("token:agent-shop-2"), policy.Recommend, "prod-eu", "shop", false},
		{"a wildcard within a name", who(mesh), policy.Recommend, "prod-eu", "any", true},
		{"a cluster by wildcard", who(mesh), policy.Read, "prod-", "any", true},
		{"a cluster that does not match", who(mesh), policy.Read, "prod", "any", false},
		{"the same name of another kind", who("certificate:cn:spiffe://example.com/ns/shop/sa/scaler"), policy.Recommend, "prod-eu", "any", false},
		{"everybody", who("token:anybody"), policy.Read, "demo", "any", true},
		{"everybody, but not more", who("token:anybody"), policy.Recommend, "demo", "any", false},
		{"everybody is not Anonymous", auth.Anonymous, policy.Read, "demo", "any", false},
		{"by group", alice, policy.Delete, "prod-eu", "any", true},
		{"by group, all verbs", alice, policy.Everything, "prod-eu", "any", true},
		{"some of several verbs", who(mesh), policy.Read | policy.Delete, "prod-eu", "any", false},
		{"each of several verbs", who(mesh), policy.Read | policy.Recommend, "prod-eu", "any", true},
		{"another group", who("oidc:corp:bob", "oidc:corp:dev"), policy.Read, "prod-eu", "shop", false},
		{"a group is not an identity", who("oidc:corp:sre"), policy.Read, "prod-eu", "shop", false},
		{"no verb", alice, 0, "prod-eu", "any", false},
		{"nobody", nil, policy.Read, "demo", "any", false},
		{"no name", &auth.Identity{}, policy.Read, "demo", "any", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for range 2 { // The second time it is remembered.
				if got := p.Allows(tt.identity, tt.verb, tt.cluster, tt.namespace); got != tt.want {
					t.Errorf("got %t", got)
				}
			}
			if err := p.For(tt.identity).Check(tt.verb, tt.cluster, tt.namespace); (err == nil) != tt.want {
				t.Errorf("Check: %v", err)
			}
		})
	}
}

func TestGroupsOfOneNameDiffer(t *testing.T) {
	p := example(t)
	for range 3 {
		if !p.Allows(who("oidc:corp:a", "oidc:corp:sre"), policy.Read, "x", "y") {
			t.Error("with the group: refused")
		}
		if p.Allows(who("oidc:corp:a"), policy.Read, "x", "y") {
			t.Error("without the group: allowed")
		}
	}
}

func TestDenials(t *testing.T) {
	p := example(t)
	g := p.For(who("token:agent-shop"))
	tests := []struct {
		err  error
		want string
	}{
		{g.Check(policy.Read, "prod-eu", "shop"), `token:agent-shop may not read in cluster "prod-eu", namespace "shop"`},
		{g.Check(policy.Read, "prod-eu", "-"), `token:agent-shop may not read in cluster "prod-eu"`},
		{g.Check(policy.Read, "-", "-"), `token:agent-shop may not read in any cluster`},
		{g.CheckAnywhere(policy.Simulate), `token:agent-shop may not simulate`},
		{p.For(auth.Anonymous).Check(policy.Read, "a", "b"), `anonymous may not read in cluster "a", namespace "b"`},
	}
	for _, tt := range tests {
		var denied *policy.DeniedError
		if !errors.As(tt.err, &denied) || tt.err.Error() != tt.want {
			t.Errorf("got %v, want %s", tt.err, tt.want)
		}
	}
	if err := p.For(who("token:ci")).CheckAnywhere(policy.Simulate); err != nil {
		t.Error(err)
	}
	if got := policy.Everything.String(); got != "recommend|read|delete|simulate|configure|operate|override" {
		t.Errorf("everything is %s", got)
	}
}

func TestDefault(t *testing.T) {
	for _, anonymous := range []bool{false, true} {
		p := policy.Default(anonymous)
		if got := p.Allows(auth.Anonymous, policy.Delete, "a", "b"); got != anonymous {
			t.Errorf("anonymous, if %t: %t", anonymous, got)
		}
		if !p.Allows(who("token:x"), policy.Everything, "a", "b") || !p.For(who("token:x")).Within(policy.Read, "-", "-").All() {
			t.Error("who has credentials may not do everything")
		}
		if p.For(who("token:x")).Options("a", "b", "c") != (policy.Options{}) || p.For(who("token:x")).Limits() != (policy.Limits{}) {
			t.Error("it sets options or limits")
		}
	}
}

func TestAnonymousIsNamedOnly(t *testing.T) {
	p := parse(t, `
grants:
  - {identities: ["*"], clusters: [a], verbs: [read]}
  - {identities: [anonymous], clusters: [b], verbs: [read]}
limits:
  - {identities: ["*"], inFlight: 1}
  - {inFlight: 2}
`)
	if p.Allows(auth.Anonymous, policy.Read, "a", "x") || !p.Allows(auth.Anonymous, policy.Read, "b", "x") {
		t.Error("anonymous is in * or not in anonymous")
	}
	if n := p.For(auth.Anonymous).Limits().InFlight; n != 2 {
		t.Errorf("%d in flight, want what is for all", n)
	}
	if p.Allows(who("token:anonymous"), policy.Read, "b", "x") {
		t.Error("a token passes for anonymous")
	}
}

func TestScopes(t *testing.T) {
	p := parse(t, `
grants:
  - {identities: ["token:some"], clusters: [a, b-*], namespaces: [x, y-*], verbs: [read]}
  - {identities: ["token:some"], clusters: [c], verbs: [read]}
  - {identities: ["token:some"], clusters: ["*"], namespaces: [shared], verbs: [read]}
  - {identities: ["token:some"], clusters: [d], verbs: [recommend]}
  - {identities: ["token:all"], clusters: ["*"], verbs: ["*"]}
  - {identities: ["token:few"], clusters: [c1, c2, c3, c4, c5, c6, c7, c8, c9], namespaces: [x], verbs: [read]}
`)
	tests := []struct {
		name               string
		identity           string
		cluster, namespace string
		all, none          bool
		in, out            []string
	}{
		{"everything", "all", "-", "-", true, false, []string{"p/q"}, nil},
		{"some of everything", "some", "-", "", false, false, []string{"a/x", "b-1/y-2", "c/z", "q/shared"}, []string{"a/z", "b/x", "d/x"}},
		{"a whole cluster", "some", "c", "-", true, false, []string{"c/z"}, nil},
		{"some of a cluster", "some", "a", "-", false, false, []string{"a/x", "a/shared"}, []string{"a/z"}},
		{"a namespace of a cluster", "some", "a", "x", true, false, []string{"a/x"}, nil},
		{"a namespace that is not granted", "some", "a", "z", false, true, nil, []string{"a/z"}},
		{"a namespace of some clusters", "some", "-", "x", false, false, []string{"a/x", "b-1/x", "c/x"}, []string{"q/x"}},
		{"a namespace of all clusters", "some", "-", "shared", true, false, []string{"q/shared"}, nil},
		{"a cluster for another verb", "some", "d", "x", false, true, nil, []string{"d/x"}},
		{"nothing", "none", "-", "-", false, true, nil, []string{"a/x"}},
		{"many names, hashed", "few", "-", "-", false, false, []string{"c1/x", "c9/x"}, []string{"c10/x", "c1/y"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := p.For(who("token:"+tt.identity)).Within(policy.Read, tt.cluster, tt.namespace)
			if s.All() != tt.all || s.None() != tt.none {
				t.Errorf("all %t, none %t", s.All(), s.None())
			}
			for want, places := range map[bool][]string{true: tt.in, false: tt.out} {
				for _, place := range places {
					cluster, namespace, _ := strings.Cut(place, "/")
					if s.Contains(cluster, namespace) != want {
						t.Errorf("%s: %t", place, !want)
					}
				}
			}
		})
	}
}

func TestExampleOptions(t *testing.T) {
	p := example(t)
	tests := []struct{ name, identity, target, want string }{
		{"the particular before the general", "token:x", "prod-eu/shop/checkout", "max 200 min 3 profile v1.36 tolerance 0.05 downscale 10m0s"},
		{"the general", "token:x", "prod-eu/shop/web", "max 50 profile v1.36 tolerance 0.05 downscale 10m0s"},
		{"elsewhere", "token:x", "demo/shop/checkout", ""},
		{"by caller", "token:ci", "ci/a/b", "dry run any time"},
		{"by caller and by target", "token:ci", "prod-eu/shop/web", "max 50 profile v1.36 tolerance 0.05 downscale 10m0s dry run any time"},
		{"for Anonymous, too", "anonymous", "prod-eu/shop/web", "max 50 profile v1.36 tolerance 0.05 downscale 10m0s"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			parts := strings.Split(tt.target, "/")
			if got := describe(p.For(who(tt.identity)).Options(parts[0], parts[1], parts[2])); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func describe(o policy.Options) string {
	var said []string
	say := func(is bool, format string, value func() any) {
		if is {
			said = append(said, fmt.Sprintf(format, value()))
		}
	}
	say(o.MaxReplicas != nil, "max %v", func() any { return *o.MaxReplicas })
	say(o.MinReplicas != nil, "min %v", func() any { return *o.MinReplicas })
	say(o.Profile != nil, "profile %v", func() any { return o.Profile.Name() })
	say(o.Tolerance != nil, "tolerance %v", func() any { return *o.Tolerance })
	say(o.DownscaleStabilization != nil, "downscale %v", func() any { return *o.DownscaleStabilization })
	say(o.DryRunOnly != nil && *o.DryRunOnly, "dry run%v", func() any { return "" })
	say(o.AllowEvaluationTime != nil && *o.AllowEvaluationTime, "any time%v", func() any { return "" })
	return strings.Join(said, " ")
}

func TestOptionsMerge(t *testing.T) {
	p := parse(t, `
grants: []
options:
  - {targets: [a], dryRunOnly: false, caps: {minReplicas: 0}}
  - {targets: [b], caps: {minReplicas: 30}}
  - {dryRunOnly: true, allowEvaluationTime: false, caps: {maxReplicas: 20, minReplicas: 1}}
  - defaults: {profile: cooldown, tolerance: 250m, cpuInitializationPeriod: 1m, initialReadinessDelay: 0s, downscaleStabilization: 1h, upscaleDelay: 2m, downscaleDelay: 0s, scaleToZero: true}
`)
	g := p.For(who("token:x"))
	a, b := g.Options("c", "n", "a"), g.Options("c", "n", "b")
	if *a.DryRunOnly || !*b.DryRunOnly || *a.AllowEvaluationTime {
		t.Error("an explicit false does not count as said")
	}
	if *a.MinReplicas != 0 || *a.MaxReplicas != 20 {
		t.Errorf("a: %d to %d", *a.MinReplicas, *a.MaxReplicas)
	}
	if *b.MinReplicas != 20 || *b.MaxReplicas != 20 {
		t.Errorf("b: %d to %d, want the cap to win over the floor", *b.MinReplicas, *b.MaxReplicas)
	}
	server := recommender.DefaultOptions()
	server.HistoryLimit = 7
	profile, _ := recommender.ProfileByName("cooldown")
	want := recommender.Options{
		Profile: profile, Tolerance: 0.25, CPUInitializationPeriod: time.Minute, DownscaleStabilization: time.Hour,
		UpscaleDelay: 2 * time.Minute, ScaleToZero: true, HistoryLimit: 7,
	}
	if got := a.Over(server); got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if got := (policy.Options{}).Over(server); got != server {
		t.Errorf("nothing was said, and the options are %+v", got)
	}
}

// A window longer than histories are kept would be forgotten while it still decides.
func TestAWindowIsNoLongerThanHistoriesAreKept(t *testing.T) {
	for _, name := range []string{"downscaleStabilization", "upscaleDelay", "downscaleDelay"} {
		file := "grants: []\noptions:\n  - defaults: {" + name + ": 3h}\n"
		for _, tt := range []struct {
			kept    time.Duration
			refused bool
		}{{0, false}, {3 * time.Hour, false}, {3*time.Hour - 1, true}, {time.Hour, true}} {
			_, err := policy.ParseWithin("policy.yaml", []byte(file), tt.kept)
			if (err != nil) != tt.refused {
				t.Errorf("kept for %s: %v", tt.kept, err)
			}
			if tt.refused && !strings.Contains(fmt.Sprint(err), "policy.yaml:3: options[0].defaults."+name+": 3h0m0s is longer than histories are kept (--history-ttl, ") {
				t.Errorf("kept for %s: %v", tt.kept, err)
			}
		}
	}
}

func TestExampleLimits(t *testing.T) {
	p := example(t)
	tests := []struct {
		identity string
		want     policy.Limits
	}{
		{"token:agent-shop", policy.Limits{RequestsPerSecond: 500, Burst: 1000, InFlight: 200, Streams: 10, ClusterTargets: 20000, ClusterBytes: 100_000_000}},
		{"certificate:cn:x", policy.Limits{RequestsPerSecond: math.Inf(1)}},
		{"token:x", policy.Limits{RequestsPerSecond: 50}},
		{"anonymous", policy.Limits{RequestsPerSecond: 50}},
	}
	for _, tt := range tests {
		if got := p.For(who(tt.identity)).Limits(); got != tt.want {
			t.Errorf("%s: got %+v, want %+v", tt.identity, got, tt.want)
		}
	}
}

func TestPatterns(t *testing.T) {
	tests := []struct {
		pattern string
		yes, no []string
	}{
		{"a", []string{"a"}, []string{"", "b", "aa", "A"}},
		{"*", []string{"a", "a.b-c"}, nil},
		{"**", []string{"a"}, nil},
		{"a*", []string{"a", "ab"}, []string{"b", "ba"}},
		{"*a", []string{"a", "ba"}, []string{"b", "ab"}},
		{"a*a", []string{"aa", "aba", "aaa"}, []string{"a", "ab"}},
		{"*a*", []string{"a", "bab"}, []string{"b"}},
		{"a*b*c", []string{"abc", "axbxc", "abbcc", "abcbc"}, []string{"ac", "acb", "abcd", "ab"}},
		{"*ab*ab*", []string{"abab", "xabxabx"}, []string{"ab", "aab", "aba"}},
		{"ab*bc", []string{"abbc", "ab-bc"}, []string{"abc"}},
	}
	for _, tt := range tests {
		p := parse(t, `grants: [{identities: ["token:x"], clusters: ["`+tt.pattern+`"], verbs: [read]}]`)
		for _, text := range tt.yes {
			if !p.Allows(who("token:x"), policy.Read, text, "n") {
				t.Errorf("%q does not match %q", tt.pattern, text)
			}
		}
		for _, text := range tt.no {
			if p.Allows(who("token:x"), policy.Read, text, "n") {
				t.Errorf("%q matches %q", tt.pattern, text)
			}
		}
	}
}

func TestProblems(t *testing.T) {
	const kinds = "names begin with certificate:uri:, certificate:dns:, certificate:cn:, token:, oidc: or are anonymous"
	tests := []struct {
		name, file string
		want       []string
	}{
		{"empty", "", []string{"policy.yaml: is empty"}},
		{"without grants", "limits: []", []string{"policy.yaml:1: grants is missing"}},
		{"all at once", `grants:
  - identities: [ci]
    clusters: [prod_eu, "prod eu", "-"]
    verbs: [recomend]
  - clusters: ["*"]
    namespace: [a]
    verbs: []
  - clusters: ["*"]
    verbs: [read]
  - identities: []
    groups: [sre]
    clusters: [".."]
    verbs: [read]
options:
  - identities: ["tokens:ci"]
  - targets: [a]
  - defaults: {profile: v9, tolerance: much, cpuInitializationPeriod: 5, scaleToZero: "no", tolerence: 1}
    caps: {maxReplicas: 0, minReplicas: -1}
    dryRunOnly: maybe
  - caps: {maxReplicas: 2, minReplicas: 3}
limits:
  - requestsPerSecond: 0
    burst: 1.5
    inFlight: none
    streams: -1
  - identities: ["token:*"]
`, []string{
			"policy.yaml:2: grants[0].identities[0]: no identity has such a name: " + kinds,
			`policy.yaml:3: grants[0].clusters[1]: must be 1 to 253 characters of [A-Za-z0-9._-], or * for any characters, and not "." or ".."`,
			`policy.yaml:3: grants[0].clusters[2]: all are "*" here`,
			"policy.yaml:4: grants[0].verbs[0]: must be one of recommend, read, delete, simulate, configure, operate, override, *, is recomend, did you mean recommend?",
			"policy.yaml:6: grants[1]: unknown key namespace, did you mean namespaces?",
			"policy.yaml:7: grants[1].verbs: must have at least one element",
			`policy.yaml:8: grants[2]: identities or groups must say who is granted this; everybody with credentials is identities: ["*"]`,
			"policy.yaml:10: grants[3].identities: must have at least one element",
			"policy.yaml:11: grants[3].groups[0]: no group has such a name: names begin with oidc:",
			`policy.yaml:12: grants[3].clusters[0]: must be 1 to 253 characters of [A-Za-z0-9._-], or * for any characters, and not "." or ".."`,
			"policy.yaml:15: options[0].identities[0]: no identity has such a name: " + kinds + "; did you mean token?",
			"policy.yaml:15: options[0]: sets nothing: it needs defaults, caps, dryRunOnly or allowEvaluationTime",
			"policy.yaml:16: options[1]: sets nothing: it needs defaults, caps, dryRunOnly or allowEvaluationTime",
			"policy.yaml:17: options[2].defaults.profile: must be one of " + strings.Join(recommender.ProfileNames(), ", "),
			"policy.yaml:17: options[2].defaults.tolerance: must be a decimal number or a quantity, such as 0.1 or 100m",
			`policy.yaml:17: options[2].defaults.cpuInitializationPeriod: must be a duration such as "30s", is a number: write 5s`,
			"policy.yaml:17: options[2].defaults.scaleToZero: must be true or false, is a string",
			"policy.yaml:17: options[2].defaults: unknown key tolerence, did you mean tolerance?",
			"policy.yaml:18: options[2].caps.maxReplicas: must be a whole number between 1 and 2147483647",
			"policy.yaml:18: options[2].caps.minReplicas: must be a whole number between 0 and 2147483647",
			"policy.yaml:19: options[2].dryRunOnly: must be true or false, is a string",
			"policy.yaml:20: options[3].caps: minReplicas must not be above maxReplicas",
			"policy.yaml:22: limits[0].requestsPerSecond: must be a number above 0, at most 1e+09",
			"policy.yaml:23: limits[0].burst: must be a whole number, is a number",
			"policy.yaml:24: limits[0].inFlight: must be a whole number, is a string",
			"policy.yaml:25: limits[0].streams: must be a whole number between 1 and 1000000000",
			"policy.yaml:26: limits[1]: sets nothing: it needs requestsPerSecond, burst, inFlight, streams, clusterTargets or clusterBytes",
		}},
		{"patterns of identities", `grants: [{identities: ["*", "tok*", "token:", "token*", "cert*:dns:*", "certificate:x", "anonymous", "anon*", "oidc:corp:*"], clusters: [a], verbs: [read]}]`, []string{
			"policy.yaml:1: grants[0].identities[2]: no identity has such a name: " + kinds,
			"policy.yaml:1: grants[0].identities[5]: no identity has such a name: " + kinds,
			"policy.yaml:1: grants[0].identities[7]: no identity has such a name: " + kinds,
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := policy.Parse("policy.yaml", []byte(tt.file))
			if err == nil {
				t.Fatal("accepted")
			}
			if got := err.Error(); got != strings.Join(tt.want, "\n") {
				t.Errorf("got\n%s\nwant\n%s", got, strings.Join(tt.want, "\n"))
			}
		})
	}
}

func TestAPolicyReloads(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy.yaml")
	put := func(text string) {
		t.Helper()
		fatal.If(t, os.WriteFile(path, []byte(text), 0o600))
	}
	put(`grants: [{identities: ["token:a"], clusters: ["*"], verbs: [read]}]`)
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var told []error
		file, err := policy.Open(path, files.Options{OnChange: func(e files.Event) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, e.Err)
		}})
		fatal.If(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go file.Run(ctx)
		allowed := func() bool { return file.Load().Allows(who("token:a"), policy.Read, "c", "n") }
		if !allowed() {
			t.Fatal("refused")
		}
		put("grants: [{}]")
		time.Sleep(time.Minute)
		synctest.Wait()
		mu.Lock()
		if !allowed() || len(told) != 1 || told[0] == nil || !strings.Contains(told[0].Error(), path+":1: grants[0]: clusters is missing") {
			t.Errorf("a wrong file: allowed %t, told %v", allowed(), told)
		}
		mu.Unlock()
		put("grants: []")
		time.Sleep(time.Minute)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if allowed() || len(told) != 2 {
			t.Errorf("a right file: allowed %t, told %v", allowed(), told)
		}
	})
	if _, err := policy.Open(filepath.Join(t.TempDir(), "none"), files.Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

func TestManyCallers(t *testing.T) {
	p := example(t)
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			for n := range 5000 {
				name := fmt.Sprintf("token:agent-%d", (n*(g+1))%9000)
				if l := p.For(who(name)).Limits(); l.Burst != 1000 {
					t.Errorf("%s: %+v", name, l)
					return
				}
			}
		})
	}
	all.Wait()
}

// Callers are remembered by their groups, too, of which each may have many.
func TestMemoryOfCallersOfManyGroups(t *testing.T) {
	p := example(t)
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	for n := range 4096 {
		p.For(&auth.Identity{Name: fmt.Sprint("oidc:", n), Method: auth.MethodOIDC, Groups: auth.NewGroups(strings.Repeat("g", 20_000) + fmt.Sprint(n))})
	}
	if took := int64(heap() - before); took > 20<<20 {
		t.Errorf("%d MiB are remembered of 80, want 20 at most", took>>20)
	}
	runtime.KeepAlive(p)
}
