package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	loop "github.com/setpoint-dev/setpoint/clients/agent"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/agent"
	v1 "github.com/setpoint-dev/setpoint/clients/kubernetes/autoscaling/v1"
	"github.com/setpoint-dev/setpoint/clients/samples"
	"github.com/setpoint-dev/setpoint/cmd/internal/agentcmd"
	"github.com/setpoint-dev/setpoint/cmd/internal/doctor"
)

// patient is the cluster that doctor looks at.
type patient struct {
	*settings
	config *rest.Config
	// named are the sources that answer named metrics of Autoscalers.
	named  *samples.Set
	client client.Client
	api    discovery.DiscoveryInterface
	// user is the account that asks.
	user string
	// hpas and autoscalers are the objects to act on, or to avoid: at most maxObjects of each.
	hpas        []autoscalingv2.HorizontalPodAutoscaler
	autoscalers []v1.Autoscaler
	more        bool
}

// maxObjects bounds the objects of a kind that doctor reads, objectsPage those of one request.
const (
	maxObjects  = 5000
	objectsPage = 500
)

// Checks that others come after.
const (
	apiCheck     = "api server"
	objectsCheck = "objects"
)

func (p *patient) checks() []doctor.Check {
	return []doctor.Check{
		{Name: apiCheck, Run: p.connect},
		{Name: "rights", After: apiCheck, Run: p.rights},
		{Name: objectsCheck, After: apiCheck, Run: p.objects},
		{Name: "specs", After: objectsCheck, Run: p.specs},
		{Name: "metrics", After: objectsCheck, Run: p.metrics},
		{Name: "rivals", After: objectsCheck, Run: p.rivals},
		{Name: "lease", After: apiCheck, Run: p.lease},
	}
}

// acts returns what the agent scales.
func (p *patient) acts(ctx context.Context) ([]loop.Acting, error) {
	if p.client == nil {
		return nil, nil
	}
	system := &corev1.Namespace{}
	if err := p.client.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, system); err != nil {
		return nil, err
	}
	return agent.Acting(string(system.UID), p.sources(), p.Namespaces), nil
}

func (p *patient) has(source agent.Source) bool { return slices.Contains(p.sources(), source) }

func (p *patient) connect(ctx context.Context) []doctor.Finding {
	scheme := runtime.NewScheme()
	// The timeout is for discovery, which takes no context. The limit of requests is for an agent, which asks again and again.
	p.config.Timeout, p.config.RateLimiter = p.RequestTimeout, nil
	api, err := discovery.NewDiscoveryClientForConfig(p.config)
	if err = errors.Join(err, clientscheme.AddToScheme(scheme), v1.AddToScheme(scheme)); err == nil {
		p.api = api
		p.client, err = client.New(p.config, client.Options{Scheme: scheme})
	}
	if err != nil {
		return doctor.Bad("correct --kubeconfig and --context", "%v", err)
	}
	version, err := p.api.ServerVersion()
	if err != nil {
		return doctor.Bad("correct --kubeconfig and --context; in a pod check NetworkPolicies", "%s: %v", p.config.Host, err)
	}
	review := &authenticationv1.SelfSubjectReview{}
	if err := p.client.Create(ctx, review); err != nil {
		return doctor.Bad("renew the credentials of the kubeconfig or of the pod", "%s %s does not accept the credentials: %v", p.config.Host, version, err)
	}
	p.user = review.Status.UserInfo.Username
	text := fmt.Sprintf("%s %s answers, as %s", p.config.Host, version, p.user)
	if !strings.HasPrefix(p.user, "system:serviceaccount:") {
		return doctor.Notice("run doctor in the agent's pod (kubectl exec) to check the rights of its account", "%s", text)
	}
	return doctor.Good("%s", text)
}

// right is something that the agent does at the API server.
type right struct {
	verbs                        string
	group, resource, subresource string
	// for whom: without it, doctor does not ask.
	wanted bool
	// without is what does not work then.
	without string
	// optional: the agent works without.
	optional bool
}

func (p *patient) rightsNeeded() []right {
	const nothing = "nothing is scaled"
	hpa, autoscaler, acting := p.has(agent.HPA), p.has(agent.Autoscaler), !p.Shadow
	return []right{
		{verbs: "list watch", group: autoscalingv2.GroupName, resource: "horizontalpodautoscalers", wanted: true, without: nothing},
		{verbs: "list watch", group: v1.GroupVersion.Group, resource: "autoscalers", wanted: autoscaler, without: nothing},
		{verbs: "list watch", resource: "pods", wanted: true, without: nothing},
		{verbs: "get", group: "apps", resource: "deployments", subresource: "scale", wanted: true, without: nothing + " (FailedGetScale)"},
		{verbs: "update", group: "apps", resource: "deployments", subresource: "scale", wanted: acting, without: nothing + " (FailedUpdateScale)"},
		{verbs: "list watch", group: "apps", resource: "deployments", wanted: true, without: "the scale is read in each reconcile", optional: true},
		{verbs: "list", group: "metrics.k8s.io", resource: "pods", wanted: true, without: "no metrics of the types Resource and ContainerResource"},
		{verbs: "get", group: "custom.metrics.k8s.io", resource: "*", wanted: true, without: "no metrics of the types Pods and Object", optional: true},
		{verbs: "list", group: "external.metrics.k8s.io", resource: "*", wanted: true, without: "no metrics of the type External", optional: true},
		{verbs: "update", group: autoscalingv2.GroupName, resource: "horizontalpodautoscalers", subresource: "status", wanted: hpa && acting, without: "conditions don't show why"},
		{verbs: "update", group: v1.GroupVersion.Group, resource: "autoscalers", subresource: "status", wanted: autoscaler && acting, without: "conditions don't show why"},
		{verbs: "create patch", resource: "events", wanted: acting, without: "no events", optional: true},
	}
}

// maxReviews bounds the questions about rights at once.
const maxReviews = 16

func (p *patient) rights(ctx context.Context) []doctor.Finding {
	var found []doctor.Finding
	checked := 0
	// ask asks for a right in all these namespaces at once: an agent may have hundreds.
	ask := func(r *right, verb, name string, namespaces ...string) error {
		refused, errs := make([]bool, len(namespaces)), make([]error, len(namespaces))
		slots := make(chan struct{}, maxReviews)
		var all sync.WaitGroup
		for i, namespace := range namespaces {
			slots <- struct{}{}
			all.Go(func() {
				review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
					ResourceAttributes: &authorizationv1.ResourceAttributes{
						Namespace: namespace, Name: name, Verb: verb, Group: r.group, Version: "*", Resource: r.resource, Subresource: r.subresource,
					},
				}}
				errs[i] = p.client.Create(ctx, review)
				refused[i] = !review.Status.Allowed
				<-slots
			})
		}
		all.Wait()
		if failed := slices.IndexFunc(errs, func(err error) bool { return err != nil }); failed >= 0 {
			return errs[failed]
		}
		checked += len(namespaces)
		first, more := slices.Index(refused, true), -1
		if first < 0 {
			return nil
		}
		for _, is := range refused {
			if is {
				more++
			}
		}
		what := strings.Trim(r.resource+"/"+r.subresource, "/")
		if r.group != "" {
			what += " of " + r.group
		}
		where := ""
		if namespaces[first] != "" {
			where = " in namespace " + namespaces[first]
		}
		if more > 0 {
			where += fmt.Sprintf(" and %d more", more)
		}
		f := doctor.Finding{
			Level: doctor.Problem, Text: fmt.Sprintf("%s may not %s %s%s: %s", p.user, verb, what, where, r.without),
			Remedy: "apply the release's roles and their bindings (docs/guides/kubernetes.md, Rights)",
		}
		if r.optional {
			f.Level = doctor.Note
		}
		found = append(found, f)
		return nil
	}
	var err error
	namespaces := p.Namespaces
	if len(namespaces) == 0 {
		namespaces = []string{""}
	}
	for _, r := range p.rightsNeeded() {
		for verb := range strings.FieldsSeq(r.verbs) {
			if err == nil && r.wanted {
				err = ask(&r, verb, "", namespaces...)
			}
		}
	}
	identity := right{resource: "namespaces", without: "another cluster of the same name is not noticed", optional: true}
	lease := right{group: coordinationv1.GroupName, resource: "leases", without: "no agent acts"}
	if err == nil {
		err = ask(&identity, "get", "kube-system", "kube-system") // where a Role can give it, too
	}
	if namespace := p.leaseNamespace(); err == nil && p.LeaderElect && namespace != "" {
		err = errors.Join(ask(&lease, "create", "", namespace), ask(&lease, "get", p.LeaderElectName, namespace), ask(&lease, "update", p.LeaderElectName, namespace))
	}
	if err != nil {
		return append(found, doctor.Bad("check the API server", "asking for rights: %v", err)...)
	}
	if len(found) == 0 {
		return doctor.Good("%s has all rights that the agent needs (%d checked)", p.user, checked)
	}
	return found
}

// leaseNamespace is the namespace of the Lease; empty: unknown outside a pod.
func (p *patient) leaseNamespace() string {
	if p.LeaderElectNamespace != "" {
		return p.LeaderElectNamespace
	}
	own, _ := agent.PodNamespace()
	return own
}

// listAll lists the objects of the served namespaces, page by page, and reports whether there
// are more than maxObjects.
func listAll[L client.ObjectList](ctx context.Context, p *patient, page L, take func() int) (more bool, err error) {
	namespaces := p.Namespaces
	if len(namespaces) == 0 {
		namespaces = []string{""}
	}
	for _, namespace := range namespaces {
		for next := ""; ; {
			err := p.client.List(ctx, page, &client.ListOptions{Namespace: namespace, Limit: objectsPage, Continue: next})
			if apierrors.IsForbidden(err) && len(namespaces) > 1 {
				break // the rights tell it, and the agent serves the others
			}
			if err != nil {
				return false, err
			}
			if take() >= maxObjects {
				return true, nil
			}
			if next = page.GetContinue(); next == "" {
				break
			}
		}
	}
	return false, nil
}

func (p *patient) objects(ctx context.Context) []doctor.Finding {
	const remedy = "see the rights above, and the API server"
	var hpas autoscalingv2.HorizontalPodAutoscalerList
	more, err := listAll(ctx, p, &hpas, func() int { p.hpas = append(p.hpas, hpas.Items...); return len(p.hpas) })
	if err != nil {
		return doctor.Bad(remedy, "HorizontalPodAutoscalers can't be listed: %v", err)
	}
	p.more = more
	if p.has(agent.Autoscaler) {
		var list v1.AutoscalerList
		more, err := listAll(ctx, p, &list, func() int { p.autoscalers = append(p.autoscalers, list.Items...); return len(p.autoscalers) })
		if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
			return doctor.Bad("kubectl apply --server-side -k deploy/kustomize/crd", "the cluster does not know the kind Autoscaler: %v", err)
		}
		if err != nil {
			return doctor.Bad(remedy, "Autoscalers can't be listed: %v", err)
		}
		p.more = p.more || more
	}
	var counts []string
	total := 0
	for source, n := range map[agent.Source]int{agent.HPA: len(p.hpas), agent.Autoscaler: len(p.autoscalers)} {
		if p.has(source) {
			total += n
			counts = append(counts, fmt.Sprintf("%ss: %d", source.Kind(), n))
		}
	}
	slices.Sort(counts)
	text := strings.Join(counts, ", ")
	if p.more {
		text += fmt.Sprintf(" (the first %d of a kind; the rest is not checked)", maxObjects)
	}
	if total == 0 {
		return doctor.Notice("create one, or set --source and --namespace", "there is nothing to scale: %s", text)
	}
	return doctor.Good("%s", text)
}

// specs looks for what of an object keeps the agent from scaling it.
func (p *patient) specs(context.Context) []doctor.Finding {
	const most = 20 // findings
	var found []doctor.Finding
	p.each(func(source agent.Source, o client.Object) {
		if problem := agent.ProblemOf(o); problem != nil && len(found) < most {
			found = append(found, doctor.Bad("correct the object", "%s %s/%s is not scaled: %v", source.Kind(), o.GetNamespace(), o.GetName(), problem)...)
		}
	})
	return found
}

// asks are the objects that are to be scaled and can be.
func (p *patient) asks(context.Context) (out []agentcmd.Ask) {
	p.each(func(source agent.Source, o client.Object) {
		if agent.ProblemOf(o) == nil && (p.Shadow || agent.WaitsOf(o, p.hpas, p.autoscalers) == "") {
			out = append(out, agentcmd.Ask{Key: source.Key(o.GetNamespace(), o.GetName()), Request: agent.RequestOf(o)})
		}
	})
	return out
}

// each calls look for the objects to act on.
func (p *patient) each(look func(source agent.Source, o client.Object)) {
	for i := range p.hpas {
		if p.has(agent.HPA) {
			look(agent.HPA, &p.hpas[i])
		}
	}
	for i := range p.autoscalers {
		look(agent.Autoscaler, &p.autoscalers[i]) // there are none without the source
	}
}

// metricsAPIs are the API groups of metrics, and metricsAPI the one of a type.
var (
	metricsAPIs = []string{"metrics.k8s.io", "custom.metrics.k8s.io", "external.metrics.k8s.io"}
	metricsAPI  = map[autoscalingv2.MetricSourceType]string{
		autoscalingv2.ResourceMetricSourceType: metricsAPIs[0], autoscalingv2.ContainerResourceMetricSourceType: metricsAPIs[0],
		autoscalingv2.PodsMetricSourceType: metricsAPIs[1], autoscalingv2.ObjectMetricSourceType: metricsAPIs[1],
		autoscalingv2.ExternalMetricSourceType: metricsAPIs[2],
	}
)

func (p *patient) metrics(ctx context.Context) []doctor.Finding {
	groups, err := p.api.ServerGroups()
	if err != nil {
		return doctor.Bad("check the API server", "its API groups can't be read: %v", err)
	}
	versions := map[string]string{} // empty: the API server can't reach the adapter
	for i := range groups.Groups {
		versions[groups.Groups[i].Name] = groups.Groups[i].PreferredVersion.GroupVersion
	}
	users := p.usersOfMetrics()
	var found []doctor.Finding
	for _, api := range metricsAPIs {
		version, there := versions[api]
		const state = "kubectl get apiservices shows its state"
		problem, remedy := api+" is not there", "install an adapter of this API, such as prometheus-adapter; "+state
		if api == metricsAPIs[0] {
			remedy = "install metrics-server; " + state
		}
		if there {
			problem, remedy = api+" does not answer: the API server can't reach its adapter", "see the adapter's log; "+state
		}
		if version != "" {
			example := users[api].example
			if err = p.askAdapter(ctx, version, example); err == nil {
				found = append(found, doctor.Good("%s answers; objects that use it: %d", version, users[api].objects)...)
				continue
			}
			problem = api + " does not answer: " + err.Error()
			if example != nil && p.askAdapter(ctx, version, nil) == nil {
				problem = api + " does not answer for " + strings.Join(example, "/") + ": " + err.Error()
				remedy = "see the adapter's log, and what it reads that from: for itself it answers"
			}
		}
		switch text := fmt.Sprintf("%s; objects that use it: %d", problem, users[api].objects); {
		case users[api].objects == 0 && !there:
		case users[api].objects == 0:
			found = append(found, doctor.Notice(remedy, "%s", text)...)
		default:
			found = append(found, doctor.Bad(remedy, "%s", text)...)
		}
	}
	return found
}

// adapterTimeout bounds the question to one adapter.
const adapterTimeout = 5 * time.Second

// askAdapter asks the adapter of an API for what an object needs, as its list of metrics may answer while its metrics don't. It fails if the
// adapter can't answer; what the object asks for may well be wrong.
func (p *patient) askAdapter(ctx context.Context, version string, example []string) error {
	ctx, cancel := context.WithTimeout(ctx, adapterTimeout)
	defer cancel()
	// One is enough where this is a list.
	err := p.api.RESTClient().Get().AbsPath(append([]string{"/apis", version}, example...)...).Param("limit", "1").Do(ctx).Error()
	var answer apierrors.APIStatus
	if len(example) > 0 && errors.As(err, &answer) && answer.Status().Code < http.StatusInternalServerError {
		return nil
	}
	return err
}

// metricsUse is how many objects use an API, and the path of what the first one of them needs.
type metricsUse struct {
	objects int
	example []string
}

// usersOfMetrics counts the objects that use an API.
func (p *patient) usersOfMetrics() map[string]metricsUse {
	users := map[string]metricsUse{}
	count := func(namespace string, metrics []autoscalingv2.MetricSpec, named bool) {
		own := map[string]bool{}
		for i := range metrics {
			if named && agent.IsNamed(p.named, namespace, &metrics[i]) {
				continue
			}
			api := metricsAPI[metrics[i].Type]
			use := users[api]
			if !own[api] {
				use.objects++
			}
			if own[api] = true; use.example == nil {
				use.example = metricPath(namespace, &metrics[i])
			}
			users[api] = use
		}
	}
	if p.has(agent.HPA) {
		for i := range p.hpas {
			count(p.hpas[i].Namespace, p.hpas[i].Spec.Metrics, false)
		}
	}
	for i := range p.autoscalers {
		count(p.autoscalers[i].Namespace, p.autoscalers[i].Spec.Metrics, true)
	}
	return users
}

// metricPath is the path of a metric below its API; nil: it depends on more than the metric.
func metricPath(namespace string, m *autoscalingv2.MetricSpec) []string {
	switch {
	case metricsAPI[m.Type] == metricsAPIs[0]:
		return []string{"namespaces", namespace, "pods"}
	case m.Pods != nil:
		return []string{"namespaces", namespace, "pods", "*", m.Pods.Metric.Name}
	case m.External != nil:
		return []string{"namespaces", namespace, m.External.Metric.Name}
	}
	return nil
}

// recently is how young the last status of another controller must be for it to count as
// running, in periods of reconciles.
const recently = 4

func (p *patient) rivals(ctx context.Context) []doctor.Finding {
	var found []doctor.Finding
	if p.has(agent.HPA) {
		found = append(found, p.otherWriters()...)
	}
	for i := range p.autoscalers {
		a := &p.autoscalers[i]
		if waits := agent.WaitsOf(a, p.hpas, p.autoscalers); waits != "" && !p.Shadow {
			found = append(found, doctor.Bad("delete one of both, or set shadow: true in the Autoscaler",
				"Autoscaler %s/%s does not act: %s", a.Namespace, a.Name, waits)...)
		}
	}
	if len(found) == 0 {
		return doctor.Good("no other controller is seen on these objects")
	}
	return found
}

// otherWriters looks for controllers that wrote the status of HorizontalPodAutoscalers. A
// controller writes only what changed, so that an old write may be one of a running controller.
func (p *patient) otherWriters() []doctor.Finding {
	type writes struct {
		n    int
		last time.Time
	}
	wrote := map[string]writes{}
	for i := range p.hpas {
		if manager, at := agent.LastStatusWriter(&p.hpas[i]); manager != "" {
			w := wrote[manager]
			w.n++
			if at.After(w.last) {
				w.last = at
			}
			wrote[manager] = w
		}
	}
	var found []doctor.Finding
	for _, manager := range slices.Sorted(maps.Keys(wrote)) {
		w := wrote[manager]
		remedy := "stop that controller, or run the agent with --shadow"
		if manager == agent.BuiltInManager {
			remedy = "switch the built-in controller off (kube-controller-manager --controllers=*,-horizontal-pod-autoscaler-controller), or use --source=autoscaler or --shadow"
		}
		text := fmt.Sprintf("%s writes the status of HorizontalPodAutoscalers (%d), the last one %s ago", manager, w.n, time.Since(w.last).Round(time.Second))
		switch {
		case p.Shadow:
			found = append(found, doctor.Good("%s: shadows are compared with it", text)...)
		case time.Since(w.last) < max(recently*p.SyncPeriod, time.Minute):
			found = append(found, doctor.Bad(remedy, "%s: the agent gives way to it", text)...)
		default:
			found = append(found, doctor.Notice("unless it is off: "+remedy, "%s", text)...)
		}
	}
	return found
}

// lease looks for other agents by their Lease.
func (p *patient) lease(ctx context.Context) []doctor.Finding {
	var list coordinationv1.LeaseList
	err := p.client.List(ctx, &list, &client.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("metadata.name", p.LeaderElectName), Limit: objectsPage,
	})
	if apierrors.IsForbidden(err) {
		return nil // the agent's account may read its own Lease only
	}
	if err != nil {
		return doctor.Bad("check the API server", "Leases can't be listed: %v", err)
	}
	var found []doctor.Finding
	for i := range list.Items {
		l := &list.Items[i]
		if l.Spec.RenewTime == nil || l.Spec.HolderIdentity == nil || *l.Spec.HolderIdentity == "" || time.Since(l.Spec.RenewTime.Time) > p.LeaseDuration {
			continue
		}
		switch {
		case p.LeaderElect && (l.Namespace == p.leaseNamespace() || p.leaseNamespace() == ""):
			found = append(found, doctor.Good("the agent %s holds the Lease %s/%s and acts", *l.Spec.HolderIdentity, l.Namespace, l.Name)...)
		case !p.Shadow:
			found = append(found, doctor.Bad("stop one of both, or give both the same Lease (--leader-elect, --leader-elect-namespace) or different --namespace",
				"the agent %s, with the Lease %s/%s, acts on this cluster as well", *l.Spec.HolderIdentity, l.Namespace, l.Name)...)
		}
	}
	return found
}
