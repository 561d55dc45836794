//go:build linux

package kubetest

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	customv1beta2 "k8s.io/metrics/pkg/apis/custom_metrics/v1beta2"
	externalv1beta1 "k8s.io/metrics/pkg/apis/external_metrics/v1beta1"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"github.com/setpoint-dev/setpoint/internal/testpki"
)

// metricsAPIs are the APIs of the aggregated server, by group.
var metricsAPIs = map[string]struct{ version, resource, kind string }{
	ResourceMetrics: {"v1beta1", "pods", "PodMetrics"},
	CustomMetrics:   {"v1beta2", "pods/metric", "MetricValueList"},
	ExternalMetrics: {"v1beta1", "metric", "ExternalMetricValueList"},
}

var apiServices = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}

// metricsNamespace has the service that leads the API server here.
const metricsNamespace = "kubetest-metrics"

// listener is the HTTPS server.
type listener struct {
	server *http.Server
	port   int
}

// startMetrics starts the server and registers it with the cluster's API server.
func startMetrics(c *Cluster) (*Metrics, error) {
	m := &Metrics{
		kubelet: c.Kubelet, loads: make(map[string]map[load]int64), objects: make(map[object]resource.Quantity),
		series: make(map[external][]Series), failures: make(map[failure]answer),
		hanging: make(map[failure]chan struct{}),
	}
	if err := m.listen(); err != nil {
		return nil, err
	}
	if err := m.register(c); err != nil {
		m.stop()
		return nil, err
	}
	return m, nil
}

func (m *Metrics) listen() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	m.listener = &listener{port: l.Addr().(*net.TCPAddr).Port, server: &http.Server{
		Handler: m.routes(), ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(io.Discard, "", 0),
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{testpki.New("metrics").TLS()}, NextProtos: []string{"h2", "http/1.1"}},
	}}
	go func() { _ = m.listener.server.ServeTLS(l, "", "") }() // always an error, once it is closed
	return nil
}

func (m *Metrics) stop() { _ = m.listener.server.Close() }

// register creates APIServices, whose service is another name of this machine.
func (m *Metrics) register(c *Cluster) error {
	ctx := context.Background()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metricsNamespace}}
	if _, err := c.client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		return err
	}
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "metrics"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"},
	}
	if _, err := c.client.CoreV1().Services(metricsNamespace).Create(ctx, service, metav1.CreateOptions{}); err != nil {
		return err
	}
	for group := range metricsAPIs {
		if err := m.Register(c, group); err != nil {
			return err
		}
	}
	for group := range metricsAPIs {
		if err := awaitServed(ctx, c, group); err != nil {
			return err
		}
	}
	return nil
}

// Register makes the cluster serve one of the APIs, as it does from the start.
func (m *Metrics) Register(c *Cluster, group string) error {
	version := metricsAPIs[group].version
	_, err := c.dynamic.Resource(apiServices).Create(context.Background(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
		"metadata": map[string]any{"name": version + "." + group},
		"spec": map[string]any{
			"group": group, "version": version, "insecureSkipTLSVerify": true,
			"groupPriorityMinimum": int64(100), "versionPriority": int64(100),
			"service": map[string]any{"namespace": metricsNamespace, "name": "metrics", "port": int64(m.listener.port)},
		},
	}}, metav1.CreateOptions{})
	return err
}

// Unregister makes the cluster stop serving one of the APIs.
func (m *Metrics) Unregister(c *Cluster, group string) error {
	return c.dynamic.Resource(apiServices).Delete(context.Background(), metricsAPIs[group].version+"."+group, metav1.DeleteOptions{})
}

// awaitServed waits until the API server passes requests on and lists the group.
func awaitServed(ctx context.Context, c *Cluster, group string) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	api := metricsAPIs[group]
	for {
		list, err := c.client.Discovery().ServerResourcesForGroupVersion(group + "/" + api.version)
		groups, groupsErr := c.client.Discovery().ServerGroups()
		if err == nil && groupsErr == nil && len(list.APIResources) > 0 {
			for _, listed := range groups.Groups {
				if listed.Name == group {
					return nil
				}
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is not served: %w", group, errors.Join(ctx.Err(), err, groupsErr))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (m *Metrics) routes() http.Handler {
	mux := http.NewServeMux()
	for group, api := range metricsAPIs {
		mux.HandleFunc("GET /apis/"+group+"/"+api.version, func(w http.ResponseWriter, _ *http.Request) {
			reply(w, metav1.APIResourceList{
				TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: group + "/" + api.version,
				APIResources: []metav1.APIResource{{Name: api.resource, Namespaced: true, Kind: api.kind, Verbs: metav1.Verbs{"get", "list"}}},
			})
		})
	}
	mux.HandleFunc("GET /apis/metrics.k8s.io/v1beta1/namespaces/{namespace}/pods", m.handle(ResourceMetrics, m.servePods))
	mux.HandleFunc("GET /apis/custom.metrics.k8s.io/v1beta2/namespaces/{namespace}/{resource}/{name}/{metric}", m.handle(CustomMetrics, m.serveCustom))
	mux.HandleFunc("GET /apis/custom.metrics.k8s.io/v1beta2/namespaces/{namespace}/metrics/{metric}", m.handle(CustomMetrics, m.serveNamespace))
	mux.HandleFunc("GET /apis/external.metrics.k8s.io/v1beta1/namespaces/{namespace}/{metric}", m.handle(ExternalMetrics, m.serveExternal))
	return mux
}

// query is a parsed request.
type query struct {
	*http.Request
	namespace string
	selector  labels.Selector
	now       time.Time
}

// handle answers, or fails as was set.
func (m *Metrics) handle(api string, serve func(query) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		namespace := r.PathValue("namespace")
		m.mu.Lock()
		failed, fails := m.failures[failure{api, namespace}]
		hangs := m.hanging[failure{api, namespace}]
		m.mu.Unlock()
		if hangs != nil {
			select {
			case <-hangs:
			case <-r.Context().Done():
				return
			}
		}
		if fails {
			refuse(w, failed.code, failed.message)
			return
		}
		selector, err := labels.Parse(r.FormValue("labelSelector"))
		if err != nil {
			refuse(w, http.StatusBadRequest, err.Error())
			return
		}
		list, err := serve(query{r, namespace, selector, time.Now()})
		if err != nil {
			refuse(w, http.StatusNotFound, err.Error())
			return
		}
		reply(w, list)
	}
}

func (m *Metrics) servePods(q query) (any, error) {
	return metricsv1beta1.PodMetricsList{
		TypeMeta: metav1.TypeMeta{Kind: "PodMetricsList", APIVersion: ResourceMetrics + "/v1beta1"},
		Items:    m.samples(q.namespace, q.selector, q.now),
	}, nil
}

func (m *Metrics) serveCustom(q query) (any, error) {
	if q.PathValue("resource") != "pods" || q.PathValue("name") != "*" {
		return m.objectValue(object{q.namespace, q.PathValue("resource"), q.PathValue("name"), q.PathValue("metric")}, q.now)
	}
	return customv1beta2.MetricValueList{
		TypeMeta: metav1.TypeMeta{Kind: "MetricValueList", APIVersion: CustomMetrics + "/v1beta2"},
		Items:    m.podValues(q.namespace, q.PathValue("metric"), q.selector, q.now),
	}, nil
}

func (m *Metrics) serveNamespace(q query) (any, error) {
	return m.objectValue(object{q.namespace, "namespaces", q.namespace, q.PathValue("metric")}, q.now)
}

func (m *Metrics) serveExternal(q query) (any, error) {
	return externalv1beta1.ExternalMetricValueList{
		TypeMeta: metav1.TypeMeta{Kind: "ExternalMetricValueList", APIVersion: ExternalMetrics + "/v1beta1"},
		Items:    m.externalValues(q.namespace, q.PathValue("metric"), q.selector, q.now),
	}, nil
}

func reply(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body) // the client may have gone
}

// refuse answers with a failure. It has no reason, because clients use the code.
func refuse(w http.ResponseWriter, code int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Code: int32(code), Message: message,
	})
}
