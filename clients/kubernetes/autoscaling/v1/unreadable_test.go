package v1_test

import (
	"encoding/json"
	"strings"
	"testing"

	v1 "github.com/setpoint-dev/setpoint/clients/kubernetes/autoscaling/v1"
)

func TestAnUnreadableObjectKeepsNoOtherFromBeingRead(t *testing.T) {
	t.Parallel()
	var list v1.AutoscalerList
	err := json.Unmarshal([]byte(`{"items":[
		{"metadata":{"name":"a"},"spec":{"maxReplicas":"many"},"status":{"currentReplicas":{}}},
		{"metadata":{"name":"b"},"spec":{"scaleTargetRef":["web"],"maxReplicas":3}},
		{"metadata":{"name":"c"},"spec":{"maxReplicas":3},"status":{"currentReplicas":2}}]}`), &list)
	if err != nil || len(list.Items) != 3 {
		t.Fatalf("%d items, %v", len(list.Items), err)
	}
	for i, want := range []string{"string", "array", ""} {
		item := list.Items[i]
		if got := item.Spec.Unreadable; want == "" != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%s: unreadable %q, want %q in it", item.Name, got, want)
		}
	}
	if c := list.Items[2]; c.Spec.MaxReplicas != 3 || c.Status.CurrentReplicas != 2 {
		t.Errorf("what is readable: %+v", c)
	}
	text, err := json.Marshal(&list.Items[0].Spec)
	if err != nil || strings.Contains(string(text), "nreadable") {
		t.Errorf("written: %s, %v", text, err)
	}
}
