package integrations

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// fleet is a fleet of Agones and its FleetAutoscaler, by the rules of
// pkg/fleetautoscalers/fleetautoscalers.go, or a workload of the General Pod Autoscaler: what they
// do with an answer differs in what they take for the current size only.
type fleet struct {
	contract                string
	replicas, status, surge int32
}

// review is the envelope of both.
type review struct {
	Request  *reviewRequest  `json:"request"`
	Response *reviewResponse `json:"response"`
}

type reviewRequest struct {
	UID             string            `json:"uid"`
	Name            string            `json:"name"`
	Namespace       string            `json:"namespace"`
	Status          *fleetStatus      `json:"status,omitempty"`
	CurrentReplicas *int32            `json:"currentReplicas,omitempty"`
	Parameters      map[string]string `json:"parameters,omitempty"`
}

type fleetStatus struct {
	Replicas          int32 `json:"replicas"`
	ReadyReplicas     int32 `json:"readyReplicas"`
	ReservedReplicas  int32 `json:"reservedReplicas"`
	AllocatedReplicas int32 `json:"allocatedReplicas"`
}

type reviewResponse struct {
	UID      string `json:"uid"`
	Scale    bool   `json:"scale"`
	Replicas int32  `json:"replicas"`
}

// sync reconciles once. An answer without a response is a crash, as it is in Agones.
func (f *fleet) sync(t *testing.T, s *service) (int, error) {
	t.Helper()
	uid := fmt.Sprint(s.now().UnixNano())
	asked := review{Request: &reviewRequest{UID: uid, Name: "web", Namespace: "shop"}}
	switch f.contract {
	case "agones":
		asked.Request.Status = &fleetStatus{Replicas: f.status, ReadyReplicas: f.status}
	default:
		asked.Request.CurrentReplicas = &f.replicas
	}
	body, err := json.Marshal(asked)
	fatal.If(t, err)
	resp, err := s.http.Post(s.url+"/v1/integrations/"+f.contract+"/clusters/demo", "application/json", strings.NewReader(string(body)))
	fatal.If(t, err)
	defer func() { _ = resp.Body.Close() }()
	var answer review
	fatal.If(t, json.NewDecoder(resp.Body).Decode(&answer))
	if answer.Response == nil {
		t.Fatal("an answer without a response")
	}
	if resp.StatusCode != http.StatusOK {
		return resp.StatusCode, fmt.Errorf("bad status code %d", resp.StatusCode)
	}
	if answer.Response.UID != uid {
		t.Errorf("answered %q, asked %q", answer.Response.UID, uid)
	}
	switch {
	case answer.Response.Scale:
		f.replicas = answer.Response.Replicas
	case f.contract == "agones":
		f.replicas = f.status
	}
	f.status = f.replicas + f.surge
	return resp.StatusCode, nil
}

// Both reach our count in one reconcile, up and down, and keep it through errors and updates.
func TestWebhooksEndAtTheCount(t *testing.T) {
	for _, contract := range []string{"agones", "gpa"} {
		t.Run(contract, func(t *testing.T) {
			s := start(t)
			f := &fleet{contract: contract, replicas: 2, status: 2}
			if code, err := f.sync(t, s); err == nil || code != http.StatusNotFound || f.replicas != 2 {
				t.Errorf("without a spec: HTTP %d, %v, ended at %d", code, err, f.replicas)
			}
			s.setSpec(t, 1, 500)
			if code, err := f.sync(t, s); err == nil || code != http.StatusBadRequest || f.replicas != 2 {
				t.Errorf("without a metric: HTTP %d, %v, ended at %d", code, err, f.replicas)
			}
			counts := []int32{1, 2, 3, 9, 10, 11, 12, 50, 99, 100, 101, 499, 500}
			for _, from := range counts {
				for _, to := range counts {
					for _, n := range []int32{from, to, to} {
						s.want(t, int(n))
						s.advance(30 * time.Second)
						if _, err := f.sync(t, s); err != nil || f.replicas != n {
							t.Fatalf("from %d to %d: ended at %d, %v", from, to, f.replicas, err)
						}
					}
				}
			}
			f.surge = 3 // an update of the fleet
			for range 5 {
				s.want(t, 40)
				s.advance(30 * time.Second)
				if _, err := f.sync(t, s); err != nil || f.replicas != 40 {
					t.Fatalf("during an update: ended at %d, %v", f.replicas, err)
				}
			}
		})
	}
}
