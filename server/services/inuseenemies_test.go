package services_test

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server/record"
	"github.com/setpoint-dev/setpoint/server/servertest"
	"github.com/setpoint-dev/setpoint/store"
)

// rewrite changes the stored record, as another instance does.
func rewrite(t *testing.T, s *servertest.Service, name string, change func(*record.Record)) {
	t.Helper()
	stored, err := s.Memory.Load(t.Context(), servertest.KeyOf(name))
	fatal.If(t, err)
	r, err := record.Decode(stored.Value)
	fatal.If(t, err)
	change(&r)
	if result, err := s.Memory.CompareAndSwap(t.Context(), store.Swap{Key: servertest.KeyOf(name), Old: stored.Version, Value: record.Append(nil, &r)}); err != nil || !result.Swapped {
		t.Fatalf("not swapped: %v", err)
	}
}

// An older instance writes records without a hash, or with one and no text: nothing is in use then, and the next
// decision of a newer one says what is.
func TestARecordWithoutATextHasNoSpecInUse(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	req := servertest.Queue(servertest.Web, 3, 10)
	s.Recommend(t, req)
	wantInUse(t, s, req)
	rewrite(t, s, servertest.Web, func(r *record.Record) { r.Spec = record.SpecUse{} })
	if got := s.Target(t, servertest.Web); got.GetSpecInUse() != nil || got.GetLastDecision().GetSpecHash() != "" || got.GetOutlook() != nil {
		t.Errorf("after an older instance %v is in use, with the hash %q", got.GetSpecInUse(), got.GetLastDecision().GetSpecHash())
	}
	s.Clock.Advance(servertest.Period)
	s.Recommend(t, req)
	wantInUse(t, s, req)
	if since := s.Target(t, servertest.Web).GetSpecInUse().GetSinceTime(); since != nil {
		t.Errorf("in use since %v: nobody knows", since.AsTime())
	}
	rewrite(t, s, servertest.Web, func(r *record.Record) { r.Spec.Text = "" })
	if got := s.Target(t, servertest.Web); got.GetSpecInUse() != nil || got.GetLastDecision().GetSpecHash() == "" {
		t.Errorf("%v is in use without its text, with the hash %q", got.GetSpecInUse(), got.GetLastDecision().GetSpecHash())
	}
	s.Clock.Advance(servertest.Period)
	s.Recommend(t, req)
	wantInUse(t, s, req)
}

// Who may not read a target sees no text of its spec: not of another tenant, and not with the right to recommend alone.
func TestTextsOfSpecsAreSeenByWhoMayRead(t *testing.T) {
	t.Parallel()
	const red, blue, other = "clusters/red/namespaces/shop/targets/web", "clusters/blue-1/namespaces/shop/targets/web", "clusters/blue-1/namespaces/staff/targets/web"
	y := servertest.NewTenancy(t, servertest.Tenants, servertest.TwoTenants)
	y.Fill(t, red, blue, other)
	for token, own := range map[string]string{"sp_red": red, "sp_blue": blue} {
		ctx := servertest.As(t.Context(), token)
		resp, err := y.Targets.ListTargets(ctx, &setpointv1.ListTargetsRequest{Parent: "clusters/-/namespaces/-", WithSpecInUse: true})
		if err != nil || len(resp.GetTargets()) != 1 || resp.GetTargets()[0].GetName() != own || resp.GetTargets()[0].GetSpecInUse().GetSpec() == nil {
			t.Errorf("%s lists %v, %v", token, resp, err)
		}
		for _, name := range []string{red, blue, other} {
			want := codes.PermissionDenied
			if name == own {
				want = codes.OK
			}
			got, err := y.Targets.GetTarget(ctx, &setpointv1.GetTargetRequest{Name: name})
			if status.Code(err) != want || (got.GetTarget().GetSpecInUse().GetSpec() != nil) != (want == codes.OK) {
				t.Errorf("%s gets of %s %v, %v", token, name, got, err)
			}
		}
	}
	s := servertest.Guarded(t)
	if _, err := s.Recommendations.Recommend(servertest.As(t.Context(), servertest.ScalerToken), servertest.RequestFor(servertest.ShopTarget)); err != nil {
		t.Fatal(err)
	}
	for token, want := range map[string]codes.Code{servertest.ScalerToken: codes.PermissionDenied, servertest.NobodyToken: codes.PermissionDenied, servertest.ReaderToken: codes.OK} {
		got, err := s.Targets.GetTarget(servertest.As(t.Context(), token), &setpointv1.GetTargetRequest{Name: servertest.ShopTarget})
		if status.Code(err) != want || (got.GetTarget().GetSpecInUse() != nil) != (want == codes.OK) {
			t.Errorf("%s gets %v, %v", token, got, err)
		}
	}
}
