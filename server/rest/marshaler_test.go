package rest

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// Answers are written by their tables, all that can be, and the bytes are those of the slow path.
func TestAnswersAreWrittenByTheirTables(t *testing.T) {
	refused, err := status.New(codes.NotFound, "no such target").WithDetails(&errdetails.ErrorInfo{Reason: "NO_HISTORY"})
	fatal.If(t, err)
	_, used := runtime.MarshalerForRequest(newMux(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/clusters/c/namespaces/n/targets", nil))
	m, ok := used.(*marshaler)
	if !ok {
		t.Fatalf("the gateway writes by %T", used)
	}
	at := timestamppb.New(time.Unix(1_767_225_600, 0))
	watched := &setpointv1.WatchDecisionsResponse{Target: "t", Decision: &setpointv1.Decision{Time: at, DesiredReplicas: 3}, ResumeToken: "r"}
	inOrder, err := proto.MarshalOptions{Deterministic: true}.Marshal(watched)
	fatal.If(t, err)
	token, err := proto.Marshal(&setpointv1.WatchDecisionsResponse{ResumeToken: "r"})
	fatal.If(t, err)
	disordered := slices.Concat(token, inOrder[:len(inOrder)-len(token)])
	left := func(data []byte) any {
		part := new(setpointv1.WatchDecisionsResponse)
		leaveEncoded(part, data)
		return map[string]any{"result": part}
	}
	for _, tt := range []struct {
		name   string
		answer any
		usual  bool
		same   any // what it is; nil: the answer
	}{
		{"a list", &setpointv1.ListTargetsResponse{NextPageToken: "next", Targets: []*setpointv1.Target{
			{Name: "clusters/c/namespaces/n/targets/a", LastDecision: &setpointv1.Decision{Time: at, DesiredReplicas: 3}},
			{Name: "clusters/c/namespaces/n/targets/b", SpecInUse: &setpointv1.SpecInUse{Spec: &setpointv1.HorizontalPodAutoscalerSpec{
				MinReplicas: new(int32(2)), MaxReplicas: 9, Behavior: &setpointv1.HorizontalPodAutoscalerBehavior{ScaleUp: &setpointv1.HPAScalingRules{}},
			}}},
		}}, true, nil},
		{"an empty list", &setpointv1.ListTargetsResponse{}, true, nil},
		{"decisions", &setpointv1.ListDecisionsResponse{Decisions: []*setpointv1.Decision{{Time: at, Reason: "<quoted> \"é\""}}}, true, nil},
		{"a part of a stream", map[string]any{"result": &setpointv1.WatchDecisionsResponse{}}, true, nil},
		{"a part that is left encoded", left(inOrder), true, map[string]any{"result": watched}},
		{"one of fields in disorder", left(disordered), false, map[string]any{"result": watched}},
		{"the error that ends a stream", map[string]any{"error": refused.Proto()}, false, nil},
		{"a text that is none", &setpointv1.Target{Name: "\xff"}, false, nil},
		{"an error with details", refused.Proto(), false, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text, usual := m.usual(tt.answer)
			if usual != tt.usual {
				t.Fatalf("usual: %v, want %v", usual, tt.usual)
			}
			same := tt.same
			if same == nil {
				same = tt.answer
			}
			long, longErr := m.Marshaler.Marshal(same)
			if usual && string(text) != string(long) {
				t.Errorf("got  %s\nwant %s", text, long)
			}
			if written, err := m.Marshal(tt.answer); (err == nil) != (longErr == nil) || string(written) != string(long) {
				t.Errorf("wrote %s, %v; want %s, %v", written, err, long, longErr)
			}
		})
	}
}
