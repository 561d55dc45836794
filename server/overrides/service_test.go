package overrides_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server"
	"github.com/setpoint-dev/setpoint/server/overrides"
	"github.com/setpoint-dev/setpoint/server/servertest"
	"github.com/setpoint-dev/setpoint/store"
)

func TestMain(m *testing.M) { servertest.Main(m) }

const (
	demoName = "clusters/demo"
	shopName = "clusters/demo/namespaces/shop"
	webOther = "clusters/demo/namespaces/shop/targets/other"
)

// until returns an override that ends that long after a service's start.
func until(d time.Duration, change func(*setpointv1.Override)) *setpointv1.Override {
	o := &setpointv1.Override{Reason: "migration", ExpireTime: timestamppb.New(servertest.T0.Add(d))}
	change(o)
	return o
}

func hold(o *setpointv1.Override) { o.Hold = true }

func overridesOf(s *servertest.Service) setpointv1.OverrideServiceClient {
	return setpointv1.NewOverrideServiceClient(s.Conn)
}

func createOn(t *testing.T, s *servertest.Service, parent, id string, o *setpointv1.Override) *setpointv1.Override {
	t.Helper()
	resp, err := overridesOf(s).CreateOverride(t.Context(), &setpointv1.CreateOverrideRequest{Parent: parent, OverrideId: id, Override: o})
	fatal.If(t, err)
	return resp.GetOverride()
}

// namesOf returns the names of a list, in pages of a size.
func namesOf(t *testing.T, s *servertest.Service, token string, req *setpointv1.ListOverridesRequest) (names []string) {
	t.Helper()
	for range 1000 {
		page, err := overridesOf(s).ListOverrides(servertest.As(t.Context(), token), req)
		fatal.If(t, err)
		for _, o := range page.GetOverrides() {
			names = append(names, o.GetName())
		}
		if req.PageToken = page.GetNextPageToken(); req.GetPageToken() == "" {
			return names
		}
	}
	t.Fatal("the list does not end")
	return nil
}

// An override acts from the next decision on, is told with author, reason and end, ends by the instant of the decision,
// and leaves nothing behind.
func TestOverrideActsUntilItExpires(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	request := func() *setpointv1.RecommendRequest { return servertest.RequestFor(servertest.Web) } // 4 → 9, in steps
	before := s.Recommend(t, request())
	if before.GetDesiredReplicas() <= 4 || len(before.GetAdjustments()) != 0 {
		t.Fatalf("before: %v", before)
	}
	created := createOn(t, s, servertest.Web, "freeze", until(time.Hour, hold))
	if want := servertest.Web + "/overrides/freeze"; created.GetName() != want || !created.GetCreateTime().AsTime().Equal(servertest.T0) || !created.GetStartTime().AsTime().Equal(servertest.T0) {
		t.Errorf("created %v, want %s from now on", created, want)
	}
	during := s.Recommend(t, request())
	if during.GetDesiredReplicas() != 4 || len(during.GetAdjustments()) != 1 {
		t.Fatalf("during: %v", during)
	}
	if got, want := during.GetAdjustments()[0].GetMessage(), `held at 4 by somebody until 2026-01-01T01:10:00Z: "migration"`; !strings.HasPrefix(got, want) {
		t.Errorf("told %q, want %q", got, want)
	}
	if last := s.Target(t, servertest.Web).GetLastDecision(); !slices.Contains(last.GetStates(), "OVERRIDDEN") {
		t.Errorf("its states are %v", last.GetStates())
	}
	if other := s.Recommend(t, servertest.RequestFor(webOther)); other.GetDesiredReplicas() == 4 {
		t.Error("it acts on another target")
	}
	s.Clock.Advance(time.Hour - time.Nanosecond)
	if last := s.Recommend(t, request()); last.GetDesiredReplicas() != 4 {
		t.Errorf("before its end: %d replicas", last.GetDesiredReplicas())
	}
	s.Clock.Advance(time.Nanosecond)
	if after := s.Recommend(t, request()); after.GetDesiredReplicas() == 4 || len(after.GetAdjustments()) != 0 || after.PlainDesiredReplicas != nil {
		t.Errorf("after its end: %v", after)
	}
	overridden := func(r *setpointv1.RecommendResponse) bool {
		return slices.ContainsFunc(r.GetStatus().GetConditions(), func(c *setpointv1.HorizontalPodAutoscalerCondition) bool { return c.GetType() == "Overridden" })
	}
	if after := s.Recommend(t, request()); !overridden(during) || overridden(before) || overridden(after) {
		t.Errorf("the condition Overridden before, during and after: %t, %t, %t", overridden(before), overridden(during), overridden(after))
	}
	if names := namesOf(t, s, "", &setpointv1.ListOverridesRequest{Parent: demoName}); len(names) != 0 {
		t.Errorf("the list has an expired one: %v", names)
	}
}

// A caller whose status has the condition of an override that nobody knows any more, as after a loss of the store.
func TestAPreviousStatusOfAnOverrideThatIsGone(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	for range 2 {
		request := servertest.RequestFor(servertest.Web)
		request.PreviousStatus = &setpointv1.HorizontalPodAutoscalerStatus{Conditions: []*setpointv1.HorizontalPodAutoscalerCondition{
			{Type: "Overridden", Status: "True", Reason: "Held", Message: "held at 4 by somebody until 2025-12-31T00:00:00Z"},
		}}
		answer := s.Recommend(t, request)
		for _, c := range answer.GetStatus().GetConditions() {
			if c.GetType() == "Overridden" {
				t.Errorf("%d replicas, with the condition %v", answer.GetDesiredReplicas(), c)
			}
		}
		if last := s.Target(t, servertest.Web).GetLastDecision(); slices.Contains(last.GetStates(), "OVERRIDDEN") {
			t.Errorf("its states are %v", last.GetStates())
		}
	}
}

// One that begins later changes not a byte of an answer until then.
func TestOverrideThatBeginsLater(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	createOn(t, s, shopName, "", until(2*time.Hour, func(o *setpointv1.Override) {
		o.Pin, o.StartTime = new(int32(2)), timestamppb.New(servertest.T0.Add(time.Hour))
	}))
	if got := s.Recommend(t, servertest.RequestFor(servertest.Web)); got.PlainDesiredReplicas != nil || got.GetDesiredReplicas() <= 4 {
		t.Errorf("before: %v", got)
	}
	s.Clock.Advance(time.Hour)
	if got := s.Recommend(t, servertest.RequestFor(servertest.Web)); got.GetDesiredReplicas() != 2 {
		t.Errorf("during: %v", got)
	}
}

// Deleted, it ends at once; a wider one goes on.
func TestDeleteOverride(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	s.Recommend(t, servertest.RequestFor(servertest.Web))
	own := createOn(t, s, servertest.Web, "", until(time.Hour, func(o *setpointv1.Override) { o.Pin = new(int32(3)) }))
	createOn(t, s, demoName, "all", until(time.Hour, func(o *setpointv1.Override) { o.Pin = new(int32(2)) }))
	for _, want := range []int32{3, 2} {
		if got := s.Recommend(t, servertest.RequestFor(servertest.Web)).GetDesiredReplicas(); got != want {
			t.Errorf("%d replicas, want %d", got, want)
		}
		if want == 3 {
			if _, err := overridesOf(s).DeleteOverride(t.Context(), &setpointv1.DeleteOverrideRequest{Name: own.GetName()}); err != nil {
				t.Fatal(err)
			}
		}
	}
	_, err := overridesOf(s).DeleteOverride(t.Context(), &setpointv1.DeleteOverrideRequest{Name: own.GetName()})
	if status.Code(err) != codes.NotFound || !strings.Contains(err.Error(), own.GetName()) {
		t.Errorf("deleted twice: %v", err)
	}
}

// A repeated call creates nothing, and another override does not take the name.
func TestCreateOverrideTwice(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	first := createOn(t, s, shopName, "freeze", until(time.Hour, hold))
	s.Clock.Advance(time.Second)
	servertest.SameMessage(t, createOn(t, s, shopName, "freeze", until(time.Hour, hold)), first)
	for name, other := range map[string]*setpointv1.Override{
		"a later end":  until(2*time.Hour, hold),
		"another kind": until(time.Hour, func(o *setpointv1.Override) { o.NoScaleDown = true }),
		"a pin of 0":   until(time.Hour, func(o *setpointv1.Override) { o.Pin = new(int32(0)) }),
		"another start": until(time.Hour, func(o *setpointv1.Override) {
			o.Hold, o.StartTime = true, timestamppb.New(servertest.T0.Add(time.Minute))
		}),
		"another reason": until(time.Hour, func(o *setpointv1.Override) { o.Hold, o.Reason = true, "incident" }),
	} {
		_, err := overridesOf(s).CreateOverride(t.Context(), &setpointv1.CreateOverrideRequest{Parent: shopName, OverrideId: "freeze", Override: other})
		if status.Code(err) != codes.AlreadyExists || !strings.Contains(err.Error(), first.GetName()) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Of an expired one the name is free.
	s.Clock.Advance(time.Hour)
	if again := createOn(t, s, shopName, "freeze", until(3*time.Hour, hold)); again.GetCreateTime().AsTime().Equal(servertest.T0) {
		t.Error("an expired override was returned")
	}
	if names := namesOf(t, s, "", &setpointv1.ListOverridesRequest{Parent: demoName}); !slices.Equal(names, []string{first.GetName()}) {
		t.Errorf("there are %v", names)
	}
}

func TestInvalidOverrides(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	in := func(d time.Duration) *timestamppb.Timestamp { return timestamppb.New(servertest.T0.Add(d)) }
	for name, tt := range map[string]struct {
		req  *setpointv1.CreateOverrideRequest
		want []string
	}{
		"nothing": {&setpointv1.CreateOverrideRequest{}, []string{"parent: ", "override: value is required"}},
		"an empty one": {&setpointv1.CreateOverrideRequest{Parent: demoName, Override: &setpointv1.Override{}}, []string{
			"override.expireTime: value is required", "override.reason: ", "override: Required value: must have at least one of hold",
		}},
		"everything at once": {
			&setpointv1.CreateOverrideRequest{Parent: "clusters/demo/targets/web", OverrideId: "-A", Override: &setpointv1.Override{
				Hold: true, Pin: new(int32(-1)), Floor: new(int32(8)), Ceiling: new(int32(6)), Reason: strings.Repeat("x", 257),
				StartTime: in(time.Hour), ExpireTime: in(time.Minute),
			}}, []string{
				`parent: Invalid value: "clusters/demo/targets/web": must be clusters/{cluster}, clusters/`, "overrideId: ", "override.pin: must be greater", "override.reason: ",
				"override.pin: Forbidden: may not be set together with hold", "override.floor: Invalid value: 8: must be at most the ceiling, 6",
				"override.expireTime: Invalid value: 2026-01-01T00:11:00Z: must be after startTime",
			},
		},
		"all clusters":   {&setpointv1.CreateOverrideRequest{Parent: "clusters/-", Override: until(time.Hour, hold)}, []string{`parent: Invalid value: "clusters/-"`}},
		"all namespaces": {&setpointv1.CreateOverrideRequest{Parent: "clusters/demo/namespaces/-", Override: until(time.Hour, hold)}, []string{`parent: Invalid value`}},
		"in the past":    {&setpointv1.CreateOverrideRequest{Parent: demoName, Override: until(0, hold)}, []string{"override.expireTime: Invalid value: 2026-01-01T00:10:00Z: must be in the future"}},
		"too long":       {&setpointv1.CreateOverrideRequest{Parent: demoName, Override: until(30*24*time.Hour+time.Second, hold)}, []string{"override.expireTime: Invalid value: 2026-01-31T00:10:01Z: must be at most 30 days after the start, 2026-01-01T00:10:00Z"}},
		"too far": {&setpointv1.CreateOverrideRequest{Parent: demoName, Override: until(366*24*time.Hour+time.Hour, func(o *setpointv1.Override) { o.Hold, o.StartTime = true, in(366*24*time.Hour) })},
			[]string{"override.startTime: Invalid value: 2027-01-02T00:10:00Z: must be at most 365 days from now"}},
		"no instants": {&setpointv1.CreateOverrideRequest{Parent: demoName, Override: &setpointv1.Override{Hold: true, Reason: "x", StartTime: &timestamppb.Timestamp{Nanos: -1}, ExpireTime: &timestamppb.Timestamp{Seconds: 1 << 60}}},
			[]string{"override.startTime: Invalid value: must be an instant"}},
		"no instant": {&setpointv1.CreateOverrideRequest{Parent: demoName, Override: &setpointv1.Override{Hold: true, Reason: "x", ExpireTime: &timestamppb.Timestamp{Seconds: 1 << 60}}},
			[]string{"override.expireTime: Invalid value: must be an instant"}},
		"a line break": {&setpointv1.CreateOverrideRequest{Parent: demoName, Override: until(time.Hour, func(o *setpointv1.Override) { o.Hold, o.Reason = true, "a\nforged" })},
			[]string{"override.reason: Invalid value: must be one line of text: it has the character U+000A"}},
		"an escape":  {&setpointv1.CreateOverrideRequest{Parent: demoName, Override: until(time.Hour, func(o *setpointv1.Override) { o.Hold, o.Reason = true, "a\x1b[2J" })}, []string{"override.reason: Invalid value: must be one line of text: it has the character U+001B"}},
		"turned":     {&setpointv1.CreateOverrideRequest{Parent: demoName, Override: until(time.Hour, func(o *setpointv1.Override) { o.Hold, o.Reason = true, "a\u202eb" })}, []string{"override.reason: Invalid value: must be one line of text: it has the character U+202E"}},
		"invisible":  {&setpointv1.CreateOverrideRequest{Parent: demoName, Override: until(time.Hour, func(o *setpointv1.Override) { o.Hold, o.Reason = true, "\u200b" })}, []string{"override.reason: Invalid value: must be one line of text: it has the character U+200B"}},
		"only joins": {&setpointv1.CreateOverrideRequest{Parent: demoName, Override: until(time.Hour, func(o *setpointv1.Override) { o.Hold, o.Reason = true, "\u00a0\u200d" })}, []string{"override.reason: Required value"}},
		"blank":      {&setpointv1.CreateOverrideRequest{Parent: demoName, Override: until(time.Hour, func(o *setpointv1.Override) { o.Hold, o.Reason = true, "  " })}, []string{"override.reason: Required value"}},
	} {
		_, err := overridesOf(s).CreateOverride(t.Context(), tt.req)
		if status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := servertest.RPCProblem(err).Violations
		for _, want := range tt.want {
			if !slices.ContainsFunc(got, func(v string) bool { return strings.HasPrefix(v, want) }) {
				t.Errorf("%s: got %q, want %q", name, got, want)
			}
		}
		if len(got) != len(tt.want) {
			t.Errorf("%s: got %q, want %d violations", name, got, len(tt.want))
		}
	}
	for _, name := range []string{"x", servertest.Web, demoName + "/overrides/A", "clusters/-/overrides/a"} {
		if _, err := overridesOf(s).DeleteOverride(t.Context(), &setpointv1.DeleteOverrideRequest{Name: name}); status.Code(err) != codes.InvalidArgument {
			t.Errorf("delete %q: %v", name, err)
		}
	}
	for _, req := range []*setpointv1.ListOverridesRequest{
		{Parent: "clusters/a/b"}, {Parent: shopName}, {Parent: demoName, Resource: "web"}, {Parent: demoName, Resource: "clusters/other"}, {Parent: demoName, PageSize: 1001}, {Parent: demoName, PageToken: "x"},
	} {
		if _, err := overridesOf(s).ListOverrides(t.Context(), req); status.Code(err) != codes.InvalidArgument {
			t.Errorf("list %v: %v", req, err)
		}
	}
	if names := namesOf(t, s, "", &setpointv1.ListOverridesRequest{Parent: "clusters/-"}); len(names) != 0 {
		t.Errorf("bad input has created %v", names)
	}
}

// The absurd does not get far.
func TestOverrideCountsOfAnySize(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	s.Recommend(t, servertest.RequestFor(servertest.Web))
	createOn(t, s, servertest.Web, "", until(time.Hour, func(o *setpointv1.Override) { o.Pin, o.Ceiling = new(int32(1<<31-1)), new(int32(1<<31-1)) }))
	if got := s.Recommend(t, servertest.RequestFor(servertest.Web)).GetDesiredReplicas(); got != 10 {
		t.Errorf("%d replicas, want the maximum", got)
	}
}

func TestListOverrides(t *testing.T) {
	t.Parallel()
	var engine store.Engine
	y := servertest.NewTenancy(t, servertest.Tenants, strings.ReplaceAll(servertest.TwoTenants, "verbs: [read]", "verbs: [read, override]"),
		func(su *servertest.Setup) { engine = su.Store })
	s := y.Service
	var all []string
	for c := range 20 {
		cluster := fmt.Sprintf("clusters/blue-%02d", c)
		if c == 7 {
			cluster = "clusters/red"
		}
		for _, parent := range []string{cluster, cluster + "/namespaces/shop", cluster + "/namespaces/pay", cluster + "/namespaces/shop/targets/web"} {
			other := func(o *setpointv1.Override) { o.Hold, o.Author = true, "token:red" } // which nobody can name
			resp, err := overridesOf(s).CreateOverride(servertest.As(t.Context(), "sp_admin"), &setpointv1.CreateOverrideRequest{Parent: parent, OverrideId: "freeze", Override: until(time.Hour, other)})
			fatal.If(t, err)
			if resp.GetOverride().GetAuthor() != "token:admin" {
				t.Errorf("the author is %q", resp.GetOverride().GetAuthor())
			}
			all = append(all, resp.GetOverride().GetName())
		}
	}
	slices.Sort(all)
	only := func(some func(string) bool) (names []string) {
		for _, name := range all {
			if some(name) {
				names = append(names, name)
			}
		}
		return names
	}
	red := func(name string) bool { return strings.HasPrefix(name, "clusters/red/") }
	blueShop := func(name string) bool {
		return strings.HasPrefix(name, "clusters/blue-") && strings.Contains(name, "/shop/")
	}
	for _, size := range []int32{0, 1, 3, 4, 1000} {
		for _, tt := range []struct {
			token, parent, resource string
			want                    []string
		}{
			{"sp_admin", "clusters/-", "", all},
			{"sp_red", "clusters/-", "", only(red)},
			{"sp_red", "clusters/red", "", only(red)},
			{"sp_blue", "clusters/-", "", only(blueShop)},
			{"sp_admin", "clusters/red", "clusters/red/namespaces/shop/targets/web", only(func(name string) bool { return red(name) && !strings.Contains(name, "/pay/") })},
			{"sp_admin", "clusters/-", "clusters/red/namespaces/shop", only(func(name string) bool {
				return red(name) && !strings.Contains(name, "/pay/") && !strings.Contains(name, "/web/")
			})},
			{"sp_admin", "clusters/red", "clusters/red", []string{"clusters/red/overrides/freeze"}},
			{"sp_admin", "clusters/nowhere", "", nil},
		} {
			if got := namesOf(t, s, tt.token, &setpointv1.ListOverridesRequest{Parent: tt.parent, Resource: tt.resource, PageSize: size}); !slices.Equal(got, tt.want) {
				t.Errorf("%s of %s %s, pages of %d: got %v, want %v", tt.token, tt.parent, tt.resource, size, got, tt.want)
			}
		}
	}
	// A record that can't be read is no other tenant's matter, nor is the name of its cluster.
	records, err := engine.Part(store.Overrides, overrides.Kept)
	fatal.If(t, err)
	secret := store.Swap{Key: store.Key{Cluster: "blue-secret", Namespace: "-", Target: "-"}, Value: []byte("\xff")}
	if _, err := records.CompareAndSwap(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	if got := namesOf(t, s, "sp_red", &setpointv1.ListOverridesRequest{Parent: "clusters/-"}); !slices.Equal(got, only(red)) {
		t.Errorf("beside a record that can't be read: got %v", got)
	}
	for _, resource := range []string{"clusters/blue-secret", "clusters/blue-00/namespaces/shop", "clusters/nowhere"} {
		_, err := overridesOf(s).ListOverrides(servertest.As(t.Context(), "sp_red"), &setpointv1.ListOverridesRequest{Parent: "clusters/-", Resource: resource})
		if status.Code(err) != codes.PermissionDenied {
			t.Errorf("those that act on %s, of another tenant: %v", resource, err)
		}
	}
	for _, tt := range []struct {
		token, name string
		want        codes.Code
	}{
		{"sp_blue", "clusters/blue-00/namespaces/pay/overrides/freeze", codes.PermissionDenied},
		{"sp_blue", "clusters/blue-00/overrides/freeze", codes.PermissionDenied},
		{"sp_blue", "clusters/red/overrides/freeze", codes.PermissionDenied},
		{"sp_blue", "clusters/blue-00/namespaces/shop/overrides/freeze", codes.OK},
		{"sp_blue", "clusters/blue-00/namespaces/shop/targets/web/overrides/freeze", codes.OK},
		{"sp_red", "clusters/red/overrides/freeze", codes.OK},
	} {
		ctx := servertest.As(t.Context(), tt.token)
		parent, _, _ := strings.Cut(tt.name, "/overrides/")
		_, err := overridesOf(s).CreateOverride(ctx, &setpointv1.CreateOverrideRequest{Parent: parent, Override: until(time.Hour, hold)})
		if status.Code(err) != tt.want {
			t.Errorf("%s creates in %s: %v", tt.token, parent, err)
		}
		if _, err := overridesOf(s).DeleteOverride(ctx, &setpointv1.DeleteOverrideRequest{Name: tt.name}); status.Code(err) != tt.want {
			t.Errorf("%s deletes %s: %v", tt.token, tt.name, err)
		}
	}
}

// Whoever may make dry runs only about some target in a namespace overrides neither it nor the namespace.
func TestOverridesOfCallersWithDryRunsOnly(t *testing.T) {
	t.Parallel()
	s := servertest.Guarded(t) // capped: targets named frozen
	for parent, want := range map[string]codes.Code{
		shopName + "/targets/frozen": codes.PermissionDenied, shopName: codes.PermissionDenied, demoName: codes.PermissionDenied, servertest.Web: codes.OK,
	} {
		_, err := overridesOf(s).CreateOverride(servertest.As(t.Context(), servertest.CappedToken), &setpointv1.CreateOverrideRequest{Parent: parent, Override: until(time.Hour, hold)})
		if status.Code(err) != want {
			t.Errorf("%s: %v", parent, err)
		}
	}
}

// The log has a line for each that is created or deleted: what it does, whose it is, why, until when, and who deleted it.
// A repeated call is not logged, nor one that is refused.
func TestOverridesInTheLog(t *testing.T) {
	t.Parallel()
	var logs *observer.ObservedLogs
	const alice, bob = servertest.AdminToken, servertest.ReaderToken
	s := servertest.NewTenancy(t, map[string]string{alice: "alice", bob: "bob"}, `grants: [{identities: ["*"], clusters: ["*"], verbs: ["*"]}]`,
		servertest.Logged(zapcore.InfoLevel, server.LogFailedCalls, &logs)).Service
	override := until(time.Hour, func(o *setpointv1.Override) {
		o.Pin, o.Ceiling, o.Reason = new(int32(5)), new(int32(9)), "load \"test\""
	})
	for _, token := range []string{alice, alice, bob} {
		if _, err := overridesOf(s).CreateOverride(servertest.As(t.Context(), token), &setpointv1.CreateOverrideRequest{Parent: shopName, OverrideId: "load", Override: override}); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []codes.Code{codes.OK, codes.NotFound} {
		if _, err := overridesOf(s).DeleteOverride(servertest.As(t.Context(), bob), &setpointv1.DeleteOverrideRequest{Name: shopName + "/overrides/load"}); status.Code(err) != want {
			t.Errorf("deletion %d: %v", i, err)
		}
	}
	var lines []string
	for _, entry := range logs.All() {
		f := entry.ContextMap()
		if strings.HasPrefix(entry.Message, "override ") {
			lines = append(lines, fmt.Sprint(entry.Message, f["override"], f["what"], f["author"], f["expires"], f["reason"], f["by"]))
		}
	}
	same := fmt.Sprint(shopName+"/overrides/load", "pin 5, ceiling 9", "token:alice", servertest.T0.Add(time.Hour), "load \"test\"")
	if want := []string{"override created" + same + "<nil>", "override deleted" + same + "token:bob"}; !slices.Equal(lines, want) {
		t.Errorf("the log has %q, want %q", lines, want)
	}
}

// A flood is refused, with words that help, and what is there stays.
func TestFloodOfOverrides(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	flood := func(parent func(int) string, change func(*setpointv1.Override), most int) (created int, refusal error) {
		for i := range most + 1 {
			_, err := overridesOf(s).CreateOverride(t.Context(), &setpointv1.CreateOverrideRequest{Parent: parent(i), Override: until(time.Hour, change)})
			if err != nil {
				return created, err
			}
			created++
		}
		return created, nil
	}
	if n, err := flood(func(int) string { return "clusters/a" }, hold, 33); n != 32 || status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "clusters/a has 32 overrides of its own") {
		t.Errorf("of one place: %d, %v", n, err)
	}
	if n, err := flood(func(i int) string { return fmt.Sprintf("clusters/b/namespaces/n/targets/t-%d", i) }, hold, 1001); n != 512 || status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), `namespace "n" has 512 overrides`) {
		t.Errorf("of a namespace: %d, %v", n, err)
	}
	more, err := flood(func(i int) string { return fmt.Sprintf("clusters/b/namespaces/m/targets/t-%d", i) }, hold, 1001)
	if more != 1000-32-512 || status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), `cluster "b" has 968 overrides`) {
		t.Errorf("of a cluster: %d, %v", more, err)
	}
	// Those of the cluster as a whole have places of their own.
	if n, err := flood(func(int) string { return "clusters/b" }, hold, 33); n != 32 || status.Code(err) != codes.ResourceExhausted {
		t.Errorf("of the whole cluster: %d, %v", n, err)
	}
	long := func(o *setpointv1.Override) { o.Hold, o.Reason = true, strings.Repeat("é", 256) }
	n, err := flood(func(i int) string { return fmt.Sprintf("clusters/c/namespaces/n/targets/t-%d", i) }, long, 1001)
	if n < 175 || n > 225 || status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "more than 114688 bytes, a namespace's share") {
		t.Errorf("of long ones: %d, %v", n, err)
	}
	createOn(t, s, "clusters/c", "all", until(time.Hour, long))
	if got := namesOf(t, s, "", &setpointv1.ListOverridesRequest{Parent: "clusters/-", PageSize: 1000}); len(got) != 32+1000+n+1 {
		t.Errorf("%d are left", len(got))
	}
	// Expired ones make room.
	s.Clock.Advance(time.Hour)
	createOn(t, s, "clusters/a", "", until(2*time.Hour, hold))
}

// JSON goes there and back: what REST answers is what it takes, and gRPC has the same.
func TestOverridesOverREST(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	given := until(time.Hour, func(o *setpointv1.Override) {
		o.Pin, o.Floor, o.Ceiling, o.NoScaleDown, o.NoScaleUp = new(int32(0)), new(int32(1)), new(int32(9)), true, true
		o.Reason, o.StartTime = "ünïcode \"quoted\" <b>; 50% of load&overrideId=evil 👩\u200d🚒", timestamppb.New(servertest.T0.Add(time.Minute))
	})
	answer := s.Ask(t, http.MethodPost, "/v1/"+servertest.Web+"/overrides?overrideId=freeze", given)
	answer.Expect(t, http.StatusOK)
	created := &setpointv1.Override{}
	answer.Into(t, created)
	want := proto.Clone(given).(*setpointv1.Override)
	want.Name, want.CreateTime = servertest.Web+"/overrides/freeze", timestamppb.New(servertest.T0)
	servertest.SameMessage(t, created, want)
	// Again, with what was answered.
	again := &setpointv1.Override{}
	s.Ask(t, http.MethodPost, "/v1/"+servertest.Web+"/overrides?overrideId=freeze", string(answer.Raw)).Into(t, again)
	servertest.SameMessage(t, again, want)
	list := &setpointv1.ListOverridesResponse{}
	s.Ask(t, http.MethodGet, "/v1/clusters/-/overrides?resource="+servertest.Web, nil).Into(t, list)
	servertest.SameMessage(t, list, &setpointv1.ListOverridesResponse{Overrides: []*setpointv1.Override{want}})
	s.Ask(t, http.MethodPost, "/v1/"+shopName+"/overrides", `{"hold": true, "reson": "x"}`).Expect(t, http.StatusBadRequest)
	s.Ask(t, http.MethodPost, "/v1/"+servertest.Web+"/overrides?overrideId=freeze", until(time.Hour, hold)).Expect(t, http.StatusConflict)
	s.Ask(t, http.MethodDelete, "/v1/"+want.GetName(), nil).Expect(t, http.StatusOK)
	s.Ask(t, http.MethodDelete, "/v1/"+want.GetName(), nil).Expect(t, http.StatusNotFound)
}

// As long as nobody knows whether there are overrides, nothing is decided: one may hold the count.
func TestUnknownOverridesHoldDecisions(t *testing.T) {
	t.Parallel()
	var away atomic.Bool
	s := servertest.Start(t, func(su *servertest.Setup) {
		su.Store.OnOverrides = func() error {
			if away.Load() {
				return store.ErrUnavailable
			}
			return nil
		}
	})
	away.Store(true)
	_, err := s.Recommendations.Recommend(t.Context(), servertest.RequestFor(servertest.Web))
	if status.Code(err) != codes.Unavailable {
		t.Errorf("decided without the overrides: %v", err)
	}
}

// lack is an error of Redis for a user that lacks a right.
type lack struct{}

func (lack) Error() string { return "NOPERM no permission; ACL SETUSER setpoint +getrange" }
func (lack) Lacks() string { return "+getrange" }

// Who can't decide or list because the overrides can't be read is told why, and what to do.
func TestCallersAreToldWhyOverridesCannotBeRead(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		fails  error
		code   codes.Code
		reason string
		says   []string
	}{
		"unreadable": {
			fmt.Errorf("load: %w: format 2", store.ErrUnreadable), codes.Internal, "HISTORY_UNREADABLE",
			[]string{`the stored overrides of cluster "demo" can't be read`, "a newer version wrote them, or they are damaged", "upgrade this instance, or have the cluster's list deleted"},
		},
		"a missing right": {
			fmt.Errorf("load: %w: %w", store.ErrUnavailable, lack{}), codes.Unavailable, "STORE_UNAVAILABLE",
			[]string{"its user lacks rights"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := servertest.Start(t, func(su *servertest.Setup) {
				su.Store.OnOverrides = func() error { return tt.fails }
			})
			_, decided := s.Recommendations.Recommend(t.Context(), servertest.RequestFor(servertest.Web))
			_, listed := overridesOf(s).ListOverrides(t.Context(), &setpointv1.ListOverridesRequest{Parent: "clusters/demo"})
			for call, err := range map[string]error{"decision": decided, "list": listed} {
				servertest.WantProblem(t, servertest.RPCProblem(err), tt.code, tt.reason)
				for _, text := range tt.says {
					if !strings.Contains(status.Convert(err).Message(), text) {
						t.Errorf("%s: %q does not say %q", call, status.Convert(err).Message(), text)
					}
				}
			}
		})
	}
}

// A batch reads the overrides of all its clusters at once: decisions on clusters that can't be read do not wait one after
// the other.
func TestABatchReadsItsClustersTogether(t *testing.T) {
	t.Parallel()
	var reads atomic.Int64
	s := servertest.Start(t, func(su *servertest.Setup) {
		su.Store.OnOverrides = func() error {
			reads.Add(1)
			return nil
		}
	})
	batch := &setpointv1.BatchRecommendRequest{}
	for i := range 100 {
		batch.Requests = append(batch.Requests, servertest.RequestFor(fmt.Sprintf("clusters/c-%d/namespaces/shop/targets/web", i%50)))
	}
	began := time.Now()
	answer, err := s.Recommendations.BatchRecommend(t.Context(), batch)
	fatal.If(t, err)
	for i, result := range answer.GetResults() {
		if result.GetResponse().GetDesiredReplicas() == 0 {
			t.Errorf("result %d: %v", i, result)
		}
	}
	if most := 1 + 2*int64(1+time.Since(began)/time.Second); reads.Load() > most { // what is read each second, too
		t.Errorf("%d reads for 50 clusters, want at most %d", reads.Load(), most)
	}
}

// More clusters than the cache has room for are decided all the same, in whatever batches: those of one batch displace
// each other, too.
func TestABatchOfMoreClustersThanAreCached(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	for part := range 11 {
		batch := &setpointv1.BatchRecommendRequest{}
		for i := range 500 {
			batch.Requests = append(batch.Requests, servertest.RequestFor(fmt.Sprintf("clusters/c-%d-%d/namespaces/shop/targets/web", part, i)))
		}
		answer, err := s.Recommendations.BatchRecommend(t.Context(), batch)
		fatal.If(t, err)
		for i, result := range answer.GetResults() {
			if result.GetResponse().GetDesiredReplicas() == 0 {
				t.Fatalf("batch %d, result %d: %v", part, i, result)
			}
		}
	}
}

// An override ends by the clock of the store, which all instances share: not earlier on one whose clock is ahead, nor
// later on one that is behind. Where the store's clock does not count, the instance's own does.
func TestOverridesEndByTheStoresClock(t *testing.T) {
	t.Parallel()
	const exact = 20 * time.Millisecond // of a comparison of clocks
	for name, c := range map[string]struct{ bound, ahead, counts time.Duration }{
		"ahead":    {time.Minute, 20 * time.Second, 20 * time.Second},
		"behind":   {time.Minute, -20 * time.Second, -20 * time.Second},
		"switched": {0, 20 * time.Second, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := servertest.Start(t, func(su *servertest.Setup) {
				now := su.Options.Clock
				su.Options.AllowEvaluationTime, su.Options.MaxClockSkew = false, c.bound
				su.Store.OnTime = func() time.Time { return now().Add(-c.ahead) }
			})
			created := createOn(t, s, servertest.Web, "freeze", until(time.Hour, hold))
			if at, want := created.GetCreateTime().AsTime(), servertest.T0.Add(-c.counts); at.Sub(want).Abs() > exact {
				t.Errorf("created at %v, want %v", at, want)
			}
			other := createOn(t, s, webOther, "short", until(time.Minute, hold))
			held := func(target string) bool {
				return len(s.Recommend(t, servertest.RequestFor(target)).GetAdjustments()) == 1
			}
			s.Clock.Advance(time.Hour + c.counts - exact)
			if !held(servertest.Web) || held(webOther) {
				t.Errorf("before its end it is not held, or long after its end it is: %v", other)
			}
			s.Clock.Advance(2 * exact)
			if held(servertest.Web) {
				t.Error("held after its end")
			}
		})
	}
}
