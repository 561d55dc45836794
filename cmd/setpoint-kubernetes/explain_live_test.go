package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/cmd/internal/clitest"
)

// liveShop answers as an API server with the deployment web of namespace shop, the
// HPA and the Autoscaler of that name, two pods and their usage: 90 % of a target of
// 60 %.
func liveShop() map[string]string {
	const spec = `"spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "minReplicas": 1, "maxReplicas": 10,
		"metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}}}]%s}`
	const hpa = `{"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "web", "namespace": "shop", "managedFields": [{"manager": "me"}]}, ` + spec + `}`
	const own = `{"apiVersion": "autoscaling.setpoint.dev/v1", "kind": "Autoscaler", "metadata": {"name": "web", "namespace": "shop"}, ` + spec + `}`
	return map[string]string{
		"/api":          `{"kind": "APIVersions", "versions": ["v1"]}`,
		"/apis":         `{"kind": "APIGroupList", "apiVersion": "v1", "groups": [{"name": "apps", "versions": [{"groupVersion": "apps/v1", "version": "v1"}], "preferredVersion": {"groupVersion": "apps/v1", "version": "v1"}}]}`,
		"/api/v1":       `{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "v1", "resources": [{"name": "pods", "kind": "Pod", "namespaced": true, "verbs": ["list"]}]}`,
		"/apis/apps/v1": `{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "apps/v1", "resources": [{"name": "deployments", "kind": "Deployment", "namespaced": true, "verbs": ["get"]}]}`,
		"/apis/apps/v1/namespaces/shop/deployments/web/scale":               `{"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "web", "namespace": "shop", "resourceVersion": "7"}, "spec": {"replicas": 2}, "status": {"replicas": 2, "selector": "app=web"}}`,
		"/api/v1/namespaces/shop/pods":                                      `{"apiVersion": "v1", "kind": "PodList", "items": [` + livePod("web-0") + `,` + livePod("web-1") + `]}`,
		"/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods":                 `{"apiVersion": "metrics.k8s.io/v1beta1", "kind": "PodMetricsList", "items": [` + liveUsage("web-0") + `,` + liveUsage("web-1") + `]}`,
		"/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers":     `{"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscalerList", "items": [` + fmt.Sprintf(hpa, "") + `]}`,
		"/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers/web": fmt.Sprintf(hpa, ""),
		"/apis/autoscaling.setpoint.dev/v1/namespaces/shop/autoscalers/web": fmt.Sprintf(own, `, "options": {"tolerance": "0.6"}`),
	}
}

func livePod(name string) string {
	return `{"metadata": {"name": "` + name + `", "namespace": "shop", "labels": {"app": "web"}},
		"spec": {"containers": [{"name": "app", "env": [{"name": "PASSWORD", "value": "hunter2"}], "resources": {"requests": {"cpu": "1"}}}]},
		"status": {"phase": "Running", "startTime": "2026-03-02T07:00:00Z", "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-03-02T07:00:20Z"}]}}`
}

func liveUsage(name string) string {
	return `{"metadata": {"name": "` + name + `", "namespace": "shop", "labels": {"app": "web"}}, "timestamp": "2026-03-02T09:00:00Z", "window": "30s",
		"containers": [{"name": "app", "usage": {"cpu": "900m"}}]}`
}

// serveLive serves answers by path, and returns a kubeconfig that leads to them and
// the methods that were used.
func serveLive(t *testing.T, answers map[string]string) (kubeconfig string, methods func() []string) {
	t.Helper()
	var mu sync.Mutex // requests are concurrent
	var used []string
	methods = func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(used)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		used = append(used, r.Method)
		mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(r.URL.Path, "/autoscalers/without-kind") { // as an API server without the definition answers
			http.NotFound(w, r)
			return
		}
		answer, ok := answers[r.URL.Path]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			answer = `{"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound", "message": "` + filepath.Base(r.URL.Path) + ` not found"}`
		}
		_, _ = w.Write([]byte(answer))
	}))
	t.Cleanup(server.Close)
	return clitest.File(t, "kubeconfig", `apiVersion: v1
kind: Config
current-context: here
clusters: [{name: one, cluster: {server: "`+server.URL+`"}}]
users: [{name: me, user: {}}]
contexts:
- {name: here, context: {cluster: one, user: me, namespace: shop}}
- {name: nowhere, context: {cluster: gone, user: me}}`), methods
}

// explained is the tested part of an explanation.
type explained struct {
	DesiredReplicas int
	Reason          string
	EvaluationTime  string
	Status          struct {
		Conditions []struct{ Reason, Message string }
	}
}

func explainLive(t *testing.T, kubeconfig string, args ...string) (explained, clitest.Result) {
	t.Helper()
	got := run(t, "", append([]string{"explain", "--kubeconfig", kubeconfig, "-o", "json"}, args...)...)
	var answer explained
	if got.Code == 0 {
		if err := json.Unmarshal([]byte(got.Stdout), &answer); err != nil {
			t.Fatalf("%v in\n%s", err, got.Stdout)
		}
	}
	return answer, got
}

func TestExplainReadsTheCluster(t *testing.T) {
	t.Parallel()
	kubeconfig, methods := serveLive(t, liveShop())
	for _, tt := range []struct {
		name string
		args []string
		want int
	}{
		{"an HPA", []string{"--live", "hpa/web"}, 3},
		{"as kubectl's arguments are", []string{"-n=shop", "hpa/web"}, 3},
		{"by its full name", []string{"--live", "horizontalpodautoscalers.v2.autoscaling/web", "-n", "shop"}, 3},
		{"an Autoscaler decides by its own options", []string{"--live", "autoscaler/web"}, 2},
		{"by its short name, as kubectl takes it", []string{"--live", "asr/web"}, 2},
		{"and by its plural with the group", []string{"--live", "autoscalers.autoscaling.setpoint.dev/web"}, 2},
		{"over which the command line goes", []string{"--live", "autoscaler/web", "--tolerance", "0.1"}, 3},
	} {
		got, ran := explainLive(t, kubeconfig, tt.args...)
		const waits = "an agent does not scale it: HorizontalPodAutoscaler shop/web has its name; this is what it would decide otherwise\n"
		if said := ran.Stderr; !strings.HasPrefix(tt.args[1], "h") {
			ran.Stderr = strings.TrimPrefix(said, waits)
			if ran.Stderr == said {
				t.Errorf("%s: it does not say that the autoscaler waits: %s", tt.name, said)
			}
		}
		if ran.Code != 0 || got.DesiredReplicas != tt.want || ran.Stderr != "" {
			t.Errorf("%s: exit code %d, %d replicas, want %d\n%s", tt.name, ran.Code, got.DesiredReplicas, tt.want, ran.Stderr)
		}
	}
	if slices.ContainsFunc(methods(), func(method string) bool { return method != http.MethodGet }) {
		t.Errorf("only reads are expected, got %q", methods())
	}
	if got := run(t, "", "explain", "--kubeconfig", kubeconfig, "--live", "hpa/web"); !strings.Contains(got.Stdout, "shop/web: 2 → 3 replicas") {
		t.Errorf("got %s%s", got.Stdout, got.Stderr)
	}
}

// An API server that took an HPA with minReplicas 0 has scaling to zero on, so that no flag has to say so.
func TestExplainOfAnHPAThatMayBeAtZero(t *testing.T) {
	t.Parallel()
	shop := liveShop()
	const queue = `"minReplicas": 0, "maxReplicas": 10, "metrics": [{"type": "External", "external": {"metric": {"name": "queue"}, "target": {"type": "Value", "value": "1"}}}]}}`
	for path, answer := range shop {
		if strings.HasSuffix(path, "horizontalpodautoscalers/web") {
			before, _, _ := strings.Cut(answer, `"minReplicas"`)
			shop[path] = before + queue
		}
	}
	kubeconfig, _ := serveLive(t, shop)
	if _, got := explainLive(t, kubeconfig, "--live", "hpa/web"); got.Code != 0 {
		t.Errorf("exit code %d: %s", got.Code, got.Stderr)
	}
	if _, got := explainLive(t, kubeconfig, "--live", "hpa/web", "--scale-to-zero=false"); got.Code == 0 || !strings.Contains(got.Stderr, "minReplicas") {
		t.Errorf("exit code %d: %s", got.Code, got.Stderr)
	}
}

// Failed reads are explained as the controller would word them.
func TestExplainOfAClusterInTrouble(t *testing.T) {
	t.Parallel()
	answers := liveShop()
	delete(answers, "/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods")
	kubeconfig, _ := serveLive(t, answers)
	got, ran := explainLive(t, kubeconfig, "--live", "hpa/web")
	if ran.Code != 0 || !slices.ContainsFunc(got.Status.Conditions, func(c struct{ Reason, Message string }) bool {
		return c.Reason == "FailedGetResourceMetric" && strings.Contains(c.Message, "unable to fetch metrics from resource metrics API: pods not found")
	}) {
		t.Errorf("exit code %d, %+v\n%s", ran.Code, got, ran.Stderr)
	}
	answers = liveShop()
	answers["/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers"] = strings.ReplaceAll(
		answers["/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers"], `"metadata": {"name": "web"`, `"metadata": {"name": "rival"`)
	kubeconfig, _ = serveLive(t, answers)
	got, ran = explainLive(t, kubeconfig, "--live", "hpa/web")
	if ran.Code != 0 || !slices.ContainsFunc(got.Status.Conditions, func(c struct{ Reason, Message string }) bool { return c.Reason == "AmbiguousSelector" }) {
		t.Errorf("exit code %d, %+v\n%s", ran.Code, got, ran.Stderr)
	}
	delete(answers, "/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers")
	got, ran = explainLive(t, kubeconfig, "--live", "hpa/web")
	if ran.Code != 0 || got.DesiredReplicas != 3 || !strings.Contains(ran.Stderr, "not checked whether other autoscalers have the same pods: horizontalpodautoscalers not found") {
		t.Errorf("exit code %d, %+v\n%s", ran.Code, got, ran.Stderr)
	}
}

// An Autoscaler that waits beside an HPA, and a shadow beside either, are the documented
// ways to move a workload: no pods are in doubt, for the agent decides so.
func TestExplainOfAWorkloadThatMoves(t *testing.T) {
	t.Parallel()
	answers := liveShop()
	web := answers["/apis/autoscaling.setpoint.dev/v1/namespaces/shop/autoscalers/web"]
	waiting := strings.Replace(web, `"name": "web"`, `"name": "waiting"`, 1)
	shadow := strings.Replace(strings.Replace(web, `"name": "web"`, `"name": "watching"`, 1), `"options"`, `"shadow": true, "options"`, 1)
	const list = "/apis/autoscaling.setpoint.dev/v1/namespaces/shop/autoscalers"
	answers[list+"/waiting"], answers[list+"/watching"] = waiting, shadow
	answers[list] = `{"apiVersion": "autoscaling.setpoint.dev/v1", "kind": "AutoscalerList", "items": [` + waiting + `,` + shadow + `]}`
	kubeconfig, _ := serveLive(t, answers)
	for _, tt := range []struct {
		object string
		want   int
		stderr string
	}{
		{"hpa/web", 3, ""},
		{"autoscaler/waiting", 2, "an agent does not scale it: HorizontalPodAutoscaler shop/web scales Deployment shop/web; this is what it would decide otherwise\n"},
		{"autoscaler/watching", 2, ""},
	} {
		got, ran := explainLive(t, kubeconfig, "--live", tt.object)
		if ran.Code != 0 || got.DesiredReplicas != tt.want || ran.Stderr != tt.stderr {
			t.Errorf("%s: exit code %d, %d replicas, want %d\n%s", tt.object, ran.Code, got.DesiredReplicas, tt.want, ran.Stderr)
		}
		for _, c := range got.Status.Conditions {
			if c.Reason == "AmbiguousSelector" {
				t.Errorf("%s: %s: %s", tt.object, c.Reason, c.Message)
			}
		}
	}
}

// A server is asked by the names that an agent calls by: of an Autoscaler that is a shadow, and of a member of a fleet, for
// which it has only what that was told.
func TestExplainAsksAServerAboutShadowsAndMembers(t *testing.T) {
	t.Parallel()
	answers := liveShop()
	web := answers["/apis/autoscaling.setpoint.dev/v1/namespaces/shop/autoscalers/web"]
	const list = "/apis/autoscaling.setpoint.dev/v1/namespaces/shop/autoscalers/"
	answers[list+"watching"] = strings.NewReplacer(`"name": "web", "namespace"`, `"name": "watching", "namespace"`, `"options"`, `"shadow": true, "options"`).Replace(web)
	answers[list+"web"] = strings.Replace(web, `"options"`, `"fleet": "clusters/all/namespaces/shop/targets/web", "options"`, 1)
	kubeconfig, _ := serveLive(t, answers)
	address := clitest.StartServer(t)
	conn := clitest.Dial(t, address)
	spec := &setpointv1.HorizontalPodAutoscalerSpec{MinReplicas: new(int32(2)), MaxReplicas: 9}
	member := "clusters/east/namespaces/shop/targets/web"
	if _, err := setpointv1.NewTargetServiceClient(conn).SetTargetSpec(t.Context(), &setpointv1.SetTargetSpecRequest{Name: "clusters/all/namespaces/shop/targets/web", TargetSpec: &setpointv1.TargetSpec{
		Spec: spec, Fleet: &setpointv1.FleetSpec{Members: []*setpointv1.FleetMember{{Target: member}, {Target: "clusters/west/namespaces/shop/targets/web"}}},
	}}); err != nil {
		t.Fatal(err)
	}
	explainAt := func(reference string) clitest.Result {
		return run(t, "", "explain", "--kubeconfig", kubeconfig, "--live", reference, "--cluster=east", "--server", address)
	}
	for step, want := range []string{"its fleet told it nothing so far\n", "its fleet told it 2 replicas: the fleet has not decided yet"} {
		got := explainAt("asr/web")
		if got.Code != 0 || !strings.Contains(got.Stdout, "\nWhat decides\n  "+want) || !strings.Contains(got.Stdout, "in cluster east") {
			t.Errorf("a member, after %d calls: exit code %d, %s\n%s", step, got.Code, got.Stderr, got.Stdout)
		}
		for _, req := range []*setpointv1.RecommendRequest{
			{Target: member, Fleet: "clusters/all/namespaces/shop/targets/web"}, {Target: "clusters/east/namespaces/shop/targets/watching.-autoscaler.-shadow"},
		} {
			req.Spec, req.Scale = spec, &setpointv1.Scale{SpecReplicas: 2}
			if _, err := setpointv1.NewRecommendationServiceClient(conn).Recommend(t.Context(), req); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := explainAt("asr/watching"); got.Code != 0 || !strings.Contains(got.Stdout, "What comes next") {
		t.Errorf("a shadow: exit code %d, %s\n%s", got.Code, got.Stderr, got.Stdout)
	}
}

// Named metrics of Autoscalers come from the agent's sources; a failure is explained.
func TestExplainReadsTheAgentsSources(t *testing.T) {
	t.Parallel()
	answers := liveShop()
	const cpu = `"metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}}}]`
	const queue = `"metrics": [{"type": "External", "external": {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "10"}}}]`
	for path, answer := range answers {
		answers[path] = strings.ReplaceAll(answer, cpu, queue)
	}
	kubeconfig, _ := serveLive(t, answers)
	value := "65"
	source := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, `{"depth": %s}`, value) }))
	t.Cleanup(source.Close)
	sources := clitest.File(t, "sources.yaml", `
sources: {mine: {http: {url: '`+source.URL+`'}}}
metrics: {queue: {namespaces: [shop], source: mine, path: /depth, valuePath: '{.depth}'}}`)
	if got, ran := explainLive(t, kubeconfig, "--live", "asr/web", "--sources-file", sources, "--tolerance=0.1"); ran.Code != 0 || got.DesiredReplicas != 4 {
		t.Errorf("with the sources: exit code %d, %d replicas, want 4: 65 want 7, and no more than 4 at once\n%s", ran.Code, got.DesiredReplicas, ran.Stderr)
	}
	for _, args := range [][]string{{"--live", "asr/web"}, {"--live", "hpa/web", "--sources-file", sources}} {
		got, ran := explainLive(t, kubeconfig, args...)
		if ran.Code != 0 || !slices.ContainsFunc(got.Status.Conditions, func(c struct{ Reason, Message string }) bool { return c.Reason == "FailedGetExternalMetric" }) {
			t.Errorf("%q: the cluster's API was not asked: exit code %d, %+v\n%s", args, ran.Code, got, ran.Stderr)
		}
	}
	value = `"none"`
	if _, ran := explainLive(t, kubeconfig, "--live", "asr/web", "--sources-file", sources); ran.Code != 0 || !strings.Contains(ran.Stderr, "named metric not read") {
		t.Errorf("exit code %d, %s", ran.Code, ran.Stderr)
	}
	for _, args := range [][]string{{"--live", "asr/web", "--sources-file", sources + "x"}, {"--dump", sources, "--sources-file", sources}} {
		if _, ran := explainLive(t, kubeconfig, args...); ran.Code != cli.ExitUsage || !strings.Contains(ran.Stderr, "--sources-file") {
			t.Errorf("%q: exit code %d, %s", args, ran.Code, ran.Stderr)
		}
	}
}

// A saved snapshot explains the same, and has only the necessary fields of pods.
func TestExplainSaves(t *testing.T) {
	t.Parallel()
	kubeconfig, _ := serveLive(t, liveShop())
	saved := filepath.Join(t.TempDir(), "dump.yaml")
	live, ran := explainLive(t, kubeconfig, "--live", "hpa/web", "--save", saved, "--at", "2026-03-02T09:00:00Z")
	if ran.Code != 0 {
		t.Fatal(ran.Stderr)
	}
	dumped := run(t, "", "explain", "--dump", saved, "-o", "json")
	var again explained
	if err := json.Unmarshal([]byte(dumped.Stdout), &again); err != nil {
		t.Fatalf("%v\n%s", err, dumped.Stderr)
	}
	if fmt.Sprint(live) != fmt.Sprint(again) {
		t.Errorf("live %+v\ndump %+v", live, again)
	}
	text, err := os.ReadFile(saved)
	if err != nil || strings.Contains(string(text), "hunter2") || strings.Contains(string(text), "managedFields") {
		t.Errorf("%v\n%s", err, text)
	}
	if ran.Stderr != "" {
		t.Errorf("got %s", ran.Stderr)
	}
	// Stages are saved, too, of either kind; options are not, and it says so.
	staged := liveShop()
	const webOf = "namespaces/shop/%s/web"
	hpaPath, ownPath := "/apis/autoscaling/v2/"+fmt.Sprintf(webOf, "horizontalpodautoscalers"), "/apis/autoscaling.setpoint.dev/v1/"+fmt.Sprintf(webOf, "autoscalers")
	const schedule = `{"schedules": [{"name": "office", "timeZone": "Europe/Berlin", "cron": "0 8 * * *", "duration": "43200s", "minReplicas": 8}]}`
	staged[hpaPath] = strings.Replace(staged[hpaPath], `"managedFields"`, `"annotations": {"setpoint.dev/stages": `+strconv.Quote(schedule)+`}, "managedFields"`, 1)
	staged[ownPath] = strings.Replace(staged[ownPath], `"options": {`, `"stages": `+schedule+`, "options": {`, 1)
	stagedConfig, _ := serveLive(t, staged)
	for reference, told := range map[string]string{"hpa/web": "", "asr/web": "not saved: options, which --dump takes as flags: "} {
		live, ran := explainLive(t, stagedConfig, "--live", reference, "--save", saved, "--at", "2026-03-02T09:00:00Z")
		if live.DesiredReplicas != 8 || !strings.Contains(ran.Stderr, told) || told == "" && ran.Stderr != "" {
			t.Errorf("%s: %d replicas, want the schedule's 8; %s", reference, live.DesiredReplicas, ran.Stderr)
		}
		var again explained
		dumped := run(t, "", "explain", "--dump", saved, "-o", "json")
		if err := json.Unmarshal([]byte(dumped.Stdout), &again); err != nil || again.DesiredReplicas != 8 {
			t.Errorf("%s: the dump has %d replicas, want 8: %v\n%s", reference, again.DesiredReplicas, err, dumped.Stderr)
		}
	}
	answers := liveShop()
	delete(answers, "/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods")
	troubled, _ := serveLive(t, answers)
	if _, ran := explainLive(t, troubled, "--live", "hpa/web", "--save", saved); !strings.HasPrefix(ran.Stderr, "not saved: what could not be read") {
		t.Errorf("got %s", ran.Stderr)
	}
	if got := run(t, "", "explain", "--kubeconfig", kubeconfig, "--live", "hpa/web", "--save", filepath.Join(saved, "x")); got.Code != cli.ExitFailed || !strings.Contains(got.Stderr, "--save: ") {
		t.Errorf("exit code %d\n%s", got.Code, got.Stderr)
	}
}

func TestExplainLiveTellsWhatIsWrong(t *testing.T) {
	t.Parallel()
	kubeconfig, _ := serveLive(t, liveShop())
	empty := clitest.File(t, "empty", "")
	for _, tt := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"another kind", []string{"--live", "deployment/web"}, cli.ExitUsage, `--live: "deployment/web" must be hpa/NAME, or asr/NAME (also autoscaler/NAME)`},
		{"no name", []string{"--live", "hpa"}, cli.ExitUsage, `--live: "hpa" must be`},
		{"an empty name", []string{"--live", "hpa/"}, cli.ExitUsage, `--live: "hpa/" must be`},
		{"files beside it", []string{"--live", "hpa/web", "--pods", "pods.json"}, cli.ExitUsage, "leave out --pods"},
		{"a dump beside it", []string{"--live", "hpa/web", "--dump", "dump.yaml"}, cli.ExitUsage, "leave out --dump and --name"},
		{"an instant that is none", []string{"--live", "hpa/web", "--at", "noon"}, cli.ExitUsage, `--at: "noon" is not an RFC 3339 time`},
		{"no such kubeconfig", []string{"--live", "hpa/web", "--kubeconfig", "nowhere.yaml"}, cli.ExitUsage, "--live: stat nowhere.yaml: no such file"},
		{"no such context", []string{"--live", "hpa/web", "--context", "elsewhere"}, cli.ExitUsage, `--live: context "elsewhere" does not exist`},
		{"a context without a cluster", []string{"--live", "hpa/web", "--context", "nowhere"}, cli.ExitUsage, "--live: "},
		{"a kubeconfig of nothing", []string{"--live", "hpa/web", "--kubeconfig", empty}, cli.ExitUsage, "--live: no cluster is configured: give --kubeconfig, or set $KUBECONFIG"},
		{"no such autoscaler", []string{"--live", "hpa/worker"}, cli.ExitFailed, "worker not found"},
		{"no such kind", []string{"--live", "asr/without-kind"}, cli.ExitFailed, "--live: the cluster has no kind Autoscaler of autoscaling.setpoint.dev: install its CustomResourceDefinition"},
		{"no such own autoscaler", []string{"--live", "asr/worker"}, cli.ExitFailed, "worker not found"},
		{"no such namespace", []string{"--live", "hpa/web", "-n", "warehouse"}, cli.ExitFailed, "web not found"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, got := explainLive(t, kubeconfig, tt.args...)
			if got.Code != tt.code || !strings.Contains(got.Stderr, tt.want) {
				t.Errorf("exit code %d\n%s\nwant %d and %q", got.Code, got.Stderr, tt.code, tt.want)
			}
		})
	}
}

// Under the name of a plugin the program speaks as kubectl's.
func TestAsAPluginOfKubectl(t *testing.T) {
	t.Parallel()
	help := func(program string, args ...string) string {
		var out strings.Builder
		root := cli.CalledAs(newRoot(), program)
		root.SetArgs(args)
		root.SetOut(&out)
		root.SetErr(&out)
		if err := root.ExecuteContext(t.Context()); err != nil {
			fmt.Fprintln(&out, err)
		}
		return out.String()
	}
	for _, program := range []string{"/usr/local/bin/kubectl-setpoint", "kubectl-setpoint.exe"} {
		text := help(program, "explain", "--help")
		if !strings.Contains(text, "Usage:\n  kubectl setpoint explain [KIND/NAME] [flags]") || !strings.Contains(text, "\n  kubectl setpoint explain hpa/web") ||
			strings.Contains(text, "\n  setpoint ") {
			t.Errorf("%s: got\n%s", program, text)
		}
		if text := help(program, "explain", "--live"); !strings.Contains(text, "see kubectl setpoint explain --help") {
			t.Errorf("got %s", text)
		}
	}
	if text := help("/usr/local/bin/setpoint-kubernetes", "explain", "--help"); strings.Contains(text, "kubectl setpoint") {
		t.Errorf("got\n%s", text)
	}
}
