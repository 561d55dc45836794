package services_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/record"
	"github.com/setpoint-dev/setpoint/server/servertest"
	"github.com/setpoint-dev/setpoint/store/memory"
)

// pages follows the page tokens of a REST list from its first page and returns
// what pick takes of each page.
func pages(t *testing.T, s *servertest.Service, path, query string, size int, pick func(page map[string]any) []string) []string {
	t.Helper()
	var all []string
	token := ""
	for range 100 {
		page := s.Ask(t, http.MethodGet, fmt.Sprintf("%s?pageSize=%d&pageToken=%s%s", path, size, url.QueryEscape(token), query), nil).Expect(t, http.StatusOK)
		picked := pick(page)
		if len(picked) > size {
			t.Fatalf("a page has %d entries, asked for %d", len(picked), size)
		}
		all = append(all, picked...)
		if token = page["nextPageToken"].(string); token == "" {
			return all
		}
	}
	t.Fatal("the pages do not end")
	return nil
}

func names(page map[string]any) []string {
	var all []string
	for _, target := range page["targets"].([]any) {
		all = append(all, servertest.At(target, "name").(string))
	}
	return all
}

func decisionIDs(page map[string]any) []string {
	var all []string
	for _, decision := range page["decisions"].([]any) {
		all = append(all, servertest.At(decision, "recommendationId").(string))
	}
	return all
}

func TestListTargetsPagesByName(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	byParent := map[string][]string{}
	batch := &setpointv1.BatchRecommendRequest{}
	for _, cluster := range []string{"east", "west", "-.-"} {
		for _, namespace := range []string{"shop", "team-a"} {
			parent := "clusters/" + cluster + "/namespaces/" + namespace
			for i := range 4 {
				target := fmt.Sprintf("%s/targets/t%d", parent, i)
				batch.Requests = append(batch.Requests, servertest.Queue(target, 1, 10))
				for _, p := range []string{parent, "clusters/-/namespaces/" + namespace, "clusters/" + cluster + "/namespaces/-", "clusters/-/namespaces/-"} {
					byParent[p] = append(byParent[p], target)
				}
			}
		}
	}
	slices.Reverse(batch.Requests)
	if _, err := s.Recommendations.BatchRecommend(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	for parent, want := range byParent {
		slices.Sort(want)
		for _, size := range []int{1, 3, 4, 1000} {
			if got := pages(t, s, "/v1/"+parent+"/targets", "", size, names); !slices.Equal(got, want) {
				t.Errorf("%s in pages of %d: got %v, want %v", parent, size, got, want)
			}
		}
	}
	if got := pages(t, s, "/v1/clusters/north/namespaces/-/targets", "", 10, names); len(got) != 0 {
		t.Errorf("a cluster without targets lists %v", got)
	}
}

func TestListTargetsShowsStatusAndLastDecisionWithoutHistory(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	s.Recommend(t, servertest.WebRequest(t))
	resp, err := s.Targets.ListTargets(t.Context(), &setpointv1.ListTargetsRequest{Parent: "clusters/demo/namespaces/-"})
	fatal.If(t, err)
	want := s.Target(t, servertest.Web)
	want.History, want.SpecInUse, want.Outlook, want.Explanation = nil, nil, nil, nil
	if len(resp.GetTargets()) != 1 {
		t.Fatalf("got %d targets, want 1", len(resp.GetTargets()))
	}
	servertest.SameMessage(t, resp.GetTargets()[0], want)
}

func TestListTargetsReturnsAHundredUnlessAskedOtherwise(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	batch := &setpointv1.BatchRecommendRequest{}
	for i := range 101 {
		batch.Requests = append(batch.Requests, servertest.Queue(fmt.Sprintf("clusters/c/namespaces/n/targets/%03d", i), 1, 10))
	}
	if _, err := s.Recommendations.BatchRecommend(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	resp, err := s.Targets.ListTargets(t.Context(), &setpointv1.ListTargetsRequest{Parent: "clusters/c/namespaces/n"})
	fatal.If(t, err)
	if len(resp.GetTargets()) != 100 || resp.GetNextPageToken() == "" {
		t.Errorf("got %d targets, token %q, want 100 and a token", len(resp.GetTargets()), resp.GetNextPageToken())
	}
}

func TestListDecisionsPagesNewestFirst(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	var want []string
	// The last change stays pending: it leads the list although it is not in the log.
	for i := range 12 {
		length := int32(30)
		if i%3 == 2 {
			length = 50
		}
		want = append(want, s.Recommend(t, servertest.Queue(servertest.Web, 3, length)).GetRecommendationId())
		s.Clock.Advance(15 * time.Second)
	}
	slices.Reverse(want)
	if s.Target(t, servertest.Web).GetHistory().GetPending() == nil {
		t.Fatal("the last recommendation is not pending")
	}
	for _, size := range []int{1, 2, 5, 12, 100} {
		if got := pages(t, s, "/v1/"+servertest.Web+"/decisions", "", size, decisionIDs); !slices.Equal(got, want) {
			t.Errorf("in pages of %d: got %v, want %v", size, got, want)
		}
	}
}

func TestListDecisionsReturnsFiftyUnlessAskedOtherwise(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	for range 52 {
		s.Recommend(t, servertest.Queue(servertest.Web, 3, 30))
		s.Clock.Advance(15 * time.Second)
	}
	resp, err := s.Targets.ListDecisions(t.Context(), &setpointv1.ListDecisionsRequest{Parent: servertest.Web})
	fatal.If(t, err)
	if len(resp.GetDecisions()) != 50 || resp.GetNextPageToken() == "" {
		t.Errorf("got %d decisions, token %q, want 50 and a token", len(resp.GetDecisions()), resp.GetNextPageToken())
	}
}

func TestDecisionsAreKeptApartByTarget(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	other := "clusters/demo/namespaces/shop/targets/api"
	first, second := s.Recommend(t, servertest.Queue(servertest.Web, 3, 30)), s.Recommend(t, servertest.Queue(other, 3, 30))
	for target, want := range map[string]string{servertest.Web: first.GetRecommendationId(), other: second.GetRecommendationId()} {
		got := s.Decisions(t, target)
		if len(got) != 1 || got[0].GetRecommendationId() != want {
			t.Errorf("%s has the decisions %v, want one, %s", target, got, want)
		}
	}
}

func TestBadPagesAreRefused(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	s.Recommend(t, servertest.Queue(servertest.Web, 3, 30))
	for _, tt := range []struct{ query, field string }{
		{"pageToken=nonsense!", "pageToken"},
		{"pageToken=" + url.QueryEscape("\x00"), "pageToken"},
		{"pageToken=YQ", "pageToken"}, // base64 of something else
		{"pageToken=-1", "pageToken"},
		{"pageToken=" + string(slices.Repeat([]byte("a"), 1025)), "pageToken"},
		{"pageSize=-1", "pageSize"},
		{"pageSize=1001", "pageSize"},
		{"pageSize=99999999999", "pageSize"},
		{"pageSize=many", "pageSize"},
	} {
		for _, list := range []string{"/v1/clusters/demo/namespaces/shop/targets", "/v1/" + servertest.Web + "/decisions"} {
			if tt.query == "pageToken=YQ" && list != "/v1/clusters/demo/namespaces/shop/targets" {
				continue // any short word may be a position of a log
			}
			body := s.Ask(t, http.MethodGet, list+"?"+tt.query, nil).Expect(t, http.StatusBadRequest)
			if body["code"] != float64(codes.InvalidArgument) {
				t.Errorf("%s?%s: got %v, want INVALID_ARGUMENT", list, tt.query, body)
			}
			if got := servertest.At(body, "details", 0, "fieldViolations", 0, "field"); got != tt.field {
				t.Errorf("%s?%s: the violation is of %v, want %s: %v", list, tt.query, got, tt.field, body)
			}
		}
	}
}

func TestBadParentsAreRefused(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	for _, parent := range []string{
		"clusters/../namespaces/x", "clusters/a", "clusters/a/namespaces/b/", "clusters//namespaces/b", "clusters/a/namespaces/b/c",
		"clusters/a b/namespaces/c", "namespaces/a/clusters/b", "",
	} {
		_, err := s.Targets.ListTargets(t.Context(), &setpointv1.ListTargetsRequest{Parent: parent})
		servertest.WantViolations(t, err, "parent")
	}
	for _, target := range []string{"", "web", "clusters/-/namespaces/-/targets/-", servertest.Web + "/decisions", servertest.Web + ":recommend"} {
		_, err := s.Targets.ListDecisions(t.Context(), &setpointv1.ListDecisionsRequest{Parent: target})
		servertest.WantViolations(t, err, "parent")
		_, err = s.Targets.GetTarget(t.Context(), &setpointv1.GetTargetRequest{Name: target})
		servertest.WantViolations(t, err, "name")
		_, err = s.Targets.DeleteTarget(t.Context(), &setpointv1.DeleteTargetRequest{Name: target})
		servertest.WantViolations(t, err, "name")
	}
}

// So is a page of decisions: each is there once, the newest first, whatever its metrics quote.
func TestPagesOfDecisionsAreBounded(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, func(su *servertest.Setup) {
		engine := memory.New(memory.Options{LogLength: 1200})
		su.Engine, su.Log, su.Options.LoggedRepeats = engine, engine, 1<<20
	})
	const decisions = 1000
	var want []string
	for range decisions {
		r := servertest.Queue(servertest.Web, 3, 30)
		r.ExternalMetrics, r.MetricErrors = nil, []*setpointv1.MetricError{{Metric: "external.metrics.k8s.io", Message: strings.Repeat("x", 3500)}}
		want = append(want, s.Recommend(t, r).GetRecommendationId())
		s.Clock.Advance(15 * time.Second)
	}
	slices.Reverse(want)
	var got []string
	pages := 0
	for token := ""; ; pages++ {
		page, err := s.Targets.ListDecisions(t.Context(), &setpointv1.ListDecisionsRequest{Parent: servertest.Web, PageSize: 1000, PageToken: token}, grpc.MaxCallRecvMsgSize(2<<20))
		if err != nil {
			t.Fatalf("page %d: %v", pages, err)
		}
		for _, d := range page.GetDecisions() {
			got = append(got, d.GetRecommendationId())
		}
		if token = page.GetNextPageToken(); token == "" {
			break
		}
	}
	if !slices.Equal(got, want) || pages == 0 || pages > 6 {
		t.Errorf("%d decisions of %d on %d pages more than one", len(got), len(want), pages)
	}
}

// A page of targets has a bounded size, whatever their statuses quote: one that a client of gRPC takes unless it is told to
// take more.
func TestPagesOfTargetsAreBounded(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	metric := recommender.MetricStatus{Type: recommender.ExternalMetric, Metric: recommender.MetricIdentifier{
		Name: "queue", Selector: &recommender.LabelSelector{MatchLabels: []recommender.Label{{Key: "labels", Value: strings.Repeat("v", 3<<10)}}},
	}}
	const targets = 60
	for i := range targets {
		name := fmt.Sprintf("clusters/demo/namespaces/large/targets/t%02d", i)
		s.Recommend(t, servertest.Queue(name, 3, 30))
		rewrite(t, s, name, func(r *record.Record) {
			r.Status.CurrentMetrics = slices.Repeat([]recommender.MetricStatus{metric}, 40)
		})
	}
	for _, specs := range []bool{false, true} {
		seen, pages := 0, 0
		for token := ""; ; pages++ {
			page, err := s.Targets.ListTargets(t.Context(), &setpointv1.ListTargetsRequest{
				Parent: "clusters/demo/namespaces/large", PageSize: 1000, PageToken: token, WithSpecInUse: specs,
			}, grpc.MaxCallRecvMsgSize(2<<20))
			if err != nil {
				t.Fatalf("page %d with specs %t: %v", pages, specs, err)
			}
			seen += len(page.GetTargets())
			if token = page.GetNextPageToken(); token == "" {
				break
			}
		}
		if seen != targets || pages > 16 {
			t.Errorf("with specs %t: %d targets on %d pages more than one", specs, seen, pages)
		}
	}
}

// Who asks for a thousand usual targets gets them at once.
func TestAThousandUsualTargetsAreOnePage(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	for n := range 2 {
		batch := &setpointv1.BatchRecommendRequest{}
		for i := range 500 {
			batch.Requests = append(batch.Requests, servertest.WebRequest(t, servertest.WithTarget(fmt.Sprintf("clusters/demo/namespaces/shop/targets/web-%04d", 500*n+i))))
		}
		_, err := s.Recommendations.BatchRecommend(t.Context(), batch)
		fatal.If(t, err)
	}
	page, err := s.Targets.ListTargets(t.Context(), &setpointv1.ListTargetsRequest{Parent: "clusters/demo/namespaces/shop", PageSize: 1000, WithSpecInUse: true})
	fatal.If(t, err)
	if n := len(page.GetTargets()); n != 1000 {
		t.Errorf("%d targets", n)
	}
}
