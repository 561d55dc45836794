//go:build linux

package languages

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/testpages"
	"github.com/setpoint-dev/setpoint/store/redis/redistest"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

// fast has retries come at once.
var fast = retry{BaseDelay: .001, MaxDelay: .001}

// at returns the address that a client of that language calls a service by.
func at(l language, s *service.Instance) string {
	if l.rest {
		return "http://" + s.RESTAddr()
	}
	return s.GRPCAddr()
}

// The behaviour of each client library, against one service without TLS.
func TestClients(t *testing.T) {
	t.Parallel()
	s := service.Start(t)
	for _, tt := range []struct {
		name string
		test func(*testing.T, *service.Instance)
	}{
		{"each call", eachCall},
		{"overrides", overridesOfEachPlace},
		{"a fleet", aFleetOfTwo},
		{"a bad request is told by field", aBadRequestIsToldByField},
		{"a lost answer counts once", aLostAnswerCountsOnce},
		{"what is tried again", whatIsTriedAgain},
		{"a spec is sent once", aSpecIsSentOnce},
		{"the service says when to come back", theServiceSaysWhenToComeBack},
		{"no pause outlasts the call", noPauseOutlastsTheCall},
		{"a call ends with its time", aCallEndsWithItsTime},
		{"further attempts have a budget", furtherAttemptsHaveABudget},
		{"calls are spread", callsAreSpread},
		{"a deletion whose answer is lost", aDeletionWhoseAnswerIsLost},
		{"lists are of all pages", listsAreOfAllPages},
		{"many calls at once", manyCallsAtOnce},
		{"batches", batches},
		{"the calls of a batch share its time", theCallsOfABatchShareItsTime},
		{"a batch sends again what failed", aBatchSendsAgainWhatFailed},
		{"a batch whose answers are mixed up", aBatchWhoseAnswersAreMixedUp},
		{"a token that no header can hold", aTokenThatNoHeaderCanHold},
	} {
		t.Run(tt.name, func(t *testing.T) { tt.test(t, s) })
	}
}

// Each call returns the service's answer, over its own ports.
func eachCall(t *testing.T, s *service.Instance) {
	each(t, func(t *testing.T, l language) {
		c := open(t, l, config{Target: at(l, s), Insecure: true})
		web := target(t, "web")
		answer, err := recommend(t, c, queue(web, 3, 50))
		wantCode(t, err, "OK")
		if answer.GetDesiredReplicas() != 5 || answer.GetAction() != "SCALE_UP" {
			t.Errorf("got %v", answer)
		}
		report := into(t, c.do(t, map[string]any{"op": "report", "request": object(t, &setpointv1.ReportScaleRequest{
			Target: web, RecommendationId: answer.GetRecommendationId(), Outcome: "APPLIED",
		})}), &setpointv1.ReportScaleResponse{})
		if report.GetStatus().GetDesiredReplicas() != 5 {
			t.Errorf("got %v", report)
		}
		got := into(t, c.do(t, map[string]any{"op": "get", "name": web}), &setpointv1.Target{})
		if got.GetName() != web || len(got.GetHistory().GetScaleUps()) != 1 {
			t.Errorf("got %v", got)
		}
		if decisions := c.do(t, map[string]any{"op": "decisions", "name": web}); !slices.Equal(decisions.Names, []string{answer.GetRecommendationId()}) {
			t.Errorf("the decisions are %v", decisions)
		}
		spec := &setpointv1.TargetSpec{Spec: queue(web, 1, 1).GetSpec()}
		stored := into(t, c.do(t, map[string]any{"op": "setSpec", "name": web, "request": object(t, spec)}), &setpointv1.TargetSpec{})
		read := into(t, c.do(t, map[string]any{"op": "getSpec", "name": web}), &setpointv1.TargetSpec{})
		if stored.GetEtag() == "" || read.GetEtag() != stored.GetEtag() || read.GetSpec().GetMaxReplicas() != 1000 {
			t.Errorf("stored %v, read %v", stored, read)
		}
		// A shadow is stored, and not promoted where callers send their own spec.
		spec.Shadows, spec.Etag = []*setpointv1.Shadow{{Name: "next", Spec: spec.GetSpec()}}, read.GetEtag()
		stored = into(t, c.do(t, map[string]any{"op": "setSpec", "name": web, "request": object(t, spec)}), &setpointv1.TargetSpec{})
		if got := into(t, c.do(t, map[string]any{"op": "get", "name": web}), &setpointv1.Target{}); len(got.GetShadows()) != 1 || got.GetShadows()[0].GetName() != "next" {
			t.Errorf("shadows %v", got.GetShadows())
		}
		wantCode(t, c.do(t, map[string]any{"op": "promote", "name": web, "id": "next", "etag": stored.GetEtag(), "condition": "different < 2 % over 1h"}).Error, "FAILED_PRECONDITION")
		if err := c.do(t, map[string]any{"op": "delete", "name": web}).Error; err != nil {
			t.Error(err)
		}
		wantCode(t, c.do(t, map[string]any{"op": "delete", "name": web}).Error, "NOT_FOUND")
		wantCode(t, c.do(t, map[string]any{"op": "get", "name": web}).Error, "NOT_FOUND")
		parent, _, _ := strings.Cut(web, "/targets/")
		if got := c.do(t, map[string]any{"op": "specs", "parent": parent}); !slices.Equal(got.Names, []string{web}) {
			t.Errorf("the specs are %v", got)
		}
		wantCode(t, c.do(t, map[string]any{"op": "deleteSpec", "name": web, "etag": "another"}).Error, "ABORTED")
		wantCode(t, c.do(t, map[string]any{"op": "deleteSpec", "name": web, "etag": stored.GetEtag()}).Error, "OK")
		wantCode(t, c.do(t, map[string]any{"op": "getSpec", "name": web}).Error, "NOT_FOUND")
		c.do(t, map[string]any{"op": "close"})
		if _, err := recommend(t, c, queue(web, 3, 50)); err == nil || err.Code != "CANCELLED" || !strings.Contains(err.Message, "the client is closed") {
			t.Errorf("after it was closed: %v", err)
		}
	})
}

// A fleet is stored, its members ask with its name and get shares, and it is shown.
func aFleetOfTwo(t *testing.T, s *service.Instance) {
	each(t, func(t *testing.T, l language) {
		c, fleet := open(t, l, config{Target: at(l, s), Insecure: true}), target(t, "fleet")
		members := []string{target(t, "east"), target(t, "west")}
		spec := &setpointv1.TargetSpec{Spec: queue(fleet, 1, 1).GetSpec(), Fleet: &setpointv1.FleetSpec{
			Members: []*setpointv1.FleetMember{{Target: members[0]}, {Target: members[1], Weight: new(int32(2))}},
			Scopes:  map[string]string{"External:queue-depth": "PER_MEMBER"},
		}}
		stored := into(t, c.do(t, map[string]any{"op": "setSpec", "name": fleet, "request": object(t, spec)}), &setpointv1.TargetSpec{})
		if len(stored.GetFleet().GetMembers()) != 2 {
			t.Fatalf("stored %v", stored)
		}
		for i, wanted := range []int32{3, 7} { // the first one waits for the second one, with which there are 10 for 100
			q := queue(members[i], 3, 50)
			q.Scale.StatusReplicas = new(int32(2)) // one is on its way
			q.Fleet = fleet
			answer, err := recommend(t, c, q)
			wantCode(t, err, "OK")
			if answer.GetDesiredReplicas() != wanted || (answer.GetFleet().GetDecisionTime() == nil) != (i == 0) {
				t.Errorf("%s gets %v, want %d", members[i], answer, wanted)
			}
			if got := verdict(t, c, time.Now(), q, answer, nil, false); got != "ok" {
				t.Errorf("the share is refused for %s", got)
			}
		}
		shown := into(t, c.do(t, map[string]any{"op": "fleet", "name": fleet}), &setpointv1.Fleet{})
		if shown.GetDesiredReplicas() != 10 || shown.GetMemberCounts().GetFresh() != 2 || len(shown.GetMembers()) != 2 {
			t.Errorf("shown is %v", shown)
		}
		wantCode(t, c.do(t, map[string]any{"op": "fleet", "name": members[0]}).Error, "NOT_FOUND")
	})
}

// Overrides of a target, its namespace and its cluster are created, listed and deleted, and decide meanwhile.
func overridesOfEachPlace(t *testing.T, s *service.Instance) {
	each(t, func(t *testing.T, l language) {
		c := open(t, l, config{Target: at(l, s), Insecure: true})
		web := strings.Replace(target(t, "web"), "clusters/demo/", "clusters/overridden/", 1) // other tests have targets in the cluster demo
		namespace := web[:strings.Index(web, "/targets/")]
		cluster := namespace[:strings.Index(namespace, "/namespaces/")]
		var want []string
		for i, place := range []string{web, namespace, cluster} {
			override := &setpointv1.Override{Hold: true, Reason: "migration", ExpireTime: timestamppb.New(time.Now().Add(time.Hour))}
			command := map[string]any{"op": "override", "name": place, "id": fmt.Sprintf("%s-%d", strings.ReplaceAll(strings.ToLower(l.name), " ", "-"), i), "request": object(t, override)}
			want = append(want, place+"/overrides/"+command["id"].(string))
			for range 2 { // again with the same id it is the same one
				if got := into(t, c.do(t, command), &setpointv1.Override{}); got.GetName() != want[i] || !got.GetHold() || got.GetReason() != "migration" {
					t.Errorf("got %v, want %s", got, want[i])
				}
			}
		}
		listed := c.do(t, map[string]any{"op": "overrides", "parent": cluster, "name": web}).Names
		for _, name := range want {
			if !slices.Contains(listed, name) {
				t.Errorf("%s is not listed: %s", name, listed)
			}
		}
		answer, err := recommend(t, c, queue(web, 3, 50))
		wantCode(t, err, "OK")
		if answer.GetDesiredReplicas() != 3 || answer.GetPlainDesiredReplicas() != 5 {
			t.Errorf("got %v", answer)
		}
		for _, name := range want {
			wantCode(t, c.do(t, map[string]any{"op": "deleteOverride", "name": name}).Error, "OK")
			wantCode(t, c.do(t, map[string]any{"op": "deleteOverride", "name": name}).Error, "NOT_FOUND")
		}
		refused := c.do(t, map[string]any{"op": "override", "name": web, "request": object(t, &setpointv1.Override{Hold: true})})
		wantCode(t, refused.Error, "INVALID_ARGUMENT")
		// A URL would lead from such a namespace to its cluster.
		all := &setpointv1.Override{Hold: true, Reason: "migration", ExpireTime: timestamppb.New(time.Now().Add(time.Hour))}
		refused = c.do(t, map[string]any{"op": "override", "name": cluster + "/namespaces/..", "request": object(t, all)})
		wantCode(t, refused.Error, "INVALID_ARGUMENT")
	})
}

// Problems of a request are reported by field, without a retry.
func aBadRequestIsToldByField(t *testing.T, s *service.Instance) {
	each(t, func(t *testing.T, l language) {
		f, config := startFronts(t, l, 1, s, passes)
		c := open(t, l, config)
		bad := queue(target(t, "web"), 3, 50)
		bad.Spec.MaxReplicas = 0
		_, err := recommend(t, c, bad)
		wantCode(t, err, "INVALID_ARGUMENT")
		if !slices.Contains(err.Violations, "spec.maxReplicas") {
			t.Errorf("the violations are %q", err.Violations)
		}
		if n := len(f.seen()); n != 1 {
			t.Errorf("%d attempts", n)
		}
	})
}

// A call with a lost answer is repeated with the same request id, at the other address, and
// counts once.
func aLostAnswerCountsOnce(t *testing.T, s *service.Instance) {
	for _, tt := range []struct {
		name string
		lose func(ctx context.Context) error
	}{
		{"by an error", func(context.Context) error { return problem(codes.Unavailable) }},
		{"in silence", hangs},
	} {
		t.Run(tt.name, func(t *testing.T) {
			each(t, func(t *testing.T, l language) {
				f, config := startFronts(t, l, 2, s, func(ctx context.Context, a attempt, forward func() error) error {
					err := forward()
					if a.number == 1 && err == nil {
						return tt.lose(ctx)
					}
					return err
				})
				config.Retry = retry{BaseDelay: .001, AttemptTimeout: 1}
				config.Timeout = 60
				web, c := target(t, "web"), open(t, l, config)
				f.connect(c, 2)
				answer, err := recommend(t, c, queue(web, 3, 50))
				wantCode(t, err, "OK")
				calls := f.seen()
				if len(calls) != 2 || calls[0].front == calls[1].front || calls[0].ids[0] == "" || calls[0].ids[0] != calls[1].ids[0] {
					t.Errorf("the attempts are %+v", calls)
				}
				if answer.GetRequestId() != calls[0].ids[0] || f.recorded(web) != 1 {
					t.Errorf("%d are recorded, the answer is %v", f.recorded(web), answer)
				}
			})
		})
	}
}

// Which errors are tried again, and how often.
func whatIsTriedAgain(t *testing.T, s *service.Instance) {
	for _, tt := range []struct {
		name     string
		err      error
		attempts int
		code     string
	}{
		{"away", problem(codes.Unavailable), 4, "UNAVAILABLE"},
		{"contended", problem(codes.Aborted), 4, "ABORTED"},
		{"overloaded, with a word when to come back", problem(codes.ResourceExhausted, comeBack(time.Millisecond)), 4, "RESOURCE_EXHAUSTED"},
		{"too large", problem(codes.ResourceExhausted), 1, "RESOURCE_EXHAUSTED"},
		{"forbidden", problem(codes.PermissionDenied), 1, "PERMISSION_DENIED"},
		{"unknown", problem(codes.NotFound), 1, "NOT_FOUND"},
		{"another cluster's", problem(codes.FailedPrecondition), 1, "FAILED_PRECONDITION"},
		{"broken", problem(codes.Internal), 1, "INTERNAL"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			each(t, func(t *testing.T, l language) {
				f, config := startFronts(t, l, 1, s, func(context.Context, attempt, func() error) error { return tt.err })
				config.Retry = fast
				_, err := recommend(t, open(t, l, config), queue(target(t, "web"), 3, 50))
				wantCode(t, err, tt.code)
				if n := len(f.seen()); n != tt.attempts {
					t.Errorf("%d attempts, want %d", n, tt.attempts)
				}
			})
		})
	}
}

// Storing a spec is tried once: a retry might undo another caller's change.
func aSpecIsSentOnce(t *testing.T, s *service.Instance) {
	each(t, func(t *testing.T, l language) {
		f, config := startFronts(t, l, 1, s, func(context.Context, attempt, func() error) error { return problem(codes.Unavailable) })
		config.Retry = fast
		command := map[string]any{"op": "setSpec", "name": target(t, "web"), "request": object(t, &setpointv1.TargetSpec{Spec: queue("", 1, 1).GetSpec()})}
		wantCode(t, open(t, l, config).do(t, command).Error, "UNAVAILABLE")
		if n := len(f.seen()); n != 1 {
			t.Errorf("%d attempts", n)
		}
	})
}

// The service's word when to come back is kept, also where it is longer than all delays.
func theServiceSaysWhenToComeBack(t *testing.T, s *service.Instance) {
	const pause = 700 * time.Millisecond
	each(t, func(t *testing.T, l language) {
		f, config := startFronts(t, l, 1, s, func(_ context.Context, a attempt, forward func() error) error {
			if a.number == 1 {
				return problem(codes.ResourceExhausted, comeBack(pause))
			}
			return forward()
		})
		config.Retry, config.Timeout = fast, 60
		_, err := recommend(t, open(t, l, config), queue(target(t, "web"), 3, 50))
		wantCode(t, err, "OK")
		if calls := f.seen(); len(calls) != 2 || calls[1].after < pause {
			t.Errorf("the attempts are %+v", calls)
		}
		if !l.rest {
			return
		}
		// So is a proxy's, which has no other way to say it.
		for status, body := range map[int]string{http.StatusTooManyRequests: "slow down", http.StatusServiceUnavailable: `{"code": 8, "message": "full"}`} {
			refused := time.Time{}
			proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if refused.IsZero() {
					refused = time.Now()
					w.Header().Set("Retry-After", "1")
					http.Error(w, body, status)
					return
				}
				if took := time.Since(refused); took < time.Second {
					t.Errorf("%d: tried again after %v", status, took)
				}
				httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: s.RESTAddr()}).ServeHTTP(w, r)
			}))
			config.Target = proxy.URL
			_, err := recommend(t, open(t, l, config), queue(target(t, "web"), 3, 50))
			wantCode(t, err, "OK")
			proxy.Close()
		}
	})
}

// A pause that would outlast the call is not waited for: the caller learns at once why.
func noPauseOutlastsTheCall(t *testing.T, s *service.Instance) {
	each(t, func(t *testing.T, l language) {
		f, config := startFronts(t, l, 1, s, func(context.Context, attempt, func() error) error {
			return problem(codes.ResourceExhausted, comeBack(time.Hour))
		})
		began := time.Now()
		_, err := recommend(t, open(t, l, config), queue(target(t, "web"), 3, 50))
		wantCode(t, err, "RESOURCE_EXHAUSTED")
		if err.RetryDelay == nil || *err.RetryDelay != 3600 {
			t.Errorf("the error says nothing of when to come back: %+v", err)
		}
		if n := len(f.seen()); n != 1 || time.Since(began) > patience {
			t.Errorf("%d attempts in %v", n, time.Since(began))
		}
	})
}

// A call ends with its time, whatever hangs, and tells what an earlier attempt was told.
func aCallEndsWithItsTime(t *testing.T, s *service.Instance) {
	each(t, func(t *testing.T, l language) {
		ends := func(f *fronts, n int, c config, call func(client) *failure, told string) {
			c.Timeout, c.Retry = 5, retry{AttemptTimeout: 3, BaseDelay: .001}
			opened := open(t, l, c)
			f.connect(opened, n) // on a busy machine the first attempt would not end in its time
			began := time.Now()
			err := call(opened)
			wantCode(t, err, "DEADLINE_EXCEEDED")
			if took := time.Since(began); took < time.Second || took > 30*time.Second {
				t.Errorf("it took %v", took)
			}
			if !strings.HasSuffix(err.Message, "; an earlier attempt: "+told) {
				t.Errorf("got %v, want also %s", err, told)
			}
		}
		hangsLater := func(ctx context.Context, a attempt, forward func() error) error {
			if a.number == 1 {
				return forward()
			}
			return hangs(ctx)
		}
		f, c := startFronts(t, l, 2, s, func(ctx context.Context, a attempt, _ func() error) error {
			return hangsLater(ctx, a, func() error { return problem(codes.Unavailable) })
		})
		ends(f, 2, c, func(c client) *failure {
			_, err := recommend(t, c, queue(target(t, "web"), 3, 50))
			return err
		}, "as the test wants it")
		f = &fronts{t: t, service: s, plan: hangsLater}
		ends(f, 1, config{Target: startBatches(f, l, nil, func(*setpointv1.RecommendRequest) codes.Code { return codes.Aborted }), Insecure: true}, func(c client) *failure {
			return batch(t, c, queue(target(t, "web"), 3, 50))[0].Error
		}, "busy")
	})
}

// Further attempts come out of a budget of all calls: a service in trouble gets no multiple of
// its load.
func furtherAttemptsHaveABudget(t *testing.T, s *service.Instance) {
	each(t, func(t *testing.T, l language) {
		f, config := startFronts(t, l, 1, s, func(context.Context, attempt, func() error) error { return problem(codes.Unavailable) })
		config.Retry = fast
		config.Retry.BudgetReserve, config.Retry.BudgetRatio = 5, new(1e-9)
		c := open(t, l, config)
		for range 10 {
			_, err := recommend(t, c, queue(target(t, "web"), 3, 50))
			wantCode(t, err, "UNAVAILABLE")
		}
		// 10, and 5 of the reserve; what the calls add makes none.
		if n := len(f.seen()); n != 15 {
			t.Errorf("%d attempts, want 15", n)
		}
	})
}

// Calls go to all addresses in turn, skipping those without a listener.
func callsAreSpread(t *testing.T, s *service.Instance) {
	each(t, func(t *testing.T, l language) {
		f, config := startFronts(t, l, 3, s, passes)
		dead := "127.0.0.1:1"
		if l.rest {
			dead = "http://" + dead
		}
		config.Target += "," + dead
		config.Retry, config.Timeout = fast, 60
		c := open(t, l, config)
		f.connect(c, 3)
		const calls = 24
		reached := map[int]int{}
		for i := range calls {
			_, err := recommend(t, c, queue(target(t, fmt.Sprint("web", i)), 3, 50))
			wantCode(t, err, "OK")
		}
		for _, a := range f.seen() {
			reached[a.front]++
		}
		for i := range 3 {
			if reached[i] < calls/12 {
				t.Errorf("the fronts got %v of %d calls", reached, calls)
				break
			}
		}
	})
}

// A delete with a lost answer succeeds; deleting nothing fails.
func aDeletionWhoseAnswerIsLost(t *testing.T, s *service.Instance) {
	each(t, func(t *testing.T, l language) {
		_, config := startFronts(t, l, 1, s, func(_ context.Context, a attempt, forward func() error) error {
			err := forward()
			if a.method == "DeleteTarget" && err == nil {
				return problem(codes.Unavailable)
			}
			return err
		})
		config.Retry = fast
		c, web := open(t, l, config), target(t, "web")
		_, err := recommend(t, c, queue(web, 3, 50))
		wantCode(t, err, "OK")
		wantCode(t, c.do(t, map[string]any{"op": "delete", "name": web}).Error, "OK")
		wantCode(t, c.do(t, map[string]any{"op": "delete", "name": web}).Error, "NOT_FOUND")
	})
}

func listsAreOfAllPages(t *testing.T, s *service.Instance) {
	each(t, func(t *testing.T, l language) {
		f, config := startFronts(t, l, 1, s, passes)
		c := open(t, l, config)
		var want []string
		for i := range 5 {
			want = append(want, target(t, fmt.Sprint("web", i)))
			_, err := recommend(t, c, queue(want[i], 3, 50))
			wantCode(t, err, "OK")
		}
		parent, _, _ := strings.Cut(want[0], "/targets/")
		if got := c.do(t, map[string]any{"op": "list", "parent": parent}); !slices.Equal(got.Names, want) {
			t.Errorf("got %v", got)
		}
		if n := len(f.seen()); n != 5+3 {
			t.Errorf("%d calls for 5 recommendations and 3 pages", n)
		}
	})
}

// batch sends a batch with a client.
func batch(t *testing.T, c client, requests ...*setpointv1.RecommendRequest) []said {
	t.Helper()
	var all []any
	for _, r := range requests {
		all = append(all, object(t, r))
	}
	results := c.do(t, map[string]any{"op": "batch", "requests": all})
	if results.Error != nil || len(results.Results) != len(requests) {
		t.Fatalf("%d results for %d requests: %v", len(results.Results), len(requests), results.Error)
	}
	return results.Results
}

func codesOf(results []said) string {
	var all []string
	for _, r := range results {
		code := "OK"
		if r.Error != nil {
			code = r.Error.Code
		}
		all = append(all, code)
	}
	return strings.Join(all, " ")
}

// Calls run side by side, without a warning of the language's.
func manyCallsAtOnce(t *testing.T, s *service.Instance) {
	each(t, func(t *testing.T, l language) {
		var requests []any
		for i := range 40 {
			requests = append(requests, object(t, queue(target(t, fmt.Sprint("web", i)), 3, 50)))
		}
		results := open(t, l, config{Target: at(l, s), Insecure: true}).do(t, map[string]any{"op": "many", "requests": requests})
		if results.Error != nil || len(results.Results) != len(requests) {
			t.Errorf("%d answers, %v", len(results.Results), results.Error)
		}
	})
}

// A batch is cut as the service takes it, a bad request fails alone, and one answer may be asked
// for again.
func batches(t *testing.T, s *service.Instance) {
	each(t, func(t *testing.T, l language) {
		f, config := startFronts(t, l, 2, s, func(_ context.Context, a attempt, forward func() error) error {
			err := forward()
			if a.number == 2 && err == nil {
				return problem(codes.Unavailable)
			}
			return err
		})
		config.MaxBatch, config.Retry = 2, fast
		var requests []*setpointv1.RecommendRequest
		for i := range 5 {
			requests = append(requests, queue(target(t, fmt.Sprint("web", i)), 3, 50))
		}
		requests[1].Spec.MaxReplicas = 0
		results := batch(t, open(t, l, config), requests...)
		if got := codesOf(results); got != "OK INVALID_ARGUMENT OK OK OK" {
			t.Errorf("got %s", got)
		}
		calls := f.seen()
		if len(calls) != 4 || len(calls[0].ids) != 2 || len(calls[3].ids) != 1 || !slices.Equal(calls[1].ids, calls[2].ids) {
			t.Fatalf("the calls are %+v", calls)
		}
		if n := f.recorded(requests[2].GetTarget()); n != 1 {
			t.Errorf("%d are recorded of what was asked for twice", n)
		}
	})
}

// The time of a batch bounds all of its calls: what is left over is not sent.
func theCallsOfABatchShareItsTime(t *testing.T, s *service.Instance) {
	each(t, func(t *testing.T, l language) {
		f, config := startFronts(t, l, 1, s, func(ctx context.Context, _ attempt, _ func() error) error { return hangs(ctx) })
		config.MaxBatch = 1
		c := open(t, l, config)
		one := object(t, queue(target(t, "web"), 3, 50))
		began := time.Now()
		results := c.do(t, map[string]any{"op": "batch", "requests": []any{one, one, one, one, one}, "timeout": 1}).Results
		if got := codesOf(results); got != strings.TrimSpace(strings.Repeat("DEADLINE_EXCEEDED ", 5)) {
			t.Errorf("got %s", got)
		}
		results = append(results, c.do(t, map[string]any{"op": "batch", "requests": []any{one}, "timeout": -1}).Results...) // it is over already
		if got := codesOf(results[5:]); got != "DEADLINE_EXCEEDED" {
			t.Errorf("without time: %s", got)
		}
		if n := len(f.seen()); n != 1 || time.Since(began) > patience {
			t.Errorf("%d calls", n)
		}
	})
}

// A batch is split so that each call has no more bytes than the service takes, of what is sent: over REST of JSON.
func TestBatchesFitIntoTheServicesBound(t *testing.T) {
	const most = 4096
	s := service.Start(t, fmt.Sprint("--max-request-bytes=", most))
	each(t, func(t *testing.T, l language) {
		name := "maxRequestBytes"
		if l.name == "python" {
			name = "max_request_bytes"
		}
		var requests []*setpointv1.RecommendRequest
		for i := range 20 {
			requests = append(requests, queue(target(t, fmt.Sprint("web", i)), 3, 50))
		}
		results := batch(t, open(t, l, config{Target: at(l, s), Insecure: true, Options: map[string]any{name: most}}), requests...)
		if got := codesOf(results); got != strings.TrimSpace(strings.Repeat("OK ", len(requests))) {
			t.Errorf("got %s", got)
		}
	})
}

// Requests of a batch that fail for a reason that may pass are sent again, alone.
func aBatchSendsAgainWhatFailed(t *testing.T, s *service.Instance) {
	each(t, func(t *testing.T, l language) {
		var mu sync.Mutex
		busy := map[string]int{}
		f := &fronts{t: t, service: s, plan: passes}
		c := open(t, l, config{Target: startBatches(f, l, nil, func(r *setpointv1.RecommendRequest) codes.Code {
			mu.Lock()
			defer mu.Unlock()
			if busy[r.GetTarget()]++; strings.HasSuffix(r.GetTarget(), "busy") && busy[r.GetTarget()] < 3 {
				return codes.Aborted
			}
			return codes.OK
		}), Insecure: true, Retry: fast})
		results := batch(t, c, queue(target(t, "a"), 3, 50), queue(target(t, "busy"), 3, 50), queue(target(t, "b"), 3, 50))
		if got := codesOf(results); got != "OK OK OK" {
			t.Errorf("got %s", got)
		}
		var sizes []int
		for _, a := range f.seen() {
			sizes = append(sizes, len(a.ids))
		}
		if !slices.Equal(sizes, []int{3, 1, 1}) {
			t.Errorf("calls of %v requests", sizes)
		}
	})
}

// Swapped answers of a batch are refused.
func aBatchWhoseAnswersAreMixedUp(t *testing.T, s *service.Instance) {
	for _, tt := range []struct {
		name string
		mix  func([]*setpointv1.BatchRecommendResult) []*setpointv1.BatchRecommendResult
		want string
	}{
		{"swapped", func(r []*setpointv1.BatchRecommendResult) []*setpointv1.BatchRecommendResult {
			r[1], r[2] = r[2], r[1]
			return r
		}, "OK INTERNAL INTERNAL OK"},
		{"too few", func(r []*setpointv1.BatchRecommendResult) []*setpointv1.BatchRecommendResult { return r[:3] }, "INTERNAL INTERNAL INTERNAL INTERNAL"},
		{"one in two places", func(r []*setpointv1.BatchRecommendResult) []*setpointv1.BatchRecommendResult {
			for _, one := range r {
				one.GetResponse().RequestId = nil // so that only the recommendation differs
			}
			r[2] = r[0]
			return r
		}, "INTERNAL OK INTERNAL OK"},
		{"an empty one", func(r []*setpointv1.BatchRecommendResult) []*setpointv1.BatchRecommendResult {
			r[3] = &setpointv1.BatchRecommendResult{}
			return r
		}, "OK OK OK INTERNAL"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			each(t, func(t *testing.T, l language) {
				f := &fronts{t: t, service: s, plan: passes}
				c := open(t, l, config{Target: startBatches(f, l, tt.mix, nil), Insecure: true, Retry: fast})
				var requests []*setpointv1.RecommendRequest
				for i := range 4 {
					requests = append(requests, queue(target(t, fmt.Sprint("web", i)), 3, 50))
				}
				if got := codesOf(batch(t, c, requests...)); got != tt.want {
					t.Errorf("got %s, want %s", got, tt.want)
				}
			})
		})
	}
}

// A token with a line break is told as that, is not sent, and is not quoted. One that never comes ends with the call's time.
func aTokenThatNoHeaderCanHold(t *testing.T, s *service.Instance) {
	each(t, func(t *testing.T, l language) {
		f, config := startFronts(t, l, 1, s, passes)
		for _, token := range []string{"sp_sec\nret", "sp_secr\u00e9t", "sp_secr\u20act"} {
			config.Token, config.TokenOverInsecure = token, true
			_, err := recommend(t, open(t, l, config), queue(target(t, "web"), 3, 50))
			wantCode(t, err, "UNAUTHENTICATED")
			if strings.Contains(err.Message, "sp_") || !strings.Contains(err.Message, "bearer token: ") {
				t.Errorf("it says %q", err.Message)
			}
		}
		config.Token, config.TokenNone = "", true
		_, err := recommend(t, open(t, l, config), queue(target(t, "web"), 3, 50))
		wantCode(t, err, "UNAUTHENTICATED")
		if !strings.Contains(err.Message, "there is none") {
			t.Errorf("it says %q", err.Message)
		}
		if config.TokenNone = false; l.name != "python" { // whose sources return a token, and no promise of one
			config.TokenNever, config.Timeout = true, .5
			_, err := recommend(t, open(t, l, config), queue(target(t, "web"), 3, 50))
			wantCode(t, err, "DEADLINE_EXCEEDED")
		}
		if n := len(f.seen()); n != 0 {
			t.Errorf("%d attempts", n)
		}
	})
}

// The service is stopped and killed amid calls: no call fails, nothing counts twice.
func TestRestartsLoseAndDoubleNothing(t *testing.T) {
	redis := redistest.Start(t, redistest.Config{})
	each(t, func(t *testing.T, l language) {
		instances := service.StartAll(t, 2, "--redis="+redis.URL())
		both := []string{at(l, instances[0]), at(l, instances[1])}
		// A channel notices seconds later that its instance is back, and the other may be killed before.
		// So only the time of a call bounds its attempts here, not their number and not their budget.
		c := open(t, l, config{Target: strings.Join(both, ","), Insecure: true, Timeout: 60, Retry: retry{MaxAttempts: 1000, MaxDelay: 1, AttemptTimeout: 2, BudgetReserve: 1000}})
		web := target(t, "web")
		const calls = 60
		// An instance writes to the decision log after its answer: a killed one takes what it had not
		// written yet with it, and the other does not wait for it.
		logged := func(want int) {
			t.Helper()
			f := &fronts{t: t, service: instances[0]}
			n := f.recorded(web)
			for deadline := time.Now().Add(patience); n != want && time.Now().Before(deadline); n = f.recorded(web) {
				time.Sleep(time.Millisecond)
			}
			if n != want {
				t.Errorf("%d decisions are recorded, want %d", n, want)
			}
		}
		for i := range calls {
			switch i {
			case 10, 30:
				instances[0].Stop()
			case 15, 35:
				instances[0].Restart()
			case 20, 45:
				logged(i)
				instances[1].Kill()
			case 25, 50:
				instances[1].Restart()
			}
			answer, err := recommend(t, c, queue(web, 3, int32(10*(i+4))))
			wantCode(t, err, "OK")
			if answer.GetDesiredReplicas() != int32(i+4) {
				t.Errorf("call %d came to %d replicas", i, answer.GetDesiredReplicas())
			}
		}
		logged(calls)
	})
}

// newToken has the program make a token, and returns it with its entry for the file.
func newToken(t *testing.T, identity string) (token, entry string) {
	t.Helper()
	program, err := service.Program()
	fatal.If(t, err)
	var out, errs bytes.Buffer
	cmd := exec.Command(program, "token", identity)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("setpoint token: %v\n%s", err, &errs)
	}
	return strings.TrimSpace(out.String()), errs.String()
}

// Tokens: a good one, one from a file that is renewed, a bad one, none; over TLS.
func TestTokensAndTLS(t *testing.T) {
	files := redistest.NewTLS(t)
	first, firstEntry := newToken(t, "first")
	second, secondEntry := newToken(t, "second")
	dir := t.TempDir()
	tokens := filepath.Join(dir, "tokens.yaml")
	write(t, tokens, "tokens:\n"+firstEntry+secondEntry)
	s := service.Start(t, "--auth-tokens-file="+tokens, "--tls-cert-file="+files.ServerCertFile, "--tls-key-file="+files.ServerKeyFile,
		"--tls-client-ca-file="+files.CAFile)
	each(t, func(t *testing.T, l language) {
		secured := config{Target: s.GRPCAddr(), CAFile: files.CAFile}
		if l.rest {
			secured.Target = "https://" + s.RESTAddr()
		}
		environments.Store(t.Name(), []string{"NODE_EXTRA_CA_CERTS=" + files.CAFile}) // fetch takes them from there alone
		web := target(t, "web")
		ask := func(t *testing.T, c client) *failure {
			t.Helper()
			_, err := recommend(t, c, queue(web, 3, 50))
			return err
		}
		with := func(change func(*config)) config {
			c := secured
			change(&c)
			return c
		}
		c := l.start(t)
		reopen := func(t *testing.T, to config) {
			t.Helper()
			fatal.If(t, c.do(t, map[string]any{"op": "open", "config": to}).err())
		}
		reopen(t, with(func(c *config) { c.Token = first }))
		wantCode(t, ask(t, c), "OK")
		reopen(t, with(func(c *config) { c.Token = "sp_wrong" }))
		wantCode(t, ask(t, c), "UNAUTHENTICATED")
		reopen(t, secured)
		wantCode(t, ask(t, c), "UNAUTHENTICATED")
		if !l.rest {
			reopen(t, with(func(c *config) { c.CertFile, c.KeyFile = files.ClientCertFile, files.ClientKeyFile }))
			wantCode(t, ask(t, c), "OK")
			reopen(t, with(func(c *config) { c.CAFile, c.Token, c.Retry.MaxAttempts = "", first, 1 }))
			wantCode(t, ask(t, c), "UNAVAILABLE") // no trusted authority
			filesOfTLS(t, c, secured.Target, files, func() *failure { return ask(t, c) })
		}

		// A token in a file is renewed; while the file is empty the last one stands.
		file := filepath.Join(t.TempDir(), "token")
		reopen(t, with(func(c *config) { c.TokenFile = file }))
		wantCode(t, ask(t, c), "UNAUTHENTICATED")
		write(t, file, first+"\n")
		wantCode(t, ask(t, c), "OK")
		write(t, file, "")
		wantCode(t, ask(t, c), "OK")
		write(t, file, "sp_wrong-after-renewal")
		wantCode(t, ask(t, c), "UNAUTHENTICATED")
		write(t, file, " "+second)
		wantCode(t, ask(t, c), "OK")

		// Never in the clear, unless that is wanted.
		clear := config{Target: "setpoint.example.org:9090", Insecure: true, Token: first}
		if l.rest {
			clear.Target = "http://setpoint.example.org:8080"
		}
		wantCode(t, c.do(t, map[string]any{"op": "open", "config": clear}).Error, "CONFIG")
	})
}

// filesOfTLS has files broken: at the start that is told, by name; later calls go on with what was read last.
func filesOfTLS(t *testing.T, c client, at string, files *redistest.TLS, ask func() *failure) {
	t.Helper()
	dir := t.TempDir()
	read := func(name string) string {
		return testpages.Read(t, name)
	}
	ca := read(files.CAFile)
	to := config{Target: at, CAFile: filepath.Join(dir, "ca.pem"), CertFile: filepath.Join(dir, "own.crt"), KeyFile: filepath.Join(dir, "own.key"), Retry: retry{MaxAttempts: 1}}
	whole := func() {
		write(t, to.CAFile, ca)
		write(t, to.CertFile, read(files.ClientCertFile))
		write(t, to.KeyFile, read(files.ClientKeyFile))
	}
	for _, broken := range []struct{ file, text string }{
		{to.CAFile, ""}, {to.CAFile, "tokens: []\n"}, {to.CAFile, ca[:len(ca)/2]}, {to.CAFile, ca + ca[:len(ca)/2]}, {to.CertFile, read(files.ServerCertFile)}, {to.KeyFile, ""},
	} {
		whole()
		write(t, broken.file, broken.text)
		err := c.do(t, map[string]any{"op": "open", "config": to}).Error
		wantCode(t, err, "CONFIG")
		if !strings.Contains(err.Message, broken.file) {
			t.Errorf("%q in it: %s", broken.text, err.Message)
		}
		whole()
		fatal.If(t, c.do(t, map[string]any{"op": "open", "config": to}).err())
		wantCode(t, ask(), "OK")
		write(t, broken.file, broken.text)
		time.Sleep(1100 * time.Millisecond) // the files are looked at once a second
		if err := ask(); err != nil {
			t.Errorf("%q in %s: %v", broken.text, filepath.Base(broken.file), err)
		}
	}
}

// What a newcomer types first: no word about TLS, against a service without it and one with it.
func TestTransportOfFirstCalls(t *testing.T) {
	files := redistest.NewTLS(t)
	plain := service.Start(t)
	secured := service.Start(t, "--tls-cert-file="+files.ServerCertFile, "--tls-key-file="+files.ServerKeyFile)
	each(t, func(t *testing.T, l language) {
		addr := func(s *service.Instance) string {
			if l.rest {
				return "http://" + s.RESTAddr()
			}
			return s.GRPCAddr()
		}
		other, code, right := config{Target: plain.RESTAddr()}, "UNIMPLEMENTED", "gRPC is served at port"
		if l.rest {
			other, code, right = config{Target: "http://" + plain.GRPCAddr()}, "INVALID_ARGUMENT", "REST is served at port"
		}
		once := retry{MaxAttempts: 1}
		for _, tc := range []struct {
			name string
			to   config
			code string
			says []string
		}{
			{"a service on this machine without TLS", config{Target: addr(plain)}, "OK", nil},
			{"the port of the other protocol", other, code, []string{right}},
			{"the same with a token", config{Target: addr(plain), Token: "any"}, "OK", nil},
			{"TLS to a service without it", config{Target: addr(plain), CAFile: files.CAFile, Retry: once}, "UNAVAILABLE", []string{"speaks no TLS", "insecure"}},
			{"a service with TLS", config{Target: addr(secured), Retry: once}, "UNAVAILABLE", []string{"if it speaks TLS"}},
		} {
			if l.rest && tc.code == "UNAVAILABLE" {
				continue // the URL says it
			}
			c := l.start(t)
			if err := c.do(t, map[string]any{"op": "open", "config": tc.to}).Error; err != nil {
				t.Fatalf("%s: %v", tc.name, err)
			}
			_, err := recommend(t, c, queue(target(t, "web"), 3, 50))
			wantCode(t, err, tc.code)
			for _, word := range tc.says {
				if !strings.Contains(err.Message, word) {
					t.Errorf("%s: %s, want %q", tc.name, err.Message, word)
				}
			}
		}
	})
}

// An address of this machine is called without the proxies of the environment: another machine would get what may
// travel without TLS because it stays here. Other addresses are called by them over gRPC.
func TestLocalAddressesNeedNoProxy(t *testing.T) {
	s := service.Start(t)
	each(t, func(t *testing.T, l language) {
		proxy, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		fatal.If(t, err)
		t.Cleanup(func() { _ = proxy.Close() })
		asked := make(chan string, 100)
		go func() {
			for {
				c, err := proxy.Accept()
				if err != nil {
					return
				}
				line, _ := bufio.NewReader(c).ReadString('\n')
				asked <- line
				_ = c.Close()
			}
		}()
		var variables []string
		for _, name := range []string{"http_proxy", "https_proxy", "grpc_proxy", "HTTP_PROXY", "HTTPS_PROXY"} {
			variables = append(variables, name+"=http://"+proxy.Addr().String())
		}
		environments.Store(t.Name(), append(variables, "no_proxy=", "no_grpc_proxy=", "NO_PROXY="))
		_, err2 := recommend(t, open(t, l, config{Target: at(l, s), Token: "sp_local", Retry: retry{MaxAttempts: 1}}), queue(target(t, "web"), 3, 50))
		wantCode(t, err2, "OK")
		if len(asked) > 0 {
			t.Errorf("the proxy was asked %q", <-asked)
		}
		if !l.rest { // fetch of Node.js uses none
			_, err2 = recommend(t, open(t, l, config{Target: "setpoint.invalid:9090", Insecure: true, Retry: retry{MaxAttempts: 1}}), queue(target(t, "web"), 3, 50))
			wantCode(t, err2, "UNAVAILABLE")
			if len(asked) == 0 || !strings.HasPrefix(<-asked, "CONNECT setpoint.invalid:9090 ") {
				t.Error("another machine was called without the proxy")
			}
		}
	})
}

// An option that a client does not have is an error, and so is a port that no machine has: nobody would notice.
func TestUnknownOptionsAreErrors(t *testing.T) {
	each(t, func(t *testing.T, l language) {
		c := l.start(t)
		to := config{Target: "127.0.0.1:9090"}
		if l.rest {
			to.Target = "http://127.0.0.1:8080"
		}
		for name, wants := range map[string]string{"timeotMs": `did you mean "timeoutMs"?`, "max_batches": `"maxBatch"`, "colour": "there are timeoutMs, "} {
			to.Options = map[string]any{name: 1}
			err := c.do(t, map[string]any{"op": "open", "config": to}).Error
			wantCode(t, err, "CONFIG")
			if l.name == "python" {
				wants = "unexpected keyword argument"
			}
			if !strings.Contains(err.Message, name) || !strings.Contains(err.Message, wants) {
				t.Errorf("%s: %s, want %q", name, err.Message, wants)
			}
		}
		if l.name != "python" { // in which a text for a number ends the first call with a TypeError
			to.Options = map[string]any{"timeoutMs": "10s"}
			if err := c.do(t, map[string]any{"op": "open", "config": to}).Error; err == nil || !strings.Contains(err.Message, "timeoutMs must be a number") {
				t.Errorf("a text for a number: %v", err)
			}
		}
		for _, port := range []string{":0", ":65536", ":99999"} {
			if l.rest && port == ":0" {
				continue // a URL may have it
			}
			to := config{Target: strings.TrimSuffix(strings.TrimSuffix(to.Target, ":9090"), ":8080") + port}
			wantCode(t, c.do(t, map[string]any{"op": "open", "config": to}).Error, "CONFIG")
		}
		if l.rest {
			wantCode(t, c.do(t, map[string]any{"op": "openJson", "url": to.Target, "options": map[string]any{"timeoutMs": 1}}).Error, "OK")
			wantCode(t, c.do(t, map[string]any{"op": "openJson", "url": to.Target, "options": map[string]any{"token": "x"}}).Error, "CONFIG")
			wantCode(t, c.do(t, map[string]any{"op": "openJson", "url": to.Target, "options": map[string]any{"timeoutMs": "10s"}}).Error, "CONFIG")
			wantCode(t, c.do(t, map[string]any{"op": "openJson", "url": to.Target, "options": map[string]any{"retry": map[string]any{"atempts": 2}}}).Error, "CONFIG")
			wantCode(t, c.do(t, map[string]any{"op": "openJson", "url": "127.0.0.1:8080"}).Error, "CONFIG")
		}
	})
}

// The first call after a service is back succeeds, however far apart calls are.
func TestAServiceThatComesBack(t *testing.T) {
	t.Parallel()
	const longest = 7 * time.Second // between two attempts to connect
	s := service.Start(t)
	clients := map[string]client{}
	ask := func(want string) {
		t.Helper()
		for _, l := range languages() {
			if clients[l.name] == nil {
				clients[l.name] = open(t, l, config{Target: at(l, s), Insecure: true})
			}
			if _, err := recommend(t, clients[l.name], queue(target(t, "web"), 3, 50)); err == nil && want != "OK" || err != nil && err.Code != want {
				t.Errorf("%s: %v, want %s", l.name, err, want)
			}
		}
	}
	ask("OK")
	s.Kill()
	ask("UNAVAILABLE")
	time.Sleep(longest)
	s.Restart()
	time.Sleep(longest)
	ask("OK")
}

// Objects as users write them are taken or refused alike, over gRPC and over REST.
func TestObjectsOfUsers(t *testing.T) {
	s := service.Start(t)
	each(t, func(t *testing.T, l language) {
		c := l.start(t)
		to := config{Target: s.GRPCAddr()}
		if l.rest {
			to.Target = "http://" + s.RESTAddr()
		}
		fatal.If(t, c.do(t, map[string]any{"op": "open", "config": to}).err())
		for _, tc := range []struct {
			name   string
			change func(request, spec, metric map[string]any)
			fields []string
		}{
			{"as it should be", func(_, _, _ map[string]any) {}, nil},
			{"a number as quantity", func(_, _, metric map[string]any) { metric["value"] = 50 }, nil},
			{"a misspelled field", func(_, spec, _ map[string]any) { spec["behaviour"] = map[string]any{} }, []string{"spec.behaviour"}},
			{"two of them", func(request, _, metric map[string]any) { request["dryrun"], metric["vale"] = true, "1" }, []string{"dryrun", "externalMetrics[0].vale"}},
			{"a target that is none", func(request, _, _ map[string]any) { request["target"] = "web" }, []string{"target"}},
			{"half a replica", func(request, _, _ map[string]any) { request["scale"] = map[string]any{"specReplicas": 3.5} }, []string{"scale.specReplicas"}},
			{"more replicas than there may be", func(request, _, _ map[string]any) { request["scale"] = map[string]any{"specReplicas": 3_000_000_000} }, []string{"scale.specReplicas"}},
			{"a generation that is none", func(request, _, _ map[string]any) { request["generation"] = "first" }, []string{"generation"}},
			{"a generation that is empty", func(request, _, _ map[string]any) { request["generation"] = "" }, []string{"generation"}},
			{"a word for a number", func(request, _, _ map[string]any) { request["scale"] = map[string]any{"specReplicas": "three"} }, []string{"scale.specReplicas"}},
			{"a word for a fraction", func(request, _, _ map[string]any) {
				request["podMetrics"] = []any{map[string]any{"pod": "web-a", "windowSeconds": "half"}}
			}, []string{"podMetrics[0].windowSeconds"}},
			{"true for a fraction", func(request, _, _ map[string]any) {
				request["podMetrics"] = []any{map[string]any{"pod": "web-a", "windowSeconds": true}}
			}, []string{"podMetrics[0].windowSeconds"}},
			{"a field in both spellings", func(_, spec, _ map[string]any) { spec["max_replicas"] = 30 }, []string{"spec.max_replicas"}},
			{"a number for a label", func(_, _, metric map[string]any) { metric["labels"] = map[string]any{"a": 5} }, []string{`externalMetrics[0].labels["a"]`}},
			{"a list for labels", func(_, _, metric map[string]any) { metric["labels"] = []any{"a"} }, []string{"externalMetrics[0].labels"}},
			{"an object for a list", func(request, _, metric map[string]any) { request["externalMetrics"] = metric }, []string{"externalMetrics"}},
			{"a list for an object", func(request, spec, _ map[string]any) { request["spec"] = []any{spec} }, []string{"spec"}},
			{"a text for an object", func(request, _, _ map[string]any) { request["spec"] = "y" }, []string{"spec"}},
			{"no policies, which Kubernetes refuses", func(_, spec, _ map[string]any) {
				spec["behavior"] = map[string]any{"scaleDown": map[string]any{"policies": []any{}}}
			}, []string{"spec.behavior.scaleDown.policies"}},
			{"a field one level up", func(request, _, _ map[string]any) { request["maxReplicas"] = 3 }, []string{"maxReplicas"}},
			{"no target", func(request, _, _ map[string]any) { delete(request, "target") }, []string{"target"}},
			{"times and durations", func(request, _, _ map[string]any) {
				request["options"] = map[string]any{"cpuInitializationPeriod": "300s"}
				request["previousStatus"] = map[string]any{"lastScaleTime": "2026-01-31T12:00:00Z", "currentReplicas": 3, "desiredReplicas": 3}
			}, nil},
			{"a duration that is none", func(request, _, _ map[string]any) {
				request["options"] = map[string]any{"cpuInitializationPeriod": "5m"}
			}, []string{"options.cpuInitializationPeriod"}},
			{"a number for a duration", func(request, _, _ map[string]any) {
				request["options"] = map[string]any{"cpuInitializationPeriod": 300}
			}, []string{"options.cpuInitializationPeriod"}},
			{"a time that is none", func(request, _, _ map[string]any) { request["evaluationTime"] = "yesterday" }, []string{"evaluationTime"}},
			{"a day that is none", func(_, _, metric map[string]any) { metric["timestamp"] = "2026-02-30T12:00:00Z" }, []string{"externalMetrics[0].timestamp"}},
			{"an hour that is none", func(_, _, metric map[string]any) { metric["timestamp"] = "2026-01-31T24:00:00Z" }, []string{"externalMetrics[0].timestamp"}},
			{"a time before the first", func(_, _, metric map[string]any) { metric["timestamp"] = "0001-01-01T00:00:00+02:00" }, []string{"externalMetrics[0].timestamp"}},
			{"true for a quantity", func(_, _, metric map[string]any) { metric["value"] = true }, []string{"externalMetrics[0].value"}},
			{"half a character", func(_, _, metric map[string]any) { metric["labels"] = map[string]any{"a": json.RawMessage(`"\ud83d"`)} }, []string{`externalMetrics[0].labels["a"]`}},
		} {
			metric := map[string]any{"metric": map[string]any{"name": "queue"}, "value": "50"}
			spec := map[string]any{"minReplicas": 1, "maxReplicas": 10, "metrics": []any{map[string]any{
				"type": "External", "external": map[string]any{
					"metric": map[string]any{"name": "queue"}, "target": map[string]any{"type": "AverageValue", "averageValue": "10"},
				},
			}}}
			request := map[string]any{"target": target(t, "web"), "spec": spec, "scale": map[string]any{"specReplicas": 3}, "externalMetrics": []any{metric}}
			tc.change(request, spec, metric)
			got := c.do(t, map[string]any{"op": "object", "request": request})
			if tc.fields == nil {
				wantCode(t, got.Error, "OK")
				continue
			}
			wantCode(t, got.Error, "INVALID_ARGUMENT")
			slices.Sort(got.Error.Violations)
			if got.Error.Reason != "INVALID_REQUEST" {
				t.Errorf("%s: the reason is %q", tc.name, got.Error.Reason)
			}
			if !slices.Equal(got.Error.Violations, tc.fields) {
				t.Errorf("%s: %v, want %v", tc.name, got.Error, tc.fields)
			}
			for suffix, example := range map[string]string{"Period": "300s", "].value": "500m"} {
				if strings.HasSuffix(tc.fields[0], suffix) && !strings.Contains(got.Error.Message, example) {
					t.Errorf("%s: %v, want how to write it", tc.name, got.Error)
				}
			}
			// In a batch it fails alone.
			good := object(t, queue(target(t, "good"), 3, 50))
			if results := c.do(t, map[string]any{"op": "batch", "raw": true, "requests": []any{good, request, good}}).Results; codesOf(results) != "OK INVALID_ARGUMENT OK" {
				t.Errorf("%s: a batch with it: %v", tc.name, results)
			}
		}
		// A part of a request has the path that it has in the request, whoever finds what is wrong.
		for wrong, reason := range map[string]string{"reson": "migration", "reason": strings.Repeat("x", 257)} {
			override := map[string]any{"hold": true, wrong: reason, "expireTime": time.Now().Add(time.Hour).UTC().Format(time.RFC3339)}
			if err := c.do(t, map[string]any{"op": "override", "raw": true, "name": target(t, "web"), "request": override}).Error; err == nil || !slices.Equal(err.Violations, []string{"override." + wrong}) {
				t.Errorf("%s of an override: %v", wrong, err)
			}
		}
		if l.name == "python" {
			// Databases and libraries have numbers of their own.
			for _, kind := range []string{"$Decimal", "$Fraction"} {
				request := strings.Replace(string(object(t, queue(target(t, "web"), 3, 50))), `"50"`, `{"`+kind+`": "50.5"}`, 1)
				wantCode(t, c.do(t, map[string]any{"op": "object", "request": json.RawMessage(request)}).Error, "OK")
			}
			return
		}
		// The instant of a Date counts.
		for at, want := range map[string]string{time.Now().Add(time.Hour).Format(time.RFC3339): "OK", "2026-01-31T12:00:00Z": "INVALID_ARGUMENT", "none": "INVALID_ARGUMENT"} {
			override := map[string]any{"hold": true, "reason": "migration", "expireTime": map[string]any{"$date": at}}
			err := c.do(t, map[string]any{"op": "override", "raw": true, "name": target(t, "web"), "request": override}).Error
			wantCode(t, err, want)
			if want != "OK" && (len(err.Violations) != 1 || !strings.HasSuffix(err.Violations[0], "expireTime")) {
				t.Errorf("expires %s: %v", at, err)
			}
		}
	})
}

func write(t *testing.T, name, text string) {
	t.Helper()
	fatal.If(t, os.WriteFile(name, []byte(text), 0o600))
}
