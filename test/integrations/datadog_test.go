package integrations

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	datadog "github.com/DataDog/agent-payload/v5/autoscaling/kubernetes"

	"github.com/setpoint-dev/setpoint/internal/testpki"
	"github.com/setpoint-dev/setpoint/server"
)

const path = "/v1/integrations/datadog/clusters/demo"

// From any count to any, WPA reaches ours in one reconcile, whichever way it reads the bounds.
func TestWPAEndsAtTheCount(t *testing.T) {
	for _, swapped := range []bool{false, true} {
		t.Run(fmt.Sprintf("swapped=%t", swapped), func(t *testing.T) {
			s := start(t)
			s.setSpec(t, 1, 500)
			w := recommended(s.url+path, s.http)
			w.swapped = swapped
			counts := []int{1, 2, 3, 4, 5, 7, 9, 10, 11, 19, 20, 21, 22, 50, 99, 100, 101, 250, 499, 500}
			rounds := 0
			for _, from := range counts {
				for _, to := range counts {
					for _, n := range []int{from, to} {
						s.want(t, n)
						s.advance(15 * time.Second)
						got, err := w.reconcile(s.now())
						if rounds++; err != nil || got != int32(n) || w.replicas != int32(n) {
							t.Fatalf("from %d to %d: recommended %d, ended at %d, %v", from, to, got, w.replicas, err)
						}
					}
				}
			}
			if rounds != 2*len(counts)*len(counts) {
				t.Errorf("%d rounds", rounds)
			}
		})
	}
}

// With its defaults WPA comes to the count as well, in its own time: what the page says of them
// is true of the loop here.
func TestWPAsDefaultsAreInTheWay(t *testing.T) {
	s := start(t)
	s.setSpec(t, 1, 500)
	w := defaults(s.url+path, s.http)
	w.replicas = 10
	rounds := func(n int) (counts []int32) {
		t.Helper()
		s.want(t, n)
		for len(counts) < 200 && w.replicas != int32(n) {
			s.advance(15 * time.Second)
			s.want(t, n)
			before := w.replicas
			if _, err := w.reconcile(s.now()); err != nil {
				t.Fatal(err)
			}
			if w.replicas != before {
				counts = append(counts, w.replicas)
			}
		}
		return counts
	}
	if got := rounds(40); !slices.Equal(got, []int32{15, 22, 33, 40}) {
		t.Errorf("up by %v", got)
	}
	if got := rounds(20); !slices.Equal(got, []int32{32, 26, 21, 20}) {
		t.Errorf("down by %v", got)
	}
}

// Zero counts only for who tolerates it, and an error never.
func TestWPAHolds(t *testing.T) {
	s := start(t)
	w := recommended(s.url+path, s.http)
	w.replicas = 4
	held := func(complaint string) {
		t.Helper()
		s.advance(15 * time.Second)
		if _, err := w.reconcile(s.now()); err == nil || !strings.Contains(err.Error(), complaint) || w.replicas != 4 {
			t.Errorf("ended at %d, with %v, want %q", w.replicas, err, complaint)
		}
	}
	held("no spec is stored of " + target)
	s.setSpec(t, 1, 500)
	held("it was never reported")
	s.want(t, 7)
	s.advance(2 * time.Minute)
	held("it was reported 135 s ago; the maximum age is 60 s")
	w.settings = map[string]string{"target": "other"}
	held("no spec is stored of clusters/demo/namespaces/shop/targets/other")
	w.settings, w.url = nil, s.url+"/v1/integrations/datadog/clusters/a%20b"
	held("unexpected response code: 400 ")
	w.url = s.url + path
	s.want(t, 7)
	s.advance(15 * time.Second)
	if _, err := w.reconcile(s.now()); err != nil || w.replicas != 7 {
		t.Errorf("ended at %d, with %v", w.replicas, err)
	}
}

func TestWPAsZero(t *testing.T) {
	s := start(t)
	s.ask(t, http.MethodPut, "/v1/"+target+"/spec", `{"options": {"scaleToZero": true}, "period": "10s", "spec": {"minReplicas": 0, "maxReplicas": 500,
		"metrics": [{"type": "External", "external": {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "10"}}}],
		"behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}}}}`)
	w := recommended(s.url+path, s.http)
	w.replicas, w.least = 4, 0
	s.want(t, 0)
	if _, err := w.reconcile(s.now()); !errors.Is(err, errIgnored) || w.replicas != 4 {
		t.Errorf("ended at %d, with %v", w.replicas, err)
	}
	reply, err := ask(s.http, w.url, "wpa-controller", w.request())
	if err != nil || reply.LowerBoundReplicas == nil || reply.UpperBoundReplicas == nil || reply.GetTargetReplicas() != 0 {
		t.Errorf("replied %v, %v: both bounds, always", reply, err)
	}
}

// The cluster agent takes the count and the time of it.
func TestTheClusterAgent(t *testing.T) {
	s := start(t)
	s.setSpec(t, 1, 500)
	zero, four := int32(0), int32(4)
	req := &datadog.WorkloadRecommendationRequest{
		TargetRef:   &datadog.WorkloadTargetRef{Cluster: "datadogs-name", Namespace: "shop", Kind: "Deployment", Name: "web", ApiVersion: "apps/v1"},
		State:       &datadog.WorkloadState{CurrentReplicas: &four, ReadyReplicas: &zero},
		Constraints: &datadog.WorkloadRecommendationConstraints{MaxReplicas: 100},
		Targets:     []*datadog.WorkloadRecommendationTarget{{Type: "cpu", TargetValue: 0.7}, {Type: "memory", LowerBound: 0.65, UpperBound: 0.75}},
	}
	for _, want := range []int{4, 90, 90, 2, 100} {
		s.want(t, want)
		reply, err := ask(s.http, s.url+path, "datadog-cluster-agent", req)
		if err != nil || reply.GetTargetReplicas() != int32(want) {
			t.Fatalf("replied %v, %v, want %d", reply, err, want)
		}
		if at := reply.GetTimestamp().AsTime(); at.After(s.now()) || s.now().Sub(at) > 10*time.Second {
			t.Errorf("decided at %s, and it is %s", at, s.now())
		}
		if o := reply.GetObservedTargets(); len(o) != 1 || o[0].GetType() != "queue" || o[0].GetTargetValue() <= 0 {
			t.Errorf("observed %v", o)
		}
		req.State.DesiredReplicas = reply.GetTargetReplicas()
		s.advance(30 * time.Second)
	}
}

// Both clients reach a service that asks who calls, over TLS in the forms that they can do.
func TestDatadogOverTLS(t *testing.T) {
	authority := testpki.New("authority")
	serving := authority.Issue("server", testpki.Usage(x509.ExtKeyUsageServerAuth)).TLS()
	own := authority.Issue("wpa", testpki.Names(), testpki.Usage(x509.ExtKeyUsageClientAuth)).TLS()
	stranger := authority.Issue("stranger", testpki.Names(), testpki.Usage(x509.ExtKeyUsageClientAuth)).TLS()
	for _, tt := range []struct {
		name     string
		asks     tls.ClientAuthType
		client   *tls.Config
		user     string
		complain string
	}{
		{"a CA, and a token in the address", tls.NoClientCert, &tls.Config{}, "wpa:" + token + "@", ""},
		{"the same with TLS 1.2", tls.NoClientCert, &tls.Config{MaxVersion: tls.VersionTLS12}, "wpa:" + token + "@", ""},
		{"a client certificate", tls.VerifyClientCertIfGiven, &tls.Config{Certificates: []tls.Certificate{own}}, "", ""},
		{"the same with TLS 1.2", tls.VerifyClientCertIfGiven, &tls.Config{Certificates: []tls.Certificate{own}, MaxVersion: tls.VersionTLS12}, "", ""},
		{"no verification", tls.NoClientCert, &tls.Config{InsecureSkipVerify: true}, "wpa:" + token + "@", ""},                                           //nolint:gosec // as they can be set
		{"TLS 1.1", tls.NoClientCert, &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}, "wpa:" + token + "@", "protocol version"}, //nolint:gosec // as they can be set
		{"no credentials", tls.NoClientCert, &tls.Config{}, "", "code: 401"},
		{"a stranger's certificate", tls.VerifyClientCertIfGiven, &tls.Config{Certificates: []tls.Certificate{stranger}}, "", "code: 403"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			secure := &tls.Config{Certificates: []tls.Certificate{serving}, ClientAuth: tt.asks, ClientCAs: authority.Pool(), MinVersion: tls.VersionTLS12}
			s := start(t, guarded(t), func(o *server.Options) { o.TLS = secure })
			admin := &tls.Config{RootCAs: authority.Pool(), MinVersion: tls.VersionTLS12}
			s.http.Transport, s.url = &http.Transport{TLSClientConfig: admin}, "https://"+s.address
			s.setSpec(t, 1, 500)
			s.want(t, 7)
			config := tt.client.Clone()
			config.RootCAs = authority.Pool()
			client := &http.Client{Transport: &http.Transport{TLSClientConfig: config}}
			defer client.CloseIdleConnections()
			w := recommended("https://"+tt.user+s.address+path, client)
			got, err := w.reconcile(s.now())
			if tt.complain != "" {
				if err == nil || !strings.Contains(err.Error(), tt.complain) {
					t.Errorf("ended with %v, want %q", err, tt.complain)
				}
				return
			}
			if err != nil || got != 7 || w.replicas != 7 {
				t.Errorf("ended at %d, with %v", w.replicas, err)
			}
		})
	}
}
