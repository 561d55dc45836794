package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/agent"
	v1 "github.com/setpoint-dev/setpoint/clients/kubernetes/autoscaling/v1"
	"github.com/setpoint-dev/setpoint/clients/samples"
	"github.com/setpoint-dev/setpoint/cmd/internal/agentcmd"
	"github.com/setpoint-dev/setpoint/cmd/internal/doctor"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// apiServer answers as an API server that has these API groups, each in one version, and Leases.
// broken are groups whose adapter is away.
func apiServer(t *testing.T, groups []schema.GroupVersion, broken string, leases ...coordinationv1.Lease) *rest.Config {
	t.Helper()
	kinds := map[schema.GroupVersion]metav1.APIResource{
		authorizationv1.SchemeGroupVersion:  {Name: "selfsubjectaccessreviews", SingularName: "selfsubjectaccessreview", Kind: "SelfSubjectAccessReview", Verbs: metav1.Verbs{"create"}},
		coordinationv1.SchemeGroupVersion:   {Name: "leases", SingularName: "lease", Namespaced: true, Kind: "Lease", Verbs: metav1.Verbs{"list"}},
		authenticationv1.SchemeGroupVersion: {Name: "selfsubjectreviews", SingularName: "selfsubjectreview", Kind: "SelfSubjectReview", Verbs: metav1.Verbs{"create"}},
	}
	groups = slices.AppendSeq(groups, maps.Keys(kinds))
	list := &metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
	answers := map[string]any{
		"/version":                            version.Info{GitVersion: "v1.36.3"},
		"/api":                                &metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}},
		"/apis":                               list,
		"/apis/coordination.k8s.io/v1/leases": &coordinationv1.LeaseList{TypeMeta: metav1.TypeMeta{Kind: "LeaseList", APIVersion: "coordination.k8s.io/v1"}, Items: leases},
	}
	for _, g := range groups {
		if g.Version == "" { // as of an adapter that the API server can't reach
			list.Groups = append(list.Groups, metav1.APIGroup{Name: g.Group})
			continue
		}
		in := metav1.GroupVersionForDiscovery{GroupVersion: g.String(), Version: g.Version}
		list.Groups = append(list.Groups, metav1.APIGroup{Name: g.Group, Versions: []metav1.GroupVersionForDiscovery{in}, PreferredVersion: in})
		resources := &metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: g.String()}
		if kind, ok := kinds[g]; ok {
			resources.APIResources = []metav1.APIResource{kind}
		}
		answers["/apis/"+g.String()] = resources
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answer, ok := answers[r.URL.Path]
		switch {
		case r.Method == http.MethodPost: // SelfSubjectReview
			answer = map[string]any{"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1"}
			w.WriteHeader(http.StatusCreated)
		case broken != "" && strings.HasPrefix(r.URL.Path, "/apis/"+broken+"/"):
			http.Error(w, "service unavailable", http.StatusServiceUnavailable)
			return
		case !ok:
			http.NotFound(w, r)
			return
		}
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL, QPS: -1}
}

// patientOf is the cluster of an API server, with the settings of an agent.
func patientOf(t *testing.T, config *rest.Config, change func(*settings)) *patient {
	t.Helper()
	all := agentcmd.Defaults()
	s := defaults()
	s.Settings, s.Source, s.LeaderElectName = &all, "hpa", "setpoint-agent"
	change(s)
	p := &patient{settings: s, config: config, named: &samples.Set{}}
	if found := p.connect(t.Context()); len(found) != 1 || found[0].Level == doctor.Problem {
		t.Fatalf("connect: %+v", found)
	}
	return p
}

// reviewer answers whether an account may do something.
type reviewer struct {
	http.RoundTripper
	may func(context.Context, *authorizationv1.ResourceAttributes) bool
}

func (r reviewer) RoundTrip(req *http.Request) (*http.Response, error) {
	var review authorizationv1.SelfSubjectAccessReview
	if !strings.HasSuffix(req.URL.Path, "/selfsubjectaccessreviews") {
		return r.RoundTripper.RoundTrip(req)
	}
	if err := json.NewDecoder(req.Body).Decode(&review); err != nil {
		return nil, err
	}
	review.Status.Allowed = r.may(req.Context(), review.Spec.ResourceAttributes)
	answer, err := json.Marshal(review)
	return &http.Response{
		StatusCode: http.StatusCreated, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(answer)),
	}, err
}

// A right is asked for in all namespaces at once, as hundreds one after the other take too long, and has one finding.
func TestDoctorAsksForRightsInManyNamespaces(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	asked, all := map[string]int{}, map[string]chan struct{}{}
	config := apiServer(t, nil, "")
	config.ContentType = "application/json"
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return reviewer{next, func(ctx context.Context, of *authorizationv1.ResourceAttributes) bool {
			if of.Name == "" { // of each namespace
				right := of.Verb + " " + of.Resource + "/" + of.Subresource
				mu.Lock()
				if asked[right]++; asked[right] == 1 {
					all[right] = make(chan struct{})
				}
				there := all[right]
				if asked[right] == 3 {
					close(there)
				}
				mu.Unlock()
				select {
				case <-there:
				case <-ctx.Done():
				}
			}
			return of.Resource != "pods" || of.Verb != "watch" || of.Namespace == "a"
		}}
	})
	p := patientOf(t, config, func(s *settings) { s.Namespaces = []string{"a", "b", "c"} })
	p.user = "agent"
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	found := p.rights(ctx)
	if len(found) != 1 || found[0].Text != "agent may not watch pods in namespace b and 1 more: nothing is scaled" {
		t.Errorf("got %+v", found)
	}
}

// A metrics API that objects use, and that is not there or does not answer, is a problem, with what to do. One that answers for itself, but not for
// what an object needs, does not answer; one that no object uses is only told.
func TestDoctorNamesAnAbsentMetricsAPI(t *testing.T) {
	t.Parallel()
	all := map[string]schema.GroupVersion{
		"metrics.k8s.io": {Group: "metrics.k8s.io", Version: "v1beta1"}, "custom.metrics.k8s.io": {Group: "custom.metrics.k8s.io", Version: "v1beta2"},
		"external.metrics.k8s.io": {Group: "external.metrics.k8s.io", Version: "v1beta1"},
	}
	named := autoscalingv2.MetricIdentifier{Name: "queue"}
	for group, install := range map[string]string{
		"metrics.k8s.io": "install metrics-server", "custom.metrics.k8s.io": "install an adapter", "external.metrics.k8s.io": "install an adapter",
	} {
		t.Run(group, func(t *testing.T) {
			t.Parallel()
			without, unreached := maps.Clone(all), maps.Clone(all)
			delete(without, group)
			unreached[group] = schema.GroupVersion{Group: group}
			serve := func(groups map[string]schema.GroupVersion, broken string) *rest.Config {
				return apiServer(t, slices.Collect(maps.Values(groups)), broken)
			}
			absent, dead, away, half := serve(without, ""), serve(unreached, ""), serve(all, group), serve(all, all[group].String())
			const see = "see the adapter's log"
			behind := "does not answer for namespaces/shop/"
			if group == "custom.metrics.k8s.io" { // it may be an Object metric that is asked for
				behind = "does not answer"
			}
			for _, tt := range []struct {
				name    string
				config  *rest.Config
				used    bool
				sources string
				want    doctor.Level
				problem string
				remedy  string
			}{
				{"absent", absent, true, "", doctor.Problem, "is not there", install},
				{"absent, and not used", absent, false, "", doctor.OK, "", ""},
				{"unreached", dead, true, "", doctor.Problem, "does not answer: the API server can't reach its adapter", see},
				{"unreached, and not used", dead, false, "", doctor.Note, "does not answer: ", see},
				{"away", away, true, "", doctor.Problem, "does not answer: ", see},
				{"away, and not used", away, false, "", doctor.Note, "does not answer: ", see},
				{"without what is behind it", half, true, "", doctor.Problem, behind, see},
				// HorizontalPodAutoscalers have no named metrics.
				{"absent beside a sources file", absent, true, "sources.yaml", doctor.Problem, "is not there", install},
			} {
				p := patientOf(t, tt.config, func(s *settings) { s.SourcesFile = tt.sources })
				var metrics []autoscalingv2.MetricSpec
				for kind, api := range metricsAPI {
					m := autoscalingv2.MetricSpec{Type: kind}
					switch kind {
					case autoscalingv2.PodsMetricSourceType:
						m.Pods = &autoscalingv2.PodsMetricSource{Metric: named}
					case autoscalingv2.ExternalMetricSourceType:
						m.External = &autoscalingv2.ExternalMetricSource{Metric: named}
					default:
					}
					if api != group || tt.used {
						metrics = append(metrics, m)
					}
				}
				p.hpas = []autoscalingv2.HorizontalPodAutoscaler{{ObjectMeta: metav1.ObjectMeta{Namespace: "shop"}, Spec: autoscalingv2.HorizontalPodAutoscalerSpec{Metrics: metrics}}}
				found := p.metrics(t.Context())
				answer := 0
				for _, f := range found {
					switch {
					case strings.Contains(f.Text, " answers; objects that use it: 1"):
						answer++
					case !strings.HasPrefix(f.Text, group+" "+tt.problem) || f.Level != tt.want || !strings.HasPrefix(f.Remedy, tt.remedy):
						t.Errorf("%s: found %+v", tt.name, f)
					}
				}
				if answer != 2 || len(found) == 2 != (tt.want == doctor.OK) {
					t.Errorf("%s: found %+v, want 2 that answer, and %v", tt.name, found, tt.want)
				}
			}
		})
	}
}

// Who holds the Lease acts: as another one of this agent's group, or beside it.
func TestDoctorSeesWhoHoldsTheLease(t *testing.T) {
	t.Parallel()
	lease := func(holder string, age time.Duration) coordinationv1.Lease {
		at := metav1.NewMicroTime(time.Now().Add(-age))
		return coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: "setpoint", Name: "setpoint-agent"}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &at},
		}
	}
	for name, tt := range map[string]struct {
		holder string
		age    time.Duration // of the Lease's last renewal
		change func(*settings)
		want   doctor.Level
		text   string
	}{
		"of this group": {"a-1", 0, func(s *settings) { s.LeaderElect, s.LeaderElectNamespace = true, "setpoint" }, doctor.OK, "the agent a-1 holds the Lease setpoint/setpoint-agent and acts"},
		"another group's": {
			"a-1", 0, func(s *settings) { s.LeaderElect, s.LeaderElectNamespace = true, "other" },
			doctor.Problem, "the agent a-1, with the Lease setpoint/setpoint-agent, acts on this cluster as well",
		},
		"beside an agent without": {"a-1", 0, func(*settings) {}, doctor.Problem, "the agent a-1, with the Lease setpoint/setpoint-agent, acts on this cluster as well"},
		"beside a shadow":         {"a-1", 0, func(s *settings) { s.Shadow = true }, doctor.OK, ""},
		"expired":                 {"a-1", time.Hour, func(*settings) {}, doctor.OK, ""},
		"given back":              {"", 0, func(*settings) {}, doctor.OK, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found := patientOf(t, apiServer(t, nil, "", lease(tt.holder, tt.age)), tt.change).lease(t.Context())
			switch {
			case tt.text == "":
				if len(found) > 0 {
					t.Errorf("found %+v", found)
				}
			case len(found) != 1 || found[0].Level != tt.want || found[0].Text != tt.text || tt.want == doctor.Problem && !strings.HasPrefix(found[0].Remedy, "stop one of both"):
				t.Errorf("found %+v, want %q", found, tt.text)
			}
		})
	}
}

// A shadow is compared with whoever writes the statuses, so that is no problem, but it is told.
func TestDoctorNamesWhoTheShadowsAreComparedWith(t *testing.T) {
	t.Parallel()
	at := metav1.Now()
	for shadow, want := range map[bool]doctor.Level{true: doctor.OK, false: doctor.Problem} {
		p := patientOf(t, apiServer(t, nil, ""), func(s *settings) { s.Shadow = shadow })
		p.hpas = []autoscalingv2.HorizontalPodAutoscaler{{ObjectMeta: metav1.ObjectMeta{
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kube-controller-manager", Subresource: "status", Time: &at}},
		}}}
		found := p.rivals(t.Context())
		if len(found) != 1 || found[0].Level != want || !strings.HasPrefix(found[0].Text, "kube-controller-manager writes the status of HorizontalPodAutoscalers (1)") {
			t.Errorf("shadow %t: %+v", shadow, found)
		}
	}
}

// Of autoscalers of one workload, or of one name, doctor names the one that the agent leaves alone, in the agent's words.
func TestDoctorNamesWhatDoesNotAct(t *testing.T) {
	t.Parallel()
	spec := func(target string) autoscalingv2.HorizontalPodAutoscalerSpec {
		return autoscalingv2.HorizontalPodAutoscalerSpec{ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: target}}
	}
	autoscaler := func(name, target string, age time.Duration) v1.Autoscaler {
		return v1.Autoscaler{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, CreationTimestamp: metav1.NewTime(time.Now().Add(-age))},
			Spec:       v1.AutoscalerSpec{HorizontalPodAutoscalerSpec: spec(target)},
		}
	}
	p := patientOf(t, apiServer(t, nil, ""), func(s *settings) { s.Source = "both" })
	p.hpas = []autoscalingv2.HorizontalPodAutoscaler{
		{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "queue"}, Spec: spec("other")},
		{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "hpa"}, Spec: spec("db")},
	}
	p.autoscalers = []v1.Autoscaler{
		autoscaler("a", "web", time.Hour), autoscaler("b", "web", 2*time.Hour), autoscaler("queue", "queue", time.Hour), autoscaler("db", "db", time.Hour),
	}
	var texts []string
	for _, f := range p.rivals(t.Context()) {
		texts = append(texts, f.Text)
	}
	want := []string{
		"Autoscaler shop/a does not act: Autoscaler shop/b, which is older, scales Deployment shop/web",
		"Autoscaler shop/queue does not act: HorizontalPodAutoscaler shop/queue has its name",
		"Autoscaler shop/db does not act: HorizontalPodAutoscaler shop/hpa scales Deployment shop/db",
	}
	if !slices.Equal(texts, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(texts, "\n"), strings.Join(want, "\n"))
	}
}

// A metric of an Autoscaler that the operator's sources answer needs no metrics API; any other one does.
func TestDoctorLeavesOutNamedMetrics(t *testing.T) {
	t.Parallel()
	config, err := samples.ParseConfig([]byte(`{sources: {prom: {prometheus: {url: 'http://127.0.0.1:1'}}}, metrics: {
		queue: {namespaces: [shop], source: prom, query: up}, depth: {type: Pods, namespaces: [shop], source: prom, query: up, podLabel: pod}}}`))
	fatal.If(t, err)
	named, err := samples.New(config, samples.Options{})
	fatal.If(t, err)
	defer named.Close()
	metrics := func(external, pods string) []autoscalingv2.MetricSpec {
		target := autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: new(resource.MustParse("1"))}
		return []autoscalingv2.MetricSpec{
			{Type: autoscalingv2.ExternalMetricSourceType, External: &autoscalingv2.ExternalMetricSource{Metric: autoscalingv2.MetricIdentifier{Name: external}, Target: target}},
			{Type: autoscalingv2.PodsMetricSourceType, Pods: &autoscalingv2.PodsMetricSource{Metric: autoscalingv2.MetricIdentifier{Name: pods}, Target: target}},
		}
	}
	for _, tt := range []struct {
		external, pods string
		hpa            bool
		want           string
	}{
		{"queue", "depth", false, ""},
		{"other", "depth", false, "external.metrics.k8s.io is not there; objects that use it: 1"},
		{"queue", "other", false, "custom.metrics.k8s.io is not there; objects that use it: 1"},
		{"queue", "depth", true, "custom.metrics.k8s.io is not there; objects that use it: 1\nexternal.metrics.k8s.io is not there; objects that use it: 1"},
	} {
		p := patientOf(t, apiServer(t, nil, ""), func(s *settings) { s.Source, s.SourcesFile = "both", "sources.yaml" })
		p.named = named
		if spec := metrics(tt.external, tt.pods); tt.hpa {
			p.hpas = []autoscalingv2.HorizontalPodAutoscaler{{ObjectMeta: metav1.ObjectMeta{Namespace: "shop"}, Spec: autoscalingv2.HorizontalPodAutoscalerSpec{Metrics: spec}}}
		} else {
			p.autoscalers = []v1.Autoscaler{{ObjectMeta: metav1.ObjectMeta{Namespace: "shop"}, Spec: v1.AutoscalerSpec{HorizontalPodAutoscalerSpec: autoscalingv2.HorizontalPodAutoscalerSpec{Metrics: spec}}}}
		}
		var problems []string
		for _, f := range p.metrics(t.Context()) {
			if f.Level == doctor.Problem {
				problems = append(problems, f.Text)
			}
		}
		if got := strings.Join(problems, "\n"); got != tt.want {
			t.Errorf("%+v: problems %q", tt, got)
		}
	}
}

// What keeps the agent from scaling one object is a problem to doctor, too, and leaves its other checks alone.
func TestDoctorNamesInvalidObjects(t *testing.T) {
	t.Parallel()
	annotated := func(name, annotation, value string) autoscalingv2.HorizontalPodAutoscaler {
		return autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Annotations: map[string]string{annotation: value}}}
	}
	hpas := []autoscalingv2.HorizontalPodAutoscaler{
		annotated("a", agent.ShadowAnnotation, "maybe"), annotated("b", v1.StagesAnnotation, "{"), annotated("c", v1.FleetAnnotation, "web"), annotated("d", agent.ShadowAnnotation, "true"),
	}
	own := v1.Autoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "e"}, Spec: v1.AutoscalerSpec{Unreadable: "it is wrong"}}
	for source, want := range map[string]string{"hpa": "a b c", "autoscaler": "e", "both": "a b c e"} {
		p := patientOf(t, apiServer(t, nil, ""), func(s *settings) { s.Source = source })
		p.hpas = hpas
		if source != "hpa" {
			p.autoscalers = []v1.Autoscaler{own}
		}
		var names []string
		for _, f := range p.specs(t.Context()) {
			_, name, _ := strings.Cut(f.Text, " shop/")
			name, _, _ = strings.Cut(name, " ")
			if names = append(names, name); f.Level != doctor.Problem || !strings.Contains(f.Text, " is not scaled: ") {
				t.Errorf("%s: found %+v", source, f)
			}
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s: problems of %s, want %s", source, got, want)
		}
	}
}

// The service is asked, with all that the agent sends of an object, about those that the agent scales: not about what it can't read, what gives
// way to another one, or is another agent's.
func TestDoctorAsksAboutWhatIsScaled(t *testing.T) {
	t.Parallel()
	spec := autoscalingv2.HorizontalPodAutoscalerSpec{
		ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}, MaxReplicas: 7,
		Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
			Name: "cpu", Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: new(int32(50))},
		}}},
	}
	meta := func(name string, annotations map[string]string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "shop", Name: name, Annotations: annotations}
	}
	own := v1.AutoscalerSpec{HorizontalPodAutoscalerSpec: spec, Options: &v1.Options{Profile: "hpa-v1.35"}, Fleet: "clusters/all/namespaces/shop/targets/web"}
	own.ScaleTargetRef.Name = "db"
	hpas := []autoscalingv2.HorizontalPodAutoscaler{
		{ObjectMeta: meta("a", map[string]string{v1.StagesAnnotation: `{"windowThroughFailures": true}`}), Spec: spec},
		{ObjectMeta: meta("b", map[string]string{v1.FleetAnnotation: "web"}), Spec: spec},
	}
	autoscalers := []v1.Autoscaler{{ObjectMeta: meta("own", nil), Spec: own}, {ObjectMeta: meta("waits", nil), Spec: v1.AutoscalerSpec{HorizontalPodAutoscalerSpec: spec}}}
	for _, tt := range []struct {
		source string
		shadow bool
		want   string
	}{
		{"hpa", false, "HorizontalPodAutoscaler shop/a"},
		{"autoscaler", false, "Autoscaler shop/own"},
		{"both", false, "HorizontalPodAutoscaler shop/a, Autoscaler shop/own"},
		{"both", true, "HorizontalPodAutoscaler shop/a, Autoscaler shop/own, Autoscaler shop/waits"},
	} {
		p := patientOf(t, apiServer(t, nil, ""), func(s *settings) { s.Source, s.Shadow = tt.source, tt.shadow })
		if p.hpas = hpas; tt.source != "hpa" {
			p.autoscalers = autoscalers
		}
		var names []string
		for _, ask := range p.asks(t.Context()) {
			names = append(names, ask.Key.String())
			request := ask.Request
			isOwn := ask.Key.Name == "own"
			if request.GetSpec().GetMaxReplicas() != 7 || len(request.GetSpec().GetMetrics()) != 1 || request.GetStages().GetWindowThroughFailures() != (ask.Key.Name == "a") ||
				(request.GetFleet() != "") != isOwn || (request.GetOptions().GetProfile() != "") != isOwn {
				t.Errorf("%s asks %v", ask.Key, request)
			}
		}
		if got := strings.Join(names, ", "); got != tt.want {
			t.Errorf("%s, shadow %t: asks about %s, want %s", tt.source, tt.shadow, got, tt.want)
		}
	}
}
