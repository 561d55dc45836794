package access_test

import (
	"slices"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/access"
	"github.com/setpoint-dev/setpoint/server/auth"
	"github.com/setpoint-dev/setpoint/server/auth/policy"
	"github.com/setpoint-dev/setpoint/server/encoded"
)

// No handler of a unary call is reached by a caller who may not make that call about what its message
// names, whatever the handler does itself. All methods of the contract are looked at.
func TestNoHandlerIsReachedWithoutTheRight(t *testing.T) {
	t.Parallel()
	p, err := policy.Parse("policy.yaml", []byte(`
grants: [{identities: ["token:own"], clusters: [own], verbs: ["*"]}]
options: [{identities: ["token:own"], targets: [frozen], dryRunOnly: true}]
`))
	if err != nil {
		t.Fatal(err)
	}
	identity := &auth.Identity{Name: "token:own"}
	var (
		changing = []protoreflect.Name{"ReportScale", "ReportObservation", "SetTargetSpec", "DeleteTargetSpec", "PromoteShadow", "DeleteTarget", "CreateOverride", "DeleteOverride"}
		// Whoever decodes these asks.
		encodedYet = []protoreflect.Name{"Recommend", "BatchRecommend", "ReportObservation", "SetTargetSpec"}
		// These concern no target.
		unnamed = []protoreflect.Name{"BatchRecommend", "ListInstances", "GetStore", "GetCaller", "ListCallers"}
		known   = []protoreflect.Name{"GetCaller", "ListCallers"}
	)
	methods := 0
	for _, file := range []protoreflect.FileDescriptor{
		setpointv1.File_setpoint_v1_recommendation_service_proto, setpointv1.File_setpoint_v1_target_service_proto,
		setpointv1.File_setpoint_v1_simulation_service_proto, setpointv1.File_setpoint_v1_operations_service_proto,
		setpointv1.File_setpoint_v1_override_service_proto,
	} {
		all := file.Services().Get(0).Methods()
		for i := range all.Len() {
			m := all.Get(i)
			if m.IsStreamingClient() || m.IsStreamingServer() {
				continue
			}
			methods++
			full := "/" + string(file.Services().Get(0).FullName()) + "/" + string(m.Name())
			session := &access.Session{Method: full}
			session.Now.Store(&access.Caller{Identity: identity, Grants: p.For(identity)})
			ctx := access.WithSession(t.Context(), session)
			asked := func(cluster, target string) codes.Code {
				return status.Code(access.Authorize(ctx, full, about(m, cluster, target)))
			}
			if got := asked("own", "web"); got != codes.OK {
				t.Errorf("%s about an own target: %s", full, got)
			}
			if got, want := asked("another", "web"), codes.PermissionDenied; got != want && !slices.Contains(unnamed, m.Name()) {
				t.Errorf("%s about another's target: %s", full, got)
			}
			if got := asked("own", "frozen"); (got == codes.PermissionDenied) != slices.Contains(changing, m.Name()) {
				t.Errorf("%s of a caller with dry runs only: %s", full, got)
			}
			if err := access.Authorize(ctx, full, &encoded.Message{}); (err == nil) != (slices.Contains(encodedYet, m.Name()) || slices.Contains(known, m.Name())) {
				t.Errorf("%s with a message that nobody has decoded: %v", full, err)
			}
		}
	}
	if methods < 15 {
		t.Errorf("only %d methods", methods)
	}
}

// about returns a request of a method about a target, or about what it is in.
func about(m protoreflect.MethodDescriptor, cluster, target string) *dynamicpb.Message {
	name := "clusters/" + cluster
	switch m.Name() {
	case "AnnounceAgent", "ListOverrides":
	case "ListTargets", "ListTargetSpecs":
		name += "/namespaces/-"
	default:
		name += "/namespaces/shop/targets/" + target
	}
	request := dynamicpb.NewMessage(m.Input())
	for _, field := range []protoreflect.Name{"target", "name", "parent"} {
		if f := m.Input().Fields().ByName(field); f != nil {
			request.Set(f, protoreflect.ValueOfString(name))
		}
	}
	return request
}
