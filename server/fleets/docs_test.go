package fleets_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/testpages"
	"github.com/setpoint-dev/setpoint/server/servertest"
)

// The request of a member on the page of fleets gets the answer that is there.
func TestAMemberOverRESTOfTheDocs(t *testing.T) {
	t.Parallel()
	page := testpages.Read(t, "../../docs/concepts/fleets.md")
	_, section, _ := strings.Cut(page, "## A member over REST\n")
	section, _, _ = strings.Cut(section, "\n## ")
	blocks := strings.Split(section, "```json\n")
	if len(blocks) != 3 {
		t.Fatalf("%d blocks", len(blocks)-1)
	}
	text := func(block string) []byte { before, _, _ := strings.Cut(block, "```"); return []byte(before) }
	blind, told := &setpointv1.RecommendRequest{}, &setpointv1.RecommendResponse{}
	fatal.If(t, protojson.Unmarshal(text(blocks[1]), blind))
	fatal.If(t, protojson.Unmarshal(text(blocks[2]), told))
	s := start(t, onMemory())
	spec := queueFleet(3, 40, west, east)
	spec.Spec, spec.Fleet.Scopes = blind.GetSpec(), nil
	s.set(t, spec)
	sees := &setpointv1.RecommendRequest{Target: west, Fleet: fleetName, Spec: blind.GetSpec(), Scale: &setpointv1.Scale{SpecReplicas: 4}}
	s.call(t, sees)
	blind.Target = west
	a := s.Ask(t, "POST", servertest.RecommendPath(west), blind)
	a.Expect(t, 200)
	got := &setpointv1.RecommendResponse{}
	a.Into(t, got)
	if got.GetDesiredReplicas() != told.GetDesiredReplicas() || got.GetAction() != told.GetAction() || got.GetRecommendationId() != "" || got.GetError() == "" {
		t.Errorf("got %v, the page says %v", got, told)
	}
}
