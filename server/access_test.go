package server_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/files"
	"github.com/setpoint-dev/setpoint/server"
	"github.com/setpoint-dev/setpoint/server/auth"
	"github.com/setpoint-dev/setpoint/server/auth/policy"
)

// Tokens of the tests, by owner.
const (
	scalerToken  = "sp_scaler-of-shop-0123456789abcdefghijk"
	readerToken  = "sp_reader-0123456789abcdefghijklmnopqrs"
	nobodyToken  = "sp_nobody-0123456789abcdefghijklmnopqrs"
	adminToken   = "sp_admin-0123456789abcdefghijklmnopqrst"
	cappedToken  = "sp_capped-0123456789abcdefghijklmnopqrs"
	unknownToken = "sp_unknown-0123456789abcdefghijklmnopqr"
)

const testPolicy = `
grants:
  - {identities: ["token:scaler"], clusters: [demo], namespaces: [shop], verbs: [recommend]}
  - {identities: ["token:reader"], clusters: [demo], verbs: [read]}
  - {identities: ["token:admin", "token:capped"], clusters: ["*"], verbs: ["*"]}
options:
  - identities: ["token:capped"]
    targets: [frozen]
    dryRunOnly: true
  - identities: ["token:capped"]
    defaults: {tolerance: 0.5}
    caps: {maxReplicas: 6, minReplicas: 2}
`

// guarded starts a service with authentication.
func guarded(t *testing.T, changes ...func(*setup)) *service {
	t.Helper()
	dir := t.TempDir()
	tokens := "tokens:\n"
	for name, token := range map[string]string{
		"scaler": scalerToken, "reader": readerToken, "nobody": nobodyToken, "admin": adminToken, "capped": cappedToken,
	} {
		sum := sha256.Sum256([]byte(token))
		tokens += fmt.Sprintf("  - {identity: %s, sha256: %q}\n", name, hex.EncodeToString(sum[:]))
	}
	tokensFile := filepath.Join(dir, "tokens.yaml")
	if err := os.WriteFile(tokensFile, []byte(tokens), 0o600); err != nil {
		t.Fatal(err)
	}
	authenticator, err := auth.New(auth.Options{TokensFile: tokensFile, Files: files.Options{Interval: -1}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(authenticator.Close)
	p, err := policy.Parse("policy.yaml", []byte(testPolicy))
	if err != nil {
		t.Fatal(err)
	}
	access := &server.Access{Authenticator: authenticator, Policy: files.Fixed(p)}
	return start(t, append([]func(*setup){func(su *setup) { su.options.Access = access }}, changes...)...)
}

func as(ctx context.Context, token string) context.Context {
	if token == "" {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
}

// rpc is a method of the contract.
type rpc struct {
	full   string
	method protoreflect.MethodDescriptor
}

// rpcs are all methods of the contract, by its descriptors.
func rpcs() []rpc {
	var all []rpc
	for _, file := range []protoreflect.FileDescriptor{
		setpointv1.File_setpoint_v1_recommendation_service_proto, setpointv1.File_setpoint_v1_target_service_proto,
		setpointv1.File_setpoint_v1_simulation_service_proto,
		setpointv1.File_setpoint_v1_operations_service_proto,
	} {
		for i := range file.Services().Len() {
			service := file.Services().Get(i)
			for j := range service.Methods().Len() {
				m := service.Methods().Get(j)
				all = append(all, rpc{fmt.Sprintf("/%s/%s", service.FullName(), m.Name()), m})
			}
		}
	}
	return all
}

// call makes the call with a request about a target, and returns its error.
func (r rpc) call(ctx context.Context, t *testing.T, s *service, target string) error {
	t.Helper()
	in := r.request(target)
	out := dynamicpb.NewMessage(r.method.Output())
	if !r.method.IsStreamingClient() && !r.method.IsStreamingServer() {
		err := s.conn.Invoke(ctx, r.full, in, out)
		if batch, ok := r.batchError(out); ok && err == nil {
			return batch
		}
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	stream, err := s.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, r.full)
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
	recommend := requestFor(target)
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
	case "ListCallers":
		return &setpointv1.ListCallersRequest{}
	}
	panic("no request for " + r.full + ": add one, and a verb to access.go")
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

func requestFor(target string) *setpointv1.RecommendRequest {
	return &setpointv1.RecommendRequest{
		Target: target,
		Spec: &setpointv1.HorizontalPodAutoscalerSpec{
			MaxReplicas: 10,
			Metrics: []*setpointv1.MetricSpec{{Type: "External", External: &setpointv1.ExternalMetricSource{
				Metric: &setpointv1.MetricIdentifier{Name: "queue"},
				Target: &setpointv1.MetricTarget{Type: "AverageValue", AverageValue: proto.String("1")},
			}}},
		},
		Scale:           &setpointv1.Scale{SpecReplicas: 4},
		ExternalMetrics: []*setpointv1.ExternalMetric{{Metric: &setpointv1.MetricIdentifier{Name: "queue"}, Value: "9"}},
	}
}

// verbOf are the verbs of the contract's methods; new methods must be added here, too.
var verbOf = map[protoreflect.Name]string{
	"Recommend": "recommend", "BatchRecommend": "recommend", "StreamRecommend": "recommend", "ReportScale": "recommend",
	"GetTarget": "read", "ListTargets": "read", "ListDecisions": "read", "WatchDecisions": "read",
	"DeleteTarget": "delete", "Simulate": "simulate",
	"SetTargetSpec": "configure", "DeleteTargetSpec": "configure", "GetTargetSpec": "read", "ListTargetSpecs": "read",
	"ReportObservation": "recommend", "GetRecommendation": "recommend",
	"ListInstances": "operate", "GetStore": "operate", "GetCaller": own, "ListCallers": own,
}

// own stands for calls that every authenticated caller may make, because they concern
// only the caller.
const own = "own"

const (
	shopTarget  = "clusters/demo/namespaces/shop/targets/web"
	otherTarget = "clusters/prod/namespaces/shop/targets/web"
)

// Every RPC of the contract, with every kind of credentials.
func TestEveryCallAsksWhoCallsAndWhatTheyMay(t *testing.T) {
	s := guarded(t)
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
			{"without credentials", "", shopTarget, false, codes.Unauthenticated},
			{"with an unknown token", unknownToken, shopTarget, false, codes.Unauthenticated},
			{"who may do nothing", nobodyToken, shopTarget, verb == own, codes.PermissionDenied},
			{"who may recommend there", scalerToken, shopTarget, verb == "recommend" || verb == own, codes.PermissionDenied},
			{"who may recommend elsewhere", scalerToken, otherTarget, verb == own, codes.PermissionDenied},
			{"who may read there", readerToken, shopTarget, verb == "read" || verb == own, codes.PermissionDenied},
			{"who may read elsewhere", readerToken, otherTarget, verb == own, codes.PermissionDenied},
			{"who may do everything", adminToken, otherTarget, true, 0},
		} {
			err := r.call(as(t.Context(), tt.token), t, s, tt.target)
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
	s := guarded(t)
	routes := 0
	for _, r := range rpcs() {
		rule, _ := proto.GetExtension(r.method.Options(), annotations.E_Http).(*annotations.HttpRule)
		if rule == nil {
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
			{"with an unknown token", unknownToken, "demo", false, http.StatusUnauthorized},
			{"who may do nothing", nobodyToken, "demo", verb == own, http.StatusForbidden},
			{"who may recommend there", scalerToken, "demo", verb == "recommend" || verb == own, http.StatusForbidden},
			{"who may recommend elsewhere", scalerToken, "prod", verb == own, http.StatusForbidden},
			{"who may read there", readerToken, "demo", verb == "read" || verb == own, http.StatusForbidden},
			{"who may do everything", adminToken, "prod", true, 0},
		} {
			code, body := s.route(t, r, rule, tt.token, tt.cluster)
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
	s := guarded(t)
	const nowhere = "clusters/prod/namespaces/shop/targets/abc"
	if _, err := s.recommendations.Recommend(as(t.Context(), adminToken), requestFor(otherTarget)); err != nil {
		t.Fatal(err)
	}
	about := func(target string, err error) string {
		return strings.ReplaceAll(fmt.Sprint(status.Convert(err).Proto()), target, "TARGET")
	}
	for _, r := range rpcs() {
		for who, token := range map[string]string{"scaler": scalerToken, "reader": readerToken, "nobody": nobodyToken, "stranger": ""} {
			if verbOf[r.method.Name()] == own && token != "" {
				continue // TestCallersSeeOnlyThemselves tests its response
			}
			there, not := r.call(as(t.Context(), token), t, s, otherTarget), r.call(as(t.Context(), token), t, s, nowhere)
			if there == nil || about(otherTarget, there) != about(nowhere, not) {
				t.Errorf("%s as %s: of a target that is there %v, of one that is not %v", r.full, who, there, not)
			}
			rule, _ := proto.GetExtension(r.method.Options(), annotations.E_Http).(*annotations.HttpRule)
			if rule == nil {
				continue
			}
			code, body := s.route(t, r, rule, token, "prod")
			codeNot, bodyNot := s.route(t, r, rule, token, "nil")
			if code != codeNot || strings.ReplaceAll(body, "prod", "CLUSTER") != strings.ReplaceAll(bodyNot, "nil", "CLUSTER") {
				t.Errorf("%s as %s over REST: of a target that is there %d %s, of one that is not %d %s", r.full, who, code, body, codeNot, bodyNot)
			}
		}
	}
}

// route makes the call of a route.
func (s *service) route(t *testing.T, r rpc, rule *annotations.HttpRule, token, cluster string) (int, string) {
	t.Helper()
	method, path := http.MethodGet, rule.GetGet()
	switch {
	case rule.GetPost() != "":
		method, path = http.MethodPost, rule.GetPost()
	case rule.GetPut() != "":
		method, path = http.MethodPut, rule.GetPut()
	case rule.GetDelete() != "":
		method, path = http.MethodDelete, rule.GetDelete()
	}
	target := "clusters/" + cluster + "/namespaces/shop/targets/web"
	for _, pattern := range []string{"clusters/*/namespaces/*/targets/*", "clusters/*/namespaces/*"} {
		for _, field := range []string{"target", "name", "parent"} {
			resource := target
			if !strings.HasSuffix(pattern, "targets/*") {
				resource = target[:strings.Index(target, "/targets/")]
			}
			path = strings.ReplaceAll(path, "{"+field+"="+pattern+"}", resource)
		}
	}
	if strings.Contains(path, "{") {
		t.Fatalf("%s: no request for the path %s", r.full, path)
	}
	var body io.Reader
	if method == http.MethodPost || method == http.MethodPut {
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
		}
		body = strings.NewReader(jsonOf(t, in))
	}
	req, err := http.NewRequestWithContext(t.Context(), method, s.url+path, body)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	// Only credentials can identify a caller.
	req.Header.Set("Grpc-Metadata-Setpoint-Gateway-Caller", "eyJOYW1lIjoidG9rZW46YWRtaW4iLCJNZXRob2QiOiJ0b2tlbiJ9")
	req.Header.Set("Setpoint-Gateway-Caller", "eyJOYW1lIjoidG9rZW46YWRtaW4iLCJNZXRob2QiOiJ0b2tlbiJ9")
	resp, err := s.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var all io.Reader = resp.Body
	if r.method.Name() == "WatchDecisions" && resp.StatusCode == http.StatusOK {
		all = io.LimitReader(all, 1) // the answer does not end
	}
	text, err := io.ReadAll(all)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode == http.StatusUnauthorized && resp.Header.Get("WWW-Authenticate") != "Bearer" {
		t.Errorf("%s: 401 without WWW-Authenticate", r.full)
	}
	return resp.StatusCode, string(text)
}

func jsonOf(t *testing.T, m proto.Message) string {
	t.Helper()
	b, err := marshalJSON(m)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestNoCallerPassesForTheGateway(t *testing.T) {
	s := guarded(t)
	ctx := metadata.AppendToOutgoingContext(t.Context(), "setpoint-gateway-caller", "eyJOYW1lIjoidG9rZW46YWRtaW4iLCJNZXRob2QiOiJ0b2tlbiJ9")
	if _, err := s.recommendations.Recommend(ctx, requestFor(shopTarget)); status.Code(err) != codes.Unauthenticated {
		t.Errorf("got %v", err)
	}
}

func TestHealthAndDescriptionAreOpen(t *testing.T) {
	s := guarded(t)
	for _, path := range []string{"/healthz", "/readyz", "/openapi.json", "/docs/"} {
		resp, err := s.http.Get(s.url + path)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %s", path, resp.Status)
		}
	}
	if _, err := healthv1.NewHealthClient(s.conn).Check(t.Context(), &healthv1.HealthCheckRequest{}); err != nil {
		t.Errorf("gRPC health: %v", err)
	}
	if err := s.conn.Invoke(as(t.Context(), adminToken), "/grpc.unknown.Service/Call", requestFor(shopTarget), &setpointv1.RecommendResponse{}); status.Code(err) != codes.Unimplemented {
		t.Errorf("an unknown service: %v", err)
	}
}

func TestAListHoldsWhatTheCallerMaySee(t *testing.T) {
	s := guarded(t)
	for _, target := range []string{shopTarget, otherTarget} {
		if _, err := s.recommendations.Recommend(as(t.Context(), adminToken), requestFor(target)); err != nil {
			t.Fatal(err)
		}
	}
	for token, want := range map[string]int{adminToken: 2, readerToken: 1} {
		list, err := s.targets.ListTargets(as(t.Context(), token), &setpointv1.ListTargetsRequest{Parent: "clusters/-/namespaces/-"})
		if err != nil || len(list.GetTargets()) != want {
			t.Errorf("got %v, %v, want %d", list.GetTargets(), err, want)
		}
	}
	_, err := s.targets.ListTargets(as(t.Context(), scalerToken), &setpointv1.ListTargetsRequest{Parent: "clusters/-/namespaces/-"})
	if status.Code(err) != codes.PermissionDenied {
		t.Errorf("one who may not read: %v", err)
	}
}

func TestOperatorsSetOptionsOfCallers(t *testing.T) {
	s := guarded(t)
	req := requestFor(shopTarget)
	req.Explain = true
	ask := func(token string) *setpointv1.RecommendResponse {
		resp, err := s.recommendations.Recommend(as(t.Context(), token), proto.Clone(req).(*setpointv1.RecommendRequest))
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	free := ask(adminToken)
	if _, err := s.targets.DeleteTarget(as(t.Context(), adminToken), &setpointv1.DeleteTargetRequest{Name: shopTarget}); err != nil {
		t.Fatal(err)
	}
	capped := ask(cappedToken)
	if free.GetDesiredReplicas() != 8 || capped.GetDesiredReplicas() != 6 {
		t.Errorf("free %d, capped %d, want 8 and 6", free.GetDesiredReplicas(), capped.GetDesiredReplicas())
	}
	if got := capped.GetExplanation().GetMetrics()[0].GetTolerance().GetScaleUp(); got != 0.5 {
		t.Errorf("the tolerance is %v, want that of the policy", got)
	}
	if w := strings.Join(capped.GetExplanation().GetWarnings(), "; "); !strings.Contains(w, "maxReplicas is 6 instead of 10, by the operator's policy") {
		t.Errorf("the explanation does not tell of the cap: %q", w)
	}
	frozen := requestFor("clusters/demo/namespaces/shop/targets/frozen")
	if _, err := s.recommendations.Recommend(as(t.Context(), cappedToken), frozen); err != nil {
		t.Fatal(err)
	}
	if _, err := s.targets.GetTarget(as(t.Context(), adminToken), &setpointv1.GetTargetRequest{Name: frozen.GetTarget()}); status.Code(err) != codes.NotFound {
		t.Errorf("a dry run only was recorded: %v", err)
	}
}
