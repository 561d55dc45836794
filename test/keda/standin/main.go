// Command standin stands in for KEDA's operator and metrics adapter in tests: it serves
// external.metrics.k8s.io with what KEDA's own scaler code makes of the service's answers, as
// KEDA does for ScaledObjects with one trigger of type external.
//
//	standin -listen=127.0.0.1:6443 -scaler=127.0.0.1:9090 -cluster=demo
//
// It knows no ScaledObjects: each that is asked for is one with that trigger. It does
// not authenticate callers, and makes its own certificate.
package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os/signal"
	"sync"
	"syscall"
	"time"

	v2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/metrics/pkg/apis/external_metrics"
	"k8s.io/metrics/pkg/apis/external_metrics/v1beta1"

	"github.com/kedacore/keda/v2/pkg/scalers/scalersconfig"

	"github.com/setpoint-dev/setpoint/internal/testpki"
	"github.com/setpoint-dev/setpoint/test/keda/scalers"
)

// selectorLabel is how KEDA's HPAs name their ScaledObject.
const selectorLabel = "scaledobject.keda.sh/name"

func main() {
	s := &standIn{scalers: map[[2]string]scalers.Scaler{}}
	listen := flag.String("listen", "127.0.0.1:0", "`address` to serve the API on, by TLS")
	flag.StringVar(&s.address, "scaler", "", "`address` of the external scaler")
	flag.StringVar(&s.cluster, "cluster", "demo", "`name` of the cluster in the triggers' metadata")
	flag.Parse()
	if err := s.serve(*listen); err != nil {
		log.Fatal(err)
	}
}

type standIn struct {
	address, cluster string

	mu sync.Mutex
	// scalers by namespace and name of their ScaledObject. Guarded by mu.
	scalers map[[2]string]scalers.Scaler
}

func (s *standIn) serve(address string) error {
	certificate := testpki.New("standin").TLS()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /apis/external.metrics.k8s.io/v1beta1", resources)
	mux.HandleFunc("GET /apis/external.metrics.k8s.io/v1beta1/namespaces/{namespace}/{metric}", s.values)
	server := &http.Server{Addr: address, Handler: mux, ReadHeaderTimeout: 10 * time.Second, TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if err := server.ListenAndServeTLS("", ""); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// resources is the answer to discovery: as in KEDA, that there are external metrics.
func resources(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, &metav1.APIResourceList{
		TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: v1beta1.SchemeGroupVersion.String(),
		APIResources: []metav1.APIResource{{Name: "externalmetrics", Namespaced: true, Kind: "ExternalMetricValueList", Verbs: metav1.Verbs{"get"}}},
	})
}

// values are the values of a ScaledObject's metric, as the HPA requests them.
func (s *standIn) values(w http.ResponseWriter, r *http.Request) {
	selector, err := labels.ConvertSelectorToLabelsMap(r.URL.Query().Get("labelSelector"))
	if err != nil || selector[selectorLabel] == "" {
		fail(w, http.StatusBadRequest, fmt.Errorf("the selector must name a ScaledObject: %s=NAME", selectorLabel))
		return
	}
	values, err := s.ask(r.Context(), r.PathValue("namespace"), selector[selectorLabel], r.PathValue("metric"))
	if err != nil {
		fail(w, http.StatusInternalServerError, err)
		return
	}
	list := &v1beta1.ExternalMetricValueList{TypeMeta: metav1.TypeMeta{Kind: "ExternalMetricValueList", APIVersion: v1beta1.SchemeGroupVersion.String()}}
	for _, v := range values {
		list.Items = append(list.Items, v1beta1.ExternalMetricValue{MetricName: v.MetricName, MetricLabels: v.MetricLabels, Timestamp: v.Timestamp, WindowSeconds: v.WindowSeconds, Value: v.Value})
	}
	answer(w, http.StatusOK, list)
}

// ask has KEDA's scaler ask the service. The operator gives it about 3 s.
func (s *standIn) ask(ctx context.Context, namespace, name, metric string) ([]external_metrics.ExternalMetricValue, error) {
	scaler, err := s.scaler(namespace, name)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	values, _, err := scaler.GetMetricsAndActivity(ctx, metric)
	return values, err
}

// scaler is that of a ScaledObject, which KEDA keeps.
func (s *standIn) scaler(namespace, name string) (scalers.Scaler, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := [2]string{namespace, name}
	if known := s.scalers[of]; known != nil {
		return known, nil
	}
	made, err := scalers.NewExternalScaler(&scalersconfig.ScalerConfig{
		ScalableObjectName: name, ScalableObjectNamespace: namespace, ScalableObjectType: "ScaledObject",
		TriggerMetadata: map[string]string{"scalerAddress": s.address, "cluster": s.cluster},
		AuthParams:      map[string]string{}, ResolvedEnv: map[string]string{},
		MetricType: v2.AverageValueMetricType,
	})
	if err == nil {
		s.scalers[of] = made
	}
	return made, err
}

func answer(w http.ResponseWriter, code int, object any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(object)
}

func fail(w http.ResponseWriter, code int, err error) {
	answer(w, code, &metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Message: err.Error(), Code: int32(code)})
}
