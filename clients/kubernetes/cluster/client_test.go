package cluster_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/cluster/apiserver"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

func TestTheUIDOfAClusterIsKubeSystems(t *testing.T) {
	t.Parallel()
	s := newAPIServer(t)
	clients, err := apiserver.New(s.config())
	fatal.If(t, err)
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

// Clients check their permissions with the API server, and distinguish a refusal from a
// failure.
func TestClientsAskWhatTheyMayWatch(t *testing.T) {
	t.Parallel()
	resource := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	for _, tt := range []struct {
		rule    string
		allowed []string
		code    int
		want    bool
		fails   bool
	}{
		{"both are allowed", []string{"list", "watch"}, http.StatusCreated, true, false},
		{"only list", []string{"list"}, http.StatusCreated, false, false},
		{"only watch", []string{"watch"}, http.StatusCreated, false, false},
		{"reviews are refused", nil, http.StatusForbidden, false, true},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			t.Parallel()
			server := newAPIServer(t)
			server.answer(func(w http.ResponseWriter, req *http.Request) bool {
				if req.Method != http.MethodPost || req.URL.Path != "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews" {
					return false
				}
				var review authorizationv1.SelfSubjectAccessReview
				if err := json.NewDecoder(req.Body).Decode(&review); err != nil {
					t.Error(err)
				}
				is := review.Spec.ResourceAttributes
				if is == nil || is.Group != "apps" || is.Resource != "deployments" || is.Namespace != "shop" {
					t.Errorf("asked about %+v", is)
					return false
				}
				review.Status.Allowed = slices.Contains(tt.allowed, is.Verb)
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(tt.code)
				if err := json.NewEncoder(w).Encode(&review); err != nil {
					t.Error(err)
				}
				return true
			})
			may, err := server.clients(t).MayWatch(t.Context(), resource, "shop")
			if may != tt.want || (err != nil) != tt.fails {
				t.Errorf("got %v, %v, want %v", may, err, tt.want)
			}
		})
	}
}
