package access_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server/servertest"
)

func TestMain(m *testing.M) { servertest.Main(m) }

// rpc is a method of the contract.
type rpc struct {
	full   string
	method protoreflect.MethodDescriptor
}

// rpcs are all methods of the contract, by its descriptors.
func rpcs() []rpc {
	var all []rpc
	for _, m := range servertest.Methods() {
		all = append(all, rpc{fmt.Sprintf("/%s/%s", m.Parent().FullName(), m.Name()), m})
	}
	return all
}

// call makes the call with a request about a target, and returns its error.
func (r rpc) call(ctx context.Context, t *testing.T, s *servertest.Service, target string) error {
	t.Helper()
	in := r.request(target)
	out := dynamicpb.NewMessage(r.method.Output())
	if !r.method.IsStreamingClient() && !r.method.IsStreamingServer() {
		err := s.Conn.Invoke(ctx, r.full, in, out)
		if batch, ok := r.batchError(out); ok && err == nil {
			return batch
		}
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	stream, err := s.Conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, r.full)
	if err != nil {
		return err
	}
	if err := stream.SendMsg(in); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	if err := stream.RecvMsg(out); err != nil {
		return err
	}
	if field := r.method.Output().Fields().ByName("error"); field != nil && out.Has(field) {
		failed := out.Get(field).Message()
		return status.Error(codes.Code(failed.Get(failed.Descriptor().Fields().ByName("code")).Int()), "in the stream")
	}
	return nil
}

// request is one that is valid enough to come to the policy.
func (r rpc) request(target string) proto.Message {
	recommend := servertest.RequestFor(target)
	switch r.method.Name() {
	case "Recommend":
		return recommend
	case "BatchRecommend":
		return &setpointv1.BatchRecommendRequest{Requests: []*setpointv1.RecommendRequest{recommend}}
	case "StreamRecommend":
		return &setpointv1.StreamRecommendRequest{Id: "1", Request: recommend}
	case "ReportScale":
		return &setpointv1.ReportScaleRequest{Target: target, RecommendationId: strings.Repeat("0", 32), Outcome: "APPLIED"}
	case "GetTarget":
		return &setpointv1.GetTargetRequest{Name: target}
	case "ListTargets":
		return &setpointv1.ListTargetsRequest{Parent: target[:strings.Index(target, "/targets/")]}
	case "ListDecisions":
		return &setpointv1.ListDecisionsRequest{Parent: target}
	case "GetRecording":
		return &setpointv1.GetRecordingRequest{Name: target}
	case "WatchDecisions":
		return &setpointv1.WatchDecisionsRequest{Parent: target}
	case "DeleteTarget":
		return &setpointv1.DeleteTargetRequest{Name: target}
	case "Simulate":
		return &setpointv1.SimulateRequest{}
	case "SetTargetSpec":
		return &setpointv1.SetTargetSpecRequest{Name: target, TargetSpec: &setpointv1.TargetSpec{Spec: recommend.GetSpec()}}
	case "GetTargetSpec":
		return &setpointv1.GetTargetSpecRequest{Name: target}
	case "ListTargetSpecs":
		return &setpointv1.ListTargetSpecsRequest{Parent: target[:strings.Index(target, "/targets/")]}
	case "PromoteShadow":
		return &setpointv1.PromoteShadowRequest{Name: target, Shadow: "next", Etag: "00"}
	case "DeleteTargetSpec":
		return &setpointv1.DeleteTargetSpecRequest{Name: target}
	case "ReportObservation":
		return &setpointv1.ReportObservationRequest{Target: target, Scale: recommend.GetScale()}
	case "GetRecommendation":
		return &setpointv1.GetRecommendationRequest{Target: target}
	case "GetCaller":
		return &setpointv1.GetCallerRequest{}
	case "ListInstances":
		return &setpointv1.ListInstancesRequest{}
	case "GetStore":
		return &setpointv1.GetStoreRequest{}
	case "AnnounceAgent":
		return &setpointv1.AnnounceAgentRequest{Parent: target[:strings.Index(target, "/namespaces/")], Platform: servertest.Platform}
	case "CreateOverride":
		return &setpointv1.CreateOverrideRequest{Parent: target, OverrideId: "freeze", Override: &setpointv1.Override{
			Hold: true, Reason: "migration", ExpireTime: timestamppb.New(servertest.T0.Add(time.Hour)),
		}}
	case "ListOverrides":
		return &setpointv1.ListOverridesRequest{Parent: target[:strings.Index(target, "/namespaces/")]}
	case "DeleteOverride":
		return &setpointv1.DeleteOverrideRequest{Name: target + "/overrides/freeze"}
	case "GetFleet":
		return &setpointv1.GetFleetRequest{Name: target}
	case "ListCallers":
		return &setpointv1.ListCallersRequest{}
	}
	panic("no request for " + r.full + ": add one, and its verb to verbOf")
}

func (r rpc) batchError(out *dynamicpb.Message) (error, bool) {
	if r.method.Name() != "BatchRecommend" {
		return nil, false
	}
	results := out.Get(r.method.Output().Fields().ByName("results")).List()
	if results.Len() == 0 {
		return nil, false
	}
	result := results.Get(0).Message()
	field := result.Descriptor().Fields().ByName("error")
	if !result.Has(field) {
		return nil, false
	}
	failed := result.Get(field).Message()
	return status.Error(codes.Code(failed.Get(failed.Descriptor().Fields().ByName("code")).Int()), "in the batch"), true
}

// verbOf are the verbs of the contract's methods; new methods must be added here, too.
var verbOf = map[protoreflect.Name]string{
	"Recommend": "recommend", "BatchRecommend": "recommend", "StreamRecommend": "recommend", "ReportScale": "recommend",
	"GetTarget": "read", "ListTargets": "read", "ListDecisions": "read", "WatchDecisions": "read", "GetRecording": "read",
	"DeleteTarget": "delete", "Simulate": "simulate",
	"SetTargetSpec": "configure", "DeleteTargetSpec": "configure", "PromoteShadow": "configure", "GetTargetSpec": "read", "ListTargetSpecs": "read",
	"AnnounceAgent":     "recommend",
	"ReportObservation": "recommend", "GetRecommendation": "recommend",
	"CreateOverride": "override", "DeleteOverride": "override", "ListOverrides": "read", "GetFleet": "read",
	"ListInstances": "operate", "GetStore": "operate", "GetCaller": own, "ListCallers": own,
}

// own stands for calls that every authenticated caller may make, because they concern
// only the caller.
const own = "own"

// Every RPC of the contract, with every kind of credentials.
func TestEveryCallAsksWhoCallsAndWhatTheyMay(t *testing.T) {
	tokens := map[string]string{
		servertest.ScalerToken: "scaler", servertest.ReaderToken: "reader", servertest.NobodyToken: "nobody", servertest.AdminToken: "admin",
	}
	// Of each verb a caller who has it alone, in one cluster, and one who has all others.
	grants := servertest.TestPolicy[:strings.Index(servertest.TestPolicy, "options:")]
	verbs := []string{"recommend", "read", "delete", "simulate", "configure", "operate", "override"}
	for i, verb := range verbs {
		tokens["sp_only-"+verb], tokens["sp_no-"+verb] = "only-"+verb, "no-"+verb
		others := strings.Join(slices.Concat(verbs[:i], verbs[i+1:]), ", ")
		grants += fmt.Sprintf("  - {identities: [\"token:only-%s\"], clusters: [demo], verbs: [%s]}\n  - {identities: [\"token:no-%s\"], clusters: [\"*\"], verbs: [%s]}\n", verb, verb, verb, others)
	}
	s := servertest.NewTenancy(t, tokens, grants).Service
	for _, r := range rpcs() {
		verb, known := verbOf[r.method.Name()]
		if !known {
			t.Errorf("%s has no verb", r.full)
		}
		for _, tt := range []struct {
			who, token, target string
			allowed            bool
			refused            codes.Code
		}{
			{"without credentials", "", servertest.ShopTarget, false, codes.Unauthenticated},
			{"with an unknown token", servertest.UnknownToken, servertest.ShopTarget, false, codes.Unauthenticated},
			{"who may do nothing", servertest.NobodyToken, servertest.ShopTarget, verb == own, codes.PermissionDenied},
			{"who may recommend there", servertest.ScalerToken, servertest.ShopTarget, verb == "recommend" || verb == own, codes.PermissionDenied},
			{"who may recommend elsewhere", servertest.ScalerToken, servertest.OtherTarget, verb == own, codes.PermissionDenied},
			{"who may read there", servertest.ReaderToken, servertest.ShopTarget, verb == "read" || verb == own, codes.PermissionDenied},
			{"who may read elsewhere", servertest.ReaderToken, servertest.OtherTarget, verb == own, codes.PermissionDenied},
			{"who may do everything", servertest.AdminToken, servertest.OtherTarget, true, 0},
			{"with its verb alone", "sp_only-" + verb, servertest.ShopTarget, verb != own, codes.Unauthenticated},
			{"with its verb elsewhere", "sp_only-" + verb, servertest.OtherTarget, verb == "simulate" || verb == "operate", map[bool]codes.Code{true: codes.Unauthenticated, false: codes.PermissionDenied}[verb == own]},
			{"with every other verb", "sp_no-" + verb, servertest.ShopTarget, false, map[bool]codes.Code{true: codes.Unauthenticated, false: codes.PermissionDenied}[verb == own]},
		} {
			err := r.call(servertest.As(t.Context(), tt.token), t, s, tt.target)
			code := status.Code(err)
			if denied := code == codes.Unauthenticated || code == codes.PermissionDenied; denied == tt.allowed {
				t.Errorf("%s by a caller %s: %v", r.full, tt.who, err)
			}
			if !tt.allowed && code != tt.refused {
				t.Errorf("%s by a caller %s: got %s, want %s: %v", r.full, tt.who, code, tt.refused, err)
			}
		}
	}
}

// Every REST route of the contract, by its annotations.
func TestEveryRouteAsksWhoCallsAndWhatTheyMay(t *testing.T) {
	s := servertest.Guarded(t)
	routes := 0
	for _, r := range rpcs() {
		if len(servertest.Routes(r.method, servertest.Web)) == 0 {
			continue
		}
		routes++
		verb := verbOf[r.method.Name()]
		for _, tt := range []struct {
			who, token, cluster string
			allowed             bool
			refused             int
		}{
			{"without credentials", "", "demo", false, http.StatusUnauthorized},
			{"with an unknown token", servertest.UnknownToken, "demo", false, http.StatusUnauthorized},
			{"who may do nothing", servertest.NobodyToken, "demo", verb == own, http.StatusForbidden},
			{"who may recommend there", servertest.ScalerToken, "demo", verb == "recommend" || verb == own, http.StatusForbidden},
			{"who may recommend elsewhere", servertest.ScalerToken, "prod", verb == own, http.StatusForbidden},
			{"who may read there", servertest.ReaderToken, "demo", verb == "read" || verb == own, http.StatusForbidden},
			{"who may do everything", servertest.AdminToken, "prod", true, 0},
		} {
			code, body := route(t, s, r, tt.token, tt.cluster)
			if r.method.Name() == "BatchRecommend" && code == http.StatusOK && strings.Contains(body, `"code":7`) {
				code = http.StatusForbidden
			}
			if refused := code == http.StatusUnauthorized || code == http.StatusForbidden; refused == tt.allowed {
				t.Errorf("%s over REST by a caller %s: %d %s", r.full, tt.who, code, body)
			}
			if !tt.allowed && code != tt.refused {
				t.Errorf("%s over REST by a caller %s: got %d, want %d: %s", r.full, tt.who, code, tt.refused, body)
			}
		}
	}
	if routes < 8 {
		t.Errorf("only %d routes", routes)
	}
}

// A refusal does not reveal whether a target exists: it is the same for another caller's
// target and for an unknown one.
func TestRefusalsDoNotTellWhatThereIs(t *testing.T) {
	t.Parallel()
	s := servertest.Guarded(t)
	const nowhere = "clusters/prod/namespaces/shop/targets/abc"
	if _, err := s.Recommendations.Recommend(servertest.As(t.Context(), servertest.AdminToken), servertest.RequestFor(servertest.OtherTarget)); err != nil {
		t.Fatal(err)
	}
	about := func(target string, err error) string {
		return strings.ReplaceAll(fmt.Sprint(status.Convert(err).Proto()), target, "TARGET")
	}
	for _, r := range rpcs() {
		for who, token := range map[string]string{"scaler": servertest.ScalerToken, "reader": servertest.ReaderToken, "nobody": servertest.NobodyToken, "stranger": ""} {
			if verbOf[r.method.Name()] == own && token != "" {
				continue // TestCallersSeeOnlyThemselves tests its response
			}
			there, not := r.call(servertest.As(t.Context(), token), t, s, servertest.OtherTarget), r.call(servertest.As(t.Context(), token), t, s, nowhere)
			if there == nil || about(servertest.OtherTarget, there) != about(nowhere, not) {
				t.Errorf("%s as %s: of a target that is there %v, of one that is not %v", r.full, who, there, not)
			}
			if len(servertest.Routes(r.method, servertest.Web)) == 0 {
				continue
			}
			code, body := route(t, s, r, token, "prod")
			codeNot, bodyNot := route(t, s, r, token, "nil")
			if code != codeNot || strings.ReplaceAll(body, "prod", "CLUSTER") != strings.ReplaceAll(bodyNot, "nil", "CLUSTER") {
				t.Errorf("%s as %s over REST: of a target that is there %d %s, of one that is not %d %s", r.full, who, code, body, codeNot, bodyNot)
			}
		}
	}
}

// route makes the call of a route.
func route(t *testing.T, s *servertest.Service, r rpc, token, cluster string) (int, string) {
	t.Helper()
	target := "clusters/" + cluster + "/namespaces/shop/targets/web"
	of := servertest.Routes(r.method, target)[0]
	var body io.Reader
	if of.Body {
		in := r.request(target)
		switch m := in.(type) {
		case *setpointv1.RecommendRequest:
			m.Target = ""
		case *setpointv1.ReportScaleRequest:
			m.Target = ""
		case *setpointv1.ReportObservationRequest:
			m.Target = ""
		case *setpointv1.SetTargetSpecRequest:
			in = m.GetTargetSpec()
		case *setpointv1.CreateOverrideRequest:
			in = m.GetOverride()
		}
		body = strings.NewReader(servertest.JSON(t, in))
	}
	req := s.Request(t, of.Method, of.Path, body)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	// Only credentials can identify a caller.
	req.Header.Set("Grpc-Metadata-Setpoint-Gateway-Caller", "eyJOYW1lIjoidG9rZW46YWRtaW4iLCJNZXRob2QiOiJ0b2tlbiJ9")
	req.Header.Set("Setpoint-Gateway-Caller", "eyJOYW1lIjoidG9rZW46YWRtaW4iLCJNZXRob2QiOiJ0b2tlbiJ9")
	resp, err := s.HTTP.Do(req)
	fatal.If(t, err)
	defer resp.Body.Close()
	var all io.Reader = resp.Body
	if r.method.Name() == "WatchDecisions" && resp.StatusCode == http.StatusOK {
		all = io.LimitReader(all, 1) // the answer does not end
	}
	text, err := io.ReadAll(all)
	fatal.If(t, err)
	if resp.StatusCode == http.StatusUnauthorized && resp.Header.Get("WWW-Authenticate") != "Bearer" {
		t.Errorf("%s: 401 without WWW-Authenticate", r.full)
	}
	return resp.StatusCode, string(text)
}

func TestNoCallerPassesForTheGateway(t *testing.T) {
	s := servertest.Guarded(t)
	ctx := metadata.AppendToOutgoingContext(t.Context(), "setpoint-gateway-caller", "eyJOYW1lIjoidG9rZW46YWRtaW4iLCJNZXRob2QiOiJ0b2tlbiJ9")
	if _, err := s.Recommendations.Recommend(ctx, servertest.RequestFor(servertest.ShopTarget)); status.Code(err) != codes.Unauthenticated {
		t.Errorf("got %v", err)
	}
}

func TestHealthAndDescriptionAreOpen(t *testing.T) {
	s := servertest.Guarded(t)
	for _, path := range []string{"/healthz", "/readyz", "/openapi.json", "/docs/"} {
		resp, err := s.HTTP.Get(s.URL + path)
		fatal.If(t, err)
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %s", path, resp.Status)
		}
	}
	if _, err := healthv1.NewHealthClient(s.Conn).Check(t.Context(), &healthv1.HealthCheckRequest{}); err != nil {
		t.Errorf("gRPC health: %v", err)
	}
	if err := s.Conn.Invoke(servertest.As(t.Context(), servertest.AdminToken), "/grpc.unknown.Service/Call", servertest.RequestFor(servertest.ShopTarget), &setpointv1.RecommendResponse{}); status.Code(err) != codes.Unimplemented {
		t.Errorf("an unknown service: %v", err)
	}
}

func TestAListHoldsWhatTheCallerMaySee(t *testing.T) {
	s := servertest.Guarded(t)
	for _, target := range []string{servertest.ShopTarget, servertest.OtherTarget} {
		if _, err := s.Recommendations.Recommend(servertest.As(t.Context(), servertest.AdminToken), servertest.RequestFor(target)); err != nil {
			t.Fatal(err)
		}
	}
	for token, want := range map[string]int{servertest.AdminToken: 2, servertest.ReaderToken: 1} {
		list, err := s.Targets.ListTargets(servertest.As(t.Context(), token), &setpointv1.ListTargetsRequest{Parent: "clusters/-/namespaces/-"})
		if err != nil || len(list.GetTargets()) != want {
			t.Errorf("got %v, %v, want %d", list.GetTargets(), err, want)
		}
	}
	_, err := s.Targets.ListTargets(servertest.As(t.Context(), servertest.ScalerToken), &setpointv1.ListTargetsRequest{Parent: "clusters/-/namespaces/-"})
	if status.Code(err) != codes.PermissionDenied {
		t.Errorf("one who may not read: %v", err)
	}
}

func TestOperatorsSetOptionsOfCallers(t *testing.T) {
	s := servertest.Guarded(t)
	req := servertest.RequestFor(servertest.ShopTarget)
	req.Explain = true
	ask := func(token string) *setpointv1.RecommendResponse {
		resp, err := s.Recommendations.Recommend(servertest.As(t.Context(), token), proto.Clone(req).(*setpointv1.RecommendRequest))
		fatal.If(t, err)
		return resp
	}
	free := ask(servertest.AdminToken)
	if _, err := s.Targets.DeleteTarget(servertest.As(t.Context(), servertest.AdminToken), &setpointv1.DeleteTargetRequest{Name: servertest.ShopTarget}); err != nil {
		t.Fatal(err)
	}
	capped := ask(servertest.CappedToken)
	if free.GetDesiredReplicas() != 8 || capped.GetDesiredReplicas() != 6 {
		t.Errorf("free %d, capped %d, want 8 and 6", free.GetDesiredReplicas(), capped.GetDesiredReplicas())
	}
	if got := capped.GetExplanation().GetMetrics()[0].GetTolerance().GetScaleUp(); got != 0.5 {
		t.Errorf("the tolerance is %v, want that of the policy", got)
	}
	if w := strings.Join(capped.GetExplanation().GetWarnings(), "; "); !strings.Contains(w, "maxReplicas is 6 instead of 10, by the operator's policy") {
		t.Errorf("the explanation does not tell of the cap: %q", w)
	}
	frozen := servertest.RequestFor("clusters/demo/namespaces/shop/targets/frozen")
	if _, err := s.Recommendations.Recommend(servertest.As(t.Context(), servertest.CappedToken), frozen); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Targets.GetTarget(servertest.As(t.Context(), servertest.AdminToken), &setpointv1.GetTargetRequest{Name: frozen.GetTarget()}); status.Code(err) != codes.NotFound {
		t.Errorf("a dry run only was recorded: %v", err)
	}
}
