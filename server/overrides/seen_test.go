package overrides_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server/servertest"
)

// seenBy are the overrides of which a decision tells that they begin or end.
func seenBy(d *setpointv1.Decision) (all []string) {
	for _, a := range d.GetAdjustments() {
		if a.GetRule() == "begins" || a.GetRule() == "ends" {
			all = append(all, a.GetMessage())
		}
	}
	return all
}

// The log of each target that an override acts on, and whoever watches it, has that it began, with kind, author, reason
// and end, and that it ended, by itself or who deleted it: once, with the first decision that sees it, and those of others
// nothing.
func TestADecisionTellsOverridesThatBeginAndEnd(t *testing.T) {
	t.Parallel()
	const alice, bob = servertest.AdminToken, servertest.ReaderToken
	for _, c := range []struct {
		place, of string
		other     bool
	}{
		{servertest.Web, "target", false}, {shopName, "namespace", true}, {demoName, "cluster", true},
	} {
		for _, deleted := range []bool{false, true} {
			t.Run(fmt.Sprint(c.of, " deleted ", deleted), func(t *testing.T) {
				t.Parallel()
				y := servertest.NewTenancy(t, map[string]string{alice: "alice", bob: "bob"}, `grants: [{identities: ["*"], clusters: ["*"], verbs: ["*"]}]`)
				s := y.Service
				ask := func(target string) (response *setpointv1.RecommendResponse, logged *setpointv1.Decision) {
					t.Helper()
					s.Clock.Advance(time.Minute)
					ctx := servertest.As(t.Context(), alice)
					response, err := setpointv1.NewRecommendationServiceClient(s.Conn).Recommend(ctx, servertest.RequestFor(target))
					fatal.If(t, err)
					page, err := s.Targets.ListDecisions(ctx, &setpointv1.ListDecisionsRequest{Parent: target})
					fatal.If(t, err)
					return response, page.GetDecisions()[0]
				}
				if _, before := ask(servertest.Web); seenBy(before) != nil {
					t.Errorf("before: %q", seenBy(before))
				}
				stream, err := s.Targets.WatchDecisions(servertest.As(t.Context(), alice), &setpointv1.WatchDecisionsRequest{Parent: servertest.Web})
				fatal.If(t, err)
				if _, err := stream.Recv(); err != nil { // it has begun
					t.Fatal(err)
				}
				floor := until(time.Hour, func(o *setpointv1.Override) { o.Floor = new(int32(2)) })
				created, err := overridesOf(s).CreateOverride(servertest.As(t.Context(), alice), &setpointv1.CreateOverrideRequest{Parent: c.place, OverrideId: "release", Override: floor})
				fatal.If(t, err)
				end := servertest.T0.Add(time.Hour).Format(time.RFC3339)
				begins := "override release of the " + c.of + " begins, until " + end + `: floor 2, by token:alice: "migration"`
				response, logged := ask(servertest.Web)
				if got := seenBy(logged); !slices.Equal(got, []string{begins}) || len(response.GetAdjustments()) != 0 {
					t.Errorf("told %q and answered %v, want %q in the log only", got, response.GetAdjustments(), begins)
				}
				if _, again := ask(servertest.Web); seenBy(again) != nil {
					t.Errorf("told again: %q", seenBy(again))
				}
				if _, other := ask(webOther); (seenBy(other) != nil) != c.other {
					t.Errorf("of another target: %q, want some %t", seenBy(other), c.other)
				}
				ends := "override release of the " + c.of + " has ended at " + end + `: floor 2, by token:alice: "migration"`
				if deleted {
					now := s.Clock.Now().UTC().Format(time.RFC3339)
					ends = "override release of the " + c.of + " was deleted by token:bob at " + now + ", before its end at " + end + `: floor 2, by token:alice: "migration"`
					if _, err := overridesOf(s).DeleteOverride(servertest.As(t.Context(), bob), &setpointv1.DeleteOverrideRequest{Name: created.GetOverride().GetName()}); err != nil {
						t.Fatal(err)
					}
				} else {
					s.Clock.Advance(time.Hour)
				}
				response, logged = ask(servertest.Web)
				if got := seenBy(logged); !slices.Equal(got, []string{ends}) || response.PlainDesiredReplicas != nil || logged.PlainDesiredReplicas != nil {
					t.Errorf("told %q and answered %v, want %q and nothing of stages", got, response, ends)
				}
				if _, after := ask(servertest.Web); seenBy(after) != nil {
					t.Errorf("told again: %q", seenBy(after))
				}
				var watched []string
				for len(watched) < 2 && !t.Failed() { // else they would never come
					r, err := stream.Recv()
					fatal.If(t, err)
					if d := r.GetDecision(); d.GetOutcome() != "DROPPED" { // which tells of an earlier one what it told when it was made
						watched = append(watched, seenBy(d)...)
					}
				}
				if !slices.Equal(watched, []string{begins, ends}) {
					t.Errorf("watched %q", watched)
				}
			})
		}
	}
}

// Of many that begin at once each decision tells a few, until all are told, and none is told twice; beyond a number they
// wait until others end. Long texts of users take little room.
func TestOverridesThatBeginAtOnce(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	ask := func() []string {
		s.Clock.Advance(time.Second)
		s.Recommend(t, servertest.Queue(servertest.Web, 2, 20))
		return seenBy(s.Decisions(t, servertest.Web)[0])
	}
	for i := range 12 {
		createOn(t, s, servertest.Web, fmt.Sprintf("o-%02d", i), &setpointv1.Override{NoScaleUp: true, Reason: strings.Repeat("é", 256), ExpireTime: timestamppb.New(servertest.T0.Add(time.Hour + time.Duration(i)*time.Minute))})
	}
	told := map[string]int{}
	for i, want := range []int{4, 4, 0, 0} {
		got := ask()
		for _, text := range got {
			told[text]++
			if len(text) > 256 {
				t.Errorf("%d bytes: %s", len(text), text)
			}
		}
		if len(got) != want {
			t.Errorf("decision %d tells %d, want %d: %q", i, len(got), want, got)
		}
	}
	if bytes := len(s.Stored(t, servertest.Web)); bytes > 4<<10 {
		t.Errorf("the record has %d bytes", bytes)
	}
	s.Clock.Advance(time.Hour + time.Minute + 30*time.Second) // the first two have ended
	got := ask()
	if len(got) != 4 || !strings.Contains(got[0], "o-00 of the target has ended") || !strings.Contains(got[3], "o-09 of the target begins") {
		t.Errorf("told %q", got)
	}
	if len(told) != 8 {
		t.Errorf("told %v", told)
	}
}

// An override that began and ended between two decisions acted on nothing, and is not told.
func TestAnOverrideBetweenTwoDecisions(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	s.Recommend(t, servertest.RequestFor(servertest.Web))
	createOn(t, s, shopName, "short", until(time.Minute, hold))
	s.Clock.Advance(2 * time.Minute)
	if response := s.Recommend(t, servertest.RequestFor(servertest.Web)); len(response.GetAdjustments()) != 0 || seenBy(s.Decisions(t, servertest.Web)[0]) != nil {
		t.Errorf("told %v", response)
	}
}
