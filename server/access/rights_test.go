package access_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server/access"
	"github.com/setpoint-dev/setpoint/server/auth"
	"github.com/setpoint-dev/setpoint/server/auth/policy"
	"github.com/setpoint-dev/setpoint/server/encoded"
	"github.com/setpoint-dev/setpoint/server/servertest"
)

// No handler of a unary call is reached by a caller who may not make that call about what its message
// names, whatever the handler does itself. All methods of the contract are looked at.
func TestNoHandlerIsReachedWithoutTheRight(t *testing.T) {
	t.Parallel()
	p, err := policy.Parse("policy.yaml", []byte(`
grants: [{identities: ["token:own"], clusters: [own], verbs: ["*"]}]
options: [{identities: ["token:own"], targets: [frozen], dryRunOnly: true}]
`))
	fatal.If(t, err)
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
	for _, m := range servertest.Methods() {
		if m.IsStreamingClient() || m.IsStreamingServer() {
			continue
		}
		methods++
		full := fmt.Sprintf("/%s/%s", m.Parent().FullName(), m.Name())
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
		// By the contract: no read, and neither an agent's usual call nor its news.
		safe := slices.ContainsFunc(servertest.Routes(m, servertest.Web), func(r servertest.Route) bool { return r.Method == http.MethodGet })
		if usual := m.Parent().Name() == "RecommendationService" || m.Name() == "AnnounceAgent"; access.Audited(full) != (!safe && !usual) {
			t.Errorf("%s: a success is always logged: %v", full, access.Audited(full))
		}
		if err := access.Authorize(ctx, full, &encoded.Message{}); (err == nil) != (slices.Contains(encodedYet, m.Name()) || slices.Contains(known, m.Name())) {
			t.Errorf("%s with a message that nobody has decoded: %v", full, err)
		}
	}
	if methods < 15 {
		t.Errorf("only %d methods", methods)
	}
}

// A call that has no rule is refused, whatever its message is: also one that names nothing, and by a caller who may
// do everything. Permit refuses it before, too.
func TestACallWithoutARuleIsRefused(t *testing.T) {
	t.Parallel()
	p, err := policy.Parse("policy.yaml", []byte(`grants: [{identities: ["token:all"], clusters: ["*"], verbs: ["*"]}]`))
	fatal.If(t, err)
	identity := &auth.Identity{Name: "token:all"}
	const unruled = "/setpoint.v1.TargetService/RenameTarget"
	session := &access.Session{Method: unruled}
	caller := &access.Caller{Identity: identity, Grants: p.For(identity)}
	session.Now.Store(caller)
	ctx := access.WithSession(t.Context(), session)
	for what, message := range map[string]any{
		"names nothing": &setpointv1.ListInstancesRequest{}, "names a target": &setpointv1.GetTargetRequest{Name: "clusters/c/namespaces/n/targets/t"},
		"nobody has decoded": &encoded.Message{},
	} {
		if got := status.Code(access.Authorize(ctx, unruled, message)); got != codes.PermissionDenied {
			t.Errorf("a message that %s: %s", what, got)
		}
	}
	if got := status.Code(session.Permit(caller)); got != codes.PermissionDenied {
		t.Errorf("before the message: %s", got)
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
