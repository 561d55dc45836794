package cluster_test

import (
	"encoding/json"
	"net/http"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/cluster"
)

func TestTheUIDOfAClusterIsKubeSystems(t *testing.T) {
	t.Parallel()
	s := newAPIServer(t)
	clients, err := cluster.NewClients(s.config())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := clients.UID(t.Context()); !apierrors.IsNotFound(err) {
		t.Errorf("without that namespace: %v, want NotFound", err)
	}
	s.mu.Lock()
	s.intercept = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet || r.URL.Path != "/api/v1/namespaces/kube-system" {
			return false
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(metav1.PartialObjectMetadata{
			TypeMeta:   metav1.TypeMeta{Kind: "PartialObjectMetadata", APIVersion: "meta.k8s.io/v1"},
			ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "6f3f7e0e"},
		})
		return true
	}
	s.mu.Unlock()
	uid, err := clients.UID(t.Context())
	if err != nil || uid != "6f3f7e0e" {
		t.Errorf("got %q, %v", uid, err)
	}
}
