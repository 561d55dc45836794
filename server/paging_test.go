package server_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// pages follows the page tokens of a REST list from its first page and returns
// what pick takes of each page.
func pages(t *testing.T, s *service, path, query string, size int, pick func(page map[string]any) []string) []string {
	t.Helper()
	var all []string
	token := ""
	for range 100 {
		page := s.ask(t, http.MethodGet, fmt.Sprintf("%s?pageSize=%d&pageToken=%s%s", path, size, url.QueryEscape(token), query), nil).expect(t, http.StatusOK)
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
		all = append(all, at(target, "name").(string))
	}
	return all
}

func decisionIDs(page map[string]any) []string {
	var all []string
	for _, decision := range page["decisions"].([]any) {
		all = append(all, at(decision, "recommendationId").(string))
	}
	return all
}

func TestListTargetsPagesByName(t *testing.T) {
	t.Parallel()
	s := start(t)
	byParent := map[string][]string{}
	batch := &setpointv1.BatchRecommendRequest{}
	for _, cluster := range []string{"east", "west", "-.-"} {
		for _, namespace := range []string{"shop", "team-a"} {
			parent := "clusters/" + cluster + "/namespaces/" + namespace
			for i := range 4 {
				target := fmt.Sprintf("%s/targets/t%d", parent, i)
				batch.Requests = append(batch.Requests, queue(target, 1, 10))
				for _, p := range []string{parent, "clusters/-/namespaces/" + namespace, "clusters/" + cluster + "/namespaces/-", "clusters/-/namespaces/-"} {
					byParent[p] = append(byParent[p], target)
				}
			}
		}
	}
	slices.Reverse(batch.Requests)
	if _, err := s.recommendations.BatchRecommend(t.Context(), batch); err != nil {
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
	s := start(t)
	s.recommend(t, webRequest(t))
	resp, err := s.targets.ListTargets(t.Context(), &setpointv1.ListTargetsRequest{Parent: "clusters/demo/namespaces/-"})
	if err != nil {
		t.Fatal(err)
	}
	want := s.target(t, web)
	want.History = nil
	if len(resp.GetTargets()) != 1 {
		t.Fatalf("got %d targets, want 1", len(resp.GetTargets()))
	}
	sameMessage(t, resp.GetTargets()[0], want)
}

func TestListTargetsReturnsAHundredUnlessAskedOtherwise(t *testing.T) {
	t.Parallel()
	s := start(t)
	batch := &setpointv1.BatchRecommendRequest{}
	for i := range 101 {
		batch.Requests = append(batch.Requests, queue(fmt.Sprintf("clusters/c/namespaces/n/targets/%03d", i), 1, 10))
	}
	if _, err := s.recommendations.BatchRecommend(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	resp, err := s.targets.ListTargets(t.Context(), &setpointv1.ListTargetsRequest{Parent: "clusters/c/namespaces/n"})
	if err != nil {
		t.Fatal(err)
	}
	if len(resp.GetTargets()) != 100 || resp.GetNextPageToken() == "" {
		t.Errorf("got %d targets, token %q, want 100 and a token", len(resp.GetTargets()), resp.GetNextPageToken())
	}
}

func TestListDecisionsPagesNewestFirst(t *testing.T) {
	t.Parallel()
	s := start(t)
	var want []string
	// The last change stays pending: it leads the list although it is not in the log.
	for i := range 12 {
		length := int32(30)
		if i%3 == 2 {
			length = 50
		}
		want = append(want, s.recommend(t, queue(web, 3, length)).GetRecommendationId())
		s.clock.Advance(15 * time.Second)
	}
	slices.Reverse(want)
	if s.target(t, web).GetHistory().GetPending() == nil {
		t.Fatal("the last recommendation is not pending")
	}
	for _, size := range []int{1, 2, 5, 12, 100} {
		if got := pages(t, s, "/v1/"+web+"/decisions", "", size, decisionIDs); !slices.Equal(got, want) {
			t.Errorf("in pages of %d: got %v, want %v", size, got, want)
		}
	}
}

func TestListDecisionsReturnsFiftyUnlessAskedOtherwise(t *testing.T) {
	t.Parallel()
	s := start(t)
	for range 52 {
		s.recommend(t, queue(web, 3, 30))
		s.clock.Advance(15 * time.Second)
	}
	resp, err := s.targets.ListDecisions(t.Context(), &setpointv1.ListDecisionsRequest{Parent: web})
	if err != nil {
		t.Fatal(err)
	}
	if len(resp.GetDecisions()) != 50 || resp.GetNextPageToken() == "" {
		t.Errorf("got %d decisions, token %q, want 50 and a token", len(resp.GetDecisions()), resp.GetNextPageToken())
	}
}

func TestDecisionsAreKeptApartByTarget(t *testing.T) {
	t.Parallel()
	s := start(t)
	other := "clusters/demo/namespaces/shop/targets/api"
	first, second := s.recommend(t, queue(web, 3, 30)), s.recommend(t, queue(other, 3, 30))
	for target, want := range map[string]string{web: first.GetRecommendationId(), other: second.GetRecommendationId()} {
		got := s.decisions(t, target)
		if len(got) != 1 || got[0].GetRecommendationId() != want {
			t.Errorf("%s has the decisions %v, want one, %s", target, got, want)
		}
	}
}

func TestBadPagesAreRefused(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.recommend(t, queue(web, 3, 30))
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
		for _, list := range []string{"/v1/clusters/demo/namespaces/shop/targets", "/v1/" + web + "/decisions"} {
			if tt.query == "pageToken=YQ" && list != "/v1/clusters/demo/namespaces/shop/targets" {
				continue // any short word may be a position of a log
			}
			body := s.ask(t, http.MethodGet, list+"?"+tt.query, nil).expect(t, http.StatusBadRequest)
			if body["code"] != float64(codes.InvalidArgument) {
				t.Errorf("%s?%s: got %v, want INVALID_ARGUMENT", list, tt.query, body)
			}
			if got := at(body, "details", 0, "fieldViolations", 0, "field"); got != tt.field {
				t.Errorf("%s?%s: the violation is of %v, want %s: %v", list, tt.query, got, tt.field, body)
			}
		}
	}
}

func TestBadParentsAreRefused(t *testing.T) {
	t.Parallel()
	s := start(t)
	for _, parent := range []string{
		"clusters/../namespaces/x", "clusters/a", "clusters/a/namespaces/b/", "clusters//namespaces/b", "clusters/a/namespaces/b/c",
		"clusters/a b/namespaces/c", "namespaces/a/clusters/b", "",
	} {
		_, err := s.targets.ListTargets(t.Context(), &setpointv1.ListTargetsRequest{Parent: parent})
		wantViolations(t, err, "parent")
	}
	for _, target := range []string{"", "web", "clusters/-/namespaces/-/targets/-", web + "/decisions", web + ":recommend"} {
		_, err := s.targets.ListDecisions(t.Context(), &setpointv1.ListDecisionsRequest{Parent: target})
		wantViolations(t, err, "parent")
		_, err = s.targets.GetTarget(t.Context(), &setpointv1.GetTargetRequest{Name: target})
		wantViolations(t, err, "name")
		_, err = s.targets.DeleteTarget(t.Context(), &setpointv1.DeleteTargetRequest{Name: target})
		wantViolations(t, err, "name")
	}
}
