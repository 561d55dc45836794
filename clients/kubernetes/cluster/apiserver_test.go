package cluster_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	customv1beta1 "k8s.io/metrics/pkg/apis/custom_metrics/v1beta1"
	customv1beta2 "k8s.io/metrics/pkg/apis/custom_metrics/v1beta2"
	externalv1beta1 "k8s.io/metrics/pkg/apis/external_metrics/v1beta1"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/cluster/apiserver"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// apiServer answers over HTTP as an API server with metrics APIs does, in their documented
// shapes: discovery, scales, pods and metrics.
type apiServer struct {
	*httptest.Server

	mu sync.Mutex
	// The contents. Guarded by mu.
	resources map[schema.GroupVersion][]metav1.APIResource
	scales    map[string]*autoscalingv1.Scale // by namespace/resource/name
	pods      []*corev1.Pod
	usage     []metricsv1beta1.PodMetrics
	custom    []customv1beta2.MetricValue
	external  []externalv1beta1.ExternalMetricValue
	// customLabels makes the custom metrics API apply selectors to the labels of pods;
	// otherwise it returns the values of all pods whatever the selector.
	customLabels bool
	// intercept answers in place of the server if it returns true. Guarded by mu.
	intercept func(w http.ResponseWriter, r *http.Request) bool
	// requests are the requests so far, "GET /path?query". Guarded by mu.
	requests []string
}

// newAPIServer starts a server that knows the scale targets of apps and core.
func newAPIServer(t testing.TB) *apiServer {
	t.Helper()
	s := &apiServer{scales: map[string]*autoscalingv1.Scale{}, resources: map[schema.GroupVersion][]metav1.APIResource{}}
	core, apps := schema.GroupVersion{Version: "v1"}, schema.GroupVersion{Group: "apps", Version: "v1"}
	s.serve(core, "Pod", "pods", false)
	s.serve(core, "Namespace", "namespaces", false)
	s.serve(core, "ConfigMap", "configmaps", false)
	s.serve(core, "Service", "services", false)
	s.serve(core, "ReplicationController", "replicationcontrollers", true)
	s.serve(apps, "Deployment", "deployments", true)
	s.serve(apps, "StatefulSet", "statefulsets", true)
	s.serve(apps, "ReplicaSet", "replicasets", true)
	s.serve(metricsv1beta1.SchemeGroupVersion, "PodMetrics", "pods", false)
	s.serve(customv1beta2.SchemeGroupVersion, "MetricValueList", "pods/rps", false)
	s.serve(externalv1beta1.SchemeGroupVersion, "ExternalMetricValueList", "queue", false)
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

// serve adds a resource.
func (s *apiServer) serve(version schema.GroupVersion, kind, resource string, scalable bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resources[version] = append(s.resources[version], metav1.APIResource{
		Name: resource, Kind: kind, Namespaced: kind != "Namespace", Verbs: metav1.Verbs{"get", "list", "watch"},
	})
	if scalable {
		s.resources[version] = append(s.resources[version], metav1.APIResource{
			Name: resource + "/scale", Group: "autoscaling", Version: "v1", Kind: "Scale", Namespaced: true, Verbs: metav1.Verbs{"get", "update"},
		})
	}
}

// without removes API groups.
func (s *apiServer) without(groups ...string) *apiServer {
	s.mu.Lock()
	defer s.mu.Unlock()
	for version := range s.resources {
		if slices.Contains(groups, version.Group) {
			delete(s.resources, version)
		}
	}
	return s
}

// config is a client configuration for the server.
func (s *apiServer) config() *rest.Config { return &rest.Config{Host: s.URL} }

// clients returns a client of the server.
func (s *apiServer) clients(t testing.TB) *apiserver.Client {
	t.Helper()
	clients, err := apiserver.New(s.config())
	fatal.If(t, err)
	return clients
}

// asked returns the requests since the last call whose path contains part, and clears all.
func (s *apiServer) asked(part string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, request := range s.requests {
		if strings.Contains(request, part) {
			out = append(out, request)
		}
	}
	s.requests = nil
	return out
}

// answer replaces the server's answers where do returns true.
func (s *apiServer) answer(do func(w http.ResponseWriter, r *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.intercept = do
}

// refuse fails requests whose path contains part.
func (s *apiServer) refuse(part string, code int, reason metav1.StatusReason, message string) {
	s.answer(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, part) {
			return false
		}
		writeStatus(w, code, reason, message)
		return true
	})
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	intercept := s.intercept
	s.requests = append(s.requests, r.Method+" "+r.URL.RequestURI())
	s.mu.Unlock()
	if intercept != nil && intercept(w, r) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.route(w, r) {
		http.Error(w, "404 page not found", http.StatusNotFound)
	}
}

// route answers a request; false: unknown path.
func (s *apiServer) route(w http.ResponseWriter, r *http.Request) bool {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if parts[0] == "api" {
		parts = append([]string{"apis", ""}, parts[1:]...)
	}
	switch {
	case len(parts) == 2 && parts[1] == "":
		writeJSON(w, &metav1.APIVersions{TypeMeta: typed("v1", "APIVersions"), Versions: []string{"v1"}})
		return true
	case len(parts) == 1 && parts[0] == "apis":
		writeJSON(w, s.groups())
		return true
	case len(parts) < 3 || parts[0] != "apis":
		return false
	}
	version := schema.GroupVersion{Group: parts[1], Version: parts[2]}
	resources, ok := s.resources[version]
	if !ok {
		return false
	}
	if len(parts) == 3 {
		writeJSON(w, &metav1.APIResourceList{TypeMeta: typed("v1", "APIResourceList"), GroupVersion: version.String(), APIResources: resources})
		return true
	}
	if len(parts) < 6 || parts[3] != "namespaces" {
		return false
	}
	return s.routeNamespaced(w, r, version, parts[4], parts[5:])
}

func (s *apiServer) routeNamespaced(w http.ResponseWriter, r *http.Request, version schema.GroupVersion, namespace string, path []string) bool {
	switch {
	case version.Group == "custom.metrics.k8s.io":
		return s.writeCustom(w, r, version, namespace, path)
	case version.Group == "external.metrics.k8s.io" && len(path) == 1:
		s.writeExternal(w, r, path[0])
	case version.Group == "metrics.k8s.io" && path[0] == "pods":
		s.writeUsage(w, r, namespace)
	case version.Group == "" && len(path) == 1 && path[0] == "pods":
		s.writePods(w, r, namespace)
	case len(path) == 3 && path[2] == "scale":
		return s.scale(w, r, version, namespace, path[0], path[1])
	default:
		return false
	}
	return true
}

func (s *apiServer) groups() *metav1.APIGroupList {
	list := &metav1.APIGroupList{TypeMeta: typed("v1", "APIGroupList")}
	byName := map[string]*metav1.APIGroup{}
	for version := range s.resources {
		if version.Group == "" {
			continue
		}
		group := byName[version.Group]
		if group == nil {
			group = &metav1.APIGroup{Name: version.Group}
			byName[version.Group] = group
		}
		group.Versions = append(group.Versions, metav1.GroupVersionForDiscovery{GroupVersion: version.String(), Version: version.Version})
	}
	for _, group := range byName {
		group.PreferredVersion = group.Versions[0]
		list.Groups = append(list.Groups, *group)
	}
	return list
}

// scale reads or writes a scale; a write must carry the current resource version.
func (s *apiServer) scale(w http.ResponseWriter, r *http.Request, version schema.GroupVersion, namespace, resource, name string) bool {
	if !slices.ContainsFunc(s.resources[version], func(r metav1.APIResource) bool { return r.Name == resource+"/scale" }) {
		return false
	}
	scale := s.scales[namespace+"/"+resource+"/"+name]
	qualified := schema.GroupResource{Group: version.Group, Resource: resource}.String()
	if scale == nil {
		writeStatus(w, http.StatusNotFound, metav1.StatusReasonNotFound, fmt.Sprintf("%s %q not found", qualified, name))
		return true
	}
	if r.Method == http.MethodPut {
		wanted := &autoscalingv1.Scale{}
		if err := json.NewDecoder(r.Body).Decode(wanted); err != nil {
			writeStatus(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
			return true
		}
		if wanted.ResourceVersion != scale.ResourceVersion {
			writeStatus(w, http.StatusConflict, metav1.StatusReasonConflict, fmt.Sprintf(
				"Operation cannot be fulfilled on %s %q: the object has been modified; please apply your changes to the latest version and try again", qualified, name))
			return true
		}
		scale = scale.DeepCopy()
		scale.Spec.Replicas = wanted.Spec.Replicas
		s.put(namespace+"/"+resource+"/"+name, scale)
	}
	scale.TypeMeta = typed("autoscaling/v1", "Scale")
	writeJSON(w, scale)
	return true
}

// put stores a scale under the next resource version. The caller holds s.mu.
func (s *apiServer) put(key string, scale *autoscalingv1.Scale) {
	version, _ := strconv.Atoi(scale.ResourceVersion)
	scale.ResourceVersion = strconv.Itoa(version + 1)
	s.scales[key] = scale
}

// change edits a scale as another client would.
func (s *apiServer) change(key string, edit func(*autoscalingv1.Scale)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	scale := s.scales[key].DeepCopy()
	edit(scale)
	s.put(key, scale)
}

// addScale adds a scale with three replicas.
func (s *apiServer) addScale(namespace, resource, name, selector string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(namespace+"/"+resource+"/"+name, &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       autoscalingv1.ScaleSpec{Replicas: 3},
		Status:     autoscalingv1.ScaleStatus{Replicas: 3, Selector: selector},
	})
}

func (s *apiServer) writePods(w http.ResponseWriter, r *http.Request, namespace string) {
	list := &corev1.PodList{TypeMeta: typed("v1", "PodList"), Items: []corev1.Pod{}}
	from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	selector := selectorOf(r, "labelSelector")
	for i, pod := range s.pods {
		if i < from || !within(pod.Namespace, namespace) || !selector.Matches(labels.Set(pod.Labels)) {
			continue
		}
		if limit > 0 && len(list.Items) == limit {
			list.Continue = strconv.Itoa(i)
			break
		}
		list.Items = append(list.Items, *pod)
	}
	writeJSON(w, list)
}

func (s *apiServer) writeUsage(w http.ResponseWriter, r *http.Request, namespace string) {
	list := &metricsv1beta1.PodMetricsList{TypeMeta: typed("metrics.k8s.io/v1beta1", "PodMetricsList"), Items: []metricsv1beta1.PodMetrics{}}
	for _, item := range s.usage {
		if within(item.Namespace, namespace) && selectorOf(r, "labelSelector").Matches(labels.Set(item.Labels)) {
			list.Items = append(list.Items, item)
		}
	}
	writeJSON(w, list)
}

func (s *apiServer) writeExternal(w http.ResponseWriter, r *http.Request, metric string) {
	list := &externalv1beta1.ExternalMetricValueList{TypeMeta: typed("external.metrics.k8s.io/v1beta1", "ExternalMetricValueList"), Items: []externalv1beta1.ExternalMetricValue{}}
	for _, series := range s.external {
		if series.MetricName == metric && selectorOf(r, "labelSelector").Matches(labels.Set(series.MetricLabels)) {
			list.Items = append(list.Items, series)
		}
	}
	writeJSON(w, list)
}

// writeCustom answers RESOURCE/NAME/METRIC, pods/*/METRIC and metrics/METRIC.
func (s *apiServer) writeCustom(w http.ResponseWriter, r *http.Request, version schema.GroupVersion, namespace string, path []string) bool {
	var resource, name, metric string
	switch {
	case len(path) == 2 && path[0] == "metrics":
		resource, name, metric = "namespaces", namespace, path[1]
	case len(path) == 3:
		resource, name, metric = path[0], path[1], path[2]
	default:
		return false
	}
	list := &customv1beta2.MetricValueList{TypeMeta: typed("custom.metrics.k8s.io/v1beta2", "MetricValueList"), Items: []customv1beta2.MetricValue{}}
	for _, value := range s.custom {
		if s.resourceOf(value.DescribedObject) == resource && value.Metric.Name == metric &&
			sameSelector(value.Metric.Selector, r.URL.Query().Get("metricLabelSelector")) &&
			(name == "*" && s.selectsPod(r, value.DescribedObject.Name) || name == value.DescribedObject.Name) {
			list.Items = append(list.Items, value)
		}
	}
	if version == customv1beta1.SchemeGroupVersion {
		writeJSON(w, inV1beta1(list))
	} else {
		writeJSON(w, list)
	}
	return true
}

func (s *apiServer) selectsPod(r *http.Request, name string) bool {
	if !s.customLabels {
		return true
	}
	return slices.ContainsFunc(s.pods, func(pod *corev1.Pod) bool {
		return pod.Name == name && selectorOf(r, "labelSelector").Matches(labels.Set(pod.Labels))
	})
}

// resourceOf names the resource of a described object, as adapters' paths do.
func (s *apiServer) resourceOf(object corev1.ObjectReference) string {
	kind := schema.FromAPIVersionAndKind(object.APIVersion, object.Kind)
	for version, resources := range s.resources {
		for _, resource := range resources {
			if version.Group == kind.Group && resource.Kind == kind.Kind {
				return schema.GroupResource{Group: kind.Group, Resource: resource.Name}.String()
			}
		}
	}
	return ""
}

func inV1beta1(list *customv1beta2.MetricValueList) *customv1beta1.MetricValueList {
	out := &customv1beta1.MetricValueList{TypeMeta: typed("custom.metrics.k8s.io/v1beta1", "MetricValueList"), Items: []customv1beta1.MetricValue{}}
	for _, value := range list.Items {
		out.Items = append(out.Items, customv1beta1.MetricValue{
			DescribedObject: value.DescribedObject, MetricName: value.Metric.Name, Selector: value.Metric.Selector,
			Timestamp: value.Timestamp, WindowSeconds: value.WindowSeconds, Value: value.Value,
		})
	}
	return out
}

// sameSelector compares a selector with its text in a request.
func sameSelector(selector *metav1.LabelSelector, text string) bool {
	if selector == nil {
		return text == ""
	}
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	return err == nil && parsed.String() == text
}

// within reports whether an object, which may have no namespace, is in the namespace.
func within(named, namespace string) bool { return named == "" || named == namespace }

func selectorOf(r *http.Request, parameter string) labels.Selector {
	selector, err := labels.Parse(r.URL.Query().Get(parameter))
	if err != nil {
		return labels.Nothing()
	}
	return selector
}

func typed(version, kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: version, Kind: kind}
}

func writeJSON(w http.ResponseWriter, object any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(object)
}

func writeStatus(w http.ResponseWriter, code int, reason metav1.StatusReason, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(&metav1.Status{
		TypeMeta: typed("v1", "Status"), Status: metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message,
	})
}
