package integrations

import (
	"net/http"
	"testing"

	"github.com/tidwall/gjson"
)

// KEDA's metrics-api takes the number at a path of GJSON from any JSON: here that of our own
// answer. It has to be there when it is 0, too.
func TestMetricsAPIFindsTheCount(t *testing.T) {
	s := start(t)
	s.setSpec(t, 1, 500)
	s.ask(t, http.MethodPost, "/v1/"+target+":reportObservation", `{"scale": {"specReplicas": 3}, "externalMetrics": [{"metric": {"name": "queue"}, "value": "70"}]}`)
	got := gjson.Get(s.ask(t, http.MethodGet, "/v1/"+target+"/recommendation", ""), "desiredReplicas")
	if got.Type != gjson.Number || got.Num != 7 {
		t.Errorf("found %v", got)
	}
	if r := s.poll(t); r.GetDesiredReplicas() != 7 {
		t.Errorf("recommended %v", r)
	}
	s.ask(t, http.MethodPost, "/v1/"+target+":reportObservation", `{"scale": {"specReplicas": 0}}`)
	s.setSpec(t, 1, 400) // another spec decides at once
	got = gjson.Get(s.ask(t, http.MethodGet, "/v1/"+target+"/recommendation", ""), "desiredReplicas")
	if !got.Exists() || got.Type != gjson.Number || got.Num != 0 {
		t.Errorf("at zero found %v", got)
	}
}
